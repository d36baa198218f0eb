// Training in one process: all slots of a step as towers of one graph.
#include <chrono>
#include <deque>
#include <future>
#include <optional>

#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/callback.hpp>
#include <troupe/actors/training/hook.hpp>
#include <troupe/actors/training/job_settings.hpp>
#include <troupe/actors/training/parameter_hash.hpp>
#include <troupe/actors/training/session_checkpoints.hpp>
#include <troupe/actors/training/training_curves.hpp>
#include <troupe/actors/training/training_feed.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/scheduler/training/epoch_figures.hpp>

namespace troupe {
namespace {

// Steps that are started before earlier ones end: more of those that are short.
constexpr std::size_t kStepsInFlight = 4, kShortStepsInFlight = 8;
constexpr std::int64_t kShortNs = 10'000'000;

class LocalTrainer {
 public:
  explicit LocalTrainer(const TrainingPlan& plan)
      : plan_(plan),
        slots_(static_cast<std::uint32_t>(std::get<LocalMode>(plan.options.mode).slots)),
        graph_(build_training_graph(plan, {.slots = static_cast<int>(slots_), .devices = devices(plan.task)})),
        session_(plan.task, *graph_.graph, {.seed = plan.options.seed, .on_placement = plan.options.on_placement}),
        feed_(feed_of_worker(plan, slots_, kShortStepsInFlight * slots_)),
        figures_(static_cast<std::uint32_t>(plan.options.epochs),
                 steps_per_epoch(plan.train, training_batches(plan, slots_, 1)),
                 control_of(plan.options.callbacks, graph_.results)),
        checkpoints_(plan, graph_, session_, job_settings(plan, slots_, 0, 0, 0), slots_, figures_.steps_per_epoch(),
                     true),
        curves_(plan, graph_, true),
        hooks_(plan.options.hooks, [this](const std::string& name) { return output_named(*graph_.graph, name); }) {
    Outputs feeds;
    for (const Outputs& batch : graph_.batches) feeds.insert(feeds.end(), batch.begin(), batch.end());
    if (graph_.rate_scale.valid()) feeds.push_back(graph_.rate_scale);
    for (const TrainingPhase& phase : graph_.phases) {
      Outputs of_phase = feeds, fetches = phase.figures;
      if (phases_.empty()) {
        of_phase.insert(of_phase.end(), hooks_.feeds().begin(), hooks_.feeds().end());
        fetches.insert(fetches.end(), hooks_.fetches().begin(), hooks_.fetches().end());
      }
      if (const Outputs summaries = curves_.summary_outputs(); phases_.empty() && !summaries.empty())
        summaries_ = session_.callable(of_phase, summaries);
      phases_.push_back(session_.callable(of_phase, fetches, {phase.train}));
    }
    if (plan.evaluation) evaluate_ = session_.callable(graph_.eval_batch, {graph_.eval_figures});
  }

  TrainingResult run() {
    record_.begin(std::string(LocalMode::kName), static_cast<std::uint64_t>(plan_.options.epochs));
    const ReadableState readable(plan_.state, [this] { return checkpoints_.read_parameters(); });
    try {
      train();
      hooks_.end();
    } catch (const Error& error) {
      hooks_.error(error);
      if (error.code() == Code::cancelled) {
        leave();
        checkpoints_.save_stopped(figures_.at(), kept_);
      }
      throw;
    }
    record_.does(TrainingRecord::Doing::saving);
    checkpoints_.wait();
    curves_.wait();
    record_.end();
    leave();
    plan_.state.draws = draws_on_demand(*graph_.graph, plan_.options.seed);
    plan_.state.on_shards.clear();
    TrainingResult out{.chief = true,
                       .figures = logs_.figures,
                       .steps = figures_.at().step,
                       .seconds = figures_.seconds(),
                       .examples_per_second = figures_.examples_per_second(),
                       .params_sha256 = params_sha256(plan_.state.parameters, plan_.state.draws)};
    if (graph_.loss_scale) {
      out.skipped_steps = static_cast<std::uint64_t>(session_.run(graph_.loss_scale->skipped).item<std::int64_t>());
      out.loss_scale = session_.run(graph_.loss_scale->scale).item<float>();
    }
    return out;
  }

