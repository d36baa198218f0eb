#include "tests/scheduler/training/simulation.hpp"

#include <algorithm>
#include <numeric>

namespace troupe::testing {

Simulation::Simulation(const SimulationOptions& options)
    : options_(options),
      data_{.train = options.train_examples,
            .test = options.test_examples,
            .batch = options.job.batch,
            .test_batch = options.job.evaluation_batch,
            .slots = options.job.slots + options.job.backups},
      random_(options.seed),
      processes_(1 + options.shards + std::max(options.job.workers, options.job.max_workers)),
      shards_(options.shards),
      workers_(std::max(options.job.workers, options.job.max_workers)) {
  options_.job.shards.resize(options.shards);
  std::iota(options_.job.shards.begin(), options_.job.shards.end(), 0u);
  options_.job.phases = options.model.phases;
  std::vector<std::set<std::uint32_t>> of_phases(options.model.phases);
  for (const SliceSpec& slice : options.model.specs()) {
    shards_[shard_of(slice.id)].slices.push_back(slice);
    of_phases[slice.phase].insert(shard_of(slice.id));
  }
  if (options.packs) pack();
  for (const auto& shards : of_phases) options_.job.phase_shards.emplace_back(shards.begin(), shards.end());
  options_.job.steps_per_epoch = options.open_ended ? JobOptions::kUnknown : data_.steps();
  options_.job.evaluation_batches = options.open_ended && data_.test > 0 ? JobOptions::kUnknown : data_.test_batches();
  for (std::uint32_t i = 0; i < workers_.size(); ++i) processes_[worker_address(i)].alive = i < options.job.workers;
  begin_job();
  connect_all();
  if (options_.faults.any()) at(kMillisecond, [this] { mischief(); });
}

void Simulation::pack() {
  std::uint32_t next = options_.model.slices;
  for (std::uint32_t s = 0; s < options_.shards; ++s)
    for (std::uint32_t phase = 0; phase < options_.model.phases; ++phase) {
      SlicePack pack{.id = next, .shard = static_cast<int>(s), .dtype = options_.model.dtype, .slices = {}};
      for (const SliceSpec& slice : shards_[s].slices) {
        if (slice.phase != phase || ToyModel::is_sparse(slice.id)) continue;
        pack.slices.push_back(slice.id);
        pack.elements += slice.shape.num_elements();
      }
      if (pack.slices.size() < 2) continue;
      shards_[s].packs.push_back(std::move(pack));
      ++next;
    }
}

const SlicePack* Simulation::pack_of(std::uint32_t slice) const {
  for (const SlicePack& pack : shards_[shard_of(slice)].packs)
    if (std::ranges::find(pack.slices, slice) != pack.slices.end()) return &pack;
  return nullptr;
}

std::string Simulation::run_until(Nanoseconds time) {
  while (trouble_.empty() && !events_.empty() && events_.top().time <= time) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    (*event.action)();
  }
  return trouble_;
}

std::string Simulation::run() {
  if (const std::string wrong = run_until(options_.give_up); !wrong.empty()) return wrong;
  if (coordinator_->finished()) return "";
  return fmt::format("stuck at {} ms: {} waits for {} ({}); shard 0 for {}; {}", now_ / kMillisecond,
                     name(coordinator_->stage()), coordinator_->waits_for(), coordinator_->members(),
                     shards_[0].state->waiting().to_string(), coordinator_->failure().message());
}

void Simulation::expect_ok(const Error& error, const std::string& where) {
  if (error) trouble(where + ": " + error.to_string());
}

// ---- Time and processes --------------------------------------------------------------------------------------------

void Simulation::at(Nanoseconds time, Action action) {
  events_.push({std::max(time, now_), ++events_made_, std::make_shared<Action>(std::move(action))});
}

void Simulation::at(Nanoseconds time, Address process, Action action) {
  at(time, [this, process, life = processes_[process].life, what = std::make_shared<Action>(std::move(action))] {
    act(process, life, what);
  });
}

void Simulation::act(Address process, std::uint64_t life, const std::shared_ptr<Action>& action) {
  Process& p = processes_[process];
  if (!p.alive || p.life != life) return;
  if (p.stopped)
    p.waiting.push_back(*action);
  else
    (*action)();
}

