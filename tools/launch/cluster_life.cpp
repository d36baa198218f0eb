#include "tools/launch/cluster_life.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using Clock = ClusterLife::Clock;

constexpr std::chrono::milliseconds kFirstPause{100};  // before a task is restarted; doubles each time
constexpr std::chrono::milliseconds kLongestPause{5000};
constexpr std::chrono::seconds kGraceAtEnd{2};      // for restarted tasks that find the job over
constexpr std::chrono::seconds kSilence{5};         // from the start until tasks without an address are named
constexpr std::chrono::seconds kRejoinTimeout{10};  // time that tasks wait for a lost ps task (TrainingOptions)
constexpr const char* kHowToReport = "a Troupe program calls Task::from_command_line(argc, argv) at its start";

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

// A program that aborts, like with an uncaught exception, has ended by its own decision.
bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT; }

Clock::duration seconds(std::chrono::duration<double> given) {
  return std::chrono::duration_cast<Clock::duration>(given);
}

}  // namespace

ClusterLife::ClusterLife(const LaunchOptions& options, Clock::time_point now,
                         std::function<void(const std::string&)> say)
    : options_(options), say_(std::move(say)), deadline_(now + seconds(options.start_timeout)) {
  const auto add = [&](const char* job, int count) {
    for (int i = 0; i < count; ++i) tasks_.push_back({.name = fmt::format("{}/{}", job, i)});
  };
  if (options.serve > 0) {
    add("serve", options.serve);
    add("router", 1);
  } else {
    add("ps", options.ps);
    add("input", options.inputs);
    add("worker", options.workers);
  }
  if (now + kSilence < *deadline_) warning_ = now + kSilence;
}

void ClusterLife::reported(std::size_t task, std::string_view line, Clock::time_point now) {
  Task& from = tasks_[task];
  if (phase_ != Phase::starting || !from.address.empty()) return;
  if (!is_address(line)) {
    failed_ = true;
    say_(fmt::format("{} reported \"{}\", which is not HOST:PORT", from.name, line.substr(0, 100)));
    ask_to_end(now);
    return;
  }
  from.address = line;
  if (std::ranges::any_of(tasks_, [](const Task& t) { return t.address.empty(); })) return;
  phase_ = Phase::running;
  deadline_.reset();
  warning_.reset();
}

void ClusterLife::ended(std::size_t task, int status, Clock::time_point now) {
  Task& who = tasks_[task];
  who.status = status;
  who.by_itself = phase_ < Phase::asked;
  if (!who.by_itself) return;
  const bool early = phase_ == Phase::starting;
  if (early || status != 0) {
    say_(fmt::format("{} {}{}", who.name, describe(status), early ? " before the cluster was complete" : ""));
    if (early && who.address.empty()) say_(fmt::format("{} had not reported its address: {}", who.name, kHowToReport));
    if (status != 0 && start_again(task, now)) return;
    if (early) {
      failed_ = true;
      return ask_to_end(now);
    }
    return fail_for_good(task, now);
  }
  if (phase_ != Phase::running) return;
  if (task == chief()) begin_to_end(now + grace());
  if (parameter_servers_are_done()) begin_to_end(now + std::min<Clock::duration>(grace(), kGraceAtEnd));
}

bool ClusterLife::start_again(std::size_t task, Clock::time_point now) {
  Task& who = tasks_[task];
  if (phase_ > Phase::running) return false;
  if (who.restarts == options_.restarts) {
    if (options_.restarts > 0)
      say_(fmt::format("{} has failed {} times and is not restarted", who.name, who.restarts + 1));
    return false;
  }
  if (phase_ == Phase::starting) who.address.clear();  // the next process chooses its own
  who.again = now + std::min(kLongestPause, kFirstPause * (1 << std::min(who.restarts, 10)));
  ++who.restarts;
  return true;
}

// A task has failed by itself and will not be restarted.
void ClusterLife::fail_for_good(std::size_t task, Clock::time_point now) {
  const std::size_t chief_before = chief();
  if (phase_ == Phase::running) replace_chief(task);
  if (task == chief()) return ask_to_end(now);
  if (phase_ == Phase::ending) {
    failed_ = failed_ || is_ps(task) || options_.fail_fast;  // the end of a ps task is part of the job
    return;
  }
  if (is_ps(task)) {
    say_(fmt::format("the job cannot continue without {} (--restart N restarts tasks)", name(task)));
    end_others(now, grace() + kRejoinTimeout);
  } else if (options_.fail_fast) {
    end_others(now, grace());
  } else {
    say_(fmt::format("the other tasks may continue without {}{} (--fail-fast ends them)", name(task),
                     chief() == chief_before ? "" : fmt::format(", with {} as the chief", name(chief()))));
  }
}

void ClusterLife::end_others(Clock::time_point now, Clock::duration time) {
  failed_ = true;
  begin_to_end(now + time);
  if (!over()) say_(fmt::format("the other tasks have {:g} s to end", std::chrono::duration<double>(time).count()));
}

