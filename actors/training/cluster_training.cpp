#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <array>
#include <deque>
#include <set>
#include <thread>

#include "actors/checkpoint/writer_actor.hpp"
#include "actors/session/session.hpp"
#include "actors/training/batches.hpp"
#include "actors/training/coordinator_actor.hpp"
#include "actors/training/job_checkpoints.hpp"
#include "actors/training/parameter_store.hpp"
#include "actors/training/shard_actor.hpp"
#include "actors/training/training_plan.hpp"
#include "actors/training/worker_actor.hpp"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kPollInterval{200};  // to see that the user wants to stop
constexpr std::chrono::seconds kReasonPatience{1};
constexpr int kTokensAhead = 2;  // of a worker

// All tasks work these out for themselves; the fingerprint shows whether they came to the same.
struct Job {
  explicit Job(const TrainingPlan& plan)
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

  // That of products where a layer does not say.
  static std::string_view precision(const Sequential& layers) {
    return layers.compute() == DType::invalid ? name(DType::f32) : name(layers.compute());
  }

  std::string describe_updates() const {
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

  std::vector<TaskName> shard_names() const {
    std::vector<TaskName> out;
    for (std::uint32_t s = 0; s < shards; ++s) out.push_back(shard_task(s));
    return out;
  }
  std::vector<std::uint32_t> owning_shards() const {
    std::set<std::uint32_t> owners;
    for (const Slice& slice : map.slices()) owners.insert(static_cast<std::uint32_t>(slice.shard));
    return {owners.begin(), owners.end()};
  }

  TrainingGraph graph;
  std::uint32_t workers = 0, shards = 0, slots = 1, backups = 0;
  TrainingMode mode = TrainingMode::synchronous;
  ShardMap map;
  ShardedGraph sharded;
  std::string settings;
  std::uint64_t fingerprint = 0;
};

// A task takes part in a job until that is over, or until it cannot go on because of others. Then it tries again: the same job, if
// that may still be under way, or the next, in which everyone returns to where it can go on.
struct Attempt {
  std::uint64_t after = 0;  // it joins a later job than this
  std::uint64_t job = 0;    // the number of the job in which it has taken part, once it has joined
  std::chrono::nanoseconds join_timeout{};
  bool progress = false;  // something has been computed or stored
  bool over = false;      // the job is over for all
};

// ---- A ps task -----------------------------------------------------------------------------------------------------

// Values of this shard's variables at the start: the owner draws them from (seed, name).
class InitialValues {
 public:
  InitialValues(const TrainingPlan& plan, const Job& job)
      : plan_(plan), job_(job), session_(plan.task, *job.graph.graph, {.seed = plan.options.seed}) {}

  Tensor of_slice(const Slice& slice) {
    if (const auto it = plan_.start.find(slice.variable); it != plan_.start.end()) return cut(it->second, slice);
    return cut(run(job_.sharded.initial_values.at(slice.variable), slice.variable), slice);
  }
  Tensor of_slot(const SlotVariable& slot, const Slice& slice, const Shape& variable) {
    if (slot.initial_value.empty()) return Tensor::zeros(slot.dtype, slot.shape == variable ? slice.shape : slot.shape);
    const Tensor whole = run(slot.initial_value, slot.name);
    return slot.shape == variable ? cut(whole, slice) : whole.clone();
  }

 private:
  Tensor run(const std::string& output, const std::string& variable) {
    if (output.empty()) fail(Code::failed_precondition, "variable '{}' has no initial value", variable);
    return session_.run({}, std::vector<Output>{job_.graph.graph->output(output)}, {}, {.random_step = 0})[0];
  }
  static Tensor cut(const Tensor& whole, const Slice& slice) {
    if (whole.shape().is_scalar()) return whole.clone();
    return whole.rows(slice.row_begin, slice.row_end).clone();
  }

