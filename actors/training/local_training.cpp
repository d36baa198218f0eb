#include <chrono>
#include <deque>
#include <future>

#include "actors/session/session.hpp"
#include "actors/training/batches.hpp"
#include "actors/training/training_plan.hpp"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kStepsInFlight = 4;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

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
                                     .clip_norm = plan.clip_norm,
                                     .sparse_mean = plan.options.sparse_mean})),
        session_(plan.task, *graph_.graph, {.seed = plan.options.seed}),
        batches_(plan.data.train, plan.options.seed, kStepsInFlight * static_cast<std::size_t>(slots_)) {
    Outputs feeds = graph_.images;
    feeds.insert(feeds.end(), graph_.labels.begin(), graph_.labels.end());
    step_ = session_.callable(feeds, {graph_.loss_sum, graph_.correct}, {graph_.train});
    evaluate_ = session_.callable({graph_.eval_images, graph_.eval_labels}, {graph_.eval_loss_sum, graph_.eval_correct});
  }

  Trained run() {
    initialize();
    const auto batch = static_cast<std::uint64_t>(plan_.options.batch);
    steps_per_epoch_ = static_cast<std::uint64_t>(plan_.data.train.size()) / (batch * static_cast<std::uint64_t>(slots_));
    for (std::uint32_t epoch = 0; epoch < static_cast<std::uint32_t>(plan_.options.epochs); ++epoch) run_epoch(epoch);
    Trained out;
    for (const VariableRef& v : graph_.trainable) out.parameters[v.name] = session_.run(v.read());
    out.result = {true,  figures_.test_accuracy, step_number_, seconds_,
                  seconds_ > 0 ? static_cast<double>(images_) / seconds_ : 0, params_sha256(out.parameters)};
    if (graph_.loss_scale) {
      out.result.skipped_steps = static_cast<std::uint64_t>(session_.run(graph_.loss_scale->skipped).item<std::int64_t>());
      out.result.loss_scale = session_.run(graph_.loss_scale->scale).item<float>();
    }
    return out;
  }

 private:
  static std::vector<std::string> devices(Task& task) {
    std::vector<std::string> out;
    for (const DeviceInfo& d : task.devices())
      if (d.name.task_name() == task.name()) out.push_back(d.name.to_string());
    return out.size() > 1 ? out : std::vector<std::string>();
  }

  // Random initial values are drawn as a shard draws them: in step 0, slot 0.
  void initialize() {
    Feeds feeds;
    for (const VariableRef& v : graph_.trainable)
      if (const auto it = plan_.start.find(v.name); it != plan_.start.end()) feeds.emplace_back(v.initial_value, it->second);
    session_.run(feeds, std::vector<Output>{}, {graph_.initializer}, {.random_step = 0});
  }

  void run_epoch(std::uint32_t epoch) {
    const auto begin = Clock::now();
    double loss = 0;
    std::int64_t correct = 0;
    // While steps run, the batches of the next ones are gathered and wait for the device. Whenever half of them are done
    // the other half is started: waking this thread costs the device as much as a small kernel.
    const std::size_t most_in_flight = step_.in_order() ? kStepsInFlight : 1;
    std::deque<std::future<std::vector<Tensor>>> in_flight;
    for (std::uint64_t done = 0, started = 0; done < steps_per_epoch_; ++done) {
      check_stop(plan_.options);
      if (in_flight.size() <= most_in_flight / 2) {
        for (; started < steps_per_epoch_ && in_flight.size() < most_in_flight; ++started)
          in_flight.push_back(start_step(epoch, started));
        in_flight[(in_flight.size() - 1) / 2].wait();
      }
      const auto figures = in_flight.front().get();
      in_flight.pop_front();
      loss += figures[0].item<float>();
      correct += figures[1].item<std::int64_t>();
      if (plan_.options.on_progress) plan_.options.on_progress(epoch, done + 1, steps_per_epoch_);
    }
    const double seconds = seconds_since(begin);
    const auto images = static_cast<double>(steps_per_epoch_) * plan_.options.batch * slots_;
    seconds_ += seconds;
    images_ += static_cast<std::uint64_t>(images);
    figures_ = EpochDone{.epoch = epoch,
                         .loss = loss / images,
                         .train_accuracy = static_cast<double>(correct) / images,
                         .test_accuracy = evaluate(),
                         .images_per_second = images / seconds,
                         .steps = step_number_,
                         .seconds = seconds_};
    if (plan_.options.on_epoch) plan_.options.on_epoch(figures_);
  }

  std::future<std::vector<Tensor>> start_step(std::uint32_t epoch, std::uint64_t t) {
    const auto b = static_cast<std::uint64_t>(plan_.options.batch);
    std::vector<Tensor> feeds(2 * static_cast<std::size_t>(slots_));
    for (std::size_t s = 0; s < static_cast<std::size_t>(slots_); ++s) {
      const std::uint64_t first = (t * static_cast<std::uint64_t>(slots_) + s) * b;
      const Batch& batch = batches_.get(epoch, first, first + b);
      feeds[s] = batch.images;
      feeds[static_cast<std::size_t>(slots_) + s] = batch.labels;
    }
    return step_.async(std::move(feeds), {.random_step = static_cast<std::int64_t>(step_number_++)});
  }

  double evaluate() {
    std::int64_t correct = 0;
    const std::int64_t n = plan_.data.test.size();
    for (std::int64_t begin = 0; begin < n; begin += kEvaluationChunk) {
      check_stop(plan_.options);
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
  Batch test_batch_;
  Callable step_;
  Callable evaluate_;
  std::uint64_t steps_per_epoch_ = 0;
  std::uint64_t step_number_ = 0;
  std::uint64_t images_ = 0;
  double seconds_ = 0;
  EpochDone figures_;
};

}  // namespace

