// A worker in one job: computes what the coordinator hands out. WorkerTokens decides what is computed when; the loop
// gathers batches, runs steps and reports to the user.
#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <deque>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/callback.hpp>
#include <troupe/actors/training/cluster_job.hpp>
#include <troupe/actors/training/hook.hpp>
#include <troupe/actors/training/training_curves.hpp>
#include <troupe/actors/training/training_feed.hpp>
#include <troupe/actors/training/worker_tables.hpp>
#include <troupe/messages/overloaded.hpp>
#include <troupe/scheduler/training/worker_tokens.hpp>

namespace troupe {
namespace {

class WorkerLoop {
 public:
  WorkerLoop(const TrainingPlan& plan, const ClusterJob& job, Attempt& attempt)
      : plan_(plan),
        job_(job),
        attempt_(attempt),
        index_(static_cast<std::uint32_t>(plan.task.name().index)),
        session_(plan.task, *job.sharded.graph,
                 {.seed = plan.options.seed, .shards = job.shard_names(), .on_placement = plan.options.on_placement}),
        tables_(plan, job, session_),
        curves_(plan, job.graph, index_ == 0),
        hooks_(plan.options.hooks, [&job](const std::string& name) { return output_named(*job.sharded.graph, name); }),
        mailbox_(std::make_shared<WorkerMailbox>(most_silence(job.servers), std::chrono::steady_clock::now,
                                                 plan.task.actors().why())),
        feed_(feed_of_worker(plan, job.slots + job.backups, kTokensAhead, [mailbox = mailbox_] { mailbox->wake(); })) {
    const TrainingGraph& g = job.graph;
    for (const TrainingPhase& phase : g.phases) {
      Outputs feeds = here(g.batches[0]), fetches = {here(phase.figures[0])};
      if (phases_.empty()) {
        feeds.insert(feeds.end(), hooks_.feeds().begin(), hooks_.feeds().end());
        fetches.insert(fetches.end(), hooks_.fetches().begin(), hooks_.fetches().end());
        if (const Outputs summaries = curves_.summary_outputs(); !summaries.empty())
          summaries_ = session_.callable(feeds, here(summaries));
      }
      phases_.push_back(session_.callable(feeds, fetches, {here(phase.train)}));
    }
    if (plan.evaluation) evaluate_ = session_.callable(here(g.eval_batch), {here(g.eval_figures)});
    Outputs reads;
    for (const VariableRef& v : g.parameters) {
      if (tables_.add(v)) continue;
      small_.push_back(v.name);
      reads.push_back(here(v.read()));
    }
    if (g.loss_scale) reads.insert(reads.end(), {here(g.loss_scale->skipped), here(g.loss_scale->scale)});
    if (!reads.empty()) read_all_ = session_.callable({}, reads);
    // Last: if the constructor threw later, nothing would stop the actor.
    actor_ = spawn_actor<ActorKind::worker, WorkerActorImpl>(plan.task.system(), plan.task.actors(),
                                                             plan.task.name().to_string(), mailbox_);
    caf::anon_send(plan.task.handles().node, Observe{caf::actor_cast<PeerObserver>(actor_)});
    caf::anon_send(plan.task.handles().node, routes());
  }
  ~WorkerLoop() {
    // Frames of a job that it may rejoin are kept until then.
    caf::anon_send(plan_.task.handles().node, JobRoutes{{}, {}, {}, attempt_.over ? 0 : attempt_.job, {}});
    caf::anon_send(actor_, Stop{});
  }

  TrainingResult run() {
    const ReadableState readable(plan_.state, [this] { return read_now(); });
    record_.begin(std::string(name(plan_.options.mode)), static_cast<std::uint64_t>(plan_.options.epochs));
    record_.does(TrainingRecord::Doing::joining);
    session_.run(frozen_values(), std::vector<Output>{}, {here(job_.graph.initializer)}, {.random_step = 0});
    const Join& join = join_;
    tell(join);
    try {
      const Joined joined = await_joined(plan_, attempt_, *mailbox_, join.incarnation, routes());
      number_ = joined.job;
      feed_.go_on_from(joined.place);
      view_ = joined.view;
      if (joined.step > 0 && plan_.options.on_event)
        plan_.options.on_event({.kind = "goes_on",
                                .task = plan_.task.name(),
                                .step = joined.step,
                                .text = fmt::format("the job resumes from step {}", joined.step),
                                .counts = {}});
      hooks_.begin(*job_.sharded.graph);
      TrainingResult out = work();
      hooks_.end();
      attempt_.over = true;
      record_.end();
      return out;
    } catch (...) {
      hooks_.error(current_error());
      keep_if_stopped(current_error());
      record_.end();
      feed_.close(0, 0, current_error());
      if (mailbox_->over() >= attempt_.job) attempt_.over = true;
      tell(leave_of(join, plan_.task));
      if (number_ == 0) await_left(*mailbox_, join.incarnation);
      for (const auto& step : running_) session_.cancel(step->id);
      throw;
    }
  }

