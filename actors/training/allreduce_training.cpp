#include <chrono>
#include <future>

#include "actors/collective/group.hpp"
#include "actors/session/session.hpp"
#include "actors/training/batches.hpp"
#include "actors/training/training_plan.hpp"
#include "graph/fingerprint.hpp"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

// The workers of the cluster, by rank.
std::vector<TaskName> members(const Task& task) {
  std::vector<TaskName> out;
  for (const DeviceInfo& d : task.devices()) {
    const TaskName owner = d.name.task_name();
    if (owner.job == "ps")
      fail(Code::failed_precondition, "mode allreduce keeps parameters on the workers; start the cluster without ps tasks ({} is one)",
           owner.to_string());
    if (owner.job == "worker" && std::ranges::find(out, owner) == out.end()) out.push_back(owner);
  }
  std::ranges::sort(out);
  return out;
}

// One rank's part of the training: each has all variables, computes its slot of every step, and applies the mean of all
// slots' gradients itself.
class RankTrainer {
 public:
  RankTrainer(const TrainingPlan& plan, std::vector<TaskName> workers)
      : plan_(plan),
        graph_(build_training_graph(plan.layers, plan.input, plan.loss, plan.optimizer,
                                    {.batch = plan.options.batch, .micro_batches = plan.options.micro_batches, .loss_scaling = plan.loss_scaling, .clip_norm = plan.clip_norm, .sparse_mean = plan.options.sparse_mean, .all_reduce = true})),
        session_(plan.task, *graph_.graph, {.seed = plan.options.seed}),
        group_(plan.task, "training", std::move(workers), {.timeout = plan.options.step_timeout, .stop = plan.options.stop}),
        batches_(plan.data.train, plan.options.seed, 2) {
    step_ = session_.callable({graph_.images[0], graph_.labels[0]}, {graph_.loss_sum, graph_.correct}, {graph_.train});
    evaluate_ = session_.callable({graph_.eval_images, graph_.eval_labels}, {graph_.eval_loss_sum, graph_.eval_correct});
  }

  Trained run() {
    try {
      return train();
    } catch (...) {
      const Error error = current_error();
      group_.fail(error);  // those who wait for this rank hear why; nobody, if the group has failed before
      throw;
    }
  }

 private:
  Trained train() {
    initialize();
    const auto batch = static_cast<std::uint64_t>(plan_.options.batch);
    steps_per_epoch_ = static_cast<std::uint64_t>(plan_.data.train.size()) / (batch * group_.ranks());
    for (std::uint32_t epoch = 0; epoch < static_cast<std::uint32_t>(plan_.options.epochs); ++epoch) run_epoch(epoch);
    Trained out;
    out.parameters = parameters();
    out.result = {group_.rank() == 0, figures_.test_accuracy, step_number_, seconds_,
                  seconds_ > 0 ? images_ / seconds_ : 0, params_sha256(out.parameters)};
    if (graph_.loss_scale) {
      out.result.skipped_steps = static_cast<std::uint64_t>(session_.run(graph_.loss_scale->skipped).item<std::int64_t>());
      out.result.loss_scale = session_.run(graph_.loss_scale->scale).item<float>();
    }
    group_.barrier(fmt::format("the end, with parameters {}", out.result.params_sha256));
    return out;
  }

  // The same values on all ranks: each draws them, as one process would, and all compare.
  void initialize() {
    Feeds feeds;
    for (const VariableRef& v : graph_.trainable)
      if (const auto it = plan_.start.find(v.name); it != plan_.start.end()) feeds.emplace_back(v.initial_value, it->second);
    session_.run(feeds, std::vector<Output>{}, {graph_.initializer}, {.random_step = 0});
    const TrainingOptions& o = plan_.options;
    group_.barrier(fmt::format("training with batch={} epochs={} seed={} train_examples={} test_examples={} micro_batches={} sparse_mean={} clip_norm={} optimizer={} learning_rate={} graph={:x} parameters={}",
                               o.batch, o.epochs, o.seed, plan_.data.train.size(), plan_.data.test.size(), o.micro_batches, name(o.sparse_mean), plan_.clip_norm, name(plan_.optimizer),
                               learning_rate(plan_.optimizer).to_string(),
                               fingerprint(*graph_.graph), params_sha256(parameters())));
  }

  Parameters parameters() {
    Parameters out;
    for (const VariableRef& v : graph_.trainable) out[v.name] = session_.run(v.read());
    return out;
  }

