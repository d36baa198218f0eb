#include "troupe/actors/training/training_plan.hpp"

#include <troupe/actors/training/callback.hpp>
#include <troupe/messages/overloaded.hpp>

namespace troupe {

ModeFields fields_of(const JobMode& mode) {
  return std::visit(
      Overloaded{
          [](const LocalMode& m) { return ModeFields{.slots = m.slots}; },
          [](const SyncMode& m) { return ModeFields{.slots = m.slots, .backups = m.backups, .replay = m.replay}; },
          [](const SspMode& m) {
            return ModeFields{.slots = m.slots, .backups = m.backups, .staleness = m.staleness, .replay = m.replay};
          },
          [](const AsyncMode& m) { return ModeFields{.aggregate = m.aggregate, .staleness_aware = m.staleness_aware}; },
          [](const AllReduceMode&) { return ModeFields{}; }},
      mode);
}

TrainingResult train(const TrainingPlan& plan) {
  if (std::holds_alternative<LocalMode>(plan.options.mode)) return train_locally(plan);
  if (std::holds_alternative<AllReduceMode>(plan.options.mode)) return train_by_all_reduce(plan);
  return train_in_cluster(plan);
}

void check_training(const TrainingPlan& plan, int slots) {
  const TrainingOptions& o = plan.options;
  const ModeFields mode = fields_of(o.mode);
  if (o.epochs < 1) invalid_argument("epochs must be at least 1, not {}", o.epochs);
  if (o.batch < 1) invalid_argument("batch must be at least 1, not {}", o.batch);
  if (const auto wanted = plan.train.batch(); wanted && *wanted != o.batch)
    invalid_argument("the training data makes batches of {}, but TrainingOptions::batch is {}: set it to {}", *wanted,
                     o.batch, *wanted);
  if (o.micro_batches < 1 || o.micro_batches > 1024)
    invalid_argument("micro_batches must be 1 to 1024, not {}", o.micro_batches);
  if (o.batch % o.micro_batches != 0)
    invalid_argument("batch size {} is not divisible by {} micro-batches", o.batch, o.micro_batches);
  if (o.micro_batches > 1 && o.last_step == LastStep::keep)
    invalid_argument("micro_batches need batches of one size: set last_step to LastStep::drop or pad");
  if (o.read_ahead.threads < 0 || o.read_ahead.threads > 1024)
    invalid_argument("read_ahead.threads must be 0 to 1024 (0: the task's share of the cores), not {}",
                     o.read_ahead.threads);
  if (mode.slots < 0) invalid_argument("slots must be 1 to 1024, not {}", mode.slots);
  if (mode.backups < 0 || mode.backups > 1024) invalid_argument("backups must be 0 to 1024, not {}", mode.backups);
  if (mode.staleness < 0 || mode.staleness > 1024)
    invalid_argument("staleness must be 0 to 1024, not {}", mode.staleness);
  if (mode.aggregate < 1 || mode.aggregate > 1024)
    invalid_argument("aggregate must be 1 to 1024, not {}", mode.aggregate);
  if (mode.aggregate > 1 && !o.checkpoint.empty())  // the last save would wait for batches that never come
    invalid_argument("aggregate cannot be combined with checkpoints");
  if (!mode.replay.empty() && mode.backups == 0) invalid_argument("replay needs a job with backup slots");
  const auto* servers = servers_of(o.mode);
  const auto* ranks = std::get_if<AllReduceMode>(&o.mode);
  if ((servers && servers->step_timeout.count() < 0) || (ranks && ranks->step_timeout.count() < 0))
    invalid_argument("step_timeout must be at least 0 (0: no limit)");
  if (o.tensorboard_every < 1) invalid_argument("tensorboard_every must be at least 1");
  if (slots < 1 || slots > 1024) invalid_argument("slots must be 1 to 1024, not {}", slots);
  if (o.evaluation_batch < 1) invalid_argument("evaluation_batch must be at least 1, not {}", o.evaluation_batch);
  const auto all = static_cast<std::uint32_t>(slots + mode.backups);
  if (steps_per_epoch(plan.train, training_batches(plan, all, 1)) == std::uint64_t{0})
    invalid_argument("one step needs {} x {} examples; the training set has {}", all, o.batch, *plan.train.examples());
  if (plan.evaluation && plan.evaluation->schema() != plan.train.schema())
    invalid_argument("the evaluation data has the components {}, but the training data {}",
                     to_string(plan.evaluation->schema()), to_string(plan.train.schema()));
}

TrainingGraph build_training_graph(const TrainingPlan& plan, TowerOptions options) {
  options.batch = plan.options.last_step == LastStep::keep ? kUnknown : plan.options.batch;
  options.micro_batches = plan.options.micro_batches;
  options.simultaneous = plan.options.simultaneous;
  options.scalable_rates = decides(plan.options.callbacks);
  options.loss_scaling = plan.loss_scaling;
  options.clipping = plan.clipping;
  options.sparse_mean = plan.options.sparse_mean;
  options.ops = &plan.task.ops();
  return build_training_graph(plan.program, plan.train.schema(), options);
}

Output output_named(Graph& graph, const std::string& name) {
  const Endpoint at = graph.endpoint(name);
  return graph.output(graph.node(at.node), at.index);
}

BatchPlan training_batches(const TrainingPlan& plan, std::uint32_t slots, std::size_t in_use) {
  return {.batch = plan.options.batch,
          .slots = slots,
          .seed = plan.options.seed,
          .last = plan.options.last_step,
          .in_use = in_use,
          .memory = plan.task.pinned_memory()};
}

BatchPlan evaluation_batches(const TrainingPlan& plan, std::size_t in_use) {
  return {.batch = plan.options.evaluation_batch,
          .shuffle = false,
          .last = LastStep::keep,
          .in_use = in_use,
          .memory = plan.task.pinned_memory()};
}

Error stop_of(const TrainingPlan& plan) try {
  if (const Error failed = plan.task.failure()) return failed;
  check_stop(plan.options);
  return {};
} catch (const Error& stopped) {
  return stopped;
}

void check_stop(const TrainingPlan& plan) {
  if (const Error stop = stop_of(plan)) throw stop;
}

void check_stop(const TrainingOptions& options) {
  if (options.stop && options.stop->load(std::memory_order_relaxed)) fail(Code::cancelled, "training was stopped");
}

UserStop::Now UserStop::check(const TrainingPlan& plan) {
  const Error stop = stop_of(plan);
  if (!stop) return Now::no;
  const auto now = std::chrono::steady_clock::now();
  const bool begins = !since_;
  if (begins) since_ = now;
  if (now - *since_ >= patience_) throw stop;
  return begins ? Now::begins : Now::goes_on;
}

}  // namespace troupe