  const TrainingPlan& plan_;
  const Job& job_;
  Session session_;
};

std::vector<SliceSpec> slice_specs(const Job& job, int shard) {
  std::vector<SliceSpec> out;
  for (const Slice& slice : job.map.slices())
    if (slice.shard == shard) out.push_back({slice.id, slice.variable, slice.dtype, slice.shape});
  return out;
}

void fill_with_initial_values(ParameterStore& store, const TrainingPlan& plan, const Job& job, int shard) {
  InitialValues initial(plan, job);
  for (const Slice& slice : job.map.slices()) {
    if (slice.shard != shard) continue;
    const UpdateRule& rule = job.sharded.rules.at(slice.variable);
    std::vector<Tensor> slots;
    for (const SlotVariable& slot : rule.slots) slots.push_back(initial.of_slot(slot, slice, job.map.variable(slice.variable).shape));
    store.add(slice.id, slice.variable, rule, initial.of_slice(slice), std::move(slots));
  }
}

JobOptions::OnLoss policy_of(TrainingOptions::OnLoss on_loss) {
  switch (on_loss) {
    case TrainingOptions::OnLoss::fail:
      return JobOptions::OnLoss::fail;
    case TrainingOptions::OnLoss::shrink:
      return JobOptions::OnLoss::reassign;
    case TrainingOptions::OnLoss::wait:
      return JobOptions::OnLoss::wait;
  }
  return JobOptions::OnLoss::fail;
}

JobOptions job_options(const TrainingPlan& plan, const Job& job, const Attempt& attempt) {
  JobOptions options;
  options.mode = job.mode;
  options.workers = job.workers;
  options.shards = job.owning_shards();
  for (std::uint32_t s = 0; s < job.shards; ++s) options.joining.push_back(s);
  options.slots = job.slots;
  options.backups = job.backups;
  options.staleness = static_cast<std::uint64_t>(plan.options.staleness);
  options.epochs = static_cast<std::uint32_t>(plan.options.epochs);
  options.batch = static_cast<std::uint64_t>(plan.options.batch);
  options.train_examples = static_cast<std::uint64_t>(plan.data.train.size());
  options.test_examples = static_cast<std::uint64_t>(plan.data.test.size());
  options.evaluation_chunk = static_cast<std::uint64_t>(kEvaluationChunk) / 2;
  options.fingerprint = job.fingerprint;
  options.settings = job.settings;
  options.join_timeout = attempt.join_timeout.count();
  options.lookahead = job.mode == TrainingMode::synchronous ? kTokensAhead - 1 : 0;
  options.empty_timeout = plan.options.rejoin_timeout.count();
  options.min_workers = static_cast<std::uint32_t>(plan.options.min_workers);
  options.on_loss = policy_of(plan.options.on_loss);
  options.grace = plan.options.rejoin_timeout.count();
  options.step_timeout = plan.options.step_timeout.count();
  return options;
}

// Larger than those of all jobs before, also of another process of this task: the clock's microseconds, or one more.
std::uint64_t draw_job(Task& task) {
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch());
  return task.last_job() = std::max(static_cast<std::uint64_t>(now.count()), task.last_job() + 1);
}

