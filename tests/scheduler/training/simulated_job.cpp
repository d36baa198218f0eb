// What the processes of a simulated job do.
#include <algorithm>
#include <numeric>

#include "tests/scheduler/training/simulation.hpp"
#include <troupe/scheduler/data/permutation.hpp>

namespace troupe::testing {

// ---- A job ---------------------------------------------------------------------------------------------------------

void Simulation::begin_job() {
  ++job_;
  JobOptions job = options_.job;
  job.resume = newest_.job;
  job.saved_step = newest_.step;
  job.save_every = options_.save_every;
  if (options_.faults.end > 0) job.joining = job.shards;
  coordinator_ = std::make_unique<Coordinator>(job, now_);
  // Steps that are repeated may use other slots: then the figures are others, and what is decided by them.
  if (job_ > 1 && options_.job.backups > 0)
    epochs_.erase(epochs_.lower_bound(job.resume ? job.resume->epoch : 0), epochs_.end());
  acknowledged_ = acknowledged_before_;
  staged_.clear();
  next_tick_ = 0;
  writing_.clear();
  committing_ = 0;
  for (std::uint32_t i = 0; i < options_.shards; ++i) {
    Shard& shard = shards_[i];
    ShardOptions o;
    o.mode = options_.job.mode;
    o.shard = i;
    o.workers = static_cast<std::uint32_t>(workers_.size());
    o.slots = options_.job.slots;
    o.backups = options_.job.backups;
    o.phases = options_.job.phases;
    o.staleness = options_.job.staleness;
    o.keep_previous = options_.keep_previous;
    o.keep_versions = static_cast<std::uint32_t>(options_.job.lookahead) + options_.job.phases;
    o.accumulate = options_.accumulate;
    o.guards = options_.guards;
    shard.store = std::make_unique<ToyStore>(options_.model, shard.slices);
    if (const auto saved = newest_.shards.find(i); saved != newest_.shards.end()) {
      o.version = options_.job.mode == TrainingMode::asynchronous ? saved->second.cut.version
                                                                  : newest_.step * options_.job.phases;
      o.applied = saved->second.cut.applied;
      for (std::size_t s = 0; s < shard.slices.size(); ++s)
        shard.store->set(shard.slices[s].id, saved->second.values[s]);
      shard.store->kept_ = saved->second.kept;
    }
    shard.state = std::make_unique<ShardState>(o, shard.slices, *shard.store, shard.packs);
  }
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    reset(i);
    workers_[i].left = false;
    workers_[i].final_values.clear();
  }
}

void Simulation::end_job() {
  for (const Shard& shard : shards_) tally_.add(shard.state->counters());
  tally_.add(coordinator_->counters());
}

void Simulation::dispatch(Address from, const TrainingOutbox& out) {
  for (const Outgoing& outgoing : out) {
    if (const auto* epoch = std::get_if<EpochDone>(&outgoing.message)) {
      const auto before = epochs_.find(epoch->epoch);
      if (before != epochs_.end() && options_.job.mode == TrainingMode::synchronous && options_.job.backups == 0 &&
          before->second.training != epoch->training)
        trouble(fmt::format("epoch {} has the sums {}, and had {} when it was told first", epoch->epoch,
                            to_string(epoch->training), to_string(before->second.training)));
      epochs_[epoch->epoch] = *epoch;
    }
    if (std::holds_alternative<BarrierOpen>(outgoing.message) && options_.save_every > 0) check_last_checkpoint();
    using Kind = Destination::Kind;
    const Kind kind = outgoing.to.kind;
    if (kind == Kind::coordinator) send(from, 0, outgoing.message);
    if (kind == Kind::worker) send(from, worker_address(outgoing.to.index), outgoing.message);
    if (kind == Kind::shards || kind == Kind::everyone)
      for (std::uint32_t i = 0; i < options_.shards; ++i)
        if (shard_address(i) != from) send(from, shard_address(i), outgoing.message);
    if (kind == Kind::everyone)
      for (std::uint32_t i = 0; i < workers_.size(); ++i) send(from, worker_address(i), outgoing.message);
  }
}