 private:
  void train() {
    initialize();
    hooks_.begin(*graph_.graph);
    while (!figures_.over()) {
      run_epoch();
      if (figures_.last().decision.keep) kept_ = checkpoints_.read_parameters();
      figures_.next_epoch();
      if (plan_.options.on_epoch) plan_.options.on_epoch(logs_);
      epoch_end(plan_.options.callbacks, logs_);
    }
  }
  // Call it while no step is running.
  void leave() {
    plan_.state.parameters = figures_.decisions().has_kept() ? kept_ : checkpoints_.read_parameters();
    plan_.state.ended = {.at = figures_.at(), .variables = checkpoints_.read_all(), .shard = nullptr};
    plan_.state.ended->at.history.clear();  // the next training decides anew
  }

  static std::vector<std::string> devices(Task& task) {
    std::vector<std::string> out = default_devices(task.devices(), task.name());
    return out.size() > 1 ? out : std::vector<std::string>();
  }

  // Draws random initial values as a shard does: in step 0, slot 0.
  void initialize() {
    auto [at, values, kept] = checkpoints_.start();
    kept_ = std::move(kept);
    figures_.go_on_from(std::move(at));
    feed_.go_on_from(figures_.at().place);
    checkpoints_.begin_at(figures_.at().step);
    session_.run(checkpoints_.feeds_of(values), std::vector<Output>{}, {graph_.initializer}, {.random_step = 0});
  }

  // A step that has started: its phases run one after the other.
  struct Started {
    std::int64_t at_ns = 0;
    HookStep at;
    std::uint64_t examples = 0;
    std::future<std::vector<Tensor>> summaries{};  // if this step takes them
    std::vector<std::future<std::vector<Tensor>>> phases;
  };

  // New steps start when half of those in flight are done: waking this thread costs the device 10 to 25 us.
  std::size_t steps_in_flight() const {
    if (!in_order() || hooks_.any()) return 1;
    const auto done = static_cast<std::int64_t>(figures_.complete());
    return done > 0 && figures_.at().epoch_ns < done * kShortNs ? kShortStepsInFlight : kStepsInFlight;
  }

  // Runs the rest of the current epoch.
  void run_epoch() {
    figures_.begin(steady_now_ns());
    const JobState& at = figures_.at();
    std::deque<Started> in_flight;
    record_.set_epoch(at.epoch + 1, figures_.all_steps());
    Error stop;
    bool all_started = false;
    for (std::uint64_t next = at.step; !all_started || !in_flight.empty();) {
      if (!stop) stop = stop_of(plan_);
      if (stop && in_flight.empty()) throw stop;
      const std::size_t most_in_flight = steps_in_flight();
      if (!stop && !all_started && in_flight.size() <= most_in_flight / 2) {
        while (in_flight.size() < most_in_flight) {
          auto started = start_step(next);
          if (!started) {
            all_started = true;
            break;
          }
          in_flight.push_back(std::move(*started));
          ++next;
          if (!checkpoints_.due(next)) continue;
          if (!in_order()) in_flight.back().phases.back().wait();
          checkpoints_.read(next, !in_order());
        }
        if (in_flight.empty()) break;
        record_.does(TrainingRecord::Doing::computing, at.step);
        in_flight[(in_flight.size() - 1) / 2].phases.back().wait();
      }
      end_step(in_flight.front());
      in_flight.pop_front();
      checkpoints_.save(at, kept_);
      if (plan_.options.on_progress)
        plan_.options.on_progress({.epoch = at.epoch,
                                   .step = figures_.complete(),
                                   .steps = figures_.steps_per_epoch(),
                                   .chief = true,
                                   .sums = at.sums,
                                   .results = graph_.results});
    }
    if (figures_.complete() == 0)
      invalid_argument("the training data has no complete step in epoch {}: use a smaller batch", at.epoch);
    report();
    if (figures_.ends()) checkpoints_.save_last(at, kept_);
  }

  bool in_order() const {
    return std::ranges::all_of(phases_, [](const Callable& phase) { return phase.in_order(); }) &&
           (!summaries_ || summaries_->in_order());
  }