// Waits for the answer to a Join, routes the job's frames and returns it. Throws why the task was turned away.
// `prepare` is called before the first frame of the job can come.
Joined await_joined(const TrainingPlan& plan, Attempt& attempt, WorkerMailbox& mailbox, Incarnation incarnation, JobRoutes routes,
                    const std::function<void(const Joined&)>& prepare = nullptr) {
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

// After a Leave: until the coordinator's task has answered, a Join that nobody has taken may still meet a job that begins there.
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

// What a ps task begins with, and how it saves. The actors have it after serve_shard() has returned: nothing in it refers to the plan.
struct Keeper {
  Keeper(const TrainingPlan& plan, const Job& job)
      : map(job.map),
        rules(job.sharded.rules),
        directory(plan.options.checkpoint),
        kept(plan.options.checkpoints_kept),
        note(plan.options.on_note),
        store(std::make_shared<ParameterStore>(plan.task.device(), plan.task.kernels())),
        shard(plan.task.name().index) {
    const auto owners = job.owning_shards();
    shards = static_cast<std::uint32_t>(owners.size());
    const auto self = std::ranges::find(owners, static_cast<std::uint32_t>(shard));
    owns = self != owners.end();
    position = static_cast<std::uint32_t>(self - owners.begin());
    if (directory.empty()) return;
    writer = plan.task.system().spawn<CheckpointActorImpl, caf::detached>(plan.task.actors().add("checkpoint", plan.task.name().to_string()));
  }

  void tell(const std::string& what) const {
    if (note) note(what);
  }
  void post(std::function<void()> what) const {
    struct Work final : LocalWork {
      explicit Work(std::function<void()> given) : what(std::move(given)) {}
      void run() override { what(); }
      std::function<void()> what;
    };
    caf::anon_send(writer, WriteCheckpoint{std::make_shared<Work>(std::move(what))});
  }

  void begin_with(Checkpoint& from) {
    restore(from, *store, map, rules, shard);
    const bool asynchronous = from.manifest().job.mode == "async";
    start = asynchronous && owns ? restored_cut(from, position, shards) : ShardState::Cut{from.manifest().id.version, {}};
  }

  // On the shard's thread, between two updates.
  void save(const Save& request, const ShardState::Cut& cut, std::function<void(const Saved&)> say) const {
    if (!owns) return;
    post([contents = contents_of(*store, map, rules, shard, position, shards, cut), id = CheckpointId{request.version, job},
          directory = directory, say = std::move(say), self = static_cast<std::uint32_t>(shard), job = job]() mutable {
      Saved saved{.shard = self, .version = id.version, .files = {}, .error = {}, .job = job};
      try {
        saved.files = encode(write_shard(posix_file_system(), directory, id, std::move(contents)));
      } catch (...) {
        saved.error = current_error();
      }
      say(saved);
    });
  }
  // On the coordinator's.
  void commit(const SaveRound& round, const JobState& state, const JobOptions& options) const {
    post([manifest = manifest_of(round, state, options, job), directory = directory, kept = kept, note = note] {
      const auto tell = [&](const std::string& what) {
        if (note) note(what);
      };
      try {
        commit_checkpoint(posix_file_system(), directory, manifest);
        tell(fmt::format("saved step {} in '{}'", manifest.id.version, directory));
        remove_old_checkpoints(posix_file_system(), directory, kept, manifest.id.version);
      } catch (...) {
        tell(fmt::format("saving step {} in '{}': {}", manifest.id.version, directory, current_error().message()));
      }
    });
  }

  const ShardMap map;
  const std::map<std::string, UpdateRule> rules;
  const std::string directory;
  const int kept;
  const std::function<void(const std::string&)> note;
  const std::shared_ptr<ParameterStore> store;
  const int shard;
  std::uint32_t shards = 0;    // that own anything
  std::uint32_t position = 0;  // of this among them
  bool owns = false;
  CheckpointActor writer;
  // Set before the actors are told of the job.
  ShardState::Cut start;
  std::uint64_t job = 0;
};

// Serves until the job is over. Throws what ended it.
void serve_shard(const TrainingPlan& plan, const Job& job, Attempt& attempt) {
  Task& task = plan.task;
  const auto index = static_cast<std::uint32_t>(task.name().index);
  const auto keeper = std::make_shared<Keeper>(plan, job);
  auto mailbox = std::make_shared<WorkerMailbox>();

  ShardActorImpl::Config config;
  config.self = task.name();
  config.options.mode = job.mode;
  config.options.shard = index;
  config.options.workers = job.workers;
  config.options.slots = job.slots;
  config.options.backups = job.backups;
  config.options.staleness = static_cast<std::uint64_t>(plan.options.staleness);
  config.options.sparse_mean = plan.options.sparse_mean;
  config.options.keep_previous = plan.options.on_loss != TrainingOptions::OnLoss::fail && job.mode == TrainingMode::synchronous;
  config.options.keep_versions = kTokensAhead;
  config.slices = slice_specs(job, task.name().index);
  config.store = keeper->store;
  config.ended = [mailbox](Error error) {
    if (error)
      mailbox->fail(std::move(error));
    else
      mailbox->put(BarrierOpen{});
  };
  config.joined = [mailbox](const Joined& joined) { mailbox->put(joined); };
  config.prepare = [keeper](ShardOptions& options) {
    options.version = keeper->start.version;
    options.applied = keeper->start.applied;
  };
  JobRoutes routes;
  const auto stop_actors = [&] {
    if (routes.shard) caf::anon_send(routes.shard, Stop{});
    if (routes.coordinator) caf::anon_send(routes.coordinator, Stop{});
    if (keeper->writer) caf::anon_send(keeper->writer, Stop{});
  };
  const bool coordinates = task.name() == kCoordinatorTask;
  std::optional<Checkpoint> from;
  try {
    if (coordinates && !keeper->directory.empty())
      from = newest_of_job(posix_file_system(), keeper->directory, job.settings, [&](const std::string& what) { keeper->tell(what); });
    if (from)
      keeper->begin_with(*from);
    else  // other tasks may be told of a checkpoint when they have joined
      fill_with_initial_values(*keeper->store, plan, job, keeper->shard);
  } catch (...) {
    stop_actors();
    throw;
  }
  if (from) keeper->tell(fmt::format("goes on from '{}'", from->folder()));
  if (coordinates) keeper->job = attempt.job = routes.job = draw_job(task);
  // Weak: the shard has the keeper, and the keeper must not have the shard for ever.
  auto say_saved = std::make_shared<std::function<void(const Saved&)>>();
  if (!keeper->directory.empty())
    config.save = [keeper, say_saved](const Save& request, const ShardState::Cut& cut) { keeper->save(request, cut, *say_saved); };
  // Detached: applying gradients is slow work, which has no place among the control actors.
  routes.shard = task.system().spawn<ShardActorImpl, caf::detached>(task.actors().add("shard", task.name().to_string()), std::move(config));
  if (coordinates) {
    JobOptions options = job_options(plan, job, attempt);
    SavingPlan saving;
    if (from) {
      options.resume = state_in(*from);
      saving.version = from->manifest().id.version;
    }
    if (!keeper->directory.empty()) {
      const std::uint64_t examples = options.batch * options.slots;
      saving.every = plan.options.checkpoint_every > 0 ? plan.options.checkpoint_every : std::max<std::uint64_t>(1, options.train_examples / examples);
      saving.commit = [keeper](const SaveRound& round, const JobState& state, const JobOptions& of) { keeper->commit(round, state, of); };
      saving.failed = [keeper](const Error& why) { keeper->tell(fmt::format("could not be saved: {}", why.message())); };
    }
    routes.coordinator = task.system().spawn<CoordinatorActorImpl>(task.actors().add("coordinator", task.name().to_string()), task.name(),
                                                                   std::move(options), std::move(saving));
  }
  *say_saved = [coordinator = caf::actor_cast<caf::weak_actor_ptr>(routes.coordinator ? caf::actor_cast<caf::strong_actor_ptr>(routes.coordinator)
                                                                                     : caf::actor_cast<caf::strong_actor_ptr>(routes.shard)),
                coordinates, self = task.name()](const Saved& saved) {
    const auto to = caf::actor_cast<caf::strong_actor_ptr>(coordinator);
    if (!to) return;
    if (coordinates)
      caf::anon_send(caf::actor_cast<CoordinatorActor>(to), Inbound<Saved>{self, saved});
    else
      caf::anon_send(caf::actor_cast<ShardActor>(to), Outbound{saved});
  };
  caf::anon_send(task.local_node(), Observe{caf::actor_cast<PeerObserver>(routes.shard)});
  if (routes.coordinator) caf::anon_send(task.local_node(), Observe{caf::actor_cast<PeerObserver>(routes.coordinator)});
  caf::anon_send(task.local_node(), routes);

  const auto say = [&](const auto& frame) {
    if (coordinates)
      caf::anon_send(routes.coordinator, Inbound<std::decay_t<decltype(frame)>>{task.name(), frame});
    else
      caf::anon_send(routes.shard, Outbound{frame});
  };
  const auto end_actors = [&] {
    caf::anon_send(task.local_node(), JobRoutes{});
    stop_actors();
  };
  const auto prepare = [&](const Joined& told) {
    keeper->job = told.job;
    if (told.version == 0) return;
    if (keeper->directory.empty())
      fail(Code::failed_precondition, "the job goes on from a checkpoint of step {}, and this task has no directory of checkpoints", told.version);
    Checkpoint checkpoint = open_checkpoint(posix_file_system(), checkpoint_folder(keeper->directory, told.version));
    keeper->begin_with(checkpoint);
  };
  const Join join{index, Incarnation{random_id()}, job.fingerprint, job.settings, true, attempt.after};
  bool joined = false;
  try {
    say(join);
    if (!coordinates) await_joined(plan, attempt, *mailbox, join.incarnation, routes, prepare);
    joined = true;
    for (bool over = false; !over;) {
      check_stop(plan.options);
      const auto frame = mailbox->take(kPollInterval);
      over = frame && std::holds_alternative<BarrierOpen>(*frame);
    }
  } catch (...) {
    say(leave_of(join, current_error()));
    if (!joined) await_left(*mailbox, join.incarnation);
    attempt.over = true;  // a job needs all its shards
    attempt.progress = keeper->store->applied() > 0;
    end_actors();
    throw;
  }
  end_actors();
}

// ---- A worker ------------------------------------------------------------------------------------------------------

class WorkerLoop {
 public:
  WorkerLoop(const TrainingPlan& plan, const Job& job, Attempt& attempt)
      : plan_(plan),
        job_(job),
        attempt_(attempt),
        index_(static_cast<std::uint32_t>(plan.task.name().index)),
        session_(plan.task, *job.sharded.graph, {.seed = plan.options.seed, .shards = job.shard_names()}),
        batches_(plan.data.train, plan.options.seed, kTokensAhead),
        mailbox_(std::make_shared<WorkerMailbox>(most_silence(plan.options))) {
    const TrainingGraph& g = job.graph;
    step_ = session_.callable({here(g.images[0]), here(g.labels[0])}, {here(g.loss_sum), here(g.correct)}, {here(g.train)});
    evaluate_ = session_.callable({here(g.eval_images), here(g.eval_labels)}, {here(g.eval_loss_sum), here(g.eval_correct)});
    Outputs reads;
    for (const VariableRef& v : g.trainable) reads.push_back(here(v.read()));
    if (g.loss_scale) reads.insert(reads.end(), {here(g.loss_scale->skipped), here(g.loss_scale->scale)});
    read_all_ = session_.callable({}, reads);
    // Last: an actor whose loop was never made would not be stopped.
    actor_ = plan.task.system().spawn<WorkerActorImpl>(plan.task.actors().add("worker", plan.task.name().to_string()), mailbox_);
    caf::anon_send(plan.task.local_node(), Observe{caf::actor_cast<PeerObserver>(actor_)});
    caf::anon_send(plan.task.local_node(), routes());
  }
  ~WorkerLoop() {
    // What is of a job that it may join again is kept until then.
    caf::anon_send(plan_.task.local_node(), JobRoutes{{}, {}, {}, attempt_.over ? 0 : attempt_.job});
    caf::anon_send(actor_, Stop{});
  }

  Trained run() {
    session_.run({}, std::vector<Output>{}, {here(job_.graph.initializer)}, {.random_step = 0});
    const Join join{index_, Incarnation{random_id()}, job_.fingerprint, job_.settings, false, attempt_.after};
    tell(join);
    try {
      const Joined joined = await_joined(plan_, attempt_, *mailbox_, join.incarnation, routes());
      number_ = joined.job;
      view_ = joined.view;
      if (joined.version > 0 && plan_.options.on_note) plan_.options.on_note(fmt::format("the job goes on from step {}", joined.version));
      Trained out = work();
      attempt_.over = true;
      return out;
    } catch (...) {
      if (mailbox_->over() >= attempt_.job) attempt_.over = true;
      tell(leave_of(join, current_error()));
      if (number_ == 0) await_left(*mailbox_, join.incarnation);
      for (const auto& step : running_) session_.cancel(step->id);
      throw;
    }
  }

 private:
  JobRoutes routes() const { return {{}, {}, actor_, attempt_.job}; }
  // Longer than the coordinator is patient.
  static std::chrono::nanoseconds most_silence(const TrainingOptions& options) {
    return options.step_timeout.count() > 0 ? options.join_timeout + 2 * options.step_timeout : std::chrono::nanoseconds(0);
  }
  // The same output in the sharded graph: names are kept.
  Output here(const Output& output) const {
    Graph& graph = *job_.sharded.graph;
    return graph.output(graph.get(output.source().name), output.index);
  }
  void tell(Frame frame) { caf::anon_send(actor_, Outbound{of_member(of_job(std::move(frame), number_), view_)}); }

  // A step that has been started; its result comes on a thread of the runtime.
  struct Running {
    TokenDone report;
    StepId id;
    bool unused = false;  // nobody waits for it any more
    std::atomic<bool> ended{false};
    StepResult result;
  };

  // While a step computes, the token of the next has come, its batch is gathered, and its pulls wait on the shards for the
  // version they need: it goes on the moment that is there.
  Trained work() {
    for (int i = 0; i < kTokensAhead; ++i) ask();
    for (;;) {
      while (!running_.empty() && running_.front()->ended.load(std::memory_order_acquire)) end_first();
      begin_waiting();
      check_stop(plan_.options);
      auto frame = mailbox_->take(kPollInterval);
      if (!frame) continue;
      if (const auto* token = std::get_if<Token>(&*frame)) {
        if (token->kind == TokenKind::finish) return finish(*token);  // all others have been reported, or are of no use
        waiting_.push_back(*token);
      } else if (const auto* commit = std::get_if<Commit>(&*frame)) {
        drop_unused(*commit);
      } else {
        note(*frame);
      }
    }
  }

  // The slots of a step are chosen: its other tokens need not be computed.
  void drop_unused(const Commit& commit) {
    const auto unused = [&](const Token& token) {
      return token.kind == TokenKind::train && token.step == commit.step && !std::ranges::binary_search(commit.slots, token.slot);
    };
    for (const auto& step : running_) {
      if (step->unused || !unused(step->report.token)) continue;
      step->unused = true;
      session_.cancel(step->id);
    }
    std::erase_if(waiting_, [&](const Token& token) {
      if (!unused(token)) return false;
      report_unused(token);
      return true;
    });
  }

  void report_unused(const Token& token) {
    tell(TokenDone{.worker = index_, .token = token});
    if (token.request != 0) ask();
  }

  void ask() { tell(TakeToken{index_, ++request_}); }

  void note(const Frame& frame) {
    if (const auto* epoch = std::get_if<EpochDone>(&frame)) {
      figures_ = *epoch;
      if (plan_.options.on_epoch && epoch->chief == index_) plan_.options.on_epoch(*epoch);
    }
  }

  // Asynchronous workers pull what there is: one that pulled while it computes would miss its own last update.
  void begin_waiting() {
    const bool overlap = job_.mode != TrainingMode::asynchronous;
    while (!waiting_.empty() && (overlap || running_.empty())) {
      const Token token = waiting_.front();
      waiting_.pop_front();
      if (token.kind == TokenKind::train) {
        const Batch& batch = batches_.get(token.epoch, token.begin, token.end);
        start(step_, {batch.images, batch.labels}, token);
      } else {
        Batch& batch = test_batches_[next_test_batch_++ % test_batches_.size()];
        gather_range(plan_.data.test, static_cast<std::int64_t>(token.begin), static_cast<std::int64_t>(token.end), batch);
        start(evaluate_, {batch.images, batch.labels}, token);
      }
    }
  }

  std::shared_ptr<Running> start(const Callable& call, std::vector<Tensor> feeds, const Token& token) {
    auto step = std::make_shared<Running>();
    step->report = TokenDone{.worker = index_, .token = token, .examples = token.end - token.begin};
    running_.push_back(step);
    step->id = call.start(std::move(feeds), run_options(token), [step, mailbox = mailbox_](StepResult result) {
      step->result = std::move(result);
      step->ended.store(true, std::memory_order_release);
      mailbox->wake();
    });
    return step;
  }

  void end_first() {
    const auto step = running_.front();
    if (step->unused) {
      running_.pop_front();
      return report_unused(step->report.token);
    }
    const auto figures = fetches_of(*step);
    running_.pop_front();
    step->report.loss_sum = figures[0].item<float>();
    step->report.correct = static_cast<std::uint64_t>(figures[1].item<std::int64_t>());
    tell(step->report);
    attempt_.progress = true;
    if (step->report.token.request != 0) ask();
    const Token& token = step->report.token;
    if (token.kind != TokenKind::train || !plan_.options.on_progress) return;
    const std::uint64_t steps = static_cast<std::uint64_t>(plan_.data.train.size()) / ((job_.slots + job_.backups) * static_cast<std::uint64_t>(plan_.options.batch));
    plan_.options.on_progress(token.epoch, token.step % steps + 1, steps);
  }

  // Throws why the step, or the job, has failed.
  std::vector<Tensor> fetches_of(Running& step) {
    if (!step.result.error) return std::move(step.result.fetches);
    // Why the job failed says more than what that did to this step. Where a task is missing, that news may be on its way:
    // the first to go takes others with it, in any order.
    const bool lost = step.result.error.code() == Code::unavailable;
    mailbox_->check(lost ? kReasonPatience : std::chrono::seconds(0));
    throw step.result.error;
  }

  RunOptions run_options(const Token& token) const {
    return {.random_step = static_cast<std::int64_t>(token.step),
            .random_slot = token.slot,
            .training = {.worker = index_, .step = token.step, .slot = token.slot, .min_version = token.min_version, .job = number_, .view = view_}};
  }

  Trained finish(Token token) {
    Trained out;
    while (!running_.empty()) {  // of no use, and cancelled
      if (running_.front()->ended.load(std::memory_order_acquire))
        running_.pop_front();
      else if (const auto frame = mailbox_->take(kPollInterval))
        note(*frame);
    }
    for (;;) {
      if (token.slot == index_ && !out.result.chief) out = result_of(token);
      tell(Barrier{index_});
      for (bool again = false; !again;) {
        check_stop(plan_.options);
        const auto frame = mailbox_->take(kPollInterval);
        if (!frame) continue;
        if (std::holds_alternative<BarrierOpen>(*frame)) return out;
        note(*frame);
        if (const auto* next = std::get_if<Token>(&*frame)) {  // the chief is lost, and another is
          token = *next;
          again = true;
        }
      }
    }
  }

  Trained result_of(const Token& token) {
    Trained out;
    const auto values = read_all(token);
    const std::size_t trained = job_.graph.trainable.size();
    for (std::size_t i = 0; i < trained; ++i) out.parameters[job_.graph.trainable[i].name] = values[i];
    const double images = static_cast<double>(figures_.steps) * plan_.options.batch * job_.slots;
    out.result = {true, figures_.test_accuracy, figures_.steps, figures_.seconds,
                  figures_.seconds > 0 ? images / figures_.seconds : 0, params_sha256(out.parameters)};
    if (job_.graph.loss_scale) {
      out.result.skipped_steps = static_cast<std::uint64_t>(values[trained].item<std::int64_t>());
      out.result.loss_scale = values[trained + 1].item<float>();
    }
    return out;
  }

  std::vector<Tensor> read_all(const Token& token) {
    const auto step = start(read_all_, {}, token);
    while (!step->ended.load(std::memory_order_acquire)) {
      check_stop(plan_.options);
      if (const auto frame = mailbox_->take(kPollInterval)) note(*frame);
    }
    running_.pop_front();
    return fetches_of(*step);
  }

  const TrainingPlan& plan_;
  const Job& job_;
  Attempt& attempt_;
  std::uint32_t index_;
  Session session_;
  EpochBatches batches_;
  std::array<Batch, kTokensAhead> test_batches_;
  std::size_t next_test_batch_ = 0;
  Callable step_, evaluate_, read_all_;
  std::shared_ptr<WorkerMailbox> mailbox_;
  WorkerActor actor_;
  std::uint64_t number_ = 0;  // of the job, once it is joined
  std::uint64_t view_ = 0;    // of its members, in which this worker joined
  std::uint64_t request_ = 0;
  std::deque<Token> waiting_;  // for the step before
  std::deque<std::shared_ptr<Running>> running_;
  EpochDone figures_;
};

// ---- Again after losses ----------------------------------------------------------------------------------------------

constexpr int kFruitless = 3;  // attempts in a row
constexpr std::chrono::milliseconds kBackOff{100};

// May the job go on once other tasks are back?
bool may_pass(Code code) { return code == Code::unavailable || code == Code::aborted; }

void await_shards(const TrainingPlan& plan) {
  const auto deadline = std::chrono::steady_clock::now() + plan.options.rejoin_timeout;
  for (;;) {
    check_stop(plan.options);
    const auto left = deadline - std::chrono::steady_clock::now();
    try {
      return plan.task.await("ps", std::min<std::chrono::nanoseconds>(left, kPollInterval));
    } catch (const Error& error) {
      if (left <= kPollInterval) throw;
    }
  }
}

Trained take_part(const TrainingPlan& plan, const Job& job, Attempt& attempt) {
  if (plan.task.name().job != "ps") return WorkerLoop(plan, job, attempt).run();
  serve_shard(plan, job, attempt);
  return {};
}

}  // namespace

