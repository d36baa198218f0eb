// The cost of observability: the same work with and without the runtime's counters, with and without a viewer, with and
// without tracing.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "tools/bench/cases.hpp"
#include "tools/bench/node_graph.hpp"
#include "tools/bench/pipeline.hpp"
#include "tools/bench/training_cluster.hpp"
#include <troupe/actors/introspection/observer.hpp>
#include <troupe/actors/introspection/trace_recording.hpp>

namespace troupe::bench {
namespace {

constexpr const char* kWithout = "itself without counters";
constexpr int kRounds = 41;        // a difference of one percent needs many turns
constexpr int kWatchedRounds = 9;  // of several seconds each

Contest pair(const Measure& with, const Measure& without) {
  return {.troupe = with, .peers = {{kWithout, without}}, .rounds = kRounds};
}

double slice_seconds(const Settings& settings) { return settings.slice_seconds() / 10; }

Contest null_chain(const Settings& settings) {
  const auto measure = [&](bool counters) -> Measure {
    auto graph = std::make_shared<NodeGraph>(chain(settings.quick ? 100 : 10000), Work{.counters = counters});
    return [graph, slice = slice_seconds(settings)] { return 1e9 * graph->seconds_per_node(slice); };
  };
  return pair(measure(true), measure(false));
}

Contest pipelined(const Settings& settings) {
  const auto measure = [&](bool counters) -> Measure {
    auto graph = std::make_shared<OneNode>(TaskOptions{.threads = 1, .gpus = {.count = 0}, .counters = counters});
    return [graph, slice = slice_seconds(settings)] { return graph->pipelined_per_second(slice); };
  };
  return pair(measure(true), measure(false));
}

// Requests a cluster snapshot each second while enabled, like troupe-top.
class Viewer {
 public:
  explicit Viewer(const ClusterSpec& cluster)
      : observer_({.cluster = cluster}), thread_([this](std::stop_token stop) { run(stop); }) {}

  // Throws unavailable if a request got no answer from a task.
  void look(bool on) {
    const std::lock_guard lock(mutex_);
    looking_ = on;
    changed_.notify_all();
    if (!wrong_.empty()) fail(Code::unavailable, "the viewer did not see the whole cluster: {}", wrong_);
  }

 private:
  void run(const std::stop_token& stop) {
    for (std::unique_lock lock(mutex_); changed_.wait(lock, stop, [&] { return looking_; });) {
      lock.unlock();
      std::string wrong;
      try {
        for (const TaskReport& task : observer_.snapshot().tasks) {
          if (!task.answered) wrong = task.error;
        }
      } catch (const Error& e) {
        wrong = e.what();
      }
      lock.lock();
      if (!wrong.empty()) wrong_ = wrong;
      changed_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    }
  }

  Observer observer_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool looking_ = false;
  std::string wrong_;
  std::jthread thread_;
};

std::shared_ptr<TrainingCluster> cluster_of(const Settings& settings) {
  Training training{.model = "mlp", .batch = 128, .slots = 2, .images = 12000, .epochs = 20};
  if (settings.quick) training.images = training.batch * training.slots, training.epochs = 1;
  return std::make_shared<TrainingCluster>(training);
}

Contest watched(const Settings& settings) {
  auto cluster = cluster_of(settings);
  auto viewer = std::make_shared<Viewer>(cluster->spec());
  return {.troupe =
              [cluster, viewer] {
                viewer->look(true);
                const double figure = cluster->images_per_second();
                viewer->look(false);
                return figure;
              },
          .peers = {{"no viewer", [cluster] { return cluster->images_per_second(); }}},
          .rounds = kWatchedRounds};
}

// Traces all tasks of a cluster, in rings that keep the newest events.
class Tracing {
 public:
  explicit Tracing(const ClusterSpec& cluster) : observer_({.cluster = cluster}) {}

  void start() {
    if (tasks_.empty())
      tasks_ = traced_tasks(observer_.tasks(), [](const std::string& text) { fail(Code::unavailable, "{}", text); });
    for (const TracedTask& task : tasks_) task.ask("/trace", true);
  }
  // Throws failed_precondition if a trace is incomplete.
  void stop() {
    std::uint64_t steps = 0;
    for (const TracedTask& task : tasks_) {
      const Trace::Status status = parse_task_trace(task.ask("/trace", false)).status;
      if (status.state != Trace::State::recording)
        fail(Code::failed_precondition, "the trace of {} is {}", task.task, name(status.state));
      steps += status.steps;
      task.ask("/trace?stop", true);
    }
    if (steps == 0) fail(Code::failed_precondition, "no step was recorded");
  }

 private:
  Observer observer_;
  std::vector<TracedTask> tasks_;
};

Contest traced(const Settings& settings) {
  auto cluster = cluster_of(settings);
  auto tracing = std::make_shared<Tracing>(cluster->spec());
  return {.troupe =
              [cluster, tracing] {
                tracing->start();
                const double figure = cluster->images_per_second();
                tracing->stop();
                return figure;
              },
          .peers = {{"not traced", [cluster] { return cluster->images_per_second(); }}},
          .rounds = kWatchedRounds};
}

}  // namespace

void add_overhead_cases(std::vector<Case>& cases) {
  cases.push_back({.bench = "overhead",
                   .name = "counters-chain",
                   .unit = "ns/op",
                   .measures = "null-ops/chain with the counters that actors keep (TaskOptions::counters)",
                   .peer = kWithout,
                   .ratio_target = 0.99,
                   .prepare = null_chain});
  cases.push_back({.bench = "overhead",
                   .name = "counters-pipelined",
                   .unit = "steps/s",
                   .more_is_better = true,
                   .measures = "step/pipelined with the counters that actors keep",
                   .peer = kWithout,
                   .ratio_target = 0.93,
                   .prepare = pipelined});
  cases.push_back({.bench = "overhead",
                   .name = "watched",
                   .unit = "images/s",
                   .more_is_better = true,
                   .measures = "mnist/ps-mlp while a viewer requests a cluster snapshot each second, like troupe-top",
                   .peer = "itself without a viewer",
                   .ratio_target = 0.99,
                   .prepare = watched});
  cases.push_back({.bench = "overhead",
                   .name = "traced",
                   .unit = "images/s",
                   .more_is_better = true,
                   .measures = "mnist/ps-mlp while all tasks are traced, as by troupe-top --trace",
                   .peer = "itself without tracing",
                   .ratio_target = 0.9,
                   .prepare = traced});
}

}  // namespace troupe::bench
