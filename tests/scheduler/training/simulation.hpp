// One training job on a simulated cluster in virtual time: a coordinator, shards and workers that run the protocol
// classes themselves. Everything follows from the seed: delays, the order between links (never within one), repetition
// of any message, connections that break, processes that crash, stop and go on, join and leave, checkpoints in
// simulated storage.
//
//   Connections are TCP: in order, but for pulls, which overtake gradients, until they break; then what was under way
//   is lost from some point on, and each end notices when it does. They come up again when both ends have noticed and
//   live.
//   A worker that loses a connection forgets what it was doing and joins as a new incarnation. A stopped one handles
//   nothing; when it goes on, it first sends what it was about to.
//   If a shard or the coordinator is lost, all return to the newest complete checkpoint, as a new job. So they do if
//   the job ends because a task was stopped by its user, as if it were started again.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/scheduler/training/toy_model.hpp"
#include <troupe/scheduler/training/coordinator.hpp>
#include <troupe/scheduler/training/shard_state.hpp>
#include <troupe/scheduler/training/worker_tokens.hpp>

namespace troupe::testing {

struct SimulationOptions {
  std::uint64_t seed = 1;
  ToyModel model;
  JobOptions job;  // what follows from the others is filled in
  std::uint64_t train_examples = 1;
  std::uint64_t test_examples = 0;
  bool open_ended = false;  // the coordinator does not know how many batches there are
  std::uint32_t shards = 1;
  bool packs = false;                            // the dense slices of a shard and phase travel together
  std::uint32_t prefetch = 1;                    // tokens a worker asks for at a time
  double repeat = 0.1;                           // probability that a delivered message comes once more,
  Nanoseconds repeat_within = 4 * kMillisecond;  // at once or so much later
  Nanoseconds delay = kMillisecond;              // of a frame: up to twice that
  Nanoseconds compute = kMillisecond;            // of a token: up to twice that
  std::map<std::uint32_t, double> slower;        // workers that take so many times as long
  // Faults, as probabilities in each millisecond until `calm_after`.
  struct Faults {
    double crash = 0;        // a worker; it is started again
    double stop = 0;         // a worker, for a while
    double cut = 0;          // a connection of a worker
    double join = 0;         // a worker beyond those expected
    double leave = 0;        // one of these
    double shard = 0;        // crashes
    double coordinator = 0;  // crashes
    double end = 0;          // the user stops a worker or shard: it works on until the job has saved, or lets it go
    bool any() const { return crash + stop + cut + join + leave + shard + coordinator + end > 0; }
  } faults;
  bool restart = true;  // a crashed worker is started again
  Nanoseconds calm_after = 200 * kMillisecond;
  double misread = 0;            // probability that a worker, wrongly, asks for values one version too old
  std::uint64_t save_every = 0;  // steps between checkpoints; 0: none
  bool keep_previous = true;
  std::uint32_t accumulate = 1;
  ShardGuards guards;
  bool keeps = true;      // workers say when values are to be kept
  bool job_fence = true;  // frames of an earlier job are dropped
  Nanoseconds give_up = 100'000 * kMillisecond;
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);

  // Until the job is over and nothing moves any more. Returns "" if it has finished, else what went wrong.
  std::string run();
  // The same, but only up to this time; "" if nothing has gone wrong yet.
  std::string run_until(Nanoseconds time);

  Values shard_values() const;
  const std::map<std::uint32_t, EpochDone>& epochs() const { return epochs_; }  // as told last
  // Of each worker that has come to the end.
  std::vector<Values> final_values() const;
  const Coordinator& coordinator() const { return *coordinator_; }
  const ShardState& shard(std::uint32_t i) const { return *shards_[i].state; }
  Nanoseconds now() const { return now_; }
  std::uint64_t saved_step() const { return newest_.step; }  // of the newest checkpoint; 0: none
  const ToyData& data() const { return data_; }
  // Turns (asynchronous) that were reported and are on every shard.
  const std::set<std::uint64_t>& acknowledged() const { return acknowledged_; }

  struct Tally {
    int crashes = 0, stops = 0, cuts = 0, joins = 0, leaves = 0, returns = 0;
    int ends = 0;  // of jobs that have saved because a task was stopped by its user
    int checkpoints = 0;
    std::uint64_t frames = 0, repeated = 0;
    std::uint64_t refused = 0;  // messages of workers that misread
    ShardCounters shards;       // of all of them, also of jobs before a return
    JobCounters job;
    void add(const ShardCounters& counters);
    void add(const JobCounters& counters);
  };
  Tally tally() const;

