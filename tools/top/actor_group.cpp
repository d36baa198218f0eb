#include "tools/top/actor_group.hpp"

#include <algorithm>
#include <string_view>

namespace troupe::top {
namespace {

// The most severe of several states is shown.
int rank_of(std::string_view state) { return state == "failed" ? 3 : state == "busy" ? 2 : state == "waits" ? 1 : 0; }

// Unknown if either is unknown.
void fold_in(Rate& sum, const Rate& more) { sum = sum && more ? Rate(*sum + *more) : Rate{}; }

void fold_in(ActorSnapshot& sum, const ActorSnapshot& more) {
  if (rank_of(more.state) > rank_of(sum.state)) {
    sum.state = more.state;
    sum.current = more.current;
    sum.current_ns = more.current_ns;
    sum.waits_for = more.waits_for;
    sum.waits_ns = more.waits_ns;
  }
  sum.mailbox += more.mailbox;
  sum.mailbox_peak = std::max(sum.mailbox_peak, more.mailbox_peak);
  sum.handled += more.handled;
  sum.passed += more.passed;
  sum.sent += more.sent;
  sum.restarts += more.restarts;
  sum.busy_ns += more.busy_ns;
  for (const auto& [message, count] : more.messages) sum.messages[message] += count;
  for (const auto& [peer, count] : more.peers) sum.peers[peer] += count;
}

void fold_in(ActorRates& sum, const ActorRates& more) {
  fold_in(sum.messages, more.messages);
  fold_in(sum.sent, more.sent);
  fold_in(sum.busy, more.busy);
  for (const auto& [message, rate] : more.by_type) sum.by_type[message] += rate;
}

}  // namespace

std::vector<ActorGroup> actor_groups(const TaskSnapshot& task, const TaskRates& rates) {
  std::vector<ActorGroup> out;
  for (std::size_t i = 0; i < task.actors.size(); ++i) {
    const ActorSnapshot& actor = task.actors[i];
    const auto group = std::ranges::find_if(
        out, [&](const ActorGroup& one) { return one.actor.kind == actor.kind && one.actor.name == actor.name; });
    if (group == out.end()) {
      out.push_back({actor, rates.actors[i]});
      continue;
    }
    fold_in(group->actor, actor);
    fold_in(group->rates, rates.actors[i]);
    ++group->count;
  }
  return out;
}

}  // namespace troupe::top
