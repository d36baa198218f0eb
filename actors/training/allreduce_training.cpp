// Training by all-reduce: a cluster of workers only, each with all variables.
#include <caf/send.hpp>
#include <chrono>
#include <future>

#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/session/group.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/callback.hpp>
#include <troupe/actors/training/hook.hpp>
#include <troupe/actors/training/job_settings.hpp>
#include <troupe/actors/training/parameter_hash.hpp>
#include <troupe/actors/training/session_checkpoints.hpp>
#include <troupe/actors/training/training_curves.hpp>
#include <troupe/actors/training/training_feed.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/graph/fingerprint.hpp>
#include <troupe/scheduler/training/epoch_figures.hpp>

namespace troupe {
namespace {

constexpr std::size_t kBatchesAhead = 2;
constexpr std::size_t kMostUnshared = 8192;  // values of figures that a rank collects before ranks exchange them

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
        graph_(build_training_graph(plan, {.all_reduce = true})),
        session_(plan.task, *graph_.graph, {.seed = plan.options.seed, .on_placement = plan.options.on_placement}),
        group_(plan.task, "training", std::move(workers),
               {.timeout = step_timeout(), .stop = saves() ? &given_up_ : plan.options.stop}),
        feed_(feed_of_worker(plan, group_.ranks(), kBatchesAhead)),
        figures_(static_cast<std::uint32_t>(plan.options.epochs),
                 steps_per_epoch(plan.train, training_batches(plan, group_.ranks(), 1)),
                 control_of(plan.options.callbacks, graph_.results)),
        settings_(job_settings(plan, group_.ranks(), 0, group_.ranks(), 0)),
        checkpoints_(plan, graph_, session_, settings_, group_.ranks(), figures_.steps_per_epoch(), group_.rank() == 0),
        hooks_(plan.options.hooks, [this](const std::string& name) { return output_named(*graph_.graph, name); }) {
    Outputs feeds = graph_.batches[0];
    if (graph_.rate_scale.valid()) feeds.push_back(graph_.rate_scale);
    for (const TrainingPhase& phase : graph_.phases) {
      Outputs of_phase = feeds, fetches = {phase.figures[0]};
      if (phases_.empty()) {
        of_phase.insert(of_phase.end(), hooks_.feeds().begin(), hooks_.feeds().end());
        fetches.insert(fetches.end(), hooks_.fetches().begin(), hooks_.fetches().end());
        first_feeds_ = of_phase;
      }
      phases_.push_back(session_.callable(of_phase, fetches, {phase.train}));
    }
    if (plan.evaluation) evaluate_ = session_.callable(graph_.eval_batch, {graph_.eval_figures});
    if (feed_.actor()) caf::anon_send(plan.task.handles().node, JobRoutes{{}, {}, {}, 0, {}, feed_.actor()});
  }
  ~RankTrainer() {
    if (feed_.actor()) caf::anon_send(plan_.task.handles().node, JobRoutes{});
  }
  RankTrainer(const RankTrainer&) = delete;
  RankTrainer& operator=(const RankTrainer&) = delete;

  TrainingResult run() {
    record_.begin(std::string(AllReduceMode::kName), static_cast<std::uint64_t>(plan_.options.epochs));
    const ReadableState readable(plan_.state, [this] { return checkpoints_.read_parameters(); });
    try {
      TrainingResult out = train();
      hooks_.end();
      record_.end();
      return out;
    } catch (...) {
      const Error error = current_error();
      hooks_.error(error);
      record_.end();
      feed_.close(0, 0, error);
      group_.fail(error);  // tells ranks that wait for this one; no effect if the group has already failed
      if (error.code() == Code::cancelled && trained_) leave();
      throw;
    }
  }