// At the end of the job the newest checkpoint has all that was trained.
void Simulation::check_last_checkpoint() {
  const std::uint64_t steps = coordinator_->counters().steps;
  if (newest_.step != steps || newest_.job->step != steps)
    return trouble(fmt::format("the job ends after step {}, but its newest checkpoint, {}, has step {}", steps,
                               newest_.step, newest_.job ? newest_.job->step : 0));
  for (const auto& [index, saved] : newest_.shards)
    for (std::size_t i = 0; i < saved.values.size(); ++i)
      if (const std::uint32_t slice = shards_[index].slices[i].id;
          !bitwise_equal(saved.values[i], shards_[index].store->value(slice)))
        trouble(fmt::format("the last checkpoint lacks updates of slice {}", slice));
}

void Simulation::deliver(Address from, Address to, const Frame& frame) {
  if (to == 0)
    to_coordinator(from, frame);
  else if (is_worker(to))
    to_worker(worker_of(to), frame);
  else
    to_shard(to - 1, frame);
}

void Simulation::link_up(Address self, Address other) {
  if (is_worker(self)) return join_if_connected(worker_of(self));
  if (other == 0 && options_.faults.end > 0)
    send(self, 0, Join{self - 1, Incarnation{job_}, options_.job.fingerprint, options_.job.settings, true});
}

void Simulation::link_down(Address self, Address other) {
  if (is_worker(self)) {
    reset(worker_of(self));
    return join_if_connected(worker_of(self));
  }
  if (self == 0 && is_worker(other)) {
    TrainingOutbox out;
    coordinator_->worker_down(worker_of(other), "its connection broke", now_, out);
    dispatch(0, out);
    return after_coordinator();
  }
  if (is_worker(other)) return shards_[self - 1].state->worker_down(worker_of(other));
  if (!coordinator_->finished()) return_to_checkpoint();
}

// ---- The coordinator -----------------------------------------------------------------------------------------------

void Simulation::to_coordinator(Address from, const Frame& frame) {
  TrainingOutbox out;
  Error error;
  if (const auto* join = std::get_if<Join>(&frame)) {
    const bool over = coordinator_->finished();
    error = coordinator_->join(*join, now_, out);
    send(0, from,
         Joined{.incarnation = join->incarnation, .job = job_, .error = error, .view = coordinator_->view_of(*join)});
    if (error.code() == Code::aborted || (over && error.code() == Code::failed_precondition)) error = {};
  } else if (const auto* leave = std::get_if<Leave>(&frame)) {
    coordinator_->leave(*leave, now_, out);
  } else if (const auto* take = std::get_if<TakeToken>(&frame)) {
    error = coordinator_->take_token(*take, now_, out);
    if (coordinator_->finished()) error = {};
  } else if (const auto* done = std::get_if<TokenDone>(&frame)) {
    error = coordinator_->token_done(*done, now_, out);
  } else if (const auto* staged = std::get_if<Staged>(&frame)) {
    error = coordinator_->staged(*staged, now_, out);
    const std::uint64_t turn = turn_of(staged->step, staged->phase, options_.job.phases);
    auto& shards = staged_[turn];
    shards.insert(staged->shard);
    if (shards.size() == options_.job.phase_shards[staged->phase].size()) acknowledged_.insert(turn);
  } else if (const auto* saved = std::get_if<Saved>(&frame)) {
    error = coordinator_->saved(*saved);
  } else if (const auto* barrier = std::get_if<Barrier>(&frame)) {
    error = coordinator_->barrier(*barrier, now_, out);
  }
  if (!returning_) expect_ok(error, fmt::format("coordinator, {}", kind_name(frame)));
  dispatch(0, out);
  after_coordinator();
}

// Deadlines and checkpoints.
void Simulation::after_coordinator() {
  TrainingOutbox out;
  coordinator_->save_when_due(committing_ > 0, now_, out);
  dispatch(0, out);
  end_when_stopped();
  for (const SaveEvent& event : coordinator_->take_saves()) {
    if (event.kind == SaveEvent::Kind::commit) commit(event.round);
    if (event.kind == SaveEvent::Kind::failed) trouble("save: " + event.round.error.to_string());
  }
  const auto deadline = coordinator_->deadline();
  if (deadline && *deadline < options_.give_up && (next_tick_ <= now_ || *deadline < next_tick_)) {
    next_tick_ = std::max(*deadline, now_) + 1;
    at(next_tick_, Address{0}, [this] {
      TrainingOutbox late;
      coordinator_->tick(now_, late);
      dispatch(0, late);
      after_coordinator();
    });
  }
}

