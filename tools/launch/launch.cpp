#include "tools/launch/launch.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "tools/launch/cluster_file.hpp"
#include "tools/launch/cluster_life.hpp"
#include "tools/launch/gpu_share.hpp"
#include "tools/launch/line_reader.hpp"
#include "tools/launch/process.hpp"
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

struct LaunchedTask {
  std::string job;
  int index = 0;
  pid_t pid = -1;
  LineReader report;
  FileDescriptor cluster;
  LineReader out;
  LineReader err;
};

void say(const std::string& text) { fmt::print(stderr, "troupe-launch: {}\n", text); }

// Signals arrive as data on a descriptor, so that one poll covers everything.
FileDescriptor listen_to_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  FileDescriptor fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.open()) fail(Code::resource_exhausted, "signalfd: {}", std::strerror(errno));
  return fd;
}

// The processes of a cluster, and their output.
class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options) : options_(options), signals_(listen_to_signals()) {
    if (options_.gpus_per_worker) {
      const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
      gpus_.emplace(*options_.gpus_per_worker, options_.workers,
                    visible_gpus(variable ? std::optional<std::string>(variable) : std::nullopt));
    }
    adopt_orphans();
  }
  ~Launcher() { kill_descendants(); }

  int run() {
    start();
    while (!life_->over()) {
      wait();
      read_output();
      handle_signals();
      reap();
      life_->pass_time(Clock::now());
      for (const std::size_t task : life_->take_due(Clock::now())) {
        start_process(tasks_[task]);
        say(fmt::format("{} restarted as process {} (restart {} of {})", life_->name(task), tasks_[task].pid,
                        life_->restarts(task), options_.restarts));
      }
      follow_phase();
    }
    kill_descendants();  // before the last lines are read, so that nothing can write more
    for (std::size_t i = 0; i < tasks_.size(); ++i) finish_output(i);
    return life_->exit_code();
  }

 private:
  using Phase = ClusterLife::Phase;

  void start() {
    for (int i = 0; i < options_.serve; ++i) start_task("serve", i);
    if (options_.serve > 0) {
      start_task("router", 0);
      life_.emplace(options_, Clock::now(), say);
      return;
    }
    for (int i = 0; i < options_.ps; ++i) start_task("ps", i);
    for (int i = 0; i < options_.inputs; ++i) start_task("input", i);
    for (int i = 0; i < options_.workers; ++i) start_task("worker", i);
    life_.emplace(options_, Clock::now(), say);
  }

  void start_task(const std::string& job, int index) {
    tasks_.emplace_back();
    tasks_.back().job = job;
    tasks_.back().index = index;
    start_process(tasks_.back());
  }

  static bool may_be_chief(const LaunchedTask& task) { return task.job == "worker" || task.job == "router"; }

  void start_process(LaunchedTask& task) {
    ChildOptions child_options{.command = options_.command,
                               .inherit_stdout = options_.restarts == 0 && task.index == 0 && may_be_chief(task),
                               .tasks = options_.tasks(),
                               .cluster_file = cluster_file_ ? cluster_file_->path() : "",
                               .gpus = gpus_ ? std::optional(gpus_->of(task.job, task.index)) : std::nullopt};
    for (const std::string& argument :
         {std::string("--job"), task.job, std::string("--task"), std::to_string(task.index)}) {
      child_options.command.push_back(argument);
    }
    Child child = start_child(child_options);
    task.pid = child.pid;
    task.report = LineReader(std::move(child.report));
    task.cluster = std::move(child.cluster);
    task.out = LineReader(std::move(child.out));
    task.err = LineReader(std::move(child.err));
  }

  // Sleeps until an event or a deadline.
  void wait() {
    std::vector<pollfd> wanted = {{signals_.get(), POLLIN, 0}};
    for (const LaunchedTask& task : tasks_) {
      for (const LineReader* reader : {&task.report, &task.out, &task.err}) {
        if (reader->open()) wanted.push_back({reader->fd(), POLLIN, 0});
      }
    }
    int timeout = -1;
    if (const auto next = life_->next()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
      timeout = static_cast<int>(std::clamp<long long>(left, 0, 1000 * 1000));
    }
    if (poll(wanted.data(), wanted.size(), timeout) < 0 && errno != EINTR) {
      fail(Code::internal, "poll: {}", std::strerror(errno));
    }
  }

  void read_output() {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      tasks_[i].out.read([&](std::string_view line) { print_output(i, line); });
      tasks_[i].err.read([&](std::string_view line) { print_error(i, line); });
      read_report(i);
    }
  }

  void read_report(std::size_t task) {
    tasks_[task].report.read([&](std::string_view line) { life_->reported(task, line, Clock::now()); });
  }

  void finish_output(std::size_t task) {
    tasks_[task].out.finish([&](std::string_view line) { print_output(task, line); });
    tasks_[task].err.finish([&](std::string_view line) { print_error(task, line); });
  }

  void print_error(std::size_t task, std::string_view line) {
    fmt::print(stderr, "[{}] {}\n", life_->name(task), line);
  }

  // Passes the chief's stdout unchanged; if tasks may be restarted, that of every worker, as any may become the chief.
  void print_output(std::size_t task, std::string_view line) {
    const bool passes = options_.restarts == 0 ? task == life_->chief() : may_be_chief(tasks_[task]);
    if (!passes) return print_error(task, line);
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  void handle_signals() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) life_->signalled(static_cast<int>(info.ssi_signo), Clock::now());
    }
  }

  // Records ended processes, including adopted ones.
  void reap() {
    siginfo_t info{};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
      const pid_t pid = info.si_pid;
      info = {};
      const auto task = std::ranges::find(tasks_, pid, &LaunchedTask::pid);
      // Kills the processes that the task leaves behind. Its process group keeps its number until the task is reaped.
      if (task != tasks_.end()) kill(-pid, SIGKILL);
      int status = 0;
      waitpid(pid, &status, 0);
      if (task == tasks_.end()) continue;
      const auto index = static_cast<std::size_t>(task - tasks_.begin());
      read_report(index);
      const bool told = life_->phase() == Phase::starting || (status != 0 && life_->phase() < Phase::asked);
      if (told) finish_output(index);  // its last output is printed before its end is reported
      life_->ended(index, status, Clock::now());
    }
  }

  // Performs the actions of the current phase, once.
  void follow_phase() {
    if (life_->phase() >= Phase::running && !cluster_file_ && complete()) tell_of_each_other();
    if (life_->phase() == followed_) return;
    followed_ = life_->phase();
    if (followed_ < Phase::asked) return;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (!life_->running(i)) continue;
      if (followed_ == Phase::asked) kill(tasks_[i].pid, life_->asking_signal());
      if (followed_ == Phase::killed) kill(-tasks_[i].pid, SIGKILL);
    }
  }

  bool complete() const {
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      if (life_->address(i).empty()) return false;
    return true;
  }

  void tell_of_each_other() {
    ClusterDescription cluster{fmt::format("launch-{}", getpid()), random_token(), {}, options_.max_workers};
    for (std::size_t i = 0; i < tasks_.size(); ++i) cluster.jobs[tasks_[i].job].push_back(life_->address(i));
    cluster_file_.emplace(cluster);
    const std::string line = cluster_file_->path() + "\n";
    const std::size_t chief = life_->chief();
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      LaunchedTask& task = tasks_[i];
      say(fmt::format("{} is process {} at {}{}", life_->name(i), task.pid, life_->address(i),
                      i == chief ? " (chief)" : ""));
      // Fits into the pipe. If the task has just died, that is noticed elsewhere.
      [[maybe_unused]] const ssize_t ignored = write(task.cluster.get(), line.data(), line.size());
      task.cluster = FileDescriptor();
    }
    say(fmt::format("watch the cluster with: troupe-top {} --cluster {}", life_->address(chief),
                    cluster_file_->path()));
    if (options_.max_workers > options_.workers)
      say(fmt::format("another worker may join with: APP ARGS... --job worker --task {} --cluster {}", options_.workers,
                      cluster_file_->path()));
  }

  const LaunchOptions& options_;
  std::optional<GpuShare> gpus_;
  FileDescriptor signals_;
  std::vector<LaunchedTask> tasks_;  // ps/0, ps/1, ..., input/0, ..., worker/0, ...
  std::optional<ClusterLife> life_;
  Phase followed_ = Phase::starting;
  std::optional<ClusterFile> cluster_file_;
};

}  // namespace

int launch(const LaunchOptions& options) { return Launcher(options).run(); }

}  // namespace troupe