 private:
  TrainingResult train() {
    curves_.emplace(plan_, graph_, group_.rank() == 0);  // here, where other ranks learn of a failure
    if (const Outputs summaries = curves_->summary_outputs(); group_.rank() == 0 && !summaries.empty())
      summaries_ = session_.callable(first_feeds_, summaries);
    initialize();
    trained_ = true;
    hooks_.begin(*graph_.graph);
    while (!figures_.over()) {
      run_epoch();
      if (figures_.last().decision.keep) kept_ = checkpoints_.read_parameters();
      figures_.next_epoch();
      if (group_.rank() != 0) continue;
      if (plan_.options.on_epoch) plan_.options.on_epoch(logs_);
      epoch_end(plan_.options.callbacks, logs_);
    }
    leave();
    plan_.state.draws = draws_on_demand(*graph_.graph, plan_.options.seed);
    plan_.state.on_shards.clear();
    TrainingResult out{.chief = group_.rank() == 0,
                       .figures = logs_.figures,
                       .steps = figures_.at().step,
                       .seconds = figures_.seconds(),
                       .examples_per_second = figures_.examples_per_second(),
                       .params_sha256 = params_sha256(plan_.state.parameters, plan_.state.draws)};
    if (graph_.loss_scale) {
      out.skipped_steps = static_cast<std::uint64_t>(session_.run(graph_.loss_scale->skipped).item<std::int64_t>());
      out.loss_scale = session_.run(graph_.loss_scale->scale).item<float>();
    }
    record_.does(TrainingRecord::Doing::waiting_in_barrier);
    group_.barrier(fmt::format("the end, with parameters {}", out.params_sha256));
    feed_.close(figures_.at().step, figures_.at().epoch);
    checkpoints_.wait();  // only rank 0 writes
    curves_->wait();
    return out;
  }

  // A stopped rank may have stopped others in the middle of a step: the point to resume from is unknown.
  void leave() {
    plan_.state.parameters = figures_.decisions().has_kept() ? kept_ : checkpoints_.read_parameters();
    plan_.state.ended.reset();
    if (!figures_.over()) return;
    plan_.state.ended = {.at = figures_.at(), .variables = checkpoints_.read_all(), .shard = nullptr};
    plan_.state.ended->at.history.clear();  // the next training decides anew
  }

  // Gives all ranks the same values: each draws them as a single process would, or receives them from rank 0, and all
  // compare.
  void initialize() {
    auto [at, values, kept] = checkpoints_.start();  // only rank 0 reads checkpoints
    kept_ = std::move(kept);
    share_start(std::move(at), values);
    const std::uint64_t step = figures_.at().step;
    const std::string exchange = group_.join_devices();
    if (group_.rank() == 0 && !exchange.empty() && plan_.options.on_event)
      plan_.options.on_event({.kind = "exchange", .task = {}, .step = step, .text = exchange, .counts = {}});
    checkpoints_.begin_at(step);
    session_.run(checkpoints_.feeds_of(values), std::vector<Output>{}, {graph_.initializer}, {.random_step = 0});
    std::string settings = settings_ + library_settings(*graph_.graph);
    std::ranges::replace(settings, '\n', ' ');
    group_.barrier(
        fmt::format("training with {} checkpoint_every={} graph={:x} step={} parameters={}", settings,
                    plan_.options.checkpoint.empty() ? "never" : fmt::format("{}", plan_.options.checkpoint_every),
                    fingerprint(*graph_.graph), step, params_sha256(checkpoints_.read_parameters())));
  }