// Takes a while. If the coordinator or the job ends before, there is no checkpoint.
void Simulation::commit(const SaveRound& round) {
  ++committing_;
  Checkpoint whole = std::move(writing_[round.step]);
  whole.step = round.step;
  whole.job = round.state;
  writing_.erase(writing_.begin(), writing_.upper_bound(round.step));
  at(now_ + up_to(20 * options_.delay), Address{0}, [this, whole = std::move(whole), job = job_] {
    if (job != job_) return;
    --committing_;
    if (whole.shards.size() != options_.shards) trouble("a checkpoint lacks shards");
    if (whole.step > newest_.step) newest_ = whole;
    ++tally_.checkpoints;
    acknowledged_before_.clear();
    for (std::uint64_t turn = 0; turn < newest_.job->step * options_.job.phases; ++turn)
      acknowledged_before_.insert(turn);
    coordinator_->written();
    after_coordinator();
  });
}

// ---- Shards --------------------------------------------------------------------------------------------------------

void Simulation::to_shard(std::uint32_t index, const Frame& frame) {
  ShardState& state = *shards_[index].state;
  TrainingOutbox out;
  Error error;
  std::uint32_t worker = 0;
  if (const auto* pull = std::get_if<Pull>(&frame)) {
    error = state.pull(*pull, out);
  } else if (const auto* push = std::get_if<Push>(&frame)) {
    worker = push->worker;
    error = state.push(*push, out);
    if (error && options_.misread > 0) {  // it has erred; its job ends there, and it is started again
      ++tally_.refused;
      send(shard_address(index), worker_address(worker), JobFailed{std::exchange(error, {})});
    }
  } else if (const auto* commit = std::get_if<Commit>(&frame)) {
    error = state.commit(*commit, out);
  } else if (const auto* fence = std::get_if<Fence>(&frame)) {
    state.fence(*fence);
  } else if (const auto* save = std::get_if<Save>(&frame)) {
    save_shard(index, *save);
  }
  expect_ok(error, fmt::format("shard {}, {}", index, kind_name(frame)));
  dispatch(shard_address(index), out);
}

// Writing takes a while, and training goes on.
void Simulation::save_shard(std::uint32_t index, const Save& save) {
  const Address self = shard_address(index);
  const auto answer = [this, self, index, save](const Error& error) {
    send(self, 0, Saved{.shard = index, .step = save.step, .files = {}, .error = error});
  };
  const Error error =
      shards_[index].state->cut(save.step, [this, self, index, save, answer](const ShardState::Cut& cut) {
        Values values;
        for (const SliceSpec& slice : shards_[index].slices) values.push_back(shards_[index].store->value(slice.id));
        at(now_ + up_to(5 * options_.delay), self,
           [this, index, cut, values, kept = shards_[index].store->kept_, save, answer, job = job_] {
             if (job != job_ || returning_) return;
             writing_[save.step].shards.emplace(index, Checkpoint::Shard{cut, values, kept});
             answer(Error());
           });
      });
  if (error) answer(error);
}

// ---- Workers -------------------------------------------------------------------------------------------------------

void Simulation::reset(std::uint32_t index) {
  Worker& worker = workers_[index];
  worker.joining = worker.finishing = false;
  worker.view = 0;
  if (worker.tokens) worker.requests = worker.tokens->requests();  // answers of those before may still come
  worker.tokens.reset();
  worker.tasks.clear();
}

void Simulation::join_if_connected(std::uint32_t index) {
  Worker& worker = workers_[index];
  const Address self = worker_address(index);
  for (Address a = 0; a <= options_.shards; ++a)
    if (!open(self, a)) return;
  if (worker.joining || worker.left || coordinator_->finished()) return;
  worker.joining = true;
  worker.incarnation = ++incarnations_;
  send(self, 0, Join{index, Incarnation{worker.incarnation}, options_.job.fingerprint, options_.job.settings});
}

