// Training by all-reduce: a cluster of workers only, each with all variables.
#include <chrono>
#include <future>

#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/session/group.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/batches.hpp>
#include <troupe/actors/training/job_settings.hpp>
#include <troupe/actors/training/session_checkpoints.hpp>
#include <troupe/actors/training/training_curves.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/graph/fingerprint.hpp>
#include <troupe/scheduler/training/epoch_figures.hpp>

namespace troupe {
namespace {

// The workers of the cluster, by rank.
std::vector<TaskName> members(const Task& task) {
  std::vector<TaskName> out;
  for (const DeviceInfo& d : task.devices()) {
    const TaskName owner = d.name.task_name();
    if (owner.job == "ps")
      fail(Code::failed_precondition,
           "mode allreduce keeps parameters on the workers; start the cluster without ps tasks ({} is one)",
           owner.to_string());
    if (owner.job == "worker" && std::ranges::find(out, owner) == out.end()) out.push_back(owner);
  }
  std::ranges::sort(out);
  return out;
}

// One rank's part of the training: holds all variables, computes its slot of every step, and applies the mean of all
// slots' gradients.
class RankTrainer {
 public:
  RankTrainer(const TrainingPlan& plan, std::vector<TaskName> workers)
      : plan_(plan),
        graph_(build_training_graph(plan.layers, plan.input, plan.loss, plan.optimizer,
                                    {.batch = plan.options.batch,
                                     .micro_batches = plan.options.micro_batches,
                                     .loss_scaling = plan.loss_scaling,
                                     .clipping = {.global_norm = plan.clip_norm},
                                     .sparse_mean = plan.options.sparse_mean,
                                     .all_reduce = true,
                                     .ops = &plan.task.ops()})),
        session_(plan.task, *graph_.graph, {.seed = plan.options.seed, .on_placement = plan.options.on_placement}),
        group_(plan.task, "training", std::move(workers),
               {.timeout = plan.options.step_timeout, .stop = plan.options.stop}),
        batches_(plan.data.train, plan.options.seed, 2, plan.task.pinned_memory(), plan.task.actors().trace()),
        figures_(static_cast<std::uint32_t>(plan.options.epochs),
                 static_cast<std::uint64_t>(plan.data.train.size()) / examples_per_step(), examples_per_step()),
        settings_(job_settings(plan, group_.ranks(), 0, group_.ranks(), 0)),
        checkpoints_(plan, graph_, session_, settings_, group_.ranks(), figures_.steps_per_epoch(),
                     group_.rank() == 0) {
    step_ = session_.callable({graph_.images[0], graph_.labels[0]}, {graph_.loss_sum, graph_.correct}, {graph_.train});
    evaluate_ =
        session_.callable({graph_.eval_images, graph_.eval_labels}, {graph_.eval_loss_sum, graph_.eval_correct});
  }

  TrainingResult run() {
    record_.begin("allreduce", static_cast<std::uint64_t>(plan_.options.epochs));
    const ReadableState readable(plan_.state, [this] { return checkpoints_.read_parameters(); });
    try {
      TrainingResult out = train();
      record_.end();
      return out;
    } catch (...) {
      const Error error = current_error();
      record_.end();
      group_.fail(error);  // tells ranks that wait for this one; no effect if the group has already failed
      if (error.code() == Code::cancelled && trained_) leave();
      throw;
    }
  }

 private:
  TrainingResult train() {
    curves_.emplace(plan_, *graph_.graph, group_.rank() == 0);  // here, where other ranks learn of a failure
    initialize();
    trained_ = true;
    while (!figures_.over()) {
      run_epoch();
      figures_.next_epoch();
      if (group_.rank() == 0 && plan_.options.on_epoch) plan_.options.on_epoch(figures_.last());
    }
    leave();
    TrainingResult out{group_.rank() == 0, figures_.last().test_accuracy, figures_.at().step,
                       figures_.seconds(), figures_.images_per_second(),  params_sha256(plan_.state.parameters)};
    if (graph_.loss_scale) {
      out.skipped_steps = static_cast<std::uint64_t>(session_.run(graph_.loss_scale->skipped).item<std::int64_t>());
      out.loss_scale = session_.run(graph_.loss_scale->scale).item<float>();
    }
    record_.does(TrainingRecord::Doing::waiting_in_barrier);
    group_.barrier(fmt::format("the end, with parameters {}", out.params_sha256));
    checkpoints_.wait();  // only rank 0 writes
    curves_->wait();
    return out;
  }

