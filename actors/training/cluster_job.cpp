#include "troupe/actors/training/cluster_job.hpp"

#include <caf/send.hpp>
#include <set>

#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/training/job_settings.hpp>
#include <troupe/graph/fingerprint.hpp>
#include <troupe/messages/overloaded.hpp>

namespace troupe {
namespace {

// The answer to the Join of `incarnation`, or null for any other frame or none.
const Joined* answer_in(const std::optional<WorkerFrame>& frame, Incarnation incarnation) {
  if (!frame) return nullptr;
  return std::visit(
      Overloaded{[&](const Joined& joined) { return joined.incarnation == incarnation ? &joined : nullptr; },
                 [](const auto&) -> const Joined* { return nullptr; }},
      *frame);
}

}  // namespace

ClusterJob::ClusterJob(const TrainingPlan& plan)
    : options(fields_of(plan.options.mode)),
      servers(*servers_of(plan.options.mode)),
      graph(build_training_graph(plan, {.on_shards = true})) {
  workers = static_cast<std::uint32_t>(plan.task.cluster().count("worker"));
  shards = static_cast<std::uint32_t>(plan.task.cluster().count("ps"));
  max_workers = static_cast<std::uint32_t>(plan.task.cluster().max_workers);
  if (shards == 0) fail(Code::failed_precondition, "this mode needs a cluster with at least one ps task");
  if (workers == 0) fail(Code::failed_precondition, "this mode needs a cluster with at least one worker");
  const std::uint32_t most = std::max(workers, max_workers);
  if (servers.min_workers < 0 || servers.min_workers > static_cast<int>(most))
    invalid_argument("min_workers is {}, but the cluster has {} workers", servers.min_workers, most);
  mode = std::holds_alternative<AsyncMode>(plan.options.mode) ? TrainingMode::asynchronous
         : std::holds_alternative<SspMode>(plan.options.mode) ? TrainingMode::bounded_staleness
                                                              : TrainingMode::synchronous;
  slots = mode == TrainingMode::asynchronous ? 1
          : options.slots > 0                ? static_cast<std::uint32_t>(options.slots)
                                             : workers;
  check_training(plan, static_cast<int>(slots));
  backups = static_cast<std::uint32_t>(options.backups);
  if (options.slots == 0 && backups > 0) {
    if (backups >= workers)
      invalid_argument("{} workers with {} backup slots leave no slot: set the number of slots", workers, backups);
    slots = workers - backups;
  }
  steps_per_epoch = troupe::steps_per_epoch(plan.train, training_batches(plan, slots + backups, 1));
  for (std::uint32_t phase = 0; phase < phases(); ++phase)
    for (const VariableRef& v : graph.phases[phase].updated) phase_of_[v.name] = phase;
  map = ShardMap(updated_variables(*graph.graph), static_cast<int>(shards));
  sharded = shard_variables(*graph.graph, map, [this](const std::string& variable) { return phase_of(variable); });
  settings = job_settings(plan, slots, backups, workers, shards) + library_settings(*graph.graph) +
             fmt::format("\ngraph={:016x}", troupe::fingerprint(*graph.graph));
  fingerprint = map.fingerprint();
  for (char c : settings) fingerprint = (fingerprint ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
}

std::vector<TaskName> ClusterJob::shard_names() const {
  std::vector<TaskName> out;
  for (std::uint32_t s = 0; s < shards; ++s) out.push_back(shard_task(s));
  return out;
}

std::vector<std::uint32_t> ClusterJob::owning_shards() const {
  std::set<std::uint32_t> owners;
  for (const Slice& slice : map.slices()) owners.insert(static_cast<std::uint32_t>(slice.shard));
  return {owners.begin(), owners.end()};
}

Joined await_joined(const TrainingPlan& plan, Attempt& attempt, WorkerMailbox& mailbox, Incarnation incarnation,
                    JobRoutes routes, const std::function<void(const Joined&)>& prepare) {
  const auto begun = std::chrono::steady_clock::now(), deadline = begun + attempt.join_timeout;
  const auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
  for (auto next_word = begun + kWaitWord;;) {
    check_stop(plan);
    const auto now = std::chrono::steady_clock::now();
    const auto left = deadline - now;
    if (now >= next_word && plan.options.on_event) {
      next_word += kWaitWord;
      plan.options.on_event({.kind = "waits",
                             .task = plan.task.name(),
                             .text = fmt::format("{} is waiting for {} to start the training job: {:.0f} of {:.0f} s",
                                                 plan.task.name().to_string(), kCoordinatorTask.to_string(),
                                                 seconds(now - begun), seconds(attempt.join_timeout)),
                             .counts = {}});
    }
    if (left <= std::chrono::nanoseconds(0))
      fail(Code::deadline_exceeded, "{} did not start the training job within {} s: start it there too",
           kCoordinatorTask.to_string(), seconds(attempt.join_timeout));
    const auto frame = mailbox.take(std::min<std::chrono::nanoseconds>(kPollInterval, left));
    const Joined* joined = answer_in(frame, incarnation);
    if (!joined) continue;
    plan.task.last_job() = std::max(plan.task.last_job().load(), joined->job);
    attempt.job = routes.job = joined->job;
    if (prepare && !joined->error) prepare(*joined);
    caf::anon_send(plan.task.handles().node, routes);
    if (joined->error) {
      attempt.over = true;
      mailbox.check(kReasonPatience);  // the job's own error says more, and may be on its way
      throw joined->error;
    }
    return *joined;
  }
}

void await_left(WorkerMailbox& mailbox, Incarnation incarnation) try {
  const auto deadline = std::chrono::steady_clock::now() + kReasonPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    const auto frame = mailbox.take(deadline - std::chrono::steady_clock::now());
    const Joined* joined = answer_in(frame, incarnation);
    if (joined && joined->error.code() == Code::cancelled) return;
  }
} catch (const Error&) {  // the job or the coordinator's task has ended
}

Leave leave_of(const Join& join, const Task& task) {
  const Error failed = task.failure();
  return {join.worker, join.incarnation, join.shard, join.after, failed ? failed : current_error()};
}

}  // namespace troupe
