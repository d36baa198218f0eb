#include "tools/bench/remote_shard.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <future>
#include <iostream>
#include <sstream>

#include "tools/bench/children.hpp"
#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/training/parameter_store.hpp>
#include <troupe/actors/training/shard_actor.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>

namespace troupe::bench {
namespace {

constexpr std::chrono::seconds kShardPatience{30};
constexpr float kRate = 0.5f;
const PhaseOf kOnePhase = [](const std::string&) { return 0u; };

// Variables "w0", "w1", ... that "train" updates, all by "gradient".
std::unique_ptr<Graph> training_graph(std::int64_t elements, std::uint32_t variables) {
  auto graph = std::make_unique<Graph>();
  const Output gradient = placeholder(*graph, DType::f32, Shape{elements}, "gradient");
  const Output rate = constant(*graph, kRate);
  Outputs updates;
  for (std::uint32_t v = 0; v < variables; ++v) {
    const VariableRef w = variable(*graph, {.name = fmt::format("w{}", v), .shape = Shape{elements}});
    // Not apply_gradients(): these updates do not wait for a read.
    const Node& update =
        graph->add({.op = "ApplySGD", .name = fmt::format("update{}", v), .inputs = {w.handle, rate, gradient}});
    updates.push_back({graph.get(), update.id, 0});
  }
  group(*graph, updates, "train");
  return graph;
}

ShardActor spawn_shard(Task& task, std::int64_t elements, std::uint32_t variables) {
  auto store = std::make_shared<ParameterStore>(task.device(), task.kernels());
  const auto graph = training_graph(elements, variables);
  const ShardMap map(updated_variables(*graph), 1);
  const ShardedGraph sharded = shard_variables(*graph, map, kOnePhase);
  std::vector<SliceSpec> slices;
  for (const Slice& slice : map.slices()) {
    slices.push_back({slice.id, slice.variable, slice.dtype, slice.shape});
    store->add(slice.id, slice.variable, sharded.rules.at(slice.variable), Tensor::zeros(slice.dtype, slice.shape), {});
  }
  ShardOptions options;
  options.mode = TrainingMode::asynchronous;
  options.shard = static_cast<std::uint32_t>(task.name().index);
  return spawn_actor<ActorKind::shard, ShardActorImpl>(
      task.system(), task.actors(), task.name().to_string(),
      ShardActorImpl::Config{task.name(), options, std::move(slices), store,
                             [](const Error&, const ShardCounters&, const ShardState::Cut&, const BarrierOpen&) {},
                             sharded.packs});
}

}  // namespace

void Acknowledgements::add(const Staged& staged) {
  {
    const std::lock_guard lock(mutex_);
    applied_ = staged.version;  // each batch makes one version
    if (applied_ < wanted_) return;
  }
  came_.notify_one();
}

void Acknowledgements::await(std::uint64_t count) {
  std::unique_lock lock(mutex_);
  wanted_ = count;
  if (!came_.wait_for(lock, kShardPatience, [&] { return applied_ >= count; }))
    fail(Code::deadline_exceeded, "the shard acknowledged {} of {} pushes", applied_, count);
}

class RemoteShard::Observer final : public Counted<CoordinatorActor> {
 public:
  Observer(caf::actor_config& config, std::shared_ptr<ActorRecord> record, TaskName shard,
           std::shared_ptr<Acknowledgements> acknowledgements, std::shared_ptr<std::promise<PeerActor>> found)
      : Counted(config, std::move(record)),
        shard_(std::move(shard)),
        acknowledgements_(std::move(acknowledgements)),
        found_(std::move(found)) {}
  behavior_type make_behavior() override {
    return {
        [](const JobRoutes&) {},
        [](const Inbound<Join>&) {},
        [](const Inbound<Leave>&) {},
        [](const Inbound<TakeToken>&) {},
        [](const Inbound<TokenDone>&) {},
        [this](const Inbound<Staged>& m) { acknowledgements_->add(m.frame); },
        [](const Inbound<Saved>&) {},
        [](const Inbound<Barrier>&) {},
        [this](const PeerUp& m) {
          if (found_ && m.task == shard_) found_->set_value(m.peer);
        },
        [](const PeerDown&) {},
        [](const PeerSuspected&) {},
        [](const Tick&) {},
        [this](const Stop&) { quit(); },
    };
  }

 private:
  const TaskName shard_;
  const std::shared_ptr<Acknowledgements> acknowledgements_;
  const std::shared_ptr<std::promise<PeerActor>> found_;  // null: not looked for
};

TaskOptions RemoteShard::options(TaskName name) {
  return {.name = std::move(name), .threads = 1, .gpus = {.count = 0}, .networked = true};
}

RemoteShard::RemoteShard(std::int64_t elements, std::uint32_t variables) : child_({own_path(), "--child", kShard}) {
  const auto whole = training_graph(elements, variables);
  graph_ = shard_variables(*whole, ShardMap(updated_variables(*whole), 1), kOnePhase);
  child_.write_line(fmt::format("{} {} {}", shard_.index, elements, variables));
  const auto port = static_cast<std::uint16_t>(std::stoi(child_.read_line()));
  const ClusterSpec cluster{"bench",
                            "bench",
                            {{coordinator_.name(), {"127.0.0.1", coordinator_.port()}},
                             {shard_, {"127.0.0.1", port}},
                             {worker_.name(), {"127.0.0.1", worker_.port()}}}};
  child_.write_line(in_one_line(cluster));
  auto joined = std::async(std::launch::async, [&] { coordinator_.join(cluster, kShardPatience); });
  worker_.join(cluster, kShardPatience);
  joined.get();
  auto found = std::make_shared<std::promise<PeerActor>>();
  for (Task* task : {&coordinator_, &worker_}) {
    CoordinatorActor& observer = observers_[task == &worker_ ? 1 : 0];
    observer =
        spawn_actor<ActorKind::coordinator, Observer>(task->system(), task->actors(), task->name().to_string(), shard_,
                                                      acknowledgements_, task == &worker_ ? found : nullptr);
    caf::anon_send(task->handles().node, Observe{caf::actor_cast<PeerObserver>(observer)});
    caf::anon_send(task->handles().node, JobRoutes{{}, observer, {}});
  }
  peer_ = found->get_future().get();
}

RemoteShard::~RemoteShard() {
  for (Task* task : {&coordinator_, &worker_}) caf::anon_send(task->handles().node, JobRoutes{});
  for (CoordinatorActor& observer : observers_) {
    caf::anon_send(observer, Stop{});
    observer = nullptr;
  }
  peer_ = nullptr;
}

void RemoteShard::serve() {
  std::string line;
  if (!std::getline(std::cin, line)) return;
  std::istringstream words(line);
  int index = 0;
  std::int64_t elements = 0;
  std::uint32_t variables = 0;
  if (!(words >> index >> elements >> variables)) invalid_argument("'{}' does not describe a shard", line);
  Task task({.name = {"ps", index}, .threads = 1, .gpus = {.count = 0}, .networked = true});
  say(std::to_string(task.port()));
  if (!std::getline(std::cin, line)) return;
  task.join(ClusterSpec::parse(line, "the parent"), kShardPatience);
  const ShardActor shard = spawn_shard(task, elements, variables);
  caf::anon_send(task.handles().node, Observe{caf::actor_cast<PeerObserver>(shard)});
  caf::anon_send(task.handles().node, JobRoutes{shard, {}, {}});
  while (std::getline(std::cin, line)) continue;
  caf::anon_send(task.handles().node, JobRoutes{});
  caf::anon_send(shard, Stop{});
}

}  // namespace troupe::bench