  // A stopped rank may have stopped others in the middle of a step: the point to resume from is unknown.
  void leave() {
    plan_.state.parameters = checkpoints_.read_parameters();
    plan_.state.ended.reset();
    if (figures_.over())
      plan_.state.ended = {.at = figures_.at(), .variables = checkpoints_.read_all(), .shard = nullptr};
  }

  std::uint64_t examples_per_step() const { return static_cast<std::uint64_t>(plan_.options.batch) * group_.ranks(); }

  // Gives all ranks the same values: each draws them as a single process would, or receives them from rank 0, and all
  // compare.
  void initialize() {
    auto [at, values] = checkpoints_.start();  // only rank 0 reads checkpoints
    share_start(std::move(at), values);
    const std::uint64_t step = figures_.at().step;
    const std::string exchange = group_.join_devices();
    if (group_.rank() == 0 && !exchange.empty() && plan_.options.on_event)
      plan_.options.on_event({.kind = "exchange", .task = {}, .step = step, .text = exchange, .counts = {}});
    checkpoints_.begin_at(step);
    session_.run(checkpoints_.feeds_of(values), std::vector<Output>{}, {graph_.initializer}, {.random_step = 0});
    std::string settings = settings_;
    std::ranges::replace(settings, '\n', ' ');
    group_.barrier(
        fmt::format("training with {} checkpoint_every={} graph={:x} step={} parameters={}", settings,
                    plan_.options.checkpoint.empty() ? "never" : fmt::format("{}", plan_.options.checkpoint_every),
                    fingerprint(*graph_.graph), step, params_sha256(checkpoints_.read_parameters())));
  }

  // Sends the others rank 0's starting point and values. Rank 0 alone keeps the sums of the current epoch.
  void share_start(JobState at, std::map<std::string, Tensor>& values) {
    const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
    const Tensor where =
        group_.broadcast(Tensor::vector<std::int64_t>({number(at.epoch), number(at.step), at.job_ns, at.epoch_ns}), 0,
                         "where the job begins");
    const auto told = where.data<std::int64_t>();
    at.epoch = static_cast<std::uint32_t>(told[0]);
    at.step = static_cast<std::uint64_t>(told[1]);
    at.job_ns = told[2];
    at.epoch_ns = told[3];
    figures_.go_on_from(std::move(at));
    if (figures_.at().step == 0) return;
    for (const VariableInfo& v : checkpoints_.variables()) {
      Tensor& value = values[v.name];
      if (group_.rank() != 0) value = Tensor(v.dtype, v.shape);
      value = group_.broadcast(value, 0, v.name);
    }
  }

  // Runs the rest of the current epoch.
  void run_epoch() {
    figures_.begin(steady_now_ns());
    const JobState& at = figures_.at();
    const auto examples = static_cast<std::uint64_t>(plan_.options.batch);
    const std::uint64_t first = figures_.first(), end = figures_.end_step();
    Batch next = at.step < end ? batch(at.step - first) : Batch();
    record_.set_epoch(at.epoch + 1, figures_.all_steps());
    while (at.step < end) {
      record_.does(TrainingRecord::Doing::computing, at.step, group_.rank());
      const std::int64_t began = steady_now_ns();
      auto running = start(next);
      if (at.step + 1 < end) next = batch(at.step + 1 - first);  // while the step runs
      const auto fetched = finish(std::move(running));
      const float loss_sum = fetched[0].item<float>();
      curves_->step_done(at.step, loss_sum, examples);
      record_.computed(at.step, group_.rank(), began, loss_sum / static_cast<double>(examples), examples);
      figures_.step_done(loss_sum, static_cast<std::uint64_t>(fetched[1].item<std::int64_t>()), steady_now_ns());
      if (checkpoints_.due(at.step)) save();
      if (plan_.options.on_progress)
        plan_.options.on_progress(at.epoch, figures_.complete(), figures_.steps_per_epoch());
    }
    report();
  }

  // All ranks have the same variables, so rank 0 writes them; the figures are summed over all ranks.
  void save() {
    JobState state = figures_.at();
    state.loss_sum =
        group_.all_reduce(Tensor::scalar(state.loss_sum), Reduction::sum, fmt::format("loss up to step {}", state.step))
            .item<double>();
    state.correct =
        static_cast<std::uint64_t>(group_
                                       .all_reduce(Tensor::scalar(static_cast<std::int64_t>(state.correct)),
                                                   Reduction::sum, fmt::format("correct up to step {}", state.step))
                                       .item<std::int64_t>());
    checkpoints_.read(state.step, true);
    checkpoints_.save(state);
  }

