// Tasks of one process that are connected over sockets, and train together.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/patience.hpp"
#include <troupe/troupe.hpp>

namespace troupe::testing {

class JobTasks {
 public:
  // `gpus`: of each worker; none given: of all, what a task has by default.
  JobTasks(int ps, int workers, const NetworkOptions& network = {}, const std::vector<GpuOptions>& gpus = {}) {
    std::vector<TaskName> names;
    for (int i = 0; i < ps; ++i) names.push_back({"ps", i});
    for (int i = 0; i < workers; ++i) names.push_back({"worker", i});
    ClusterSpec cluster{"job", "token", {}};
    for (const TaskName& name : names) {
      TaskOptions options{.name = name, .threads = 1, .networked = true, .network = network};
      if (name.job == "worker" && !gpus.empty()) options.gpus = gpus.at(static_cast<std::size_t>(name.index));
      tasks_.push_back(std::make_unique<Task>(std::move(options)));
      cluster.tasks[name] = {"127.0.0.1", tasks_.back()->port()};
    }
    std::vector<std::future<void>> joining;
    for (const auto& task : tasks_)
      joining.push_back(std::async(std::launch::async, [&] { task->join(cluster, kPatience); }));
    for (auto& j : joining) j.get();
  }

  // Parameter servers first.
  Task& operator[](std::size_t task) { return *tasks_[task]; }

  // What `train` came to on each task, all at the same time: what it returns, or the message of its error.
  std::vector<std::string> run(const std::function<std::string(Task&)>& train) {
    std::vector<std::future<std::string>> running;
    for (const auto& task : tasks_)
      running.push_back(std::async(std::launch::async, [&train, task = task.get()]() -> std::string {
        try {
          return train(*task);
        } catch (const Error& error) {
          return error.message();
        }
      }));
    std::vector<std::string> out;
    for (auto& r : running) out.push_back(r.get());
    return out;
  }

 private:
  std::vector<std::unique_ptr<Task>> tasks_;
};

}  // namespace troupe::testing