 private:
  JobRoutes routes() const { return {{}, {}, actor_, attempt_.job, incarnation_, feed_.actor()}; }
  // Exceeds the coordinator's deadlines.
  static std::chrono::nanoseconds most_silence(const ParameterServers& servers) {
    return servers.step_timeout.count() > 0 ? servers.join_timeout + 2 * servers.step_timeout
                                            : std::chrono::nanoseconds(0);
  }
  // The corresponding output in the sharded graph, which keeps the names.
  Output here(const Output& output) const {
    Graph& graph = *job_.sharded.graph;
    return graph.output(graph.get(output.source().name), output.index);
  }
  Outputs here(const Outputs& outputs) const {
    Outputs out;
    for (const Output& output : outputs) out.push_back(here(output));
    return out;
  }
  // Variables that nothing updates are not on shards: each worker has them.
  Feeds frozen_values() const {
    Feeds out;
    for (const VariableInfo& v : variables(*job_.graph.graph)) {
      const bool frozen =
          std::ranges::any_of(job_.graph.frozen, [&](const VariableRef& f) { return f.name == v.name; });
      const auto given = plan_.state.parameters.find(v.name);
      if (!frozen || given == plan_.state.parameters.end() || v.initial_value.node < 0) continue;
      out.emplace_back(here(Output{job_.graph.graph.get(), v.initial_value.node, v.initial_value.index}),
                       given->second);
    }
    return out;
  }
  void tell(Frame frame) { caf::anon_send(actor_, Outbound{of_member(of_job(std::move(frame), number_), view_)}); }
  void tell(TrainingOutbox out) {
    for (Outgoing& message : out) tell(std::move(message.message));
  }

  // A started step; its result arrives on a thread of the runtime.
  struct Running {
    std::uint64_t work = 0;  // id in WorkerTokens; 0: none
    TokenDone report;
    std::int64_t began_ns = steady_now_ns();
    StepId id;
    enum class For { job, parameters_of_curves, summaries } what = For::job;
    std::atomic<bool> ended{false};
    StepResult result;
  };

  TrainingResult work() {
    tokens_.emplace(WorkerTokens::Options{
        .worker = index_, .mode = job_.mode, .phases = job_.phases(), .ahead = kTokensAhead, .view = view_});
    TrainingOutbox out;
    tokens_->begin(out);
    tell(std::move(out));
    for (;;) {
      while (!running_.empty() && running_.front()->ended.load(std::memory_order_acquire)) end_first();
      while (const auto work = tokens_->start()) awaiting_.push_back(*work);
      while (compute_next()) {
      }
      show();
      leave_if_stopped();
      if (const auto frame = mailbox_->take(kPollInterval)) take_in(*frame);
      if (tokens_->finishes()) return finish();  // all other tokens are reported or unused
    }
  }

  // Returns whether the barrier has opened.
  bool take_in(const WorkerFrame& frame) {
    bool open = false;
    std::visit(Overloaded{[](const Joined&) {},  // awaited before the first token
                          [&](const Token& token) {
                            tokens_->came(token);
                            if (token.kind != TokenKind::finish) feed_.want(batch_of(token), complete_before(token));
                          },
                          [&](const EpochDone& epoch) { epoch_done(epoch); },
                          [&](const Commit& commit) { drop_unused(commit); }, [&](const Fence& fence) { check(fence); },
                          [&](const BarrierOpen& barrier) {
                            attempt_.steps = barrier.steps;
                            attempt_.epochs = barrier.epochs;
                            open = true;
                          }},
               frame);
    return open;
  }

  // Shows in introspection what the worker does.
  void show() {
    using Doing = TrainingRecord::Doing;
    if (running_.empty() && !awaiting_.empty())
      return record_.does(Doing::waiting_for_data, awaiting_.front().token.step, awaiting_.front().token.slot);
    if (running_.empty()) return record_.does(Doing::waiting_for_token);
    const Token& token = running_.front()->report.token;
    record_.set_epoch(token.epoch + 1);
    if (token.kind == TokenKind::train)
      record_.does(Doing::computing, token.step, token.slot);
    else
      record_.does(Doing::evaluating);
  }

