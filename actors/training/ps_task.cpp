// A parameter server in one job: the start of its shard, the actors that serve it, and on ps/0 the coordinator.
#include <caf/send.hpp>
#include <set>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/callback.hpp>
#include <troupe/actors/training/cluster_job.hpp>
#include <troupe/actors/training/coordinator_actor.hpp>
#include <troupe/actors/training/shard_actor.hpp>
#include <troupe/actors/training/shard_keeper.hpp>

namespace troupe {
namespace {

constexpr std::uint64_t kMaxCommits = 1 << 30;  // maximum size of a commit log, in bytes

// Initial values of this shard's variables, drawn by the owner from (seed, name). Of a variable in pieces the shard
// draws its own rows if they can be drawn one by one: then it never has the whole.
class InitialValues {
 public:
  InitialValues(const TrainingPlan& plan, const ClusterJob& job)
      : plan_(plan),
        job_(job),
        session_(plan.task, *job.graph.graph, {.seed = plan.options.seed, .on_placement = plan.options.on_placement}) {}

  Tensor of_slice(const Slice& slice) {
    const Parameters& given = plan_.state.parameters;
    if (const auto it = given.find(slice.variable); it != given.end()) return cut(it->second, slice);
    return draw(job_.sharded.initial_values.at(slice.variable), slice.variable, slice);
  }
  Tensor of_slot(const SlotVariable& slot, const Slice& slice, const Shape& variable) {
    if (slot.initial_value.empty()) return Tensor::zeros(slot.dtype, slot.shape == variable ? slice.shape : slot.shape);
    if (slot.shape == variable) return draw(slot.initial_value, slot.name, slice);
    return run(slot.initial_value, slot.name).clone();
  }

 private:
  Tensor draw(const std::string& output, const std::string& variable, const Slice& slice) {
    const Graph& graph = *job_.graph.graph;
    const bool cut_off = slice.stride > 1 || slice.shape != job_.map.variable(slice.variable).shape;
    if (cut_off && !output.empty() && RowDraws::can_draw(graph, graph.endpoint(output)))
      return RowDraws(graph, graph.endpoint(output), plan_.options.seed)
          .rows(plan_.task.device().parallelism(), slice.row_begin, slice.stride, slice.shape[0]);
    return cut(run(output, variable), slice);
  }
  Tensor run(const std::string& output, const std::string& variable) {
    if (output.empty()) fail(Code::failed_precondition, "variable '{}' has no initial value", variable);
    return session_.run({}, std::vector<Output>{job_.graph.graph->output(output)}, {}, {.random_step = 0})[0];
  }
  static Tensor cut(const Tensor& whole, const Slice& slice) {
    if (whole.shape().is_scalar()) return whole.clone();
    if (slice.stride == 1) return whole.rows(slice.row_begin, slice.row_end).clone();
    Tensor numbers(DType::i64, Shape{slice.shape[0]});
    for (std::int64_t i = 0; i < slice.shape[0]; ++i)
      numbers.mutable_data<std::int64_t>()[i] = slice.row_begin + i * slice.stride;
    return rows_of(whole, numbers);
  }