Trained train_in_cluster(const TrainingPlan& plan) {
  const std::string& role = plan.task.name().job;
  if (role != "ps" && role != "worker") fail(Code::failed_precondition, "a task of job '{}' has no part in training: use ps or worker", role);
  const Job job(plan);
  Attempt attempt{.after = plan.task.last_job(), .join_timeout = plan.options.join_timeout};
  Error before;
  for (int fruitless = 0;;) {
    Error why;
    try {
      return take_part(plan, job, attempt);
    } catch (const Error& error) {
      why = before && error.code() != Code::cancelled ? Error(error.code(), fmt::format("{}; before that: {}", error.message(), before.message())) : error;
    }
    fruitless = attempt.progress ? 0 : fruitless + 1;
    if (plan.options.on_loss == TrainingOptions::OnLoss::fail || !may_pass(why.code()) || fruitless > kFruitless) throw why;
    if (plan.options.on_note) plan.options.on_note(fmt::format("{}; waits for it to go on", why.message()));
    try {
      await_shards(plan);
    } catch (const Error& missing) {
      if (missing.code() == Code::cancelled) throw;
      throw why.within(missing.message());
    }
    if (!before || attempt.progress) before = why;
    std::this_thread::sleep_for(fruitless * kBackOff);
    const std::uint64_t last = plan.task.last_job();
    attempt = {.after = attempt.over || attempt.job == 0 ? last : attempt.job - 1,
               .job = attempt.over ? 0 : attempt.job,
               .join_timeout = plan.options.rejoin_timeout};
  }
}

}  // namespace troupe