 private:
  using Address = std::uint32_t;  // 0 the coordinator, then shards, then workers
  using Action = std::function<void()>;
  struct Process {
    bool alive = true;
    bool stopped = false;
    std::uint64_t life = 0;
    std::deque<Action> waiting;  // while it is stopped
  };
  struct Connection {
    std::uint64_t number = 0;
    bool open[2] = {false, false};       // as its ends see it, the lower address first
    Nanoseconds last[2] = {0, 0};        // arrival of the last frame to that end
    Nanoseconds lost_after[2] = {0, 0};  // what would arrive later does not; 0: all arrives
  };
  struct Event {
    Nanoseconds time;
    std::uint64_t number;
    std::shared_ptr<Action> action;
    bool operator>(const Event& other) const { return std::tie(time, number) > std::tie(other.time, other.number); }
  };
  struct Shard {
    std::vector<SliceSpec> slices;
    std::vector<SlicePack> packs;
    std::unique_ptr<ToyStore> store;
    std::unique_ptr<ShardState> state;
  };
  struct Task {  // a token being computed
    WorkerTokens::Work work;
    Values values;
    std::vector<std::uint64_t> versions;
    std::uint32_t missing = 0;
    bool computing = false;
  };
  struct Worker {
    std::uint64_t incarnation = 0;  // of the last Join; 0: none
    bool joining = false;           // it has said so
    std::uint64_t view = 0;
    std::optional<WorkerTokens> tokens;   // since it has joined
    std::uint64_t requests = 0;           // of incarnations before
    std::map<std::uint64_t, Task> tasks;  // by the step of their rendezvous keys
    bool finishing = false;
    bool left = true;  // not started, or gone for good
    Values final_values;
  };
  struct Checkpoint {
    std::uint64_t step = 0;
    std::optional<JobState> job;
    struct Shard {
      ShardState::Cut cut;
      Values values;
      std::map<std::uint32_t, Tensor> kept;  // by slice
    };
    std::map<std::uint32_t, Shard> shards;
  };

  Address shard_address(std::uint32_t i) const { return 1 + i; }
  Address worker_address(std::uint32_t i) const { return 1 + options_.shards + i; }
  bool is_worker(Address a) const { return a > options_.shards; }
  std::uint32_t worker_of(Address a) const { return a - 1 - options_.shards; }
  std::uint32_t shard_of(std::uint32_t slice) const { return slice % options_.shards; }
  void pack();
  const SlicePack* pack_of(std::uint32_t slice) const;  // null: it travels alone
  void take_pack(std::uint32_t worker, const SlicePack& pack, const Put& put);
  Push push_of(const Task& task, std::uint32_t slice, const std::vector<std::uint32_t>& examples,
               std::int64_t tag) const;
  double chance() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  Nanoseconds up_to(Nanoseconds most) { return static_cast<Nanoseconds>(below(static_cast<std::size_t>(most) + 1)); }
  void trouble(const std::string& what) {
    if (trouble_.empty()) trouble_ = what;
  }
  void expect_ok(const Error& error, const std::string& where);

  // Time, processes and connections (simulation.cpp).
  void at(Nanoseconds time, Action action);
  void at(Nanoseconds time, Address process, Action action);  // if it lives then; later if it is stopped
  void act(Address process, std::uint64_t life, const std::shared_ptr<Action>& action);
  Connection& connection(Address a, Address b) { return connections_[std::minmax(a, b)]; }
  static std::size_t end_of(Address self, Address other) { return self < other ? 0 : 1; }
  bool open(Address self, Address other) { return connection(self, other).open[end_of(self, other)]; }
  void connect_all();
  void connect(Address a, Address b);
  void cut(Address a, Address b, Nanoseconds a_notices, Nanoseconds b_notices);
  void cut(Address a, Address b);
  void close_end(Address self, Address other, std::uint64_t number);
  void send(Address from, Address to, Frame frame);
  void arrive(Address from, Address to, std::uint64_t number, std::uint64_t job, const Frame& frame);
  void deliver(Address from, Address to, const Frame& frame);
  void kill(Address process);
  void link_up(Address self, Address other);
  void link_down(Address self, Address other);
  void mischief();
  void return_to_checkpoint();

  // What the processes do (simulated_job.cpp).
  void begin_job();
  void end_job();
  void dispatch(Address from, const TrainingOutbox& out);
  void check_last_checkpoint();
  void to_coordinator(Address from, const Frame& frame);
  void after_coordinator();
  void commit(const SaveRound& round);
  void to_shard(std::uint32_t shard, const Frame& frame);
  void save_shard(std::uint32_t shard, const Save& save);
  void to_worker(std::uint32_t worker, const Frame& frame);
  void join_if_connected(std::uint32_t worker);
  void reset(std::uint32_t worker);
  void go_on(std::uint32_t worker, const TrainingOutbox& out);
  void drop_unused(std::uint32_t worker, const Commit& commit);
  void take_put(std::uint32_t worker, const Put& put);
  void begin(std::uint32_t worker, const WorkerTokens::Work& work);
  void complete(std::uint32_t worker, const Task& task);
  bool has_batch(const Tensor& value, std::uint64_t batch) const;
  bool has_own_batch(const Task& task, const Tensor& value) const;
  bool has_earlier_phases(const Token& token, std::uint64_t slice, const Tensor& value) const;
  void leave(std::uint32_t worker);
  void let_go(std::uint32_t worker);
  void stop_by_user(Address process);
  void end_when_stopped();

  SimulationOptions options_;
  ToyData data_;
  std::mt19937_64 random_;
  Nanoseconds now_ = 0;
  std::uint64_t events_made_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Process> processes_;
  std::map<std::pair<Address, Address>, Connection> connections_;
  std::uint64_t job_ = 0;
  bool returning_ = false;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<Shard> shards_;
  std::vector<Worker> workers_;
  std::uint64_t incarnations_ = 0;
  std::uint64_t tasks_begun_ = 0;
  std::map<std::uint32_t, EpochDone> epochs_;
  std::set<std::uint64_t> acknowledged_;
  std::map<std::uint64_t, std::set<std::uint32_t>> staged_;  // turns, by shard
  Nanoseconds next_tick_ = 0;
  std::set<std::uint64_t> acknowledged_before_;  // those that the newest checkpoint has for certain
  std::map<std::uint64_t, Checkpoint> writing_;  // by step
  int committing_ = 0;
  Checkpoint newest_;
  Tally tally_;
  std::string trouble_;
};

}  // namespace troupe::testing