// Its connections break; it is not told.
void Simulation::kill(Address process) {
  Process& p = processes_[process];
  p.alive = p.stopped = false;
  ++p.life;
  p.waiting.clear();
  for (auto& [ends, c] : connections_) {
    if (ends.first != process && ends.second != process) continue;
    const Address other = ends.first == process ? ends.second : ends.first;
    c.open[end_of(process, other)] = false;
    if (c.open[end_of(other, process)]) cut(process, other, 0, up_to(10 * options_.delay));
  }
}

// ---- Connections ---------------------------------------------------------------------------------------------------

// Workers with the coordinator and all shards; shards with the coordinator.
void Simulation::connect_all() {
  for (std::uint32_t s = 0; s < options_.shards; ++s) connect(0, shard_address(s));
  for (std::uint32_t w = 0; w < workers_.size(); ++w)
    for (Address a = 0; a <= options_.shards; ++a) connect(a, worker_address(w));
}

// If both ends live and have done with the last one. Each end hears of it by itself.
void Simulation::connect(Address a, Address b) {
  Connection& c = connection(a, b);
  if (c.open[0] || c.open[1] || !processes_[a].alive || !processes_[b].alive || processes_[a].stopped ||
      processes_[b].stopped)
    return;
  ++c.number;
  c.open[0] = c.open[1] = true;
  c.last[0] = c.last[1] = now_;
  c.lost_after[0] = c.lost_after[1] = 0;
  for (const auto& [self, other] : {std::pair{a, b}, std::pair{b, a}})
    at(now_, self, [this, self = self, other = other, number = c.number] {
      if (connection(self, other).number == number && open(self, other)) link_up(self, other);
    });
}

void Simulation::cut(Address a, Address b, Nanoseconds a_notices, Nanoseconds b_notices) {
  Connection& c = connection(a, b);
  for (Nanoseconds& lost : c.lost_after) lost = now_ + up_to(2 * options_.delay);
  at(std::max(now_ + a_notices, c.lost_after[end_of(a, b)]) + 1, a,
     [this, a, b, number = c.number] { close_end(a, b, number); });
  at(std::max(now_ + b_notices, c.lost_after[end_of(b, a)]) + 1, b,
     [this, a, b, number = c.number] { close_end(b, a, number); });
}

// Draws when the ends notice, in this order: that of arguments is the compiler's choice.
void Simulation::cut(Address a, Address b) {
  const Nanoseconds b_notices = up_to(10 * options_.delay), a_notices = up_to(10 * options_.delay);
  cut(a, b, a_notices, b_notices);
}

void Simulation::close_end(Address self, Address other, std::uint64_t number) {
  Connection& c = connection(self, other);
  if (c.number != number || !c.open[end_of(self, other)]) return;
  c.open[end_of(self, other)] = false;
  link_down(self, other);
  at(now_ + 1 + up_to(2 * options_.delay), [this, self, other] { connect(self, other); });
}

void Simulation::send(Address from, Address to, Frame frame) {
  Connection& c = connection(from, to);
  if (!c.open[end_of(from, to)]) return;
  ++tally_.frames;
  Nanoseconds& last = c.last[end_of(to, from)];
  Nanoseconds at_end = now_ + up_to(2 * options_.delay);
  if (!std::holds_alternative<Pull>(frame))
    at_end = last = std::max(last + 1, at_end);  // one that is small overtakes gradients
  const auto shared = std::make_shared<const Frame>(std::move(frame));
  const auto arrival = [this, from, to, number = c.number, job = job_, shared] {
    arrive(from, to, number, job, *shared);
  };
  const Nanoseconds lost = c.lost_after[end_of(to, from)];
  if (lost == 0 || at_end <= lost) at(at_end, to, arrival);
  if (chance() >= options_.repeat) return;
  ++tally_.repeated;  // at once, or behind some of what follows
  const Nanoseconds again = at_end + (below(2) == 0 ? 0 : up_to(options_.repeat_within));
  if (lost == 0 || again <= lost) at(again, to, arrival);
}

void Simulation::arrive(Address from, Address to, std::uint64_t number, std::uint64_t job, const Frame& frame) {
  Connection& c = connection(from, to);
  const Nanoseconds lost = c.lost_after[end_of(to, from)];
  const bool comes =
      c.number == number && c.open[end_of(to, from)] && (lost == 0 || now_ <= lost || processes_[to].stopped);
  if (!options_.job_fence ? comes || job != job_ : comes && job == job_) deliver(from, to, frame);
}

// ---- Mischief ------------------------------------------------------------------------------------------------------

