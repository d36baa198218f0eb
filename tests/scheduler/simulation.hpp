// One training job on a little deterministic network: a coordinator, shards and workers that run the protocol
// classes themselves, under random delay, reordering between links (never within one), repetition of any
// message, and deaths of workers. Everything follows from the seed.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "scheduler/training/coordinator.hpp"
#include "scheduler/training/shard_state.hpp"
#include "tests/scheduler/toy_model.hpp"

namespace troupe::testing {

struct SimulationOptions {
  std::uint64_t seed = 1;
  ToyModel model;
  JobOptions job;  // `shards` is filled in
  std::uint32_t shards = 1;
  std::uint32_t prefetch = 1;  // tokens a worker holds at a time
  double repeat = 0.1;         // probability that a delivered message comes once more
  double death = 0;            // probability that a worker dies instead of a delivery; one always lives
  double rebirth = 0;          // probability that a dead worker starts again
  bool keep_previous = true;
  std::uint32_t accumulate = 1;
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);

  // Until nothing moves any more. Returns "" if the job has then finished, else what went wrong.
  std::string run();

  Values shard_values() const;
  const std::vector<EpochDone>& epochs() const { return epochs_; }
  const Values& final_values(std::uint32_t worker) const { return workers_[worker].final_values; }
  const Coordinator& coordinator() const { return coordinator_; }
  const ShardState& shard(std::uint32_t i) const { return *shards_[i].state; }
  int applications(std::uint32_t shard) const { return shards_[shard].store->applications; }
  int deaths() const { return deaths_; }

 private:
  struct Shard {
    std::vector<SliceSpec> slices;
    std::unique_ptr<ToyStore> store;
    std::unique_ptr<ShardState> state;
  };
  struct Task {  // a token being computed
    Token token;
    Values values;
    std::vector<std::uint64_t> versions;
    std::uint32_t missing = 0;
  };
  struct Worker {
    bool alive = false;
    bool finishing = false;
    bool known = false;  // to the coordinator: it has given it a token
    std::uint64_t incarnation = 0;
    std::uint64_t view = 0;  // 0: has not joined
    std::uint64_t requests = 0;
    std::set<std::uint64_t> open_requests;
    std::map<std::uint64_t, Task> tasks;  // by the step of their rendezvous keys
    Values final_values;
  };
  // Addresses: 0 the coordinator, then shards, then workers.
  using Address = std::uint32_t;
  using Link = std::pair<Address, Address>;

  Address shard_address(std::uint32_t i) const { return 1 + i; }
  Address worker_address(std::uint32_t i) const { return 1 + options_.shards + i; }
  std::uint32_t shard_of(std::uint32_t slice) const { return slice % options_.shards; }

  double chance() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  void send(Address from, Address to, Frame frame) { links_[{from, to}].push_back(std::move(frame)); }
  void dispatch(Address from, const TrainingOutbox& out);
  void expect_ok(const Error& error, const std::string& where);
  bool deliver_one();
  void deliver(Address from, Address to, const Frame& frame);
  void to_coordinator(const Frame& frame);
  void to_shard(std::uint32_t shard, const Frame& frame);
  void to_worker(std::uint32_t worker, const Frame& frame);

  void start(std::uint32_t worker);
  void take_token(std::uint32_t worker);
  void begin(std::uint32_t worker, const Token& token);
  void complete(std::uint32_t worker, const Task& task);
  void kill(std::uint32_t worker);
  void maybe_kill_or_revive();

  SimulationOptions options_;
  std::mt19937_64 random_;
  Nanoseconds now_ = 0;
  Coordinator coordinator_;
  std::vector<Shard> shards_;
  std::vector<Worker> workers_;
  std::map<Link, std::deque<Frame>> links_;
  std::vector<std::pair<Address, std::uint32_t>> obituaries_;  // (who has not heard yet, of whom)
  std::uint64_t tasks_begun_ = 0;
  std::vector<EpochDone> epochs_;
  std::string trouble_;
  int deaths_ = 0;
};

}  // namespace troupe::testing