  void drop_unused(const Commit& commit) {
    TrainingOutbox out;
    const std::vector<std::uint64_t> unused = tokens_->committed(commit, out);
    for (const auto& step : running_)
      if (std::ranges::find(unused, step->work) != unused.end()) session_.cancel(step->id);
    std::erase_if(awaiting_, [&](const WorkerTokens::Work& work) {
      if (std::ranges::find(unused, work.id) == unused.end()) return false;
      feed_.drop(batch_of(work.token));
      tokens_->ended(work.id, TokenDone{.token = {}, .sums = {}}, out);
      return true;
    });
    tell(std::move(out));
  }

  void epoch_done(const EpochDone& epoch) {
    epoch_ = epoch;
    figures_ = logs_of(epoch, job_.graph.results);
    record_.set_metrics({figures_.figures.begin(), figures_.figures.end()});
    chief_ = epoch.chief == index_;
    if (chief_) {
      if (plan_.options.on_epoch) plan_.options.on_epoch(figures_);
      epoch_end(plan_.options.callbacks, figures_);
    }
    curves_.set_tells(chief_);
    curves_.epoch_done(figures_);
    if (curves_.on()) read_for_curves(epoch.steps);
  }

  // Throws the reason if this worker is no longer a member, although its links are up: it must rejoin.
  void check(const Fence& fence) const {
    if (fence.worker == index_ && fence.view > view_) throw fence.reason;
  }

  static BatchName batch_of(const Token& token) {
    return token.kind == TokenKind::evaluate ? evaluation_batch(token.slot)
                                             : training_batch(token.epoch, token.batch, token.slot);
  }
  // The first step of the token's epoch that may be incomplete.
  BatchName complete_before(const Token& token) const {
    if (token.kind == TokenKind::evaluate) return {};
    const std::uint64_t incomplete = token.step - std::min(token.step, token.min_version / job_.phases());
    return training_batch(token.epoch, token.batch - std::min(token.batch, incomplete), 0);
  }

  // Starts the next work if its batch is there.
  bool compute_next() {
    if (awaiting_.empty()) return false;
    const WorkerTokens::Work work = awaiting_.front();
    if (feed_.may_be_slow()) show();
    std::optional<MadeBatch> made;
    {
      const TraceSlice traced(plan_.task.actors().trace(), TraceKind::work, "batch");
      made = feed_.try_take(batch_of(work.token));
    }
    if (!made) return false;
    awaiting_.pop_front();
    compute(work, *made);
    return true;
  }

  void compute(const WorkerTokens::Work& work, MadeBatch& made) {
    const Token& token = work.token;
    const bool trains = token.kind == TokenKind::train;
    if (made.over) {
      TrainingOutbox out;
      tokens_->ended(work.id, TokenDone{.token = {}, .sums = {}, .over = true}, out);
      return tell(std::move(out));
    }
    std::vector<Tensor> feeds = std::move(made.batch.components);
    if (trains && token.phase == 0) {
      hooks_.before_step({token.epoch, token.step, token.slot}, feeds);
      if (summaries_ && curves_.takes_summaries(token.step))
        start(*summaries_, feeds, token)->what = Running::For::summaries;
    }
    TokenDone& report = start(trains ? phases_[token.phase] : evaluate_, std::move(feeds), token, work.id)->report;
    report.examples = static_cast<std::uint64_t>(made.batch.examples);
    report.position = std::move(made.batch.position);
  }

  std::shared_ptr<Running> start(const Callable& call, std::vector<Tensor> feeds, const Token& token,
                                 std::uint64_t work = 0) {
    auto step = std::make_shared<Running>();
    step->work = work;
    step->report = TokenDone{.worker = index_, .token = token, .sums = {}};
    running_.push_back(step);
    step->id = call.start(std::move(feeds), run_options(token), [step, mailbox = mailbox_](StepResult result) {
      step->result = std::move(result);
      step->ended.store(true, std::memory_order_release);
      mailbox->wake();
    });
    return step;
  }

  void read_for_curves(std::uint64_t steps) {
    if (!small_.empty()) start(*read_all_, {}, reading(steps))->what = Running::For::parameters_of_curves;
  }

