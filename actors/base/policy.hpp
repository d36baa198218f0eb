// What becomes of an actor whose handler throws, which none should: one table for all roles.
//
//   restart     it goes on with its next message, after a pause that grows. Only where nothing is lost but the answer
//               to the message.
//   escalate    what it kept cannot be trusted any more: whoever depends on it is told the actor and the cause, and
//               ends.
//
// Who restarts too often in a row escalates. A request that was being handled is answered with the cause in any case.
// Counted does all this.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe {

// How far the failure of an actor reaches.
enum class FailureScope : std::uint8_t {
  actor,  // it ends; who asks it hears that
  link,   // the connection ends with the cause on both sides, and is made again
  job,    // the training job ends on all tasks, or, if it is a worker's, on its task
  task,   // all actors of the task end, its calls fail, and its connections end with the cause: to others the task is
          // lost
};
std::string_view name(FailureScope scope);

struct SupervisionPolicy {
  std::string_view role;  // ActorRecord::kind
  int restarts = 0;       // in a row, before it escalates
  FailureScope escalates_to = FailureScope::task;
};

// One for each role.
std::span<const SupervisionPolicy> supervision_policies();
// That of a role which is not in the table has no restarts, and reaches the task.
SupervisionPolicy policy_of(std::string_view role);

// The restarts of one actor.
class Restarts {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Restarts(int limit) : limit_(limit) {}
  // How long to wait before it goes on; none: there have been too many. A failure 10 s after the last begins a new row.
  std::optional<Clock::duration> after_failure(Clock::time_point now);

 private:
  int limit_;
  int row_ = 0;
  Clock::time_point last_;
};

}  // namespace troupe
