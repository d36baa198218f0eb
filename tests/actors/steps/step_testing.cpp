#include "tests/actors/steps/step_testing.hpp"

#include <gtest/gtest.h>

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <troupe/actors/cluster/peer_actor.hpp>
#include <troupe/actors/collective/collective_actor.hpp>
#include <troupe/actors/session/compile.hpp>
#include <troupe/actors/steps/device_actor.hpp>
#include <troupe/actors/steps/rendezvous_actor.hpp>
#include <troupe/actors/steps/scheduler_actor.hpp>
#include <troupe/devices/cpu/cpu_device.hpp>
#include <troupe/kernels/kernels.hpp>

namespace troupe::testing {

HeldDevice::HeldDevice(const DeviceName& name) : cpu_(make_cpu_device({.name = name, .threads = 1})) {}

void HeldDevice::enqueue(LocalHandle work) {
  if (broken) throw broken;
  if (hold)
    queue_.push_back(std::move(work));
  else
    work->run();
}

std::size_t HeldDevice::work() {
  std::size_t count = 0;
  for (; !queue_.empty(); ++count) {
    const auto first = std::move(queue_.front());
    queue_.pop_front();
    first->run();
  }
  return count;
}

// ---- SteppedSystem -------------------------------------------------------------------------------------------------

SteppedSystem::SteppedSystem() {
  register_message_types(config_);
  config_.set("scheduler.policy", caf::atom("testing"));
  config_.set("logger.verbosity", caf::atom("quiet"));
  caf = std::make_unique<caf::actor_system>(config_);
}

caf::scheduler::test_coordinator& SteppedSystem::scheduler() {
  return dynamic_cast<caf::scheduler::test_coordinator&>(caf->scheduler());
}

void SteppedSystem::run() {
  while (scheduler().try_run_once()) {
  }
}

void SteppedSystem::run_next_timeout() {
  scheduler().trigger_timeout();
  run();
}

std::uint64_t SteppedSystem::sent_by(const std::string& kind, const std::string& name) const {
  for (const auto& record : registry.actors())
    if (record->kind == kind && record->name == name) return record->messages_out.load();
  ADD_FAILURE() << "no " << kind << " " << name;
  return 0;
}

// ---- StepCluster ---------------------------------------------------------------------------------------------------

StepCluster::StepCluster(const std::vector<TaskName>& names, int devices) {
  register_all_kernels(kernels);
  for (const TaskName& name : names) {
    auto task = std::make_unique<StepTask>();
    task->name = name;
    const std::string text = name.to_string();
    task->scheduler = system.caf->spawn<SchedulerActorImpl>(system.registry.add(ActorKind::scheduler, text), name);
    task->rendezvous =
        system.caf->spawn<RendezvousActorImpl>(system.registry.add(ActorKind::rendezvous, text), task->scheduler);
    task->collective =
        system.caf->spawn<CollectiveActorImpl>(system.registry.add(ActorKind::collective, text), name, task->rendezvous,
                                               [this, name](DType dtype, const Shape& shape) {
                                                 if (without_memory.contains(name))
                                                   fail(Code::resource_exhausted, "no memory left");
                                                 return Tensor(dtype, shape);
                                               });
    caf::anon_send(task->scheduler, MeetAt{task->rendezvous, task->collective});
    NodeActorImpl::Config config;
    config.identity.task = name;
    for (int i = 0; i < devices; ++i) {
      task->devices.push_back(std::make_shared<HeldDevice>(DeviceName::of(name, "CPU", i)));
      task->device_actors.push_back(
          system.caf->spawn<DeviceActorImpl>(system.registry.add(ActorKind::device, text), task->devices.back()));
      task->local_devices.add({task->devices.back(), task->device_actors.back()});
    }
    config.devices = &task->local_devices;
    config.kernels = &kernels;
    config.registry = &system.registry;
    config.scheduler = task->scheduler;
    task->node = system.caf->spawn<NodeActorImpl>(system.registry.add(ActorKind::node, text), std::move(config));
    auto join = std::make_shared<NodeJoin>();
    join->identity.task = name;
    join->task_of = [this](const caf::node_id&) { return std::optional(asks); };
    caf::anon_send(task->node, JoinCluster{std::move(join)});
    caf::anon_send(task->node, Observe{caf::actor_cast<PeerObserver>(task->scheduler)});
    caf::anon_send(task->node, Observe{caf::actor_cast<PeerObserver>(task->collective)});
    tasks.emplace(name, std::move(task));
  }
  for (const auto& [a, task] : tasks)
    for (const auto& [b, other] : tasks)
      if (a != b) link(*task, b);
  system.run();
}

StepCluster::~StepCluster() {
  for (const auto& [name, task] : tasks) {
    caf::anon_send(task->node, Stop{});
    caf::anon_send(task->scheduler, Stop{});
    caf::anon_send(task->rendezvous, Stop{});
    caf::anon_send(task->collective, Stop{});
    for (const DeviceActor& device : task->device_actors) caf::anon_send(device, Stop{});
  }
  system.run();
  EXPECT_EQ(system.alive(), std::vector<std::string>());
  for (const auto& [name, task] : tasks)
    for (const auto& device : task->devices) device->work();
}

void StepCluster::link(StepTask& a, const TaskName& b) {
  PeerActorImpl::Links links;
  links.send = [this, from = a.name, to = b](const Frame& frame) {
    frames.push_back({from, to, frame});
    deliver(from, to, frame);
    return Error();
  };
  links.node = a.node;
  links.scheduler = a.scheduler;
  links.rendezvous = a.rendezvous;
  links.collective = a.collective;
  auto peer = system.caf->spawn<PeerActorImpl>(
      system.registry.add(ActorKind::peer, a.name.to_string() + " to " + b.to_string()), b, std::move(links));
  a.peers[b] = peer;
  caf::anon_send(a.node, PeerUp{b, peer});
}

void StepCluster::deliver(const TaskName& from, const TaskName& to, Frame frame) {
  auto& peers = task(to).peers;
  if (const auto it = peers.find(from); it != peers.end()) caf::anon_send(it->second, FrameCame{std::move(frame)});
}

void StepCluster::cut(const TaskName& a, const TaskName& b) {
  for (const auto& [here, there] : {std::pair(a, b), std::pair(b, a)}) {
    auto node = task(here).peers.extract(there);
    if (node) caf::anon_send(node.mapped(), LinkLost{Error(Code::unavailable, "the link was cut")});
  }
  system.run();
}

Reply StepCluster::request(const TaskName& on, caf::message message) {
  caf::scoped_actor self(*system.caf);
  self->send(caf::actor_cast<caf::actor>(task(on).node), std::move(message));
  system.run();
  Reply reply = Reply::of(Error(Code::internal, "no reply"));
  self->receive([&](const Reply& r) { reply = r; }, caf::after(std::chrono::seconds(0)) >> [] {});
  return reply;
}

Reply StepCluster::close(const TaskName& on, SessionId session) {
  return request(on, caf::make_message(CloseSessionRequest{session.value}));
}

void StepCluster::register_call(const TaskName& client, SessionId session, GraphId id, const Graph& graph,
                                const Outputs& feeds, const Outputs& fetches, const Change& change) {
  asks = client;
  Signature signature;
  for (const Output& o : feeds) signature.feeds.push_back(o.name());
  for (const Output& o : fetches) signature.fetches.push_back(o.name());
  std::vector<DeviceInfo> infos;
  for (const auto& [name, task] : tasks)
    for (const auto& device : task->devices) {
      const auto list = kernels.list("CPU");
      infos.push_back({device->attributes().name, "CPU", 0, {list.begin(), list.end()}});
    }
  Compiled compiled = compile(graph, signature, {infos, device(client), kernels},
                              {.session = session, .graph = id, .client = client, .optimize = false, .shards = {}});
  for (auto& [name, body] : compiled.tasks) {
    if (change) change(name, body);
    const auto tensors = name == client ? compiled.tensors : nullptr;
    const Reply reply = request(name, caf::make_message(RegisterGraphRequest{body.SerializeAsString(), tensors}));
    ASSERT_FALSE(reply.error()) << reply.error().to_string();
  }
}

StepCluster::Answer StepCluster::send_step(const TaskName& client, SessionId session, GraphId graph, StepId step,
                                           std::vector<Tensor> feeds, std::int64_t deadline_ns) {
  auto answers = std::make_shared<std::vector<StepResult>>();
  auto request = std::make_shared<StepRequest>();
  request->session = session;
  request->graph = graph;
  request->step = step;
  request->feeds = std::move(feeds);
  request->fetches.resize(1);
  request->deadline_ns = deadline_ns;
  request->done = [answers](StepResult result) { answers->push_back(std::move(result)); };
  caf::anon_send(task(client).scheduler, RunStep{std::move(request)});
  return answers;
}

}  // namespace troupe::testing