void Simulation::mischief() {
  if (now_ >= options_.calm_after || coordinator_->finished()) return;
  at(now_ + kMillisecond, [this] { mischief(); });
  if (returning_) return;
  const SimulationOptions::Faults& f = options_.faults;
  const auto worker = static_cast<std::uint32_t>(below(workers_.size()));
  const Address address = worker_address(worker);
  Process& process = processes_[address];
  if (chance() < f.coordinator) {
    ++tally_.crashes;
    kill(0);
    return return_to_checkpoint();
  }
  if (chance() < f.shard) {
    ++tally_.crashes;
    const Address shard = shard_address(static_cast<std::uint32_t>(below(options_.shards)));
    return kill(shard);
  }
  if (chance() < f.join && !process.alive && worker >= options_.job.workers) {
    ++tally_.joins;
    process.alive = true;
    for (Address a = 0; a <= options_.shards; ++a) connect(a, address);
    return;
  }
  if (f.end > 0 && chance() < f.end) return stop_by_user(static_cast<Address>(1 + below(processes_.size() - 1)));
  if (!process.alive || process.stopped) return;
  if (chance() < f.crash) {
    ++tally_.crashes;
    kill(address);
    reset(worker);
    workers_[worker].requests = 0;
    if (options_.restart)
      at(now_ + up_to(20 * options_.delay), [this, address, worker] {
        processes_[address].alive = true;
        workers_[worker].left = false;  // one that was stopped and would have begun again, too
        for (Address a = 0; a <= options_.shards; ++a) connect(a, address);
      });
  } else if (chance() < f.stop) {
    ++tally_.stops;
    process.stopped = true;
    // Some notice, others do not before it goes on.
    for (Address a = 0; a <= options_.shards; ++a)
      if (below(2) == 0 && open(a, address)) cut(a, address);
    at(now_ + options_.delay + up_to(20 * options_.delay), [this, address, life = process.life] {
      Process& p = processes_[address];
      if (!p.alive || p.life != life) return;
      p.stopped = false;
      for (std::deque<Action> waiting = std::exchange(p.waiting, {}); !waiting.empty(); waiting.pop_front())
        waiting.front()();
      for (Address a = 0; a <= options_.shards; ++a) connect(a, address);
    });
  } else if (chance() < f.cut) {
    const auto other = static_cast<Address>(below(1 + options_.shards));
    if (!open(address, other) || !open(other, address)) return;
    ++tally_.cuts;
    cut(address, other);
  } else if (worker >= options_.job.workers && chance() < f.leave) {
    ++tally_.leaves;
    leave(worker);
  }
}

// Everyone hears that the job is over, after a while, and the next begins with what the newest checkpoint has.
void Simulation::return_to_checkpoint() {
  if (std::exchange(returning_, true)) return;
  ++tally_.returns;
  at(now_ + options_.delay + up_to(10 * options_.delay), [this] {
    returning_ = false;
    end_job();
    for (Address a = 0; a <= options_.shards; ++a) processes_[a].alive = true;
    for (auto& [ends, c] : connections_) c.open[0] = c.open[1] = false;
    begin_job();
    connect_all();
  });
}

// ---- Results -------------------------------------------------------------------------------------------------------

Values Simulation::shard_values() const {
  Values values;
  for (std::uint32_t i = 0; i < options_.model.slices; ++i) values.push_back(shards_[shard_of(i)].store->value(i));
  return values;
}

std::vector<Values> Simulation::final_values() const {
  std::vector<Values> found;
  for (const Worker& worker : workers_)
    if (!worker.final_values.empty()) found.push_back(worker.final_values);
  return found;
}

void Simulation::Tally::add(const ShardCounters& c) {
  shards.parked += c.parked;
  shards.duplicates += c.duplicates;
  shards.stale += c.stale;
  shards.uncommitted += c.uncommitted;
  shards.fenced += c.fenced;
  shards.refused += c.refused;
  shards.abandoned += c.abandoned;
  shards.batches += c.batches;
  for (std::size_t i = 0; i < c.staleness.size(); ++i) shards.staleness[i] += c.staleness[i];
}

void Simulation::Tally::add(const JobCounters& c) {
  job.returned += c.returned;
  job.repeated += c.repeated;
  job.ignored += c.ignored;
  job.fenced += c.fenced;
  job.late += c.late;
  job.joins += c.joins;
  job.losses += c.losses;
}

Simulation::Tally Simulation::tally() const {
  Tally tally = tally_;
  for (const Shard& shard : shards_) tally.add(shard.state->counters());
  tally.add(coordinator_->counters());
  return tally;
}

}  // namespace troupe::testing