  // This rank's examples of step t of the epoch.
  Batch batch(std::uint64_t t) {
    const auto b = static_cast<std::uint64_t>(plan_.options.batch);
    const std::uint64_t first = (t * group_.ranks() + group_.rank()) * b;
    return batches_.get(figures_.at().epoch, first, first + b);
  }

  struct Running {
    StepId step;
    std::future<StepResult> result;
  };
  Running start(const Batch& batch) {
    check_stop(plan_);
    auto promise = std::make_shared<std::promise<StepResult>>();
    Running out{{}, promise->get_future()};
    // The group reports a missing rank long before this deadline.
    const RunOptions options{.timeout = 2 * plan_.options.step_timeout,
                             .random_step = static_cast<std::int64_t>(figures_.at().step),
                             .random_slot = group_.rank(),
                             .training = {.worker = group_.rank(),
                                          .step = operations_++,
                                          .group = group_.id(),
                                          .group_device = group_.device(),
                                          .number = figures_.at().step}};
    out.step = step_.start({batch.images, batch.labels}, options,
                           [promise](StepResult r) { promise->set_value(std::move(r)); });
    return out;
  }
  std::vector<Tensor> finish(Running running) {
    while (running.result.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) {
      try {
        check_stop(plan_);
      } catch (...) {
        session_.cancel(running.step);
        running.result.wait();
        throw;
      }
    }
    StepResult result = running.result.get();
    if (result.error) throw result.error;
    return std::move(result.fetches);
  }

  // Combines the figures of all ranks. Each evaluates its share of the test examples.
  void report() {
    record_.does(TrainingRecord::Doing::evaluating);
    const std::int64_t n = plan_.data.test.size(), ranks = group_.ranks(), rank = group_.rank();
    const std::int64_t right = evaluate(n * rank / ranks, n * (rank + 1) / ranks);
    const JobState& at = figures_.at();
    const Tensor losses =
        group_.all_reduce(Tensor::scalar(at.loss_sum), Reduction::sum, fmt::format("loss of epoch {}", at.epoch));
    const Tensor counts =
        group_.all_reduce(Tensor::vector<std::int64_t>({static_cast<std::int64_t>(at.correct), right}), Reduction::sum,
                          fmt::format("counts of epoch {}", at.epoch));
    const auto count = [&](std::size_t i) { return static_cast<std::uint64_t>(counts.data<std::int64_t>()[i]); };
    const EpochDone epoch = figures_.end(losses.item<double>(), count(0),
                                         n == 0 ? 0 : static_cast<double>(count(1)) / static_cast<double>(n));
    record_.set_metrics({{"train_accuracy", epoch.train_accuracy}, {"test_accuracy", epoch.test_accuracy}});
    curves_->epoch_done(epoch);
    if (curves_->on()) curves_->parameters(at.step, checkpoints_.read_parameters());
  }

  std::int64_t evaluate(std::int64_t first, std::int64_t last) {
    std::int64_t correct = 0;
    for (std::int64_t begin = first; begin < last; begin += kEvaluationChunk) {
      check_stop(plan_);
      gather_range(plan_.data.test, begin, std::min(last, begin + kEvaluationChunk), test_batch_);
      correct += evaluate_({test_batch_.images, test_batch_.labels})[1].item<std::int64_t>();
    }
    return correct;
  }

  const TrainingPlan& plan_;
  TrainingGraph graph_;
  Session session_;
  CollectiveGroup group_;
  EpochBatches batches_;
  Batch test_batch_{.images = {}, .labels = {}, .memory = plan_.task.pinned_memory()};
  EpochFigures figures_;  // this rank's share
  const std::string settings_;
  SessionCheckpoints checkpoints_;
  std::optional<TrainingCurves> curves_;
  TrainingRecord& record_ = plan_.task.introspection().training();
  Callable step_, evaluate_;
  bool trained_ = false;          // parameters exist
  std::uint64_t operations_ = 0;  // steps started, which number them in the group's channels
};

}  // namespace

TrainingResult train_by_all_reduce(const TrainingPlan& plan) {
  std::vector<TaskName> workers = members(plan.task);
  const TaskName& self = plan.task.name();
  if (std::ranges::find(workers, self) == workers.end())
    fail(Code::failed_precondition, "mode allreduce trains on the workers of a cluster, but {} is not a worker",
         self.to_string());
  const auto ranks = static_cast<int>(workers.size());
  if (plan.options.slots != 0 && plan.options.slots != ranks)
    invalid_argument("mode allreduce uses one slot per worker: {}, not {}", ranks, plan.options.slots);
  check_training(plan, ranks);
  return RankTrainer(plan, std::move(workers)).run();
}

}  // namespace troupe
