#include "tests/scheduler/simulation.hpp"

#include <algorithm>
#include <numeric>

namespace troupe::testing {
namespace {

JobOptions with_shards(JobOptions job, std::uint32_t shards) {
  job.shards.resize(shards);
  std::iota(job.shards.begin(), job.shards.end(), 0u);
  return job;
}

constexpr int kMaxDeliveries = 200000;

}  // namespace

Simulation::Simulation(const SimulationOptions& options)
    : options_(options),
      random_(options.seed),
      coordinator_(with_shards(options.job, options.shards), 0),
      shards_(options.shards),
      workers_(options.job.workers) {
  for (const SliceSpec& slice : options.model.specs()) shards_[shard_of(slice.id)].slices.push_back(slice);
  for (std::uint32_t i = 0; i < options.shards; ++i) {
    Shard& shard = shards_[i];
    shard.store = std::make_unique<ToyStore>(options.model, shard.slices);
    ShardOptions shard_options;
    shard_options.mode = options.job.mode;
    shard_options.shard = i;
    shard_options.workers = options.job.workers;
    shard_options.slots = options.job.slots;
    shard_options.staleness = options.job.staleness;
    shard_options.keep_previous = options.keep_previous;
    shard_options.accumulate = options.accumulate;
    shard.state = std::make_unique<ShardState>(shard_options, shard.slices, *shard.store);
  }
  for (std::uint32_t i = 0; i < workers_.size(); ++i) start(i);
}

std::string Simulation::run() {
  for (int i = 0; i < kMaxDeliveries && trouble_.empty(); ++i) {
    maybe_kill_or_revive();
    if (deliver_one()) continue;
    if (coordinator_.finished()) return "";
    return fmt::format("stuck: {} waits for {}; shard 0 for {}; {}", name(coordinator_.stage()),
                       coordinator_.waits_for(), shards_[0].state->waiting().to_string(),
                       coordinator_.failure().message());
  }
  return trouble_.empty() ? "it does not end" : trouble_;
}

Values Simulation::shard_values() const {
  Values values;
  for (std::uint32_t i = 0; i < options_.model.slices; ++i)
    values.push_back(shards_[shard_of(i)].store->value(i));
  return values;
}

void Simulation::expect_ok(const Error& error, const std::string& where) {
  if (error && trouble_.empty()) trouble_ = where + ": " + error.to_string();
}

// ---- The network
// ---------------------------------------------------------------------------------------------------

void Simulation::dispatch(Address from, const TrainingOutbox& out) {
  for (const Outgoing& outgoing : out) {
    if (const auto* epoch = std::get_if<EpochDone>(&outgoing.message)) epochs_.push_back(*epoch);
    switch (outgoing.to.kind) {
      case Destination::Kind::coordinator:
        send(from, 0, outgoing.message);
        break;
      case Destination::Kind::worker:
        send(from, worker_address(outgoing.to.index), outgoing.message);
        break;
      case Destination::Kind::shards:
        for (std::uint32_t i = 0; i < options_.shards; ++i) send(from, shard_address(i), outgoing.message);
        break;
      case Destination::Kind::everyone:
        for (std::uint32_t i = 0; i < workers_.size(); ++i) send(from, worker_address(i), outgoing.message);
    }
  }
}

bool Simulation::deliver_one() {
  std::vector<Link> ready;
  for (const auto& [link, queue] : links_)
    if (!queue.empty()) ready.push_back(link);
  const std::size_t choices = ready.size() + obituaries_.size();
  if (choices == 0) return false;
  now_ += 1000;
  const std::size_t choice = below(choices);
  if (choice >= ready.size()) {
    const auto [who, worker] = obituaries_[choice - ready.size()];
    obituaries_.erase(obituaries_.begin() + static_cast<std::ptrdiff_t>(choice - ready.size()));
    if (who != 0) {
      shards_[who - 1].state->worker_down(worker);
    } else {
      links_[{worker_address(worker), 0}].clear();
      TrainingOutbox out;
      coordinator_.worker_down(worker, "killed by the simulation", now_, out);
      dispatch(0, out);
    }
    return true;
  }
  std::deque<Frame>& queue = links_[ready[choice]];
  const Frame frame = queue.front();
  queue.pop_front();
  // A repetition comes at once or after all that is under way.
  if (chance() < options_.repeat) {
    if (below(2) == 0)
      queue.push_front(frame);
    else
      queue.push_back(frame);
  }
  deliver(ready[choice].first, ready[choice].second, frame);
  return true;
}

void Simulation::deliver(Address, Address to, const Frame& frame) {
  if (to == 0)
    to_coordinator(frame);
  else if (to <= options_.shards)
    to_shard(to - 1, frame);
  else
    to_worker(to - 1 - options_.shards, frame);
}

void Simulation::to_coordinator(const Frame& frame) {
  TrainingOutbox out;
  const bool over = coordinator_.finished();
  Error error;
  if (const auto* join = std::get_if<Join>(&frame)) {
    error = coordinator_.join(*join, now_, out);
    out.insert(out.begin(), {Destination::worker(join->worker), Joined{join->incarnation, 1, error, coordinator_.view_of(*join)}});
    if (over && error.code() == Code::failed_precondition) error = {};  // born too late
  } else if (const auto* take = std::get_if<TakeToken>(&frame)) {
    error = coordinator_.take_token(*take, now_, out);
  } else if (const auto* done = std::get_if<TokenDone>(&frame)) {
    error = coordinator_.token_done(*done, now_, out);
  } else if (const auto* staged = std::get_if<Staged>(&frame)) {
    error = coordinator_.staged(*staged, now_, out);
  } else if (const auto* barrier = std::get_if<Barrier>(&frame)) {
    error = coordinator_.barrier(*barrier, now_, out);
  }
  expect_ok(error, fmt::format("coordinator, {}", kind_name(frame)));
  dispatch(0, out);
}

void Simulation::to_shard(std::uint32_t shard, const Frame& frame) {
  TrainingOutbox out;
  if (const auto* pull = std::get_if<Pull>(&frame)) {
    expect_ok(shards_[shard].state->pull(*pull, out), "pull");
  } else if (const auto* push = std::get_if<Push>(&frame)) {
    expect_ok(shards_[shard].state->push(*push, out), "push");
  } else if (const auto* commit = std::get_if<Commit>(&frame)) {
    expect_ok(shards_[shard].state->commit(*commit, out), "commit");
  } else if (const auto* fence = std::get_if<Fence>(&frame)) {
    shards_[shard].state->fence(*fence);
  }
  dispatch(shard_address(shard), out);
}

// ---- Workers
// -------------------------------------------------------------------------------------------------------

void Simulation::start(std::uint32_t index) {
  Worker& worker = workers_[index];
  const std::uint64_t incarnation = worker.incarnation + 1;
  worker = {};
  worker.alive = true;
  worker.incarnation = incarnation;
  send(worker_address(index), 0,
       Join{index, Incarnation{incarnation}, options_.job.fingerprint, options_.job.settings});
}

void Simulation::take_token(std::uint32_t index) {
  Worker& worker = workers_[index];
  worker.open_requests.insert(++worker.requests);
  send(worker_address(index), 0, TakeToken{index, worker.requests, 0, worker.view});
}

void Simulation::to_worker(std::uint32_t index, const Frame& frame) {
  Worker& worker = workers_[index];
  if (!worker.alive) return;
  if (const auto* joined = std::get_if<Joined>(&frame)) {
    if (joined->error || joined->incarnation.value != worker.incarnation || worker.view != 0) return;
    worker.view = joined->view;
    for (std::uint32_t i = 0; i < options_.prefetch; ++i) take_token(index);
  } else if (const auto* token = std::get_if<Token>(&frame)) {
    if (worker.open_requests.erase(token->request) == 0) return;  // a repetition
    worker.known = true;
    if (token->kind != TokenKind::finish || !std::exchange(worker.finishing, true)) begin(index, *token);
  } else if (const auto* put = std::get_if<Put>(&frame)) {
    const auto found = worker.tasks.find(put->key.step.value);
    if (found == worker.tasks.end()) return;
    Task& task = found->second;
    if (put->version < task.token.min_version) expect_ok(Error(Code::internal, "too old"), "put");
    if (task.values[put->key.edge.value].valid()) return;
    task.values[put->key.edge.value] = put->tensor;
    task.versions[put->key.edge.value] = put->version;
    if (--task.missing > 0) return;
    complete(index, task);
    worker.tasks.erase(found);
  }
}

void Simulation::begin(std::uint32_t index, const Token& token) {
  const std::uint64_t id = ++tasks_begun_;
  const std::uint32_t slices = options_.model.slices;
  workers_[index].tasks[id] = {token, Values(slices), std::vector<std::uint64_t>(slices), slices};
  for (std::uint32_t slice = 0; slice < slices; ++slice)
    send(worker_address(index), shard_address(shard_of(slice)),
         Pull{index, RendezvousKey{SessionId{index}, StepId{id}, EdgeId{slice}}, slice, token.min_version, 0, workers_[index].view});
}

void Simulation::complete(std::uint32_t index, const Task& task) {
  const Token& token = task.token;
  if (token.kind == TokenKind::finish) {
    workers_[index].final_values = task.values;
    send(worker_address(index), 0, Barrier{index, 0, workers_[index].view});
    return;
  }
  const std::vector<std::uint32_t> examples = examples_of(options_.model, token, options_.job.train_examples);
  if (token.kind == TokenKind::train) {
    std::vector<std::uint32_t> order(options_.model.slices);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::uint32_t slice : order) {
      PushedGradient gradient = options_.model.gradient(task.values, slice, examples);
      send(worker_address(index), shard_address(shard_of(slice)),
           Push{index, token.step, token.slot, slice, task.versions[slice], gradient.values,
                gradient.indices, 0, workers_[index].view});
    }
  }
  send(worker_address(index), 0,
       TokenDone{index, token, options_.model.loss_sum(task.values, examples),
                 options_.model.correct(task.values, examples), examples.size(), 0, workers_[index].view});
  take_token(index);
}

// What the dead worker had sent may still arrive at the shards, or a part of it.
void Simulation::kill(std::uint32_t index) {
  workers_[index].alive = false;
  ++deaths_;
  for (auto& [link, queue] : links_)
    if (link.first == worker_address(index) && !queue.empty()) queue.resize(below(queue.size() + 1));
  for (Address who = 0; who <= options_.shards; ++who) obituaries_.push_back({who, index});
}

void Simulation::maybe_kill_or_revive() {
  // One born again is of no help until the coordinator knows it.
  const auto living = std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) {
    return w.alive && (w.incarnation == 1 || w.known);
  });
  const auto index = static_cast<std::uint32_t>(below(workers_.size()));
  if (workers_[index].alive) {
    const bool counts = workers_[index].incarnation == 1 || workers_[index].known;
    const bool others_live = living > (counts ? 1 : 0);
    if (others_live && chance() < options_.death) kill(index);
    return;
  }
  const bool mourned = std::none_of(obituaries_.begin(), obituaries_.end(),
                                    [&](const auto& obituary) { return obituary.second == index; });
  if (mourned && !coordinator_.finished() && chance() < options_.rebirth) start(index);
}

}  // namespace troupe::testing