  const TrainingPlan& plan_;
  const ClusterJob& job_;
  Session session_;
};

std::vector<SliceSpec> slice_specs(const ClusterJob& job, int shard) {
  std::vector<SliceSpec> out;
  for (const Slice& slice : job.map.slices())
    if (slice.shard == shard)
      out.push_back({slice.id, slice.variable, slice.dtype, slice.shape, job.phase_of(slice.variable),
                     job.sharded.rules.at(slice.variable).changes_rows_only(), slice.on_demand});
  return out;
}

void fill_with_initial_values(const ShardKeeper& keeper, const TrainingPlan& plan, const ClusterJob& job) {
  InitialValues initial(plan, job);
  for (const Slice& slice : job.map.slices()) {
    if (slice.shard != keeper.shard) continue;
    const UpdateRule& rule = job.sharded.rules.at(slice.variable);
    if (slice.on_demand) {
      if (plan.state.parameters.contains(slice.variable))
        fail(Code::unimplemented,
             "variable '{}' is on demand: a job with parameter servers cannot begin with its values", slice.variable);
      keeper.store->add_on_demand(slice, rule, keeper.draws.at(slice.variable));
      continue;
    }
    std::vector<Tensor> slots;
    for (const SlotVariable& slot : rule.slots)
      slots.push_back(initial.of_slot(slot, slice, job.map.variable(slice.variable).shape));
    keeper.store->add(slice.id, slice.variable, rule, initial.of_slice(slice), std::move(slots));
  }
}

JobOptions::OnLoss policy_of(OnLoss on_loss) {
  switch (on_loss) {
    case OnLoss::fail:
      return JobOptions::OnLoss::fail;
    case OnLoss::shrink:
      return JobOptions::OnLoss::reassign;
    case OnLoss::wait:
      return JobOptions::OnLoss::wait;
  }
  return JobOptions::OnLoss::fail;
}

JobOptions job_options(const TrainingPlan& plan, const ClusterJob& job, const Attempt& attempt) {
  JobOptions options;
  options.mode = job.mode;
  options.workers = job.workers;
  options.max_workers = job.max_workers;
  options.shards = job.owning_shards();
  for (std::uint32_t s = 0; s < job.shards; ++s) options.joining.push_back(s);
  options.phases = job.phases();
  std::vector<std::set<std::uint32_t>> of_phases(options.phases);
  for (const Slice& slice : job.map.slices())
    of_phases[job.phase_of(slice.variable)].insert(static_cast<std::uint32_t>(slice.shard));
  for (const auto& shards : of_phases) options.phase_shards.emplace_back(shards.begin(), shards.end());
  options.slots = job.slots;
  options.backups = job.backups;
  options.staleness = static_cast<std::uint64_t>(job.options.staleness);
  options.epochs = static_cast<std::uint32_t>(plan.options.epochs);
  options.batch = static_cast<std::uint64_t>(plan.options.batch);
  options.steps_per_epoch = job.steps_per_epoch.value_or(JobOptions::kUnknown);
  if (plan.evaluation) {
    options.evaluation_batch = static_cast<std::uint64_t>(plan.options.evaluation_batch);
    options.evaluation_batches =
        steps_per_epoch(*plan.evaluation, evaluation_batches(plan, 1)).value_or(JobOptions::kUnknown);
  }
  options.control = control_of(plan.options.callbacks, job.graph.results);
  options.fingerprint = job.fingerprint;
  options.settings = job.settings;
  options.join_timeout = attempt.join_timeout.count();
  options.lookahead = job.mode == TrainingMode::synchronous ? kTokensAhead - 1 : 0;
  options.empty_timeout = job.servers.rejoin_timeout.count();
  options.min_workers = static_cast<std::uint32_t>(job.servers.min_workers);
  options.on_loss = policy_of(job.servers.on_loss);
  options.grace = job.servers.rejoin_timeout.count();
  options.step_timeout = job.servers.step_timeout.count();
  options.fence = plan.guards.members;
  return options;
}

ShardOptions shard_options(const TrainingPlan& plan, const ClusterJob& job, std::uint32_t index) {
  ShardOptions options;
  options.mode = job.mode;
  options.shard = index;
  options.workers = std::max(job.workers, job.max_workers);
  options.slots = job.slots;
  options.backups = job.backups;
  options.phases = job.phases();
  options.staleness = static_cast<std::uint64_t>(job.options.staleness);
  options.sparse_mean = plan.options.sparse_mean;
  options.accumulate = static_cast<std::uint32_t>(job.options.aggregate);
  options.scale_by_staleness = job.options.staleness_aware;
  options.keep_previous = job.servers.on_loss != OnLoss::fail && job.mode == TrainingMode::synchronous;
  options.keep_versions = kTokensAhead + job.phases() - 1;
  options.keep_history = !job.servers.provenance.empty();
  options.guards = plan.guards.shard;
  return options;
}

std::map<std::string, std::uint64_t> counts_of(const ShardCounters& c) {
  std::map<std::string, std::uint64_t> counts = {
      {"batches", c.batches}, {"updates", c.updates},         {"duplicates", c.duplicates},
      {"stale", c.stale},     {"uncommitted", c.uncommitted}, {"fenced", c.fenced},
      {"refused", c.refused}, {"abandoned", c.abandoned},     {"pushes", c.pushes},
      {"pulls", c.pulls},     {"rows_pulled", c.rows_pulled}, {"rows_pushed", c.rows_pushed}};
  for (std::size_t s = 0; s < c.staleness.size(); ++s)
    if (c.staleness[s] > 0) counts[fmt::format("staleness_{}", s)] = c.staleness[s];
  return counts;
}

// "staleness of the 620 batches applied: 500 of 0, 117 of 1, 3 of 15 or more updates"; synchronous training has none.
std::string describe_staleness(TrainingMode mode, const ShardCounters& c) {
  if (mode == TrainingMode::synchronous || c.batches == 0) return "";
  std::string text;
  for (std::size_t s = 0; s < c.staleness.size(); ++s)
    if (c.staleness[s] > 0)
      text += fmt::format("{}{} of {}{}", text.empty() ? "" : ", ", c.staleness[s], s,
                          s + 1 == c.staleness.size() ? " or more" : "");
  return fmt::format("staleness of the {} batches applied: {} updates", c.batches, text);
}

// Returns a number above those of all earlier jobs, including those of earlier processes of this task: the clock's
// microseconds, or the last number plus 1.
std::uint64_t draw_job(Task& task) {
  const auto now =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch());
  return task.last_job() = std::max(static_cast<std::uint64_t>(now.count()), task.last_job() + 1);
}

// A ps task in one job: its shard, on ps/0 the coordinator, and the keeper of their state.
class PsTask {
 public:
  PsTask(const TrainingPlan& plan, const ClusterJob& job, Attempt& attempt)
      : plan_(plan),
        job_(job),
        attempt_(attempt),
        task_(plan.task),
        index_(static_cast<std::uint32_t>(task_.name().index)),
        coordinates_(task_.name() == kCoordinatorTask),
        mailbox_(std::make_shared<WorkerMailbox>()),
        keeper_(
            std::make_shared<ShardKeeper>(plan, job, [mailbox = mailbox_](const Error& why) { mailbox->fail(why); })) {}
  ~PsTask() {
    caf::anon_send(task_.handles().node, JobRoutes{});
    if (routes_.shard) caf::anon_send(routes_.shard, Stop{});
    if (routes_.coordinator) caf::anon_send(routes_.coordinator, Stop{});
    keeper_->checkpoints.stop();
  }
  PsTask(const PsTask&) = delete;
  PsTask& operator=(const PsTask&) = delete;