// A worker that has succeeded shows that the job is over: then a killed chief is not replaced.
void ClusterLife::replace_chief(std::size_t task) {
  if (task < first_worker() || options_.fail_fast || !was_killed(*tasks_[task].status)) return;
  const bool over = std::ranges::any_of(workers(), [](const Task& t) { return t.status == 0; });
  const bool others = std::ranges::any_of(workers(), [](const Task& t) { return !t.status || t.again; });
  tasks_[task].replaced = !over && others;
}

void ClusterLife::signalled(int number, Clock::time_point now) {
  if (signal_) {
    say_(fmt::format("{} again: killing the tasks", strsignal(number)));
    phase_ = Phase::killed;
    deadline_.reset();
    return;
  }
  signal_ = number;
  say_(fmt::format("{}: asking the tasks to end (signal again to kill them)", strsignal(number)));
  ask_to_end(now);
}

void ClusterLife::pass_time(Clock::time_point now) {
  const auto silent = [](const Task& t) { return t.address.empty(); };
  const auto running = [](const Task& t) { return !t.status; };
  if (warning_ && now >= *warning_) {
    say_(fmt::format("no address from {} for {} s: {}. Waiting up to {:g} s in all (--start-timeout)", names(silent),
                     kSilence.count(), kHowToReport, options_.start_timeout.count()));
    warning_.reset();
  }
  if (!deadline_ || now < *deadline_ || over()) return;
  if (phase_ == Phase::starting) {
    failed_ = true;
    say_(fmt::format("no address from {} within {:g} s (--start-timeout): {}", names(silent),
                     options_.start_timeout.count(), kHowToReport));
    ask_to_end(now);
  } else if (phase_ == Phase::ending) {
    say_(fmt::format("still running: {}; asking them to end", names(running)));
    ask_to_end(now);
  } else {
    say_(fmt::format("still running: {}; killing them", names(running)));
    phase_ = Phase::killed;
    deadline_.reset();
  }
}

std::optional<Clock::time_point> ClusterLife::next() const {
  std::optional<Clock::time_point> first = deadline_;
  const auto consider = [&](const std::optional<Clock::time_point>& time) {
    if (time && (!first || *time < *first)) first = time;
  };
  consider(warning_);
  for (const Task& task : tasks_) consider(task.again);
  return first;
}

std::vector<std::size_t> ClusterLife::take_due(Clock::time_point now) {
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    Task& task = tasks_[i];
    if (!task.again || now < *task.again) continue;
    task.again.reset();
    task.status.reset();
    due.push_back(i);
  }
  return due;
}

std::size_t ClusterLife::chief() const {
  std::size_t first = first_worker();
  while (first + 1 < tasks_.size() && tasks_[first].replaced) ++first;
  return first;
}

bool ClusterLife::over() const {
  return std::ranges::all_of(tasks_, [](const Task& t) { return t.status && !t.again; });
}

int ClusterLife::exit_code() const {
  if (signal_) return 128 + *signal_;
  const bool worker_done = std::ranges::any_of(workers(), [](const Task& t) { return t.status == 0; });
  if (!failed_ && parameter_servers_are_done() && worker_done) return 0;  // a restarted task may have come too late
  if (const int code = code_of(chief()); code != 0) {
    const int first = code_of(first_worker());  // the chief may have failed as a result
    return first != 0 ? first : code;
  }
  return failed_ ? 1 : 0;
}

// The exit code of a task that was told to end is ignored.
int ClusterLife::code_of(std::size_t task) const {
  const Task& who = tasks_[task];
  if (!who.status || !who.by_itself) return 1;
  return WIFSIGNALED(*who.status) ? 128 + WTERMSIG(*who.status) : WEXITSTATUS(*who.status);
}

// If so, the job is over, and a task restarted now would find no peers.
bool ClusterLife::parameter_servers_are_done() const {
  return options_.restarts > 0 && options_.ps > 0 &&
         std::all_of(tasks_.begin(), tasks_.begin() + options_.ps, [](const Task& t) { return t.status == 0; });
}

void ClusterLife::begin_to_end(Clock::time_point deadline) {
  phase_ = Phase::ending;
  deadline_ = deadline;
  for (Task& task : tasks_) task.again.reset();
}

void ClusterLife::ask_to_end(Clock::time_point now) {
  if (phase_ >= Phase::asked) return;
  begin_to_end(now + grace());
  phase_ = Phase::asked;
  warning_.reset();
}

Clock::duration ClusterLife::grace() const { return seconds(options_.grace); }

template <class Predicate>
std::string ClusterLife::names(Predicate&& wanted) const {
  std::string list;
  for (const Task& task : tasks_)
    if (wanted(task)) list += (list.empty() ? "" : ", ") + task.name;
  return list;
}

}  // namespace troupe
