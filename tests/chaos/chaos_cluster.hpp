// A cluster of real processes that one can kill, stop and start again, and what its tasks have told.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/chaos/schedule.hpp"
#include "tests/processes/child.hpp"
#include "tests/processes/places.hpp"

namespace troupe::chaos {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

double unix_now();  // seconds

// A line of JSON that a task has printed.
struct Told {
  std::string from;  // "ps/0"; of a worker under troupe-launch "worker"
  std::string kind;  // its "event"
  double time = 0;   // its own, or when it was read
  Json what;
  std::string about() const;  // the task that it is about, as "worker/1"; "": none
};

struct ClusterOptions {
  Arguments app = {};  // the program and its arguments, for all tasks
  int ps = 2;
  int inputs = 0;
  int workers = 4;                             // in the cluster file
  std::vector<std::string> later = {};         // of these: not started at the beginning
  std::map<std::string, Arguments> more = {};  // arguments of single tasks, by name
  std::string apart = {};                      // a task in a network of its own, which can be cut off
  int restarts = -1;                           // 0 or more: by troupe-launch, which starts tasks again so often
  std::string launcher = {};                   // path of troupe-launch
};

class ChaosCluster {
 public:
  // Starts all tasks but those that come later. Throws what starting processes throws; unavailable if networks cannot
  // be made.
  explicit ChaosCluster(ClusterOptions options);

  // Reads what comes until `enough` holds, or for so many seconds. True: it holds.
  bool run_until(const std::function<bool()>& enough, double seconds);

  void apply(const Fault& fault);
  bool running(const std::string& task) const;
  bool all_ended() const;

  const std::vector<Told>& told() const { return told_; }
  // The first line of this kind, not before `time`, about this task (""; any).
  const Told* find(std::string_view kind, double time = 0, std::string_view about = "") const;
  const std::vector<std::string>& task_names() const { return names_; }
  // When the process of the task was last started.
  double started(const std::string& task) const { return started_.at(task); }
  // How processes ended that were not asked to: "worker/1 ended with 1".
  std::string bad_ends() const;
  bool said(const std::string& text) const;  // any task
  // Everything that was printed, a file for each task.
  void keep_logs(const std::string& folder) const;

 private:
  struct Process {
    std::unique_ptr<testing::Child> child;
    std::string out, err;  // unfinished lines
    bool asked = false;    // it was killed on purpose
  };

  void write_cluster_file();
  void start(const std::string& name);
  void start_launcher();
  void signal(const std::string& task, int number);
  void read_some(double seconds);
  void take_lines(const std::string& process, std::string& pending, bool is_out);
  void take_line(const std::string& process, const std::string& line, bool is_out);
  void take_json(const std::string& from, const std::string& line);
  void take_news_of_launcher(const std::string& line);

  ClusterOptions options_;
  testing::TemporaryDirectory directory_;
  std::optional<testing::TwoNetworks> networks_;
  std::string file_;
  std::vector<std::string> names_;
  std::map<std::string, Process> processes_;  // by task; "launcher"
  std::map<std::string, pid_t> pids_;         // under the launcher
  std::map<std::string, double> started_;
  std::map<std::string, std::string> logs_;
  std::map<std::string, int> ends_;
  std::vector<Told> told_;
};

}  // namespace troupe::chaos