  // Sends the others rank 0's starting point and values.
  void share_start(JobState at, std::map<std::string, Tensor>& values) {
    const std::string text = at.to_string();
    const Tensor length =
        group_.broadcast(Tensor::scalar(static_cast<std::int64_t>(text.size())), 0, "the size of the job's state");
    Tensor state(DType::u8, Shape{length.item<std::int64_t>()});
    if (group_.rank() == 0) std::ranges::copy(text, state.mutable_data<std::uint8_t>());
    const Tensor told = group_.broadcast(state, 0, "where the job begins");
    const auto bytes = told.values<std::uint8_t>();
    figures_.go_on_from(JobState::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    feed_.go_on_from(figures_.at().place);
    if (figures_.at().step == 0) return;
    for (const VariableInfo& v : checkpoints_.variables()) {
      Tensor& value = values[v.name];
      if (group_.rank() != 0) value = Tensor(v.dtype, v.shape);
      value = group_.broadcast(value, 0, v.name);
    }
    if (!figures_.decisions().has_kept()) return;
    for (const VariableRef& v : graph_.parameters) {
      Tensor& value = kept_[v.name];
      if (group_.rank() != 0) value = Tensor(v.dtype, v.shape);
      value = group_.broadcast(value, 0, v.name + ", kept");
    }
  }

  // Runs the rest of the current epoch.
  void run_epoch() {
    figures_.begin(steady_now_ns());
    own_sums_.clear();
    const JobState& at = figures_.at();
    auto next = batch(at.step);
    record_.set_epoch(at.epoch + 1, figures_.all_steps());
    while (next) {
      record_.does(TrainingRecord::Doing::computing, at.step, group_.rank());
      const std::int64_t began = steady_now_ns();
      const Batch now = std::move(*next);
      std::vector<Tensor> figures;
      for (std::uint32_t phase = 0; phase < phases_.size(); ++phase) {
        auto running = start(phase, now);
        if (phase == 0) next = batch(at.step + 1);  // while the step runs
        std::vector<Tensor> fetched = finish(std::move(running));
        if (phase == 0) hooks_.after_step({at.epoch, at.step, group_.rank()}, fetched);
        figures.push_back(fetched[0]);
      }
      ++operations_;
      step_done(figures, static_cast<std::uint64_t>(now.examples), began);
      if (checkpoints_.due(at.step)) save();
      if (stopping_) end_stopped();
      if (plan_.options.on_progress)
        plan_.options.on_progress({.epoch = at.epoch,
                                   .step = figures_.complete(),
                                   .steps = figures_.steps_per_epoch(),
                                   .chief = group_.rank() == 0,
                                   .sums = own_sums_,
                                   .results = graph_.results});
    }
    if (figures_.complete() == 0)
      invalid_argument("the training data has no complete step in epoch {}: use a smaller batch", at.epoch);
    share_figures();
    report();
    if (figures_.ends()) checkpoints_.save_last(at, kept_);
  }

  // `figures`: of this rank's slot, by phase.
  void step_done(const std::vector<Tensor>& figures, std::uint64_t examples, std::int64_t began) {
    const std::uint64_t step = figures_.at().step;
    const NamedSums first = graph_.phases.front().layout.unpack(figures.front());
    if (plan_.options.on_progress) {
      add(own_sums_, first);
      for (std::size_t phase = 1; phase < figures.size(); ++phase)
        add(own_sums_, graph_.phases[phase].layout.unpack(figures[phase]));
    }
    const double loss = mean_loss(first);
    curves_->step_done(step, loss, examples);
    record_.computed(step, group_.rank(), began, loss, examples);
    unshared_.push_back(static_cast<double>(examples));
    for (const Tensor& of_phase : figures) {
      const auto values = of_phase.values<double>();
      unshared_.insert(unshared_.end(), values.begin(), values.end());
    }
    figures_.step_done(steady_now_ns());
    ++unshared_steps_;
    if (unshared_.size() >= kMostUnshared || (saves() && unshared_steps_ >= share_every_)) share_figures();
  }

  // Gives every rank the figures of all slots since the last call, added up in the order of steps, phases and slots.
  // Ranks also learn here, after the same step, whether one of them is to stop.
  void share_figures() {
    if (unshared_.empty()) return;
    const std::int64_t now = steady_now_ns();
    unshared_.push_back(static_cast<double>(now - std::exchange(shared_ns_, now)));
    unshared_.push_back(stop_of(plan_) ? 1 : 0);
    const auto size = static_cast<std::int64_t>(unshared_.size()) - 2;
    const std::vector<Tensor> all =
        group_.all_gather(Tensor::of<double>(Shape{size + 2}, std::span<const double>(unshared_)),
                          fmt::format("figures up to step {}", figures_.at().step));
    for (std::int64_t at = 0; at < size;) {
      std::uint64_t examples = 0;
      for (const Tensor& rank : all) examples += static_cast<std::uint64_t>(rank.data<double>()[at]);
      ++at;
      for (const TrainingPhase& phase : graph_.phases) {
        const std::int64_t count = phase.figures[0].shape().num_elements();
        for (const Tensor& rank : all) figures_.add_figures(phase.layout.unpack(rank.rows(at, at + count)));
        at += count;
      }
      figures_.add_examples(examples);
    }
    unshared_.clear();
    double longest = 1;
    for (const Tensor& rank : all) {
      longest = std::max(longest, rank.data<double>()[size]);
      stopping_ = stopping_ || (saves() && rank.data<double>()[size + 1] != 0);
    }
    // About once a second, and after the same step on all ranks.
    share_every_ =
        1 + static_cast<std::uint64_t>(1e9 * static_cast<double>(std::exchange(unshared_steps_, 0)) / longest);
  }

  std::chrono::nanoseconds step_timeout() const { return std::get<AllReduceMode>(plan_.options.mode).step_timeout; }
  bool saves() const { return !plan_.options.checkpoint.empty(); }

  // With checkpoints a stop waits until all ranks know of it.
  void check_stop_here() {
    if (const Error failed = plan_.task.failure()) throw failed;
    try {
      stop_.check(plan_);
    } catch (const Error&) {
      given_up_ = true;
      throw;
    }
  }

  [[noreturn]] void end_stopped() {
    checkpoints_.save_stopped(figures_.at(), kept_);
    group_.barrier("the end of a stopped job");
    check_stop(plan_);
    fail(Code::cancelled, "another rank was stopped; the job has saved step {} and ended", figures_.at().step);
  }

  // All ranks have the same variables and figures, so rank 0 writes them.
  void save() {
    share_figures();
    checkpoints_.read(figures_.at().step, true);
    checkpoints_.save(figures_.at(), kept_);
  }

  // This rank's batch of a step of the current epoch.
  std::optional<Batch> batch(std::uint64_t step) {
    const TraceSlice traced(plan_.task.actors().trace(), TraceKind::work, "batch");
    const JobState& at = figures_.at();
    const BatchName complete = training_batch(at.epoch, at.step - at.epoch_step, 0);
    feed_.want(training_batch(at.epoch, step - at.epoch_step + 1, group_.rank()), complete);  // is made meanwhile
    MadeBatch made = feed_.take(training_batch(at.epoch, step - at.epoch_step, group_.rank()), [&] {
      record_.does(TrainingRecord::Doing::waiting_for_data, step, group_.rank());
      check_stop_here();
    });
    figures_.add_place({at.epoch, step - at.epoch_step, made.batch.position});
    return made.over ? std::nullopt : std::optional(std::move(made.batch));
  }

  struct Running {
    StepId step;
    std::future<StepResult> result;
  };
  Running start(std::uint32_t phase, const Batch& batch) {
    check_stop_here();
    auto promise = std::make_shared<std::promise<StepResult>>();
    Running out{{}, promise->get_future()};
    // The group reports a missing rank long before this deadline.
    const RunOptions options{.timeout = 2 * step_timeout(),
                             .random_step = static_cast<std::int64_t>(figures_.at().step),
                             .random_slot = group_.rank(),
                             .training = {.worker = group_.rank(),
                                          .step = operations_,
                                          .phase = phase,
                                          .group = group_.id(),
                                          .group_device = group_.device(),
                                          .number = figures_.at().step}};
    std::vector<Tensor> feeds = batch.components;
    if (graph_.rate_scale.valid()) feeds.push_back(Tensor::scalar(figures_.decisions().last().rate_scale));
    if (phase == 0) hooks_.before_step({figures_.at().epoch, figures_.at().step, group_.rank()}, feeds);
    if (phase == 0 && summaries_ && curves_->takes_summaries(figures_.at().step))
      curves_->summaries(figures_.at().step, (*summaries_)(feeds, options));
    out.step =
        phases_[phase].start(std::move(feeds), options, [promise](StepResult r) { promise->set_value(std::move(r)); });
    return out;
  }
  std::vector<Tensor> finish(Running running) {
    while (running.result.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) {
      try {
        check_stop_here();
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

  void report() {
    record_.does(TrainingRecord::Doing::evaluating);
    logs_ = logs_of(figures_.end(evaluate()), graph_.results);
    record_.set_metrics({logs_.figures.begin(), logs_.figures.end()});
    curves_->epoch_done(logs_);
    if (curves_->on()) curves_->parameters(logs_.steps, checkpoints_.read_parameters());
  }

  // Each rank evaluates every n-th batch; all add them up in order.
  NamedSums evaluate() {
    NamedSums sums;
    if (!plan_.evaluation) return sums;
    const std::int64_t count = graph_.eval_figures.shape().num_elements();
    for (std::uint64_t first = 0;; first += group_.ranks()) {
      check_stop_here();
      feed_.want(evaluation_batch(first + group_.ranks() + group_.rank()), {});
      const MadeBatch made = feed_.take(evaluation_batch(first + group_.rank()), [this] { check_stop_here(); });
      std::vector<double> own(static_cast<std::size_t>(count) + 1, 0.0);  // whether there is one, and its figures
      if (!made.over) {
        own[0] = 1;
        std::ranges::copy(evaluate_(made.batch.components)[0].values<double>(), own.begin() + 1);
      }
      const std::vector<Tensor> all =
          group_.all_gather(Tensor::of<double>(Shape{count + 1}, std::span<const double>(own)),
                            fmt::format("evaluation from batch {}", first));
      for (const Tensor& rank : all) {
        if (rank.data<double>()[0] == 0) return sums;
        add(sums, graph_.eval_layout.unpack(rank.rows(1, count + 1)));
      }
    }
  }

  const TrainingPlan& plan_;
  TrainingGraph graph_;
  Session session_;
  std::atomic<bool> given_up_{false};  // the stop took too long
  CollectiveGroup group_;
  BatchFeed feed_;
  EpochFigures figures_;  // of all slots, but for those in unshared_
  EpochLogs logs_;
  NamedSums own_sums_;            // of this rank's slots of the epoch, for on_progress
  std::vector<double> unshared_;  // of this rank's slots: examples and figures, step by step
  std::uint64_t unshared_steps_ = 0, share_every_ = 1;
  std::int64_t shared_ns_ = steady_now_ns();
  UserStop stop_{plan_.options};
  bool stopping_ = false;  // a rank is to stop, and all know
  const std::string settings_;
  SessionCheckpoints checkpoints_;
  HookRun hooks_;
  std::optional<TrainingCurves> curves_;
  TrainingRecord& record_ = plan_.task.introspection().training();
  std::vector<Callable> phases_;
  Outputs first_feeds_;                // of the first phase
  std::optional<Callable> summaries_;  // with these
  Callable evaluate_;
  Parameters kept_;               // EpochDecision::keep
  bool trained_ = false;          // parameters exist
  std::uint64_t operations_ = 0;  // steps started, which number them in the group's channels
};

}  // namespace

TrainingResult train_by_all_reduce(const TrainingPlan& plan) {
  if (plan.task.name().job == kInputJob) {
    const int ranks = plan.task.cluster().count("worker");
    check_training(plan, ranks);
    return serve_inputs(plan, static_cast<std::uint32_t>(ranks));
  }
  std::vector<TaskName> workers = members(plan.task);
  const TaskName& self = plan.task.name();
  if (std::ranges::find(workers, self) == workers.end())
    fail(Code::failed_precondition, "mode allreduce trains on the workers of a cluster, but {} is not a worker",
         self.to_string());
  const auto ranks = static_cast<int>(workers.size());
  check_training(plan, ranks);
  return RankTrainer(plan, std::move(workers)).run();
}

}  // namespace troupe
