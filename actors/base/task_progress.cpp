#include "troupe/actors/base/task_progress.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <troupe/actors/base/actor_kind.hpp>
#include <troupe/actors/base/inspected.hpp>

namespace troupe {
namespace {

// Actors whose messages mean progress. Others also handle ticks, link news and introspection.
constexpr std::array kWorking = {role_of(ActorKind::device).name, role_of(ActorKind::rendezvous).name,
                                 role_of(ActorKind::collective).name, role_of(ActorKind::shard).name};

}  // namespace

std::uint64_t TaskProgress::operator()() {
  if (!registry_.counting()) return 0;
  std::uint64_t done = 0;
  for (const auto& record : registry_.actors()) {
    if (std::ranges::find(kWorking, record->kind) != kWorking.end())
      done += record->messages_handled.load() + record->messages_passed.load();
    done += record->nodes_run.load();
  }
  if (done == std::exchange(done_, done) && moves_in_a_segment()) ++moves_;
  return done + moves_;
}

// Nodes are counted only when their segment ends, and a segment may be long.
bool TaskProgress::moves_in_a_segment() {
  std::map<std::string, std::string> running;
  for (const auto& record : registry_.actors()) {
    ActorDetails details;
    if (!record->ended.load() && record->look(details, std::chrono::nanoseconds(0))) running.merge(details.running);
  }
  return !running.empty() && running != std::exchange(running_, running);
}

}  // namespace troupe
