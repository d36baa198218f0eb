#include "troupe/actors/cluster/meeting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

// True if the same call may succeed later. Otherwise the two tasks will never be peers.
bool may_pass(Code code) {
  return code == Code::unavailable || code == Code::deadline_exceeded || code == Code::already_exists ||
         code == Code::resource_exhausted;
}

bool counts(const std::string& job, const TaskName& task) { return job.empty() || task.job == job; }

}  // namespace

Meeting::Meeting(const TaskName& self, const ClusterSpec& cluster, Time now) {
  const bool client = !cluster.contains(self);
  for (const auto& [task, address] : cluster.tasks)
    if (task != self)
      states_[task] = {.address = address, .ours = client || task < self, .next_call = now, .error = {}};
}

std::optional<Meeting::Action> Meeting::next(Time now) {
  std::pair<const TaskName, State>* due = nullptr;
  for (auto& entry : states_) {
    const State& state = entry.second;
    if (!state.ours || state.up || state.called) continue;
    if (state.link != 0) {
      due = &entry;
      break;
    }
    if (!due || state.next_call < due->second.next_call) due = &entry;
  }
  if (!due || (due->second.link == 0 && due->second.next_call > now)) return std::nullopt;
  due->second.called = true;
  return Action{due->first, due->second.address, due->second.link};
}

std::optional<Meeting::Time> Meeting::wake() const {
  std::optional<Time> first;
  for (const auto& [task, state] : states_) {
    if (!state.ours || state.up || state.called) continue;
    const Time time = state.link != 0 ? Time{} : state.next_call;
    first = std::min(first.value_or(time), time);
  }
  return first;
}

void Meeting::opened(const TaskName& task, Link link) {
  const auto found = states_.find(task);
  if (found == states_.end()) return;
  found->second.link = link;
  found->second.called = false;
  found->second.error = Error();
}

void Meeting::met(const TaskName& task) {
  const auto found = states_.find(task);
  if (found == states_.end() || found->second.link == 0) return;
  found->second.up = true;
  found->second.called = false;
  found->second.pause = kFirstPause;
}

void Meeting::lost(const TaskName& task, Loss loss, Error why, Time now) {
  const auto found = states_.find(task);
  if (found == states_.end()) return;
  State& state = found->second;
  state.pause = loss == Loss::broken    ? kFirstPause
                : loss == Loss::goodbye ? std::chrono::milliseconds(kPauseAfterGoodbye)
                                        : std::min(2 * state.pause, kLongestPause);
  state.link = 0;
  state.met = state.up;
  state.up = state.called = false;
  state.error = std::move(why);
  state.next_call = now + state.pause;
}

bool Meeting::all_up(const std::string& job) const {
  return std::ranges::all_of(states_, [&](const auto& entry) { return entry.second.up || !counts(job, entry.first); });
}

Meeting::Missing Meeting::missing(const std::string& job) const {
  Missing out;
  for (const auto& [task, state] : states_) {
    if (state.up || !counts(job, task)) continue;
    const std::string where = fmt::format("{} at {}", task.to_string(), state.address.to_string());
    const bool final = state.error && !state.met && !may_pass(state.error.code());
    if (final && !out.hopeless) out.hopeless = state.error.within(where);
    out.text += fmt::format("{}{}{}", out.text.empty() ? "" : ", ", where,
                            state.error ? fmt::format(": {}", state.error.message()) : "");
  }
  return out;
}

bool Meeting::calling() const {
  return std::ranges::any_of(states_, [](const auto& entry) {
    const State& state = entry.second;
    return state.called || (state.ours && state.link != 0 && !state.up);
  });
}

const Meeting::State* Meeting::find(const TaskName& task) const {
  const auto found = states_.find(task);
  return found == states_.end() ? nullptr : &found->second;
}

}  // namespace troupe