  void run_epoch(std::uint32_t epoch) {
    const auto begin = Clock::now();
    double loss = 0;
    std::int64_t correct = 0;
    Batch next = batch(epoch, 0);
    for (std::uint64_t t = 0; t < steps_per_epoch_; ++t) {
      auto running = start(next);
      if (t + 1 < steps_per_epoch_) next = batch(epoch, t + 1);  // while the step runs
      const auto figures = finish(std::move(running));
      loss += figures[0].item<float>();
      correct += figures[1].item<std::int64_t>();
      if (plan_.options.on_progress) plan_.options.on_progress(epoch, t + 1, steps_per_epoch_);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    report(epoch, seconds, loss, correct);
  }

  // This rank's examples of step t.
  Batch batch(std::uint32_t epoch, std::uint64_t t) {
    const auto b = static_cast<std::uint64_t>(plan_.options.batch);
    const std::uint64_t first = (t * group_.ranks() + group_.rank()) * b;
    return batches_.get(epoch, first, first + b);
  }

  struct Running {
    StepId step;
    std::future<StepResult> result;
  };
  Running start(const Batch& batch) {
    check_stop(plan_.options);
    auto promise = std::make_shared<std::promise<StepResult>>();
    Running out{{}, promise->get_future()};
    // Ranks that wait for one that does not come hear of it from their group, long before this deadline.
    const RunOptions options{.timeout = 2 * plan_.options.step_timeout,
                             .random_step = static_cast<std::int64_t>(step_number_),
                             .random_slot = group_.rank(),
                             .training = {.worker = group_.rank(), .step = step_number_, .group = group_.id()}};
    ++step_number_;
    out.step = step_.start({batch.images, batch.labels}, options, [promise](StepResult r) { promise->set_value(std::move(r)); });
    return out;
  }
  std::vector<Tensor> finish(Running running) {
    while (running.result.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) {
      try {
        check_stop(plan_.options);
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

  // The figures of all ranks as one. Each evaluates its share of the test examples.
  void report(std::uint32_t epoch, double seconds, double loss, std::int64_t correct) {
    const std::int64_t n = plan_.data.test.size(), ranks = group_.ranks(), rank = group_.rank();
    const std::int64_t right = evaluate(n * rank / ranks, n * (rank + 1) / ranks);
    const Tensor losses = group_.all_reduce(Tensor::scalar(loss), Reduction::sum, fmt::format("loss of epoch {}", epoch));
    const Tensor counts =
        group_.all_reduce(Tensor::vector<std::int64_t>({correct, right}), Reduction::sum, fmt::format("counts of epoch {}", epoch));
    const auto images = static_cast<double>(steps_per_epoch_) * plan_.options.batch * static_cast<double>(ranks);
    seconds_ += seconds;
    images_ += images;
    figures_ = EpochDone{.epoch = epoch,
                         .loss = losses.item<double>() / images,
                         .train_accuracy = static_cast<double>(counts.data<std::int64_t>()[0]) / images,
                         .test_accuracy = n == 0 ? 0 : static_cast<double>(counts.data<std::int64_t>()[1]) / static_cast<double>(n),
                         .images_per_second = images / seconds,
                         .steps = step_number_,
                         .seconds = seconds_};
    if (rank == 0 && plan_.options.on_epoch) plan_.options.on_epoch(figures_);
  }

  std::int64_t evaluate(std::int64_t first, std::int64_t last) {
    std::int64_t correct = 0;
    for (std::int64_t begin = first; begin < last; begin += kEvaluationChunk) {
      check_stop(plan_.options);
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
  Batch test_batch_;
  Callable step_, evaluate_;
  std::uint64_t steps_per_epoch_ = 0;
  std::uint64_t step_number_ = 0;
  double images_ = 0;
  double seconds_ = 0;
  EpochDone figures_;
};

}  // namespace

Trained train_by_all_reduce(const TrainingPlan& plan) {
  std::vector<TaskName> workers = members(plan.task);
  const TaskName& self = plan.task.name();
  if (std::ranges::find(workers, self) == workers.end())
    fail(Code::failed_precondition, "mode allreduce trains on the workers of a cluster, and {} is none", self.to_string());
  const auto ranks = static_cast<int>(workers.size());
  if (plan.options.slots != 0 && plan.options.slots != ranks)
    invalid_argument("a step of mode allreduce has a slot for each worker: {}, not {}", ranks, plan.options.slots);
  check_training(plan, ranks);
  return RankTrainer(plan, std::move(workers)).run();
}

}  // namespace troupe