// At once: unlike one that is stopped by its user, it does not work on.
void Simulation::leave(std::uint32_t index) {
  Worker& worker = workers_[index];
  send(worker_address(index), 0,
       Leave{index, Incarnation{worker.incarnation}, false, 0, Error(Code::aborted, "it has other things to do")});
  worker.left = true;
  reset(index);
}

// The job goes on without a worker that was stopped. It is started again.
void Simulation::let_go(std::uint32_t index) {
  reset(index);
  workers_[index].left = true;
  at(now_ + up_to(20 * options_.delay), worker_address(index), [this, index] {
    workers_[index].left = false;
    join_if_connected(index);
  });
}

void Simulation::stop_by_user(Address process) {
  if (coordinator_->stage() == Coordinator::Stage::joining) return;
  const bool shard = !is_worker(process);
  const std::uint32_t index = shard ? process - 1 : worker_of(process);
  if (!processes_[process].alive || processes_[process].stopped || (!shard && workers_[index].view == 0)) return;
  send(process, 0,
       Leave{index, Incarnation{shard ? job_ : workers_[index].incarnation}, shard, 0,
             Error(Code::cancelled, "training was stopped")});
}

// A job that a stopped task ends has saved what it says.
void Simulation::end_when_stopped() {
  if (coordinator_->failure().code() != Code::cancelled || returning_) return;
  ++tally_.ends;
  const std::string& why = coordinator_->failure().message();
  if (why.find(fmt::format("the job has saved step {} and ended", newest_.step)) == std::string::npos)
    trouble(fmt::format("{}, but its newest checkpoint is {}", why, newest_.step));
  return_to_checkpoint();
}

void Simulation::to_worker(std::uint32_t index, const Frame& frame) {
  Worker& worker = workers_[index];
  if (const auto* joined = std::get_if<Joined>(&frame)) {
    if (!worker.joining || joined->incarnation.value != worker.incarnation || worker.view != 0) return;
    worker.view = joined->view;
    if (joined->error || worker.view == 0) return reset(index);
    worker.tokens.emplace(WorkerTokens::Options{.worker = index,
                                                .mode = options_.job.mode,
                                                .phases = options_.job.phases,
                                                .ahead = options_.prefetch,
                                                .view = worker.view,
                                                .requests = worker.requests});
    TrainingOutbox out;
    worker.tokens->begin(out);
    go_on(index, out);
  } else if (const auto* token = std::get_if<Token>(&frame)) {
    if (!worker.tokens) return;
    worker.tokens->came(*token);
    go_on(index, {});
  } else if (const auto* put = std::get_if<Put>(&frame)) {
    take_put(index, *put);
  } else if (const auto* commit = std::get_if<Commit>(&frame)) {
    if (worker.tokens) drop_unused(index, *commit);
  } else if (const auto* fence = std::get_if<Fence>(&frame)) {
    if (worker.view == 0 || worker.view >= fence->view) return;
    reset(index);
    join_if_connected(index);
  } else if (std::holds_alternative<JobFailed>(frame) && options_.misread > 0) {
    reset(index);
    join_if_connected(index);
  } else if (std::holds_alternative<JobFailed>(frame) && options_.faults.end > 0) {
    let_go(index);
  }
}

// Says what its tokens have brought about, and computes what may be computed now.
void Simulation::go_on(std::uint32_t index, const TrainingOutbox& out) {
  dispatch(worker_address(index), out);
  Worker& worker = workers_[index];
  while (const auto work = worker.tokens->start()) begin(index, *work);
  while (const auto token = worker.tokens->finish())
    if (!std::exchange(worker.finishing, true) || token->slot == index) begin(index, {.id = 0, .token = *token});
}

// Its other tokens need not be computed.
void Simulation::drop_unused(std::uint32_t index, const Commit& commit) {
  Worker& worker = workers_[index];
  TrainingOutbox out;
  for (const std::uint64_t id : worker.tokens->committed(commit, out)) {
    std::erase_if(worker.tasks, [&](const auto& task) { return task.second.work.id == id; });
    worker.tokens->ended(id, {}, out);
  }
  go_on(index, out);
}

