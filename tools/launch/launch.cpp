#include "tools/launch/launch.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "messages/error.hpp"
#include "tools/launch/cluster_file.hpp"
#include "tools/launch/gpu_share.hpp"
#include "tools/launch/line_reader.hpp"
#include "tools/launch/process.hpp"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstPause{100};  // before a task is started again; then twice as long
constexpr std::chrono::milliseconds kLongestPause{5000};
constexpr std::chrono::seconds kGraceAtEnd{2};  // for tasks that were started again and find that the job is over

struct LaunchedTask {
  std::string job;
  int index = 0;
  std::string name;  // "worker/1"
  pid_t pid = -1;
  LineReader report;
  FileDescriptor cluster;
  LineReader out;
  LineReader err;
  std::string address;  // empty: not reported yet
  int restarts = 0;
  std::optional<Clock::time_point> again;  // it has failed, and is to be started again then
  std::optional<int> status;               // as of waitpid: the task has ended
};

bool is_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || text.size() > 300) return false;
  unsigned port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  return error == std::errc{} && stop == end && port >= 1 && port <= 65535;
}

std::string describe(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  fmt::print(stderr, "troupe-launch: {}\n", text);
}

// Signals arrive as data on a descriptor, so that one poll waits for everything.
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

// The life of a cluster:
//
//   starting ──all have reported──▶ running ──chief has ended, or a task failed──▶ ending by itself
//   ──grace──┐
//       │                              │ ▼ └──failure, timeout, signal────┴──signal, chief failed──▶ asked to
//       end (SIGTERM) ──grace, signal──▶ killed
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
    while (!all_ended()) {
      wait();
      read_output();
      handle_signals();
      reap();
      check_reports();
      start_again();
      check_deadline();
    }
    kill_descendants();  // before the last lines are read: nobody can write more
    for (LaunchedTask& task : tasks_) finish_output(task);
    return exit_code();
  }

 private:
  enum class Phase { starting, running, ending, asked, killed };

  LaunchedTask& chief() { return tasks_[static_cast<std::size_t>(options_.ps)]; }
  bool all_ended() const {
    return std::all_of(tasks_.begin(), tasks_.end(),
                       [](const LaunchedTask& t) { return t.status.has_value() && !t.again; });
  }

  void start() {
    for (int i = 0; i < options_.ps; ++i) start_task("ps", i);
    for (int i = 0; i < options_.workers; ++i) start_task("worker", i);
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.start_timeout);
  }

  void start_task(const std::string& job, int index) {
    tasks_.emplace_back();
    tasks_.back().job = job;
    tasks_.back().index = index;
    tasks_.back().name = fmt::format("{}/{}", job, index);
    start_process(tasks_.back());
  }

  void start_process(LaunchedTask& task) {
    ChildOptions child_options{.command = options_.command,
                               .inherit_stdout = options_.restarts == 0 && task.job == "worker" && task.index == 0,
                               .tasks = options_.ps + options_.workers,
                               .cluster_file = cluster_file_ ? cluster_file_->path() : "",
                               .gpus = gpus_ ? std::optional(gpus_->of(task.job, task.index)) : std::nullopt};
    for (const std::string& argument :
         {std::string("--job"), task.job, std::string("--task"), std::to_string(task.index)}) {
      child_options.command.push_back(argument);
    }
    Child child = start_child(child_options);
    task.status.reset();
    task.again.reset();
    task.pid = child.pid;
    task.report = LineReader(std::move(child.report));
    task.cluster = std::move(child.cluster);
    task.out = LineReader(std::move(child.out));
    task.err = LineReader(std::move(child.err));
  }

  void start_again() {
    for (LaunchedTask& task : tasks_) {
      if (!task.again || Clock::now() < *task.again) continue;
      start_process(task);
      say("{} is started again as process {} ({} of {})", task.name, task.pid, task.restarts, options_.restarts);
    }
  }

  // Sleeps until something happens or the deadline comes.
  void wait() {
    std::vector<pollfd> wanted = {{signals_.get(), POLLIN, 0}};
    for (const LaunchedTask& task : tasks_) {
      for (const LineReader* reader : {&task.report, &task.out, &task.err}) {
        if (reader->open()) wanted.push_back({reader->fd(), POLLIN, 0});
      }
    }
    int timeout = -1;
    std::optional<Clock::time_point> next = deadline_;
    for (const LaunchedTask& task : tasks_)
      if (task.again) next = next ? std::min(*next, *task.again) : *task.again;
    if (next) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
      timeout = static_cast<int>(std::clamp<long long>(left, 0, 1000 * 1000));
    }
    if (poll(wanted.data(), wanted.size(), timeout) < 0 && errno != EINTR) {
      fail(Code::internal, "poll: {}", std::strerror(errno));
    }
  }

  void read_output() {
    for (LaunchedTask& task : tasks_) {
      const auto print = [&](std::string_view line) { fmt::print(stderr, "[{}] {}\n", task.name, line); };
      task.out.read([&](std::string_view line) { print_output(task, line); });
      task.err.read(print);
      task.report.read([&](std::string_view line) { take_report(task, line); });
    }
  }

  void finish_output(LaunchedTask& task) {
    const auto print = [&](std::string_view line) { fmt::print(stderr, "[{}] {}\n", task.name, line); };
    task.out.finish([&](std::string_view line) { print_output(task, line); });
    task.err.finish(print);
  }

  // While tasks may be started again any worker may come to be the chief: what workers print on stdout passes
  // unchanged.
  void print_output(const LaunchedTask& task, std::string_view line) {
    if (options_.restarts == 0 || task.job != "worker") return fmt::print(stderr, "[{}] {}\n", task.name, line);
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  void take_report(LaunchedTask& task, std::string_view line) {
    if (phase_ != Phase::starting || !task.address.empty()) return;
    if (!is_address(line)) {
      failed_ = true;
      say("{} reported \"{}\", which is not HOST:PORT", task.name, line.substr(0, 100));
      ask_to_end();
      return;
    }
    task.address = line;
  }

  void check_reports() {
    const bool complete =
        std::all_of(tasks_.begin(), tasks_.end(), [](const LaunchedTask& t) { return !t.address.empty(); });
    if (phase_ != Phase::starting || !complete) return;
    phase_ = Phase::running;
    deadline_.reset();
    ClusterDescription cluster{fmt::format("launch-{}", getpid()), random_token(), {}, {}};
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      auto& job = i < static_cast<std::size_t>(options_.ps) ? cluster.ps : cluster.worker;
      job.push_back(tasks_[i].address);
    }
    cluster_file_.emplace(cluster);
    const std::string line = cluster_file_->path() + "\n";
    for (LaunchedTask& task : tasks_) {
      say("{} is process {} at {}{}", task.name, task.pid, task.address, &task == &chief() ? " (chief)" : "");
      // Fits into the pipe. If the task has just died, that is noticed elsewhere.
      [[maybe_unused]] const ssize_t ignored = write(task.cluster.get(), line.data(), line.size());
      task.cluster = FileDescriptor();
    }
    say("watch the cluster with: troupe-top {} --cluster {}", chief().address, cluster_file_->path());
  }

  void handle_signals() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      const int number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) continue;
      if (signal_) {
        say("{} again: killing the tasks", strsignal(number));
        kill_tasks();
        continue;
      }
      signal_ = number;
      say("{}: asking the tasks to end (once more kills them)", strsignal(number));
      ask_to_end();
    }
  }

  // Takes note of the processes that have ended, adopted ones among them.
  void reap() {
    siginfo_t info{};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
      const pid_t pid = info.si_pid;
      info = {};
      const auto task = std::find_if(tasks_.begin(), tasks_.end(), [&](const LaunchedTask& t) { return t.pid == pid; });
      // What a task leaves behind ends with it. Its group has its number as long as the task is not reaped.
      if (task != tasks_.end()) kill(-pid, SIGKILL);
      int status = 0;
      waitpid(pid, &status, 0);
      if (task == tasks_.end()) continue;
      task->status = status;
      on_end(*task);
    }
  }

  void on_end(LaunchedTask& task) {
    task.report.read([&](std::string_view line) { take_report(task, line); });
    const int status = *task.status;
    const bool early = phase_ == Phase::starting;
    if (phase_ >= Phase::asked) return;
    if (early || status != 0) {
      finish_output(task);
      say("{} {}{}", task.name, describe(status), early ? " before the cluster was complete" : "");
      if (phase_ <= Phase::running && status != 0 && task.restarts < options_.restarts) {
        if (early) task.address.clear();  // the next process chooses its own
        const auto pause = std::min(kLongestPause, kFirstPause * (1 << std::min(task.restarts, 10)));
        task.again = Clock::now() + pause;
        ++task.restarts;
        return;
      }
      if (phase_ <= Phase::running && options_.restarts > 0 && status != 0)
        say("{} has failed too often: {} times", task.name, task.restarts + 1);
      failed_ = true;
    }
    if (early || (&task == &chief() && status != 0)) {
      ask_to_end();
    } else if (phase_ == Phase::running && (&task == &chief() || status != 0 || parameter_servers_are_done())) {
      if (!all_ended() && status != 0) say("the others have {} s to end", options_.grace.count());
      phase_ = Phase::ending;
      set_grace();
      if (parameter_servers_are_done()) deadline_ = std::min(*deadline_, Clock::now() + kGraceAtEnd);
      cancel_restarts();
    }
  }

  // Then the job is over, and who is started again now finds nobody.
  bool parameter_servers_are_done() const {
    return options_.restarts > 0 && options_.ps > 0 &&
           std::all_of(tasks_.begin(), tasks_.begin() + options_.ps,
                       [](const LaunchedTask& t) { return t.status && *t.status == 0; });
  }
  void cancel_restarts() {
    for (LaunchedTask& task : tasks_) task.again.reset();
  }

  void check_deadline() {
    if (!deadline_ || Clock::now() < *deadline_ || all_ended()) return;
    if (phase_ == Phase::starting) {
      failed_ = true;
      say("no address from {} within {} s (--start-timeout): is it a Troupe app?",
          names([](const LaunchedTask& t) { return t.address.empty(); }), options_.start_timeout.count());
      ask_to_end();
    } else if (phase_ == Phase::ending) {
      say("still running: {}; asking them to end", names([](const LaunchedTask& t) { return !t.status; }));
      ask_to_end();
    } else {
      say("still running: {}; killing them", names([](const LaunchedTask& t) { return !t.status; }));
      kill_tasks();
    }
  }

  template <class Predicate>
  std::string names(Predicate&& wanted) const {
    std::string list;
    for (const LaunchedTask& task : tasks_) {
      if (wanted(task)) list += (list.empty() ? "" : ", ") + task.name;
    }
    return list;
  }

  void set_grace() { deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.grace); }

  void ask_to_end() {
    if (phase_ >= Phase::asked) return;
    phase_ = Phase::asked;
    set_grace();
    cancel_restarts();
    for (const LaunchedTask& task : tasks_) {
      if (!task.status) kill(task.pid, SIGTERM);
    }
  }

  void kill_tasks() {
    phase_ = Phase::killed;
    deadline_.reset();
    for (const LaunchedTask& task : tasks_) {
      if (!task.status) kill(-task.pid, SIGKILL);
    }
  }

  int exit_code() {
    if (signal_) return 128 + *signal_;
    const bool worker_done = std::any_of(tasks_.begin() + options_.ps, tasks_.end(),
                                         [](const LaunchedTask& t) { return t.status && *t.status == 0; });
    if (!failed_ && parameter_servers_are_done() && worker_done)
      return 0;  // who was started again may have come too late
    const int code = chief().status ? exit_code_of(*chief().status) : 1;
    return failed_ && code == 0 ? 1 : code;
  }

  const LaunchOptions& options_;
  std::optional<GpuShare> gpus_;
  FileDescriptor signals_;
  Phase phase_ = Phase::starting;
  std::vector<LaunchedTask> tasks_;  // ps/0, ps/1, ..., worker/0, ...
  std::optional<ClusterFile> cluster_file_;
  std::optional<Clock::time_point> deadline_;  // of the phase
  std::optional<int> signal_;
  bool failed_ = false;
};

}  // namespace

int launch(const LaunchOptions& options) { return Launcher(options).run(); }

}  // namespace troupe
