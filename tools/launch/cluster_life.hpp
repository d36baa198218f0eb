// The life of a launched cluster: its phase, who is started again, when tasks are asked to end and when they are
// killed, and the exit code. Plain state that is told what has happened and what time it is; processes are the
// Launcher's (launch.cpp).
//
//   starting ──all have reported──▶ running ──the chief has ended, or a ps task is lost──▶ ending by itself ──grace──┐
//       │                              │                                                                            ▼
//       └──failure, timeout, signal────┴──signal, the chief has failed──▶ asked to end (SIGTERM) ◀──────────────────┘
//                                                                              └──grace, signal──▶ killed
//
// While the job goes on, so does the cluster: training survives the loss of a worker, so a worker that fails for good
// ends nobody (but see LaunchOptions::fail_fast). It does not survive the loss of a ps task.
//
// The chief is worker 0, until that is killed while other workers are at work: then it is the first of these. One that
// ends with an error, or aborts, has failed by its own decision, and nobody takes its place.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/launch/launch.hpp"

namespace troupe {

class ClusterLife {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Phase { starting, running, ending, asked, killed };

  // All tasks have been started. `say` is called with what people should know.
  ClusterLife(const LaunchOptions& options, Clock::time_point now, std::function<void(const std::string&)> say);

  // Tasks are numbered ps/0, ps/1, ..., worker/0, ...
  std::size_t tasks() const { return tasks_.size(); }
  const std::string& name(std::size_t task) const { return tasks_[task].name; }  // "worker/1"
  const std::string& address(std::size_t task) const { return tasks_[task].address; }
  int restarts(std::size_t task) const { return tasks_[task].restarts; }

  // What the task has said on the pipe for its address.
  void reported(std::size_t task, std::string_view line, Clock::time_point now);
  // `status` is that of waitpid().
  void ended(std::size_t task, int status, Clock::time_point now);
  // The launcher got SIGINT, SIGTERM or SIGHUP.
  void signalled(int number, Clock::time_point now);
  // Deadlines may have passed.
  void pass_time(Clock::time_point now);
  // When pass_time() or take_due() has something to do, if nothing happens before.
  std::optional<Clock::time_point> next() const;
  // Tasks that are to be started again now. They count as running.
  std::vector<std::size_t> take_due(Clock::time_point now);

  Phase phase() const { return phase_; }
  bool running(std::size_t task) const { return !tasks_[task].status; }
  std::size_t chief() const;
  // No process runs, and none is to be started again.
  bool over() const;
  // Once it is over.
  int exit_code() const;

 private:
  struct Task {
    std::string name;
    std::string address{};  // empty: not reported
    int restarts = 0;
    std::optional<Clock::time_point> again{};  // it has failed, and is to be started again then
    std::optional<int> status{};               // it has ended
    bool by_itself = false;                    // without having been asked to
    bool replaced = false;                     // a worker that was killed while others were at work
  };

  bool is_ps(std::size_t task) const { return task < static_cast<std::size_t>(options_.ps); }
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
  std::optional<Clock::time_point> deadline_;  // of the phase
  std::optional<int> signal_;
  bool failed_ = false;
};

}  // namespace troupe