void Simulation::take_put(std::uint32_t index, const Put& answer) {
  for (const Shard& shard : shards_)
    for (const SlicePack& pack : shard.packs)
      if (pack.id == answer.key.edge.value) return take_pack(index, pack, answer);
  Worker& worker = workers_[index];
  Put put = answer;
  const auto of = worker.tasks.find(put.key.step.value);
  if (!put.error && of != worker.tasks.end() && of->second.work.token.kind != TokenKind::finish)
    put.tensor = from_rows(rows_to_pull(put.key.edge.value, put.key.step.value), put.tensor);
  const auto found = worker.tasks.find(put.key.step.value);
  if (found == worker.tasks.end() || found->second.computing) return;
  Task& task = found->second;
  if (put.error) return trouble(fmt::format("worker {}: {}", index, put.error.to_string()));
  if (put.version < task.work.token.min_version && options_.misread == 0)
    trouble(fmt::format("worker {}: got version {}", index, put.version));
  if (!has_earlier_phases(task.work.token, put.key.edge.value, put.tensor))
    trouble(fmt::format("worker {}: phase {} of batch {} does not see the phase before", index, task.work.token.phase,
                        task.work.token.step));
  if (task.values[put.key.edge.value].valid()) return;
  const bool trained = (task.work.after + options_.job.phases - 1) % options_.job.phases ==
                       put.key.edge.value % options_.job.phases;  // in the turn named by the pull
  if (trained && !has_own_batch(task, put.tensor))
    trouble(fmt::format("worker {}: does not see its own batch {}", index, task.work.after - 1));
  task.values[put.key.edge.value] = put.tensor;
  task.versions[put.key.edge.value] = put.version;
  if (--task.missing > 0) return;
  task.computing = true;
  const auto slower = options_.slower.find(index);
  const double times = slower == options_.slower.end() ? 1 : slower->second;
  const auto time =
      static_cast<Nanoseconds>(static_cast<double>(options_.compute / 2 + up_to(options_.compute)) * times);
  at(now_ + time, worker_address(index), [this, index, id = found->first] {
    const auto node = workers_[index].tasks.extract(id);
    if (!node.empty()) complete(index, node.mapped());
  });
}

void Simulation::begin(std::uint32_t index, const WorkerTokens::Work& work) {
  const std::uint64_t id = ++tasks_begun_;
  const std::uint32_t slices = options_.model.slices;
  Worker& worker = workers_[index];
  const Token& token = work.token;
  if (token.kind != TokenKind::finish && examples_of(options_.model, token, data_).empty()) {
    TrainingOutbox out;
    worker.tokens->ended(work.id, TokenDone{.token = {}, .sums = {}, .over = true}, out);
    return dispatch(worker_address(index), out);
  }
  worker.tasks[id] = {work, Values(slices), std::vector<std::uint64_t>(slices), slices};
  const bool misread = token.kind == TokenKind::train && token.min_version > 0 && chance() < options_.misread;
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    const SlicePack* pack = pack_of(slice);
    if (pack && pack->slices.front() != slice) continue;
    const std::uint32_t wanted = pack ? pack->id : slice;
    send(worker_address(index), shard_address(shard_of(slice)),
         Pull{index, RendezvousKey{SessionId{index}, StepId{id}, EdgeId{wanted}}, wanted,
              token.min_version - (misread ? 1 : 0), 0, worker.view, work.after,
              token.kind == TokenKind::finish ? Tensor() : rows_to_pull(slice, id),
              token.kind == TokenKind::finish && token.keep});
  }
}

void Simulation::take_pack(std::uint32_t index, const SlicePack& pack, const Put& put) {
  std::int64_t begin = 0;
  for (const std::uint32_t slice : pack.slices) {
    Put part = put;
    part.key.edge = EdgeId{slice};
    if (put.tensor.valid()) {
      const Shape shape = options_.model.specs()[slice].shape;
      const std::int64_t end = begin + shape.num_elements();
      part.tensor = put.tensor.rows(begin, end).reshaped(shape);
      begin = end;
    }
    take_put(index, part);
  }
}

