#include "troupe/actors/base/policy.hpp"

#include <algorithm>
#include <array>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kFirstRestartPause{10};  // then twice as long each time
constexpr std::chrono::seconds kNewRow{10};
constexpr int kRestarts = 5;

constexpr std::array kPolicies = {
    SupervisionPolicy{"node", 0, FailureScope::task},                   // the directory of peers, sessions
    SupervisionPolicy{"scheduler", 0, FailureScope::task},              // steps in flight
    SupervisionPolicy{"rendezvous", 0, FailureScope::task},             // tensors under way
    SupervisionPolicy{"collective", 0, FailureScope::task},             // places in groups
    SupervisionPolicy{"device", 0, FailureScope::task},                 // the stream
    SupervisionPolicy{"partition", 0, FailureScope::actor},             // a plan: its registration fails
    SupervisionPolicy{"peer", 0, FailureScope::link},                   // frames for actors that are not there yet
    SupervisionPolicy{"shard", 0, FailureScope::job},                   // parameters
    SupervisionPolicy{"coordinator", 0, FailureScope::job},             // members and tokens
    SupervisionPolicy{"worker", 0, FailureScope::job},                  // the worker's place
    SupervisionPolicy{"checkpoint", kRestarts, FailureScope::job},      // nothing
    SupervisionPolicy{"curves", kRestarts, FailureScope::actor},        // nothing
    SupervisionPolicy{"introspector", kRestarts, FailureScope::actor},  // nothing
};

}  // namespace

std::string_view name(FailureScope scope) {
  switch (scope) {
    case FailureScope::actor:
      return "actor";
    case FailureScope::link:
      return "link";
    case FailureScope::job:
      return "job";
    case FailureScope::task:
      return "task";
  }
  return "?";
}

std::span<const SupervisionPolicy> supervision_policies() { return kPolicies; }

SupervisionPolicy policy_of(std::string_view role) {
  const auto found = std::ranges::find(kPolicies, role, &SupervisionPolicy::role);
  return found == kPolicies.end() ? SupervisionPolicy{role} : *found;
}

std::optional<Restarts::Clock::duration> Restarts::after_failure(Clock::time_point now) {
  if (row_ > 0 && now - last_ >= kNewRow) row_ = 0;
  last_ = now;
  if (row_ == limit_) return std::nullopt;
  return kFirstRestartPause * (1 << row_++);
}

}  // namespace troupe
