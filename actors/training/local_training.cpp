// Training in one process: all slots of a step as towers of one graph.
#include <chrono>
#include <deque>
#include <future>

#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/batches.hpp>
#include <troupe/actors/training/job_settings.hpp>
#include <troupe/actors/training/session_checkpoints.hpp>
#include <troupe/actors/training/training_curves.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/scheduler/training/epoch_figures.hpp>

namespace troupe {
namespace {

constexpr std::size_t kStepsInFlight = 4;

class LocalTrainer {
 public:
  explicit LocalTrainer(const TrainingPlan& plan)
      : plan_(plan),
        slots_(std::max(1, plan.options.slots)),
        graph_(build_training_graph(plan.layers, plan.input, plan.loss, plan.optimizer,
                                    {.slots = slots_,
                                     .devices = devices(plan.task),
                                     .batch = plan.options.batch,
                                     .micro_batches = plan.options.micro_batches,
                                     .loss_scaling = plan.loss_scaling,
                                     .clipping = {.global_norm = plan.clip_norm},
                                     .sparse_mean = plan.options.sparse_mean,
                                     .ops = &plan.task.ops()})),
        session_(plan.task, *graph_.graph, {.seed = plan.options.seed, .on_placement = plan.options.on_placement}),
        batches_(plan.data.train, plan.options.seed, kStepsInFlight * static_cast<std::size_t>(slots_),
                 plan.task.pinned_memory(), plan.task.actors().trace()),
        figures_(static_cast<std::uint32_t>(plan.options.epochs),
                 static_cast<std::uint64_t>(plan.data.train.size()) / examples_per_step(), examples_per_step()),
        checkpoints_(plan, graph_, session_, job_settings(plan, static_cast<std::uint32_t>(slots_), 0, 0, 0),
                     static_cast<std::uint32_t>(slots_), figures_.steps_per_epoch(), true),
        curves_(plan, *graph_.graph, true) {
    Outputs feeds = graph_.images;
    feeds.insert(feeds.end(), graph_.labels.begin(), graph_.labels.end());
    step_ = session_.callable(feeds, {graph_.loss_sum, graph_.correct}, {graph_.train});
    evaluate_ =
        session_.callable({graph_.eval_images, graph_.eval_labels}, {graph_.eval_loss_sum, graph_.eval_correct});
  }

  TrainingResult run() {
    record_.begin("local", static_cast<std::uint64_t>(plan_.options.epochs));
    const ReadableState readable(plan_.state, [this] { return checkpoints_.read_parameters(); });
    try {
      train();
    } catch (const Error& error) {
      if (error.code() == Code::cancelled) leave();
      throw;
    }
    record_.does(TrainingRecord::Doing::saving);
    checkpoints_.wait();
    curves_.wait();
    record_.end();
    leave();
    TrainingResult out{true,
                       figures_.last().test_accuracy,
                       figures_.at().step,
                       figures_.seconds(),
                       figures_.images_per_second(),
                       params_sha256(plan_.state.parameters)};
    if (graph_.loss_scale) {
      out.skipped_steps = static_cast<std::uint64_t>(session_.run(graph_.loss_scale->skipped).item<std::int64_t>());
      out.loss_scale = session_.run(graph_.loss_scale->scale).item<float>();
    }
    return out;
  }

 private:
  void train() {
    initialize();
    while (!figures_.over()) {
      run_epoch();
      figures_.next_epoch();
      if (plan_.options.on_epoch) plan_.options.on_epoch(figures_.last());
    }
  }
  // Call it while no step is running.
  void leave() {
    plan_.state.parameters = checkpoints_.read_parameters();
    plan_.state.ended = {.at = figures_.at(), .variables = checkpoints_.read_all(), .shard = nullptr};
  }

  static std::vector<std::string> devices(Task& task) {
    std::vector<std::string> out = default_devices(task.devices(), task.name());
    return out.size() > 1 ? out : std::vector<std::string>();
  }
  std::uint64_t examples_per_step() const {
    return static_cast<std::uint64_t>(plan_.options.batch) * static_cast<std::uint64_t>(slots_);
  }

  // Draws random initial values as a shard does: in step 0, slot 0.
  void initialize() {
    auto [at, values] = checkpoints_.start();
    figures_.go_on_from(std::move(at));
    checkpoints_.begin_at(figures_.at().step);
    session_.run(checkpoints_.feeds_of(values), std::vector<Output>{}, {graph_.initializer}, {.random_step = 0});
  }

  // Runs the rest of the current epoch.
  void run_epoch() {
    figures_.begin(steady_now_ns());
    const JobState& at = figures_.at();
    const std::uint64_t first = figures_.first(), end = figures_.end_step();
    // Batches of the next steps are gathered while earlier steps run. New steps start when half of those in flight are
    // done: waking this thread costs the device as much as a small kernel.
    const std::size_t most_in_flight = step_.in_order() ? kStepsInFlight : 1;
    struct Started {
      std::int64_t at_ns;
      std::future<std::vector<Tensor>> figures;
    };
    std::deque<Started> in_flight;
    record_.set_epoch(at.epoch + 1, figures_.all_steps());
    Error stop;
    for (std::uint64_t started = at.step; at.step < end;) {
      if (!stop) stop = stop_of(plan_);
      if (stop && in_flight.empty()) throw stop;
      if (!stop && in_flight.size() <= most_in_flight / 2) {
        for (; started < end && in_flight.size() < most_in_flight; ++started) {
          const std::int64_t now = steady_now_ns();
          in_flight.push_back({now, start_step(started, started - first)});
          if (checkpoints_.due(started + 1)) {
            if (!step_.in_order()) in_flight.back().figures.wait();
            checkpoints_.read(started + 1, !step_.in_order());
          }
        }
        record_.does(TrainingRecord::Doing::computing, at.step);
        in_flight[(in_flight.size() - 1) / 2].figures.wait();
      }
      const auto fetched = in_flight.front().figures.get();
      const float loss_sum = fetched[0].item<float>();
      record_.computed(at.step, 0, in_flight.front().at_ns, loss_sum / static_cast<double>(examples_per_step()),
                       examples_per_step());
      in_flight.pop_front();
      curves_.step_done(at.step, loss_sum, examples_per_step());
      figures_.step_done(loss_sum, static_cast<std::uint64_t>(fetched[1].item<std::int64_t>()), steady_now_ns());
      checkpoints_.save(at);
      if (plan_.options.on_progress)
        plan_.options.on_progress(at.epoch, figures_.complete(), figures_.steps_per_epoch());
    }
    const EpochDone epoch = figures_.end(evaluate());
    record_.set_metrics({{"train_accuracy", epoch.train_accuracy}, {"test_accuracy", epoch.test_accuracy}});
    curves_.epoch_done(epoch);
    if (curves_.on()) curves_.parameters(at.step, checkpoints_.read_parameters());
  }