// The gradient of a slice, or those of its pack.
Push Simulation::push_of(const Task& task, std::uint32_t slice, const std::vector<std::uint32_t>& examples,
                         std::int64_t tag) const {
  const auto gradient_of = [&](std::uint32_t s) {
    PushedGradient gradient = options_.model.gradient(task.values, s, examples);
    return options_.model.digits ? tagged(std::move(gradient), tag) : gradient;
  };
  const Token& token = task.work.token;
  Push push{.step = token.step,
            .phase = token.phase,
            .slot = token.slot,
            .slice = slice,
            .pulled_version = task.versions[slice],
            .gradient = {},
            .indices = {},
            .rate_scale = token.rate_scale,
            .keep = token.keep && options_.keeps};
  if (const SlicePack* pack = pack_of(slice)) {
    push.slice = pack->id;
    push.gradient = Tensor(pack->dtype, Shape{pack->elements});
    std::byte* at = push.gradient.mutable_raw();
    for (const std::uint32_t member : pack->slices) {
      const Tensor values = gradient_of(member).values;
      at = std::copy_n(values.raw(), values.num_bytes(), at);
    }
    return push;
  }
  PushedGradient gradient = gradient_of(slice);
  push.gradient = std::move(gradient.values);
  push.indices = std::move(gradient.indices);
  return push;
}

bool Simulation::has_batch(const Tensor& value, std::uint64_t batch) const {
  std::int64_t tag = 0;
  return counts_of(value, data_.train, tag)[permutation(options_.model.seed, 0, data_.train)[batch]] > 0;
}

bool Simulation::has_own_batch(const Task& task, const Tensor& value) const {
  if (!options_.model.digits || options_.accumulate > 1 || task.work.after == 0) return true;
  return has_batch(value, (task.work.after - 1) / options_.job.phases);
}

bool Simulation::has_earlier_phases(const Token& token, std::uint64_t slice, const Tensor& value) const {
  if (!options_.model.digits || options_.accumulate > 1 || token.kind != TokenKind::train) return true;
  return slice % options_.job.phases >= token.phase || has_batch(value, token.step);
}

void Simulation::complete(std::uint32_t index, const Task& task) {
  const Token& token = task.work.token;
  const Address self = worker_address(index);
  const std::uint64_t view = workers_[index].view;
  if (token.kind == TokenKind::finish) {
    workers_[index].final_values = task.values;
    return send(self, 0, Barrier{index, 0, view});
  }
  const std::vector<std::uint32_t> examples = examples_of(options_.model, token, data_);
  Nanoseconds time = now_;
  const std::uint64_t incarnation = workers_[index].incarnation;
  const auto say = [&](Address to, Frame frame) {  // unless it has forgotten by then
    const auto shared = std::make_shared<const Frame>(std::move(frame));
    at(time, self, [this, index, self, to, view, incarnation, shared] {
      if (workers_[index].incarnation == incarnation && workers_[index].view == view) send(self, to, *shared);
    });
  };
  if (token.kind == TokenKind::train) {
    const auto tag = static_cast<std::int64_t>(++tasks_begun_);
    std::vector<std::uint32_t> order;
    for (std::uint32_t slice = token.phase; slice < options_.model.slices; slice += options_.job.phases)
      if (const SlicePack* pack = pack_of(slice); !pack || pack->slices.front() == slice) order.push_back(slice);
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::uint32_t slice : order) {  // gradients come one after the other
      Push push = push_of(task, slice, examples, tag);
      push.worker = index;
      push.view = view;
      say(shard_address(shard_of(slice)), std::move(push));
      time += up_to(options_.compute / 4);
    }
  }
  const TokenDone report{.worker = index,
                         .token = token,
                         .sums = options_.model.sums(task.values, examples, token.phase),
                         .examples = examples.size()};
  at(time, self, [this, index, view, incarnation, id = task.work.id, report] {
    if (workers_[index].incarnation != incarnation || workers_[index].view != view) return;
    TrainingOutbox out;
    workers_[index].tokens->ended(id, report, out);
    go_on(index, out);
  });
}

}  // namespace troupe::testing