  void serve() {
    const std::optional<Beginning> from = begin();
    if (coordinates_) keeper_->job = attempt_.job = routes_.job = draw_job(task_);
    const Join join{index_, Incarnation{random_id()}, job_.fingerprint, job_.settings, true, attempt_.after};
    routes_.joining = join.incarnation;
    spawn(from);
    bool joined = false;
    try {
      say(join);
      if (!coordinates_)
        await_joined(plan_, attempt_, *mailbox_, join.incarnation, routes_,
                     [this](const Joined& told) { prepare(told); });
      joined = true;
      UserStop stop(plan_.options, kReasonPatience);  // in which the chief reads the parameters, if it is stopped too
      for (bool over = false; !over;) {
        if (const Error failed = plan_.task.failure()) throw failed;
        // The job saves, while this shard serves it, and ends.
        if (stop.check(plan_) == UserStop::Now::begins && keeper_->checkpoints.keeps())
          say(Leave{join.worker, join.incarnation, join.shard, join.after, stop_of(plan_)});
        const auto frame = mailbox_->take(kPollInterval);
        const auto* open = frame ? std::get_if<BarrierOpen>(&*frame) : nullptr;
        if (open) attempt_.steps = open->steps, attempt_.epochs = open->epochs;
        over = open != nullptr;
      }
      plan_.state.ended = {.at = keeper_->end_state,
                           .variables = {},
                           .shard = std::make_shared<const ShardValues>(keeper_->values(keeper_->end))};
      plan_.state.ended->at.history.clear();  // the next training decides anew
    } catch (...) {
      say(leave_of(join, task_));
      if (!joined) await_left(*mailbox_, join.incarnation);
      attempt_.over = true;  // a job needs all its shards
      attempt_.progress = keeper_->store->applied() > 0;
      throw;
    }
  }

