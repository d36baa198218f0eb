// Tasks of one process that are a cluster: connected over real sockets on this machine.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/patience.hpp"
#include <troupe/actors/cluster/task.hpp>

namespace troupe::testing {

class TaskCluster {
 public:
  explicit TaskCluster(std::string name = "test") : spec_{.name = std::move(name), .token = "secret", .tasks = {}} {}
  explicit TaskCluster(std::vector<TaskOptions> tasks) : TaskCluster() { start(std::move(tasks)); }
  explicit TaskCluster(const std::vector<TaskName>& names) : TaskCluster() { start(names); }
  // All of them end, and nothing in them goes on.
  ~TaskCluster() {
    for (const auto& task : tasks_) EXPECT_TRUE(task->shutdown()) << task->name().to_string();
  }
  TaskCluster(const TaskCluster&) = delete;
  TaskCluster& operator=(const TaskCluster&) = delete;

  // Starts these tasks at free ports, and returns when all have met. Called once.
  void start(std::vector<TaskOptions> tasks) {
    for (TaskOptions& options : tasks) {
      options.networked = true;
      if (options.threads == 0) options.threads = 1;
      const TaskName name = options.name;
      tasks_.push_back(std::make_unique<Task>(std::move(options)));
      spec_.tasks[name] = {"127.0.0.1", tasks_.back()->port()};
    }
    std::vector<std::future<void>> joining;
    for (const auto& task : tasks_)
      joining.push_back(std::async(std::launch::async, [&] { task->join(spec_, kPatience); }));
    for (auto& joined : joining) joined.get();
  }
  void start(const std::vector<TaskName>& names) {
    std::vector<TaskOptions> tasks;
    for (const TaskName& name : names) tasks.push_back({.name = name});
    start(std::move(tasks));
  }

  // In the order in which they were given.
  Task& operator[](std::size_t task) const { return *tasks_.at(task); }
  std::size_t size() const { return tasks_.size(); }
  const ClusterSpec& spec() const { return spec_; }
  void shut_down(std::size_t task) { EXPECT_TRUE(tasks_.at(task)->shutdown()); }

  // Runs `body` on a thread for each task, all at the same time. Returns what it returned, or the message of its error.
  std::vector<std::string> run(const std::function<std::string(Task&)>& body) const {
    std::vector<std::future<std::string>> running;
    for (const auto& task : tasks_)
      running.push_back(std::async(std::launch::async, [&body, task = task.get()]() -> std::string {
        try {
          return body(*task);
        } catch (const Error& error) {
          return error.message();
        }
      }));
    std::vector<std::string> out;
    for (auto& result : running) out.push_back(result.get());
    return out;
  }

 private:
  ClusterSpec spec_;
  std::vector<std::unique_ptr<Task>> tasks_;
};

}  // namespace troupe::testing