Trained train_locally(const TrainingPlan& plan) {
  check_training(plan, std::max(1, plan.options.slots));
  return LocalTrainer(plan).run();
}

void check_training(const TrainingPlan& plan, int slots) {
  const TrainingOptions& o = plan.options;
  if (o.epochs < 1) invalid_argument("training needs at least one epoch, not {}", o.epochs);
  if (o.batch < 1) invalid_argument("a batch has at least one example, not {}", o.batch);
  if (o.micro_batches < 1 || o.micro_batches > 1024) invalid_argument("a batch is computed in 1 to 1024 parts, not in {}", o.micro_batches);
  if (o.batch % o.micro_batches != 0) invalid_argument("a batch of {} examples has no {} equal parts", o.batch, o.micro_batches);
  if (o.slots < 0) invalid_argument("a step has 1 to 1024 slots (0: the mode's default), not {}", o.slots);
  const bool steps_of_slots = o.mode == JobMode::sync || o.mode == JobMode::ssp;
  if (o.backups < 0 || o.backups > 1024 || (o.backups > 0 && !steps_of_slots))
    invalid_argument("a step of modes sync and ssp has 0 to 1024 backup slots, others none: not {}", o.backups);
  if (o.staleness < 0 || o.staleness > 1024 || (o.staleness > 0 && o.mode != JobMode::ssp))
    invalid_argument("mode ssp has a staleness of 0 to 1024, others none: not {}", o.staleness);
  if (o.step_timeout.count() < 0) invalid_argument("the step timeout is 0 (none) or more");
  if (slots < 1 || slots > 1024) invalid_argument("a step has 1 to 1024 slots, not {}", slots);
  if (plan.data.train.size() < static_cast<std::int64_t>(o.batch) * (slots + o.backups))
    invalid_argument("one step needs {} x {} examples; the training set has {}", slots + o.backups, o.batch, plan.data.train.size());
}

void check_stop(const TrainingOptions& options) {
  if (options.stop && options.stop->load(std::memory_order_relaxed)) fail(Code::cancelled, "training was stopped");
}

}  // namespace troupe
