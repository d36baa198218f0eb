// The life of a launched cluster: its phase, restarts, when tasks are asked to end and when they are killed, and the
// exit code. Plain state, fed with events and the time; the Launcher (launch.cpp) manages the processes.
//
//   starting ──all have reported──▶ running ──the chief has ended, or a ps task is lost──▶ ending by itself ──grace──┐
//       │                              │                                                                            ▼
//       └──failure, timeout, signal────┴──signal, the chief has failed──▶ asked to end (*) ◀────────────────────────┘
//                                                                              └──grace, signal──▶ killed
// (*) by SIGTERM, or by SIGINT if the launcher got that.
//
// While the job runs, so does the cluster: training survives the loss of a worker or an input task, so one that fails
// for good does not end the others (but see LaunchOptions::fail_fast). It does not survive the loss of a ps task.
//
// With replicas, the router takes the place of the workers.
//
// The chief is worker 0 until it is killed while other workers are running: then it is the first of these. A chief that
// ends with an error, or aborts, has failed by its own decision and is not replaced.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/launch/launch.hpp"

namespace troupe {

class ClusterLife {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Phase { starting, running, ending, asked, killed };

  // Call when all tasks have been started. `say` is called with messages for users.
  ClusterLife(const LaunchOptions& options, Clock::time_point now, std::function<void(const std::string&)> say);

  // Tasks are numbered ps/0, ps/1, ..., input/0, ..., worker/0, ...; or serve/0, serve/1, ..., router/0.
  std::size_t tasks() const { return tasks_.size(); }
  const std::string& name(std::size_t task) const { return tasks_[task].name; }  // "worker/1"
  const std::string& address(std::size_t task) const { return tasks_[task].address; }
  int restarts(std::size_t task) const { return tasks_[task].restarts; }

  // A line from the task's report pipe.
  void reported(std::size_t task, std::string_view line, Clock::time_point now);
  // `status`: from waitpid().
  void ended(std::size_t task, int status, Clock::time_point now);
  // The launcher got SIGINT, SIGTERM or SIGHUP.
  void signalled(int number, Clock::time_point now);
  // Handles expired deadlines.
  void pass_time(Clock::time_point now);
  // When pass_time() or take_due() next has work, if no event comes first.
  std::optional<Clock::time_point> next() const;
  // Returns the tasks to be restarted now. They count as running.
  std::vector<std::size_t> take_due(Clock::time_point now);

  Phase phase() const { return phase_; }
  // The signal by which tasks are asked to end: after a Ctrl-C they may keep what they have.
  int asking_signal() const { return signal_ == SIGINT ? SIGINT : SIGTERM; }
  bool running(std::size_t task) const { return !tasks_[task].status; }
  std::size_t chief() const;
  // No process is running or due for a restart.
  bool over() const;
  // Valid once over() is true.
  int exit_code() const;

 private:
  struct Task {
    std::string name;
    std::string address{};  // empty: not reported
    int restarts = 0;
    std::optional<Clock::time_point> again{};  // failed, to be restarted at this time
    std::optional<int> status{};               // set when it has ended
    bool by_itself = false;                    // not asked to end
    bool replaced = false;                     // a chief killed while other workers were running
  };

  bool is_ps(std::size_t task) const { return task < static_cast<std::size_t>(options_.ps); }
  std::size_t first_worker() const {
    return static_cast<std::size_t>(options_.serve > 0 ? options_.serve : options_.ps + options_.inputs);
  }
  std::span<const Task> workers() const { return std::span(tasks_).subspan(first_worker()); }
  bool start_again(std::size_t task, Clock::time_point now);
  void fail_for_good(std::size_t task, Clock::time_point now);
  void replace_chief(std::size_t task);
  void end_others(Clock::time_point now, Clock::duration time);
  bool parameter_servers_are_done() const;
  void begin_to_end(Clock::time_point deadline);
  void ask_to_end(Clock::time_point now);
  Clock::duration grace() const;
  int code_of(std::size_t task) const;
  template <class Predicate>
  std::string names(Predicate&& wanted) const;

  const LaunchOptions& options_;
  const std::function<void(const std::string&)> say_;
  Phase phase_ = Phase::starting;
  std::vector<Task> tasks_;
  std::optional<Clock::time_point> warning_;   // about tasks that have not reported
  std::optional<Clock::time_point> deadline_;  // of the current phase
  std::optional<int> signal_;
  bool failed_ = false;
};

}  // namespace troupe