  void end_first() {
    const auto step = running_.front();
    if (step->what != Running::For::job) {
      running_.pop_front();
      if (step->result.error) return;  // the training steps report why it failed
      if (step->what == Running::For::summaries)
        curves_.summaries(step->report.token.step, std::move(step->result.fetches));
      else
        curves_.parameters(step->report.token.step, trained_of(step->result.fetches));
      return;
    }
    const bool unused = tokens_->unused(step->work);
    if (!unused) {
      const Token& token = step->report.token;
      const bool trains = token.kind == TokenKind::train;
      const FigureLayout& layout = trains ? job_.graph.phases[token.phase].layout : job_.graph.eval_layout;
      std::vector<Tensor> fetched = fetches_of(*step);
      if (trains && token.phase == 0) hooks_.after_step({token.epoch, token.step, token.slot}, fetched);
      step->report.sums = layout.unpack(fetched[0]);
      attempt_.progress = true;
    }
    running_.pop_front();
    TrainingOutbox out;
    tokens_->ended(step->work, step->report, out);
    tell(std::move(out));
    if (!unused) tell_user(*step);
  }

  void tell_user(const Running& step) {
    const Token& token = step.report.token;
    if (token.kind != TokenKind::train || step.report.sums.empty()) return;
    const double loss = mean_loss(step.report.sums);
    record_.computed(token.step, token.slot, step.began_ns, loss, step.report.examples);
    if (token.phase == 0) curves_.step_done(token.step, loss, step.report.examples);
    if (!plan_.options.on_progress) return;
    if (token.epoch != own_epoch_) own_sums_.clear();
    own_epoch_ = token.epoch;
    add(own_sums_, step.report.sums);
    plan_.options.on_progress({.epoch = token.epoch,
                               .step = token.batch + 1,
                               .steps = job_.steps_per_epoch.value_or(0),
                               .chief = chief_,
                               .sums = own_sums_,
                               .results = job_.graph.results});
  }

  // Throws the error of the step or of the job.
  std::vector<Tensor> fetches_of(Running& step) {
    if (!step.result.error) return std::move(step.result.fetches);
    // The job's error says more than its effect on this step. If a task is lost, that error may still be on its way:
    // the first loss causes others, reported in any order.
    const bool lost = step.result.error.code() == Code::unavailable;
    mailbox_->check(lost ? kReasonPatience : std::chrono::seconds(0));
    throw step.result.error;
  }

  RunOptions run_options(const Token& token) const {
    return {.random_step = static_cast<std::int64_t>(token.step),
            .random_slot = token.slot,
            .training = {.worker = index_,
                         .step = token.step,
                         .phase = token.phase,
                         .phases = job_.phases(),
                         .slot = token.slot,
                         .min_version = token.min_version,
                         .job = number_,
                         .view = view_,
                         .after = tokens_->after(),
                         .rate_scale = token.rate_scale,
                         .keep = token.keep && token.kind == TokenKind::train,
                         .kept = token.keep && token.kind == TokenKind::finish,
                         .number = token.step}};
  }

  TrainingResult finish() {
    while (!running_.empty()) {  // unused and cancelled, except reads for the curves
      const bool ended = running_.front()->ended.load(std::memory_order_acquire);
      if (ended && running_.front()->what != Running::For::job)
        end_first();
      else if (ended)
        running_.pop_front();
      else if (const auto frame = mailbox_->take(kPollInterval))
        take_in(*frame);
    }
    TrainingResult out;
    for (;;) {
      while (const auto token = tokens_->finish()) {  // another follows if the chief is lost
        if (token->slot == index_ && !out.chief) out = result_of(*token);
        tell(Barrier{index_});
      }
      record_.does(TrainingRecord::Doing::waiting_in_barrier);
      check_stop(plan_);
      const auto frame = mailbox_->take(kPollInterval);
      if (frame && take_in(*frame)) {
        feed_.close(attempt_.steps, attempt_.epochs);
        curves_.wait();
        return out;
      }
    }
  }

  TrainingResult result_of(const Token& token) {
    const auto values = read_all(token);
    const std::size_t trained = small_.size();
    plan_.state.parameters = trained_of(values);
    plan_.state.draws.clear();
    plan_.state.on_shards = tables_.names();
    const double examples = static_cast<double>(epoch_.examples) * (epoch_.epoch + 1);  // epochs are alike
    TrainingResult out{
        .chief = true,
        .figures = figures_.figures,
        .steps = figures_.steps,
        .seconds = figures_.seconds,
        .examples_per_second = figures_.seconds > 0 ? examples / figures_.seconds : 0,
        .params_sha256 = tables_.hash(plan_.state.parameters, [&](const Callable& call, std::vector<Tensor> feeds) {
          return read(call, std::move(feeds), token);
        })};
    if (job_.graph.loss_scale) {
      out.skipped_steps = static_cast<std::uint64_t>(values[trained].item<std::int64_t>());
      out.loss_scale = values[trained + 1].item<float>();
    }
    return out;
  }

