// A task's part in the training jobs of a cluster: joins one, and after a loss that ends it, the next.
#include <thread>

#include <troupe/actors/training/cluster_job.hpp>
#include <troupe/actors/training/training_feed.hpp>

namespace troupe {
namespace {

constexpr int kFruitless = 3;  // attempts in a row without progress
constexpr std::chrono::milliseconds kBackOff{100};

void await_shards(const TrainingPlan& plan, const ClusterJob& job) {
  const auto deadline = std::chrono::steady_clock::now() + job.servers.rejoin_timeout;
  for (;;) {
    check_stop(plan);
    const auto left = deadline - std::chrono::steady_clock::now();
    try {
      return plan.task.await("ps", std::min<std::chrono::nanoseconds>(left, kPollInterval));
    } catch (const Error& error) {
      if (left <= kPollInterval) throw;
    }
  }
}

TrainingResult take_part(const TrainingPlan& plan, const ClusterJob& job, Attempt& attempt) {
  if (plan.task.name().job != "ps") return work_in_job(plan, job, attempt);
  serve_shard(plan, job, attempt);
  return {};
}

}  // namespace

TrainingResult train_in_cluster(const TrainingPlan& plan) {
  const std::string& role = plan.task.name().job;
  if (role != "ps" && role != "worker" && role != kInputJob)
    fail(Code::failed_precondition, "tasks of job '{}' do not train: use ps, worker or input", role);
  const ClusterJob job(plan);
  if (role == kInputJob) return serve_inputs(plan, job.slots + job.backups);
  Attempt attempt{.after = plan.task.last_job(), .join_timeout = job.servers.join_timeout};
  Error before;
  for (int fruitless = 0;;) {
    Error why;
    try {
      TrainingResult result = take_part(plan, job, attempt);
      if (!plan.state.ended) plan.state.ended.emplace();
      plan.state.ended->at.epoch = attempt.epochs;
      plan.state.ended->at.step = plan.state.ended->at.epoch_step = attempt.steps;
      return result;
    } catch (const Error& error) {
      if (const Error failed = plan.task.failure()) throw failed;
      if (error.code() == Code::cancelled) plan.state.ended.reset();  // where the other tasks stop is unknown
      why = before && error.code() != Code::cancelled
                ? Error(error.code(), fmt::format("{}; before that: {}", error.message(), before.message()))
                : error;
    }
    fruitless = attempt.progress ? 0 : fruitless + 1;
    if (!comes_back(job.servers, why) || fruitless > kFruitless) throw why;
    if (plan.options.on_event)
      plan.options.on_event({.kind = "waits",
                             .task = plan.task.name(),
                             .text = fmt::format("{}; waiting for all ps tasks before continuing", why.message()),
                             .counts = {}});
    try {
      await_shards(plan, job);
    } catch (const Error& missing) {
      if (missing.code() == Code::cancelled) throw;
      throw why.within(missing.message());
    }
    if (!before || attempt.progress) before = why;
    std::this_thread::sleep_for(fruitless *
                                kBackOff);  // short compared with kPollInterval; at most kFruitless times in a row
    const std::uint64_t last = plan.task.last_job();
    attempt = {.after = attempt.over || attempt.job == 0 ? last : attempt.job - 1,
               .job = attempt.over ? 0 : attempt.job,
               .join_timeout = job.servers.rejoin_timeout};
  }
}

}  // namespace troupe
