// A cluster of troupe-launch and troupe-mnist.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"

namespace troupe::testing {

using Arguments = std::vector<std::string>;

// No time runs out: a task that is lost is noticed because its connections broke, and who does not end by itself is
// there until the test fails. `training` may say otherwise.
class Cluster {
 public:
  Cluster(int ps, int workers, const Arguments& training, int restarts = 0)
      : process_(command(ps, workers, training, restarts)) {}

  Process* operator->() { return &process_; }

  // The number of the process of a task, such as "worker/1".
  pid_t pid(const std::string& task) {
    process_.wait_for("watch the cluster with");  // after the line of the last task
    return pids().at(task);
  }

  // Waits for the launcher; nothing of the cluster may be there after it.
  int wait() {
    const int code = process_.wait();
    for (const auto& [task, pid] : pids()) {
      EXPECT_EQ(kill(pid, 0), -1) << task << " still runs";
      EXPECT_EQ(kill(-pid, 0), -1) << "what " << task << " started still runs";
    }
    return code;
  }

 private:
  static Arguments command(int ps, int workers, const Arguments& training, int restarts) {
    const std::string forever = "10000";  // seconds
    Arguments all = {program("troupe-launch"),
                     "--ps",
                     std::to_string(ps),
                     "--workers",
                     std::to_string(workers),
                     "--restart",
                     std::to_string(restarts),
                     "--grace",
                     forever,
                     "--",
                     program("troupe-mnist"),
                     "--json"};
    all.insert(all.end(), training.begin(), training.end());
    for (const char* timeout : {"--peer-timeout", "--rejoin-timeout", "--step-timeout"})
      if (std::ranges::find(training, timeout) == training.end()) all.insert(all.end(), {timeout, forever});
    return all;
  }

  std::map<std::string, pid_t> pids() const {
    static const std::regex line("troupe-launch: (\\S+) is process (\\d+) at ");
    std::map<std::string, pid_t> found;
    for (std::sregex_iterator at(process_.err.begin(), process_.err.end(), line), end; at != end; ++at)
      found.emplace(at->str(1), std::stoi(at->str(2)));
    return found;
  }

  Process process_;
};

// Of JSON.
inline nlohmann::json last_line(const std::string& out) {
  std::istringstream text(out);
  nlohmann::json last;
  for (std::string line; std::getline(text, line);) last = nlohmann::json::parse(line);
  return last;
}

}  // namespace troupe::testing