  // A token for reading all parameters after `steps` steps. Asynchronous: the current ones, since batches are not
  // versions.
  Token reading(std::uint64_t steps) const {
    return {.kind = TokenKind::finish,
            .step = steps,
            .slot = index_,
            .min_version = job_.mode == TrainingMode::asynchronous ? 0 : steps * job_.phases()};
  }

  // Reads the shards' current parameters, at least those of the last complete epoch.
  Parameters read_now(std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
    if (number_ == 0) fail(Code::failed_precondition, "the training job has not begun");
    RunOptions options = run_options(reading(figures_.steps));
    options.timeout = timeout;
    return read_all_ ? trained_of((*read_all_)({}, options)) : Parameters();
  }

  // Throws if the task has failed, or was stopped by the user. With checkpoints the job is told first, and saves: this
  // worker works on until the job has ended. Without, the chief leaves first: it reads the parameters, which the end of
  // the job makes impossible.
  void leave_if_stopped() {
    if (const Error failed = plan_.task.failure()) throw failed;
    if (stop_.check(plan_) != UserStop::Now::begins) return;
    const Error stopped = stop_of(plan_);
    keep_if_stopped(stopped);
    if (!plan_.options.checkpoint.empty())
      tell(Leave{join_.worker, join_.incarnation, join_.shard, join_.after, stopped});
    else if (epoch_.chief == index_)
      throw stopped;
  }

  // After a stop by the user, the chief's model keeps the current parameters.
  void keep_if_stopped(const Error& why) {
    if (why.code() != Code::cancelled || number_ == 0 || epoch_.chief != index_ || plan_.task.failure() || kept_)
      return;
    try {
      plan_.state.parameters = read_now(kReasonPatience);
      kept_ = true;
    } catch (const Error&) {  // the shards are stopped too
    }
  }

  // The parameters among the values fetched by read_all_.
  Parameters trained_of(const std::vector<Tensor>& values) const {
    Parameters out;
    for (std::size_t i = 0; i < small_.size(); ++i) out[small_[i]] = values[i];
    return out;
  }

  std::vector<Tensor> read_all(const Token& token) {
    return read_all_ ? read(*read_all_, {}, token) : std::vector<Tensor>();
  }
  std::vector<Tensor> read(const Callable& call, std::vector<Tensor> feeds, const Token& token) {
    const auto step = start(call, std::move(feeds), token);
    while (!step->ended.load(std::memory_order_acquire)) {
      check_stop(plan_);
      if (const auto frame = mailbox_->take(kPollInterval)) take_in(*frame);
    }
    std::erase(running_, step);
    return fetches_of(*step);
  }

  const TrainingPlan& plan_;
  const ClusterJob& job_;
  Attempt& attempt_;
  std::uint32_t index_;
  const Incarnation incarnation_{random_id()};
  const Join join_{index_, incarnation_, job_.fingerprint, job_.settings, false, attempt_.after};
  UserStop stop_{plan_.options, kReasonPatience};
  bool kept_ = false;  // the parameters of when it was stopped
  Session session_;
  WorkerTables tables_;
  std::vector<Callable> phases_;
  std::optional<Callable> summaries_;  // with the feeds of the first phase
  Callable evaluate_;
  std::optional<Callable> read_all_;  // none if there is nothing to read
  std::vector<std::string> small_;    // the parameters that it reads: all but those of tables_
  TrainingCurves curves_;
  HookRun hooks_;
  std::shared_ptr<WorkerMailbox> mailbox_;
  BatchFeed feed_;
  WorkerActor actor_;
  std::uint64_t number_ = 0;                 // of the joined job; 0: none yet
  std::uint64_t view_ = 0;                   // in which this worker joined
  std::optional<WorkerTokens> tokens_;       // set once joined
  std::deque<WorkerTokens::Work> awaiting_;  // their batches
  std::deque<std::shared_ptr<Running>> running_;
  TrainingRecord& record_ = plan_.task.introspection().training();
  EpochDone epoch_;  // the last that has ended
  bool chief_ = index_ == 0;
  NamedSums own_sums_;  // of the batches of own_epoch_ that this worker computed, for on_progress
  std::uint32_t own_epoch_ = 0;
  EpochLogs figures_;
};

}  // namespace

TrainingResult work_in_job(const TrainingPlan& plan, const ClusterJob& job, Attempt& attempt) {
  return WorkerLoop(plan, job, attempt).run();
}

}  // namespace troupe
