#include "actors/training/cluster_job.hpp"

#include <caf/send.hpp>
#include <set>

namespace troupe {
namespace {

// That of products where a layer does not say.
std::string_view precision(const Sequential& layers) {
  return layers.compute() == DType::invalid ? name(DType::f32) : name(layers.compute());
}

}  // namespace

ClusterJob::ClusterJob(const TrainingPlan& plan)
    : graph(build_training_graph(
          plan.layers, plan.input, plan.loss, plan.optimizer,
          {.batch = plan.options.batch, .micro_batches = plan.options.micro_batches, .loss_scaling = plan.loss_scaling, .clip_norm = plan.clip_norm, .on_shards = true})) {
  workers = static_cast<std::uint32_t>(plan.task.cluster().count("worker"));
  shards = static_cast<std::uint32_t>(plan.task.cluster().count("ps"));
  if (shards == 0) fail(Code::failed_precondition, "this mode needs a cluster with at least one ps task; there is none");
  if (workers == 0) fail(Code::failed_precondition, "this mode needs a cluster with at least one worker; there is none");
  const TrainingOptions& o = plan.options;
  if (o.min_workers < 0 || o.min_workers > static_cast<int>(workers))
    invalid_argument("training begins with at least {} workers, but the cluster has {}", o.min_workers, workers);
  mode = o.mode == JobMode::async ? TrainingMode::asynchronous
         : o.mode == JobMode::ssp ? TrainingMode::bounded_staleness
                                  : TrainingMode::synchronous;
  slots = mode == TrainingMode::asynchronous ? 1 : o.slots > 0 ? static_cast<std::uint32_t>(o.slots) : workers;
  check_training(plan, static_cast<int>(slots));
  backups = static_cast<std::uint32_t>(o.backups);
  if (o.slots == 0 && backups > 0) {
    if (backups >= workers) invalid_argument("{} workers with {} backup slots leave no slot: give the number of slots", workers, backups);
    slots = workers - backups;
  }
  map = ShardMap(updated_variables(*graph.graph), static_cast<int>(shards));
  sharded = shard_variables(*graph.graph, map);
  settings = fmt::format("mode={}\nprecision={}\nslots={}\nbackups={}\nstaleness={}\nbatch={}\nepochs={}\nseed={}\ntrain_examples={}\ntest_examples={}\nworkers={}\nps={}\nmicro_batches={}\nsparse_mean={}\nclip_norm={}\nupdates={}",
                         mode == TrainingMode::asynchronous ? "async" : mode == TrainingMode::synchronous ? "sync" : "ssp",
                         precision(plan.layers), slots, backups, o.staleness, o.batch, o.epochs, o.seed,
                         plan.data.train.size(), plan.data.test.size(), workers, shards, o.micro_batches,
                         name(o.sparse_mean), plan.clip_norm, describe_updates());
  fingerprint = map.fingerprint();
  for (char c : settings) fingerprint = (fingerprint ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
}

std::string ClusterJob::describe_updates() const {
  std::set<std::string> distinct;
  for (const auto& [name, rule] : sharded.rules) {
    std::string text = rule.op;
    if (rule.learning_rate.valid()) text += " lr " + rule.learning_rate.to_string();
    if (rule.schedule) text += " lr " + rule.schedule->to_string();
    for (const auto& [key, value] : rule.attributes.all())
      if (!key.starts_with('_')) text += " " + key + " " + to_string(value);
    distinct.insert(text);
  }
  std::string out;
  for (const std::string& text : distinct) out += (out.empty() ? "" : "; ") + text;
  return out;
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

Joined await_joined(const TrainingPlan& plan, Attempt& attempt, WorkerMailbox& mailbox, Incarnation incarnation, JobRoutes routes,
                    const std::function<void(const Joined&)>& prepare) {
  const auto deadline = std::chrono::steady_clock::now() + attempt.join_timeout;
  for (;;) {
    check_stop(plan.options);
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0))
      fail(Code::deadline_exceeded, "{} has begun no training job within {} s: start it there too", kCoordinatorTask.to_string(),
           std::chrono::duration<double>(attempt.join_timeout).count());
    const auto frame = mailbox.take(std::min<std::chrono::nanoseconds>(kPollInterval, left));
    const auto* joined = frame ? std::get_if<Joined>(&*frame) : nullptr;
    if (!joined || joined->incarnation != incarnation) continue;
    plan.task.last_job() = std::max(plan.task.last_job().load(), joined->job);
    attempt.job = routes.job = joined->job;
    if (prepare && !joined->error) prepare(*joined);
    caf::anon_send(plan.task.local_node(), routes);
    if (joined->error) {
      attempt.over = true;
      mailbox.check(kReasonPatience);  // why the job has failed says more, and is on its way if it has
      throw joined->error;
    }
    return *joined;
  }
}

void await_left(WorkerMailbox& mailbox, Incarnation incarnation) try {
  const auto deadline = std::chrono::steady_clock::now() + kReasonPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    const auto frame = mailbox.take(deadline - std::chrono::steady_clock::now());
    const auto* joined = frame ? std::get_if<Joined>(&*frame) : nullptr;
    if (joined && joined->incarnation == incarnation && joined->error.code() == Code::cancelled) return;
  }
} catch (const Error&) {  // the job, or the coordinator's task, is over
}

Leave leave_of(const Join& join, const Error& why) { return {join.worker, join.incarnation, join.shard, join.after, why}; }

}  // namespace troupe