  // Of the current epoch; nullopt: it has no such step.
  std::optional<Batch> batch(std::uint64_t step, std::uint32_t slot) {
    const TraceSlice traced(plan_.task.actors().trace(), TraceKind::work, "batch");
    const JobState& at = figures_.at();
    const BatchName complete = training_batch(at.epoch, at.step - at.epoch_step, 0);
    feed_.want(training_batch(at.epoch, step - at.epoch_step + 1, slot), complete);  // is made meanwhile
    MadeBatch made = feed_.take(training_batch(at.epoch, step - at.epoch_step, slot), [&] {
      record_.does(TrainingRecord::Doing::waiting_for_data, step, slot);
      check_stop(plan_);
    });
    figures_.add_place({at.epoch, step - at.epoch_step, made.batch.position});
    return made.over ? std::nullopt : std::optional(std::move(made.batch));
  }

  // nullopt: the epoch has no such step.
  std::optional<Started> start_step(std::uint64_t step) {
    Started started{.at_ns = steady_now_ns(), .at = {figures_.at().epoch, step, 0}, .examples = 0, .phases = {}};
    std::vector<Tensor> feeds;
    for (std::uint32_t slot = 0; slot < slots_; ++slot) {
      const auto data = batch(step, slot);
      if (!data) return std::nullopt;
      feeds.insert(feeds.end(), data->components.begin(), data->components.end());
      started.examples += static_cast<std::uint64_t>(data->examples);
    }
    if (graph_.rate_scale.valid()) feeds.push_back(Tensor::scalar(figures_.decisions().last().rate_scale));
    for (const Callable& phase : phases_) {
      if (!started.phases.empty() && !in_order()) started.phases.back().wait();
      std::vector<Tensor> of_phase = feeds;
      const RunOptions options{.random_step = static_cast<std::int64_t>(step), .training = {.number = step}};
      if (started.phases.empty()) {
        hooks_.before_step(started.at, of_phase);
        if (summaries_ && curves_.takes_summaries(step)) {
          started.summaries = summaries_->async(of_phase, options);
          if (!in_order()) started.summaries.wait();
        }
      }
      started.phases.push_back(phase.async(std::move(of_phase), options));
    }
    return started;
  }

  void end_step(Started& step) {
    NamedSums sums;
    for (std::size_t phase = 0; phase < phases_.size(); ++phase) {
      std::vector<Tensor> fetched = step.phases[phase].get();
      if (phase == 0) hooks_.after_step(step.at, fetched);
      for (const Tensor& figures : fetched) {
        const NamedSums of_slot = graph_.phases[phase].layout.unpack(figures);
        figures_.add_figures(of_slot);
        add(sums, of_slot);
      }
    }
    const std::uint64_t number = figures_.at().step;
    if (step.summaries.valid()) curves_.summaries(number, step.summaries.get());
    const double loss = mean_loss(sums);
    record_.computed(number, 0, step.at_ns, loss, step.examples);
    curves_.step_done(number, loss, step.examples);
    figures_.step_done(step.examples, steady_now_ns());
  }

  void report() {
    const EpochDone epoch = figures_.end(evaluate());
    logs_ = logs_of(epoch, graph_.results);
    record_.set_metrics({logs_.figures.begin(), logs_.figures.end()});
    curves_.epoch_done(logs_);
    if (curves_.on()) curves_.parameters(epoch.steps, checkpoints_.read_parameters());
  }

  NamedSums evaluate() {
    NamedSums sums;
    if (!plan_.evaluation) return sums;
    record_.does(TrainingRecord::Doing::evaluating);
    for (std::uint64_t step = 0;; ++step) {
      check_stop(plan_);
      feed_.want(evaluation_batch(step + 1), {});
      const MadeBatch made = feed_.take(evaluation_batch(step), [this] { check_stop(plan_); });
      if (made.over) return sums;
      add(sums, graph_.eval_layout.unpack(evaluate_(made.batch.components)[0]));
    }
  }

  const TrainingPlan& plan_;
  const std::uint32_t slots_;
  TrainingGraph graph_;
  Session session_;
  BatchFeed feed_;
  EpochFigures figures_;
  EpochLogs logs_;
  SessionCheckpoints checkpoints_;
  TrainingCurves curves_;
  HookRun hooks_;
  TrainingRecord& record_ = plan_.task.introspection().training();
  std::vector<Callable> phases_;
  std::optional<Callable> summaries_;  // with the feeds of the first phase
  Callable evaluate_;
  Parameters kept_;  // EpochDecision::keep
};

}  // namespace

TrainingResult train_locally(const TrainingPlan& plan) {
  check_training(plan, std::get<LocalMode>(plan.options.mode).slots);
  return LocalTrainer(plan).run();
}

}  // namespace troupe
