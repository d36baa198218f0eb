#include "troupe/actors/introspection/cluster_view.hpp"

#include <algorithm>
#include <thread>

#include <troupe/actors/base/actor_record.hpp>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kFresh{250};

// Parameter servers first: the other tasks wait for them.
auto order(const std::string& task) {
  const auto digits = task.find_last_not_of("0123456789");
  const std::string number = digits == std::string::npos ? std::string() : task.substr(digits + 1);
  return std::tuple(!task.starts_with("/job:ps/"), task.substr(0, task.size() - number.size()), number.size(), number);
}

}  // namespace

std::vector<ClusterView::Answer> ClusterView::ask_all(const std::vector<KnownTask>& tasks, const std::string& path,
                                                      std::chrono::milliseconds patience, bool post) {
  std::vector<Answer> answers(tasks.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    threads.emplace_back([&, i] {
      Answer& answer = answers[i];
      answer.task = tasks[i].task;
      if (tasks[i].target.address.port == 0) {
        answer.error = Error(Code::unavailable, tasks[i].unknown);
        return;
      }
      const std::int64_t began = steady_now_ns();
      try {
        answer.body = post ? http_post(tasks[i].target, path, patience) : http_get(tasks[i].target, path, patience);
      } catch (...) {
        answer.error = current_error();
      }
      answer.took_ns = steady_now_ns() - began;
    });
  threads.clear();
  return answers;
}

const KnownTask& find_task(const std::vector<KnownTask>& tasks, const std::string& name) {
  const auto slash = name.rfind('/');
  const std::string whole = name.starts_with('/') || slash == std::string::npos
                                ? name
                                : fmt::format("/job:{}/task:{}", name.substr(0, slash), name.substr(slash + 1));
  std::string known;
  for (const KnownTask& task : tasks) {
    if (task.task == whole) return task;
    known += (known.empty() ? "" : ", ") + task.task;
  }
  fail(Code::not_found, "no task '{}' in the cluster; there {} {}", name, tasks.size() == 1 ? "is" : "are", known);
}

std::string ask_task(const KnownTask& task, const std::string& path, std::chrono::milliseconds patience) {
  try {
    if (task.target.address.port == 0) fail(Code::unavailable, "{}", task.unknown);
    return http_get(task.target, path, patience);
  } catch (const Error& error) {
    throw error.within(task.task);
  }
}

ClusterSnapshot cluster_of(const std::vector<KnownTask>& tasks, std::vector<ClusterView::Answer> answers) {
  ClusterSnapshot out;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    TaskReport report{.task = tasks[i].task, .took_ns = answers[i].took_ns};
    if (tasks[i].target.address.port != 0) report.address = tasks[i].target.address.to_string();
    Error error = answers[i].error;
    if (!error) try {
        report.snapshot = parse_task_snapshot(answers[i].body);
        report.answered = true;
        if (!report.snapshot->cluster.empty()) out.cluster = report.snapshot->cluster;
      } catch (...) {
        error = current_error();
      }
    if (error) report.error = error.message();
    out.tasks.push_back(std::move(report));
  }
  return out;
}

ClusterSnapshot ClusterView::snapshot() {
  const std::lock_guard lock(mutex_);
  if (last_ && now_() - last_at_ < kFresh) return *last_;
  const std::vector<KnownTask> known = others_();
  ClusterSnapshot out = cluster_of(known, ask_all(known, "/task", kPatience));
  TaskSnapshot own = own_();
  out.asked = own.task;
  out.cluster = own.cluster;
  out.unix_ns = own.unix_ns;
  out.tasks.push_back({.task = own.task, .answered = true, .snapshot = std::move(own)});
  std::ranges::sort(out.tasks, {}, [](const TaskReport& report) { return order(report.task); });
  last_at_ = now_();
  last_ = out;
  return out;
}

}  // namespace troupe