 private:
  // Where the job resumes.
  struct Beginning {
    JobState state;
    std::uint64_t step = 0;
  };
  // Fills the store. Tasks other than the coordinator's may learn of a checkpoint only when they have joined.
  std::optional<Beginning> begin() {
    std::optional<Beginning> from;
    try {
      if (!keeper_->provenance.empty()) make_directories(keeper_->checkpoints.files(), keeper_->provenance);
      if (coordinates_ && !job_.options.replay.empty()) replay_ = commits_to_replay();
      if (const auto* before = shard_before()) {
        keeper_->begin_with(*before);
        from = {plan_.state.ended->at, plan_.state.ended->at.step};
      }
      if (coordinates_)
        if (auto saved = keeper_->checkpoints.newest(job_.settings);
            saved && (!from || saved->manifest().id.version > from->step)) {
          restore(*saved);
          from = {state_in(*saved), saved->manifest().id.version};
        }
    } catch (const Error& error) {
      if (!coordinates_) throw;
      refused_ = error;
      from.reset();
    }
    if (!from) fill_with_initial_values(*keeper_, plan_, job_);
    return from;
  }
  // The shard's values at the end of this process's previous training, if this one continues from there.
  const ShardValues* shard_before() const { return plan_.state.ended ? plan_.state.ended->shard.get() : nullptr; }

  std::shared_ptr<const CommitLog> commits_to_replay() const {
    const std::string& path = job_.options.replay;
    CommitLog log;
    try {
      log = CommitLog::parse(read_file(keeper_->checkpoints.files(), path, kMaxCommits));
    } catch (const Error& error) {
      throw error.code() == Code::data_loss ? error.within(fmt::format("'{}'", path)) : error;
    }
    if (!log.fits(job_.slots, job_.slots + job_.backups))
      invalid_argument("'{}' has the commits of a job with other slots: steps of this job use {} of {}", path,
                       job_.slots, job_.slots + job_.backups);
    return std::make_shared<const CommitLog>(std::move(log));
  }

  // Called when the job is joined, before its first frame.
  void prepare(const Joined& told) {
    keeper_->job = told.job;
    if (told.step == 0 || (shard_before() && told.step == plan_.state.ended->at.step)) return;
    if (!keeper_->checkpoints.keeps())
      fail(Code::failed_precondition,
           "the job resumes from step {}, but this task was not in it before and has no directory of checkpoints",
           told.step);
    Checkpoint from =
        open_checkpoint(keeper_->checkpoints.files(), checkpoint_folder(keeper_->checkpoints.directory(), told.step));
    restore(from);
  }

  void restore(Checkpoint& from) {
    keeper_->begin_with(from);
    keeper_->tell({.kind = "restored",
                   .task = task_.name(),
                   .step = from.manifest().id.version,
                   .text = coordinates_ ? going_on(from, static_cast<std::uint32_t>(plan_.options.epochs)) : "",
                   .counts = {}});
  }

  void spawn(const std::optional<Beginning>& from) {
    ShardActorImpl::Config config = shard_config();
    // Weak: the shard owns the keeper, so the keeper must not own the shard.
    auto say_saved = std::make_shared<std::function<void(const Saved&)>>();
    if (keeper_->checkpoints.keeps())
      config.save = [keeper = keeper_, say_saved](const Save& request, const ShardState::Cut& cut) {
        keeper->save(request, cut, *say_saved);
      };
    routes_.shard = spawn_actor<ActorKind::shard, ShardActorImpl>(task_.system(), task_.actors(),
                                                                  task_.name().to_string(), std::move(config));
    if (coordinates_) spawn_coordinator(from);
    *say_saved = [to = saved_goes_to(), coordinates = coordinates_, self = task_.name()](const Saved& saved) {
      const auto actor = caf::actor_cast<caf::strong_actor_ptr>(to);
      if (!actor) return;
      if (coordinates)
        caf::anon_send(caf::actor_cast<CoordinatorActor>(actor), Inbound<Saved>{self, saved});
      else
        caf::anon_send(caf::actor_cast<ShardActor>(actor), Outbound{saved});
    };
    caf::anon_send(task_.handles().node, Observe{caf::actor_cast<PeerObserver>(routes_.shard)});
    if (routes_.coordinator)
      caf::anon_send(task_.handles().node, Observe{caf::actor_cast<PeerObserver>(routes_.coordinator)});
    caf::anon_send(task_.handles().node, routes_);
  }

