// Steps of a one-node graph: the cost of starting and ending a step.
#include <time.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "tools/bench/cases.hpp"
#include "tools/bench/pipeline.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

// Two threads that wake each other in turn.
class RoundTrips {
 public:
  RoundTrips() : other_([this] { answer(); }) {}
  ~RoundTrips() {
    set(State::end);
    other_.join();
  }
  void one() {
    set(State::asked);
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return state_ == State::answered; });
  }

 private:
  enum class State { answered, asked, end };

  void set(State state) {
    {
      std::lock_guard lock(mutex_);
      state_ = state;
    }
    wake_.notify_one();
  }
  void answer() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return state_ != State::answered; });
        if (state_ == State::end) return;
      }
      set(State::answered);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  State state_ = State::answered;
  std::thread other_;
};

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Throws if the idle process uses CPU time.
void check_idle(double seconds) {
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double used = process_cpu_seconds() - before;
  if (used > 0.01 * seconds + 1e-3)
    fail(Code::failed_precondition, "an idle task used {:.1f} ms of CPU in {:.0f} ms", used * 1e3, seconds * 1e3);
}

Contest sync_steps(const Settings& settings) {
  auto graph = std::make_shared<OneNode>(TaskOptions{.threads = 1, .gpus = {.count = 0}});
  auto trips = std::make_shared<RoundTrips>();
  const double slice = settings.slice_seconds();
  graph->run_one();
  check_idle(settings.quick ? 0.01 : 0.3);
  return {.troupe = [=] { return 1e6 * seconds_per_call(slice, [&] { graph->run_one(); }); },
          .peers = {
              {"condition variable round trip", [=] { return 1e6 * seconds_per_call(slice, [&] { trips->one(); }); }}}};
}

Contest pipelined_steps(const Settings& settings) {
  auto graph = std::make_shared<OneNode>(TaskOptions{.threads = 1, .gpus = {.count = 0}});
  const double slice = settings.slice_seconds();
  return {.troupe = [=] { return graph->pipelined_per_second(slice); }, .peers = {}};
}

}  // namespace

void add_step_cases(std::vector<Case>& cases) {
  cases.push_back({.bench = "step",
                   .name = "sync",
                   .unit = "us",
                   .measures =
                       "a graph of one node (Neg of a scalar), fed and fetched by a blocking call; an idle task must "
                       "use no CPU",
                   .peer = "round trip between two threads with a condition variable",
                   .ratio_target = 4,
                   .prepare = sync_steps});
  cases.push_back(
      {.bench = "step",
       .name = "pipelined",
       .unit = "steps/s",
       .more_is_better = true,
       .measures = "the same graph with up to 1,024 steps in flight, each with its own id, feed, fetch and future",
       .value_target = 300000,
       .prepare = pipelined_steps});
}

}  // namespace troupe::bench