  // Starts `step`, the `t`-th of the epoch.
  std::future<std::vector<Tensor>> start_step(std::uint64_t step, std::uint64_t t) {
    const auto b = static_cast<std::uint64_t>(plan_.options.batch);
    std::vector<Tensor> feeds(2 * static_cast<std::size_t>(slots_));
    for (std::size_t s = 0; s < static_cast<std::size_t>(slots_); ++s) {
      const std::uint64_t first = (t * static_cast<std::uint64_t>(slots_) + s) * b;
      const Batch& batch = batches_.get(figures_.at().epoch, first, first + b);
      feeds[s] = batch.images;
      feeds[static_cast<std::size_t>(slots_) + s] = batch.labels;
    }
    return step_.async(std::move(feeds),
                       {.random_step = static_cast<std::int64_t>(step), .training = {.number = step}});
  }

  double evaluate() {
    record_.does(TrainingRecord::Doing::evaluating);
    std::int64_t correct = 0;
    const std::int64_t n = plan_.data.test.size();
    for (std::int64_t begin = 0; begin < n; begin += kEvaluationChunk) {
      check_stop(plan_);
      gather_range(plan_.data.test, begin, std::min(n, begin + kEvaluationChunk), test_batch_);
      correct += evaluate_({test_batch_.images, test_batch_.labels})[1].item<std::int64_t>();
    }
    return n == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(n);
  }

  const TrainingPlan& plan_;
  int slots_;
  TrainingGraph graph_;
  Session session_;
  EpochBatches batches_;
  Batch test_batch_{.images = {}, .labels = {}, .memory = plan_.task.pinned_memory()};
  EpochFigures figures_;
  SessionCheckpoints checkpoints_;
  TrainingCurves curves_;
  TrainingRecord& record_ = plan_.task.introspection().training();
  Callable step_;
  Callable evaluate_;
};

}  // namespace

TrainingResult train_locally(const TrainingPlan& plan) {
  check_training(plan, std::max(1, plan.options.slots));
  return LocalTrainer(plan).run();
}

void check_training(const TrainingPlan& plan, int slots) {
  const TrainingOptions& o = plan.options;
  if (o.epochs < 1) invalid_argument("epochs must be at least 1, not {}", o.epochs);
  if (o.batch < 1) invalid_argument("batch must be at least 1, not {}", o.batch);
  if (o.micro_batches < 1 || o.micro_batches > 1024)
    invalid_argument("micro_batches must be 1 to 1024, not {}", o.micro_batches);
  if (o.batch % o.micro_batches != 0)
    invalid_argument("batch size {} is not divisible by {} micro-batches", o.batch, o.micro_batches);
  if (o.slots < 0) invalid_argument("slots must be 1 to 1024, or 0 for the mode's default, not {}", o.slots);
  const bool steps_of_slots = o.mode == JobMode::sync || o.mode == JobMode::ssp;
  if (o.backups < 0 || o.backups > 1024 || (o.backups > 0 && !steps_of_slots))
    invalid_argument("modes sync and ssp have 0 to 1024 backup slots per step, other modes none: not {}", o.backups);
  if (o.staleness < 0 || o.staleness > 1024 || (o.staleness > 0 && o.mode != JobMode::ssp))
    invalid_argument("staleness must be 0 to 1024 in mode ssp and 0 in other modes, not {}", o.staleness);
  if (o.aggregate < 1 || o.aggregate > 1024) invalid_argument("aggregate must be 1 to 1024, not {}", o.aggregate);
  if (o.mode != JobMode::async && (o.aggregate > 1 || o.staleness_aware))
    invalid_argument("aggregate and staleness_aware need mode async");
  if (o.aggregate > 1 && !o.checkpoint.empty())  // the last save would wait for batches that never come
    invalid_argument("aggregate cannot be combined with checkpoints");
  if (!o.provenance.empty() && (o.mode == JobMode::local || o.mode == JobMode::allreduce))
    invalid_argument("provenance needs a mode with parameter servers");
  if (o.tensorboard_every < 1) invalid_argument("tensorboard_every must be at least 1");
  if (!o.replay.empty() && o.backups == 0) invalid_argument("replay needs a job with backup slots");
  if (o.step_timeout.count() < 0) invalid_argument("step_timeout must be at least 0 (0: no limit)");
  if (slots < 1 || slots > 1024) invalid_argument("slots must be 1 to 1024, not {}", slots);
  if (plan.data.train.size() < static_cast<std::int64_t>(o.batch) * (slots + o.backups))
    invalid_argument("one step needs {} x {} examples; the training set has {}", slots + o.backups, o.batch,
                     plan.data.train.size());
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

}  // namespace troupe