  caf::weak_actor_ptr saved_goes_to() const {
    if (coordinates_) return caf::actor_cast<caf::weak_actor_ptr>(routes_.coordinator);
    return caf::actor_cast<caf::weak_actor_ptr>(routes_.shard);
  }

  ShardActorImpl::Config shard_config() {
    ShardActorImpl::Config config;
    config.self = task_.name();
    config.options = shard_options(plan_, job_, index_);
    config.slices = slice_specs(job_, task_.name().index);
    std::ranges::copy_if(job_.sharded.packs, std::back_inserter(config.packs),
                         [this](const SlicePack& pack) { return pack.shard == task_.name().index; });
    config.store = keeper_->store;
    config.ended = [mailbox = mailbox_, keeper = keeper_, self = task_.name(), mode = job_.mode](
                       Error error, const ShardCounters& counters, const ShardState::Cut& cut,
                       const BarrierOpen& open) {
      keeper->end = cut;
      keeper->tell({.kind = "ended",
                    .task = self,
                    .step = counters.updates,
                    .text = describe_staleness(mode, counters),
                    .counts = counts_of(counters)});
      if (error)
        mailbox->fail(std::move(error));
      else
        mailbox->put(open);
    };
    config.joined = [mailbox = mailbox_](const Joined& joined) { mailbox->put(joined); };
    config.prepare = [keeper = keeper_](ShardOptions& options) {
      options.version = keeper->start.version;
      options.applied = keeper->start.applied;
      keeper->open_history();
    };
    if (!keeper_->provenance.empty())
      config.history = [keeper = keeper_](std::vector<Provenance> versions, bool flush) {
        keeper->write_history(std::move(versions), flush);
      };
    return config;
  }

  void spawn_coordinator(const std::optional<Beginning>& from) {
    CoordinatorActorImpl::Config config;
    config.self = task_.name();
    config.options = job_options(plan_, job_, attempt_);
    config.options.refused = refused_;
    config.on_event = [keeper = keeper_](const JobEvent& event) { keeper->tell(event); };
    config.options.commits = replay_;
    config.on_end = [keeper = keeper_, backups = job_.backups](const JobState& end) {
      keeper->end_state = end;
      if (backups > 0) keeper->write_commits(end.commits);
    };
    if (from) {
      config.options.resume = from->state;
      config.options.saved_step = from->step;
    }
    if (keeper_->checkpoints.keeps()) {
      config.options.save_every = plan_.options.checkpoint_every > 0 ? plan_.options.checkpoint_every
                                                                     : job_.steps_per_epoch.value_or(kSaveEvery);
      config.keeper = keeper_;
    }
    routes_.coordinator = spawn_actor<ActorKind::coordinator, CoordinatorActorImpl>(
        task_.system(), task_.actors(), task_.name().to_string(), std::move(config));
  }

  template <class F>
  void say(const F& frame) {
    if (coordinates_)
      caf::anon_send(routes_.coordinator, Inbound<F>{task_.name(), frame});
    else
      caf::anon_send(routes_.shard, Outbound{frame});
  }

  const TrainingPlan& plan_;
  const ClusterJob& job_;
  Attempt& attempt_;
  Task& task_;
  const std::uint32_t index_;
  const bool coordinates_;
  const std::shared_ptr<WorkerMailbox> mailbox_;
  const std::shared_ptr<ShardKeeper> keeper_;
  JobRoutes routes_;
  std::shared_ptr<const CommitLog> replay_;
  Error refused_;  // why the job cannot begin
};

}  // namespace

void serve_shard(const TrainingPlan& plan, const ClusterJob& job, Attempt& attempt) {
  PsTask(plan, job, attempt).serve();
}

}  // namespace troupe
