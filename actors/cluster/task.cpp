#include "troupe/actors/cluster/task.hpp"

#include <unistd.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/io/middleman.hpp>
#include <caf/logger.hpp>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/cluster/cluster_peers.hpp>
#include <troupe/actors/cluster/local_devices.hpp>
#include <troupe/actors/cluster/node_actor.hpp>
#include <troupe/actors/cluster/op_libraries.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/collective/collective_actor.hpp>
#include <troupe/actors/data/input_actor.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/introspection/introspector_actor.hpp>
#include <troupe/actors/network/arrivals.hpp>
#include <troupe/actors/network/control.hpp>
#include <troupe/actors/steps/client_gate.hpp>
#include <troupe/actors/steps/device_actor.hpp>
#include <troupe/actors/steps/rendezvous_actor.hpp>
#include <troupe/actors/steps/scheduler_actor.hpp>
#include <troupe/devices/cpu/cpu_device.hpp>
#include <troupe/devices/plugin.hpp>
#include <troupe/kernels/kernels.hpp>

namespace troupe {
namespace {

// Pinned memory is allocated from the machine at once, so memory for tensors only announced by peers is bounded even
// for a task without a limit.
constexpr std::uint64_t kMostPinnedAhead = std::uint64_t{1} << 30;

// Converts the task options to wire options. Throws before anything has started.
WireOptions checked(const TaskOptions& options) {
  if (!options.networked) return {};
  options.network.check({options.host, options.port});
  return options.network.wire();
}

caf::actor_system_config& configure(caf::actor_system_config& config, const TaskOptions& options) {
  register_message_types(config);
  // Measured; see docs/design/caf.md.
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", 2u);
  config.set("scheduler.max-throughput", 100u);
  config.set("logger.verbosity", caf::atom("quiet"));
  if (options.networked) load_networking(config);
  return config;
}

// CAF keeps the logger of a thread's last actor system in a thread_local pointer, which actors and systems also use
// when they end. A static task ends after it: it is null by then, not dangling.
void forget_logger_with_thread() {
  struct End {
    End() { caf::logger::current_logger(); }  // CAF's pointer is older, so it ends after this
    ~End() { caf::logger::set_current_actor_system(nullptr); }
  };
  thread_local const End end;
}

// NCCL traffic is unencrypted and checks no certificates.
std::string no_nccl(const TaskOptions& options) {
  if (!options.gpus.nccl) return "NCCL is switched off";
  return options.network.tls.given() ? "the tasks use TLS, which NCCL does not support" : "";
}

int default_threads(int cpu_devices) {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / std::max(1, cpu_devices));
}

}  // namespace

class Task::Impl final : public TaskActors {
 public:
  explicit Impl(TaskOptions given)
      : options(std::move(given)),
        wire(checked(options)),
        registry(options.counters),
        system(configure(config, options)) {
    registry.set_on_failure([this](const Error& why) { fail(why); });
    registry.set_why([this] { return introspection->view().why().text; });
    register_all_kernels(kernels);
    for (const std::string& library : options.op_libraries) load_op_library(library);
    if (options.cpu_devices < 1 || options.cpu_devices > 1024)
      invalid_argument("the number of CPU devices must be 1 to 1024, not {}", options.cpu_devices);
    if (options.threads < 0 || options.threads > 4096)
      invalid_argument("threads per CPU device must be 1 to 4096, or 0 for a fair share of the cores, not {}",
                       options.threads);
    const int threads = options.threads > 0 ? options.threads : default_threads(options.cpu_devices);
    for (int i = 0; i < options.cpu_devices; ++i)
      devices.push_back(make_cpu_device(
          {.name = DeviceName::of(options.name, "CPU", i), .threads = threads, .memory_limit = options.memory_limit}));
    add_gpus();
    introspection.emplace(Introspection::Config{.task = options.name,
                                                .registry = registry,
                                                .devices = [this] { return local_devices.devices(); },
                                                .failure = [this] { return why_failed(); },
                                                .flight_directory = options.flight_directory});
    if (options.networked || options.introspect_port)
      introspection->listen(
          {.host = options.host, .port = options.introspect_port.value_or(0), .tls = options.network.tls}, token);
    spawn_actors();
    if (options.networked) {
      try {
        listener = wire::listen_on(wire::resolve(options.host, options.port));
        port = wire::port_of(listener);
      } catch (...) {
        shutdown(std::chrono::seconds(5), nullptr);  // the system's destructor waits for its actors
        throw current_error().within(options.name.to_string());
      }
    }
    for (const auto& device : devices) infos.push_back(info_of(*device, kernels));
  }

  void add_gpus() {
    if (options.gpus.count == 0) {
      accelerators = "switched off";
    } else {
      const PluginResult cuda = open_cuda_plugin(options.gpus.plugin);
      const int there = cuda.plugin ? cuda.plugin->count() : 0;
      accelerators = cuda.plugin ? cuda.plugin->description() : cuda.why_not;
      if (options.gpus.count > there)
        troupe::fail(Code::not_found, "{} GPUs requested, {} found: {}", options.gpus.count, there, accelerators);
      const int used = options.gpus.count < 0 ? there : options.gpus.count;
      if (used > 0) cuda.plugin->register_kernels(kernels);
      for (int i = 0; i < used; ++i)
        devices.push_back(cuda.plugin->make(i, {.name = DeviceName::of(options.name, "GPU", i),
                                                .memory_limit = options.memory_limit,
                                                .tf32 = options.gpus.tf32,
                                                .deterministic = options.gpus.deterministic,
                                                .recordings = options.gpus.recordings,
                                                .no_nccl = no_nccl(options)}));
    }
    for (const std::string& library : options.device_libraries) add_devices_of(library);
    if (options.register_kernels) options.register_kernels(kernels);
  }

  void add_devices_of(const std::string& library) {
    if (library.empty()) invalid_argument("device library: the path is empty");
    const auto [plugin, why_not] = open_device_plugin(library);
    if (!plugin) troupe::fail(Code::not_found, "device library {}: {}", library, why_not);
    try {
      add_devices_of(*plugin);
    } catch (...) {
      throw current_error().within("device library " + library);
    }
  }

  void add_devices_of(DevicePlugin& plugin) {
    const std::string type = plugin.type();
    if (DeviceName::parse(type).type != type)
      invalid_argument("'{}' is not a type of device: expected capital letters", type);
    for (const auto& device : devices)
      if (device->attributes().type == type)
        troupe::fail(Code::already_exists, "the task has devices of type {} already", type);
    plugin.register_kernels(kernels);
    for (int i = 0; i < plugin.count(); ++i)
      devices.push_back(plugin.make(i, {.name = DeviceName::of(options.name, type, i),
                                        .memory_limit = options.memory_limit,
                                        .deterministic = options.gpus.deterministic}));
    accelerators += fmt::format("; {}: {}", type, plugin.description());
  }

  // Pinned memory of the first device that has any; null if none.
  Allocator* pinned_memory() {
    for (const auto& device : devices)
      if (Allocator* pinned = device->pinned()) return pinned;
    return nullptr;
  }
  // Memory for tensors from other tasks, directly readable by devices.
  Allocator& memory_of_arrivals() {
    Allocator* pinned = pinned_memory();
    return pinned ? *pinned : devices.front()->allocator();
  }
  wire::Arrivals arrivals() {
    const std::uint64_t unlimited = pinned_memory() ? kMostPinnedAhead : std::numeric_limits<std::uint64_t>::max();
    return arrivals_in(memory_of_arrivals(), options.memory_limit == 0 ? unlimited : options.memory_limit / 8);
  }

  // Spawns one of the task's own actors, which end with it.
  template <ActorKind kKind, class Impl, class... Args>
  auto spawn(const std::string& actor_name, Args&&... args) {
    auto actor = spawn_actor<kKind, Impl>(system, registry, actor_name, std::forward<Args>(args)...);
    own_actors.emplace(kKind, caf::actor_cast<caf::actor>(actor));
    return actor;
  }

  void spawn_actors() {
    const std::string self = options.name.to_string();
    scheduler = spawn<ActorKind::scheduler, SchedulerActorImpl>(self, options.name);
    rendezvous = spawn<ActorKind::rendezvous, RendezvousActorImpl>(self, scheduler);
    collective = spawn<ActorKind::collective, CollectiveActorImpl>(
        self, options.name, rendezvous,
        [this](DType dtype, const Shape& shape) { return memory_of_arrivals().tensor(dtype, shape); });
    caf::anon_send(scheduler, MeetAt{rendezvous, collective});
    client_gate = std::make_shared<ClientGate>(system, scheduler, rendezvous, collective);
    introspector = spawn<ActorKind::introspector, IntrospectorActorImpl>(self, *introspection);
    NodeActorImpl::Config settings;
    settings.identity.task = options.name;
    settings.identity.token = token;
    for (const auto& device : devices) {
      auto actor = spawn<ActorKind::device, DeviceActorImpl>(device->attributes().name.to_string(), device);
      local_devices.add({device, actor});
    }
    settings.devices = &local_devices;
    if (options.ops) settings.ops = options.ops.get();
    settings.kernels = &kernels;
    settings.registry = &registry;
    settings.scheduler = scheduler;
    node = spawn<ActorKind::node, NodeActorImpl>(self, std::move(settings));
    caf::anon_send(node, Observe{caf::actor_cast<PeerObserver>(scheduler)});
    caf::anon_send(node, Observe{caf::actor_cast<PeerObserver>(collective)});
    if (options.name.job != kInputJob) return;
    input = spawn<ActorKind::input, InputActorImpl>(
        self, InputActorImpl::Config{.self = options.name, .registry = &registry, .own = {}, .fails = nullptr});
    caf::anon_send(node, Observe{caf::actor_cast<PeerObserver>(input)});
  }

  // Called on the thread of a failed actor that the task depends on: ends all work of the task.
  void fail(const Error& why) {
    {
      const std::lock_guard lock(mutex);
      if (failure || !node) return;
      failure = why;
    }
    // Before the actors end, and on another thread, since this one is handling a message of one of them.
    if (!options.flight_directory.empty()) std::thread([this] { write_flight_record(); }).join();
    const std::lock_guard lock(mutex);
    if (!node) return;
    if (links) links->end_all(failure);
    stop_actors(ActorKind::introspector);  // a failed task can still be inspected
  }
  void write_flight_record() {
    try {
      const std::string path = introspection->write_flight_record(why_failed());
      const std::lock_guard lock(mutex);
      if (!path.empty())
        failure = Error(failure.code(), fmt::format("{} (its last messages are in {})", failure.message(), path));
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      failure = Error(failure.code(),
                      fmt::format("{} (its last messages could not be written: {})", failure.message(), error.what()));
    }
  }
  Error why_failed() const {
    const std::lock_guard lock(mutex);
    return failure;
  }
  // Stops the actors in the order of their kinds.
  void stop_actors(std::optional<ActorKind> but = std::nullopt) {
    for (const auto& [kind, actor] : own_actors)
      if (kind != but) caf::anon_send(actor, Stop{});
  }

  NodeActor node_of(const TaskName& task) const override {
    if (task == options.name) return node;
    const NodeActor met = links ? links->node(task) : NodeActor();
    if (!met)
      troupe::fail(Code::not_found, "task {} has no link to task {}", options.name.to_string(), task.to_string());
    return met;
  }

  bool shutdown(std::chrono::nanoseconds deadline, std::string* still_running) {
    if (ended) return true;
    const auto until = std::chrono::steady_clock::now() + deadline;
    std::unique_lock lock(mutex);
    stop_actors();
    own_actors.clear();
    local_devices.drop_actors();
    node = nullptr;
    scheduler = nullptr;
    rendezvous = nullptr;
    collective = nullptr;
    input = nullptr;
    introspector = nullptr;
    lock.unlock();
    if (introspection) introspection->leave();
    if (client_gate) client_gate->close();
    std::vector<std::string> left = registry.await_end(until - std::chrono::steady_clock::now());
    // Last: the actors' final messages are on the wire now. Peer actors of links that came up meanwhile end with them.
    if (links) links->shutdown();
    if (left.empty()) left = registry.await_end(until - std::chrono::steady_clock::now());
    for (const auto& device : devices)
      if (!idle(*device, until)) left.push_back("a kernel on " + device->attributes().name.to_string());
    if (!left.empty()) {
      if (still_running)
        for (const std::string& name : left) *still_running += (still_running->empty() ? "" : ", ") + name;
      return false;
    }
    for (const auto& device : devices) device->shutdown();
    ended = true;
    return true;
  }

  static bool idle(Device& device, std::chrono::steady_clock::time_point until) {
    struct State {
      std::mutex mutex;
      std::condition_variable wake;
      bool reached = false;
    };
    auto state = std::make_shared<State>();
    device.compute().record()->on_reached([state] {
      std::lock_guard lock(state->mutex);
      state->reached = true;
      state->wake.notify_all();
    });
    std::unique_lock lock(state->mutex);
    return state->wake.wait_until(lock, until, [&] { return state->reached; });
  }

  TaskOptions options;
  std::string token = fmt::format("{:016x}{:016x}", random_id(), random_id());  // until join(): private
  WireOptions wire;
  KernelRegistry kernels;
  ActorRegistry registry;
  std::vector<std::shared_ptr<Device>> devices;
  LocalDevices local_devices;  // outlives the system
  std::string accelerators;
  std::vector<DeviceInfo> infos;
  std::optional<Introspection> introspection;
  caf::actor_system_config config;
  caf::actor_system system;  // destroyed before the members that its actors use
  ClusterSpec cluster;
  std::unique_ptr<ClusterPeers> links;
  std::multimap<ActorKind, caf::actor> own_actors;
  RendezvousActor rendezvous;
  std::shared_ptr<ClientGate> client_gate;
  std::atomic<std::uint64_t> last_job{0};
  mutable std::mutex mutex;  // guards the actors' handles and the links, for fail()
  Error failure;
  wire::Fd listener;  // until join()
  std::uint16_t port = 0;
  bool ended = false;
};

Task::Task(TaskOptions options) : impl_(std::make_unique<Impl>(std::move(options))) { forget_logger_with_thread(); }

Task::~Task() {
  // Actors of a task that cannot end would block its system's destructor forever: leak the system instead.
  if (!impl_->shutdown(std::chrono::seconds(5), nullptr)) static_cast<void>(impl_.release());
}

const TaskName& Task::name() const { return impl_->options.name; }
std::uint16_t Task::port() const { return impl_->port; }
const ClusterSpec& Task::cluster() const { return impl_->cluster; }
const std::vector<DeviceInfo>& Task::devices() const { return impl_->infos; }
const OpRegistry& Task::ops() const { return impl_->options.ops ? *impl_->options.ops : standard_ops(); }
Allocator* Task::pinned_memory() { return impl_->pinned_memory(); }
const std::string& Task::accelerators() const { return impl_->accelerators; }
const KernelRegistry& Task::kernels() const { return impl_->kernels; }
const std::string& Task::token() const { return impl_->token; }
const TaskActors& Task::handles() const { return *impl_; }
const std::shared_ptr<ClientGate>& Task::client_gate() const { return impl_->client_gate; }
std::atomic<std::uint64_t>& Task::last_job() { return impl_->last_job; }
caf::actor_system& Task::system() {
  forget_logger_with_thread();  // the caller spawns actors
  return impl_->system;
}
LocalDevices& Task::local_devices() { return impl_->local_devices; }
ActorRegistry& Task::actors() { return impl_->registry; }
Introspection& Task::introspection() { return *impl_->introspection; }

Device& Task::device(int index) {
  if (index < 0 || static_cast<std::size_t>(index) >= impl_->devices.size())
    fail(Code::not_found, "task {} has {} devices, no index {}", name().to_string(), impl_->devices.size(), index);
  return *impl_->devices[static_cast<std::size_t>(index)];
}

void Task::join(const ClusterSpec& cluster, std::chrono::nanoseconds deadline, const std::string& job) {
  Impl& impl = *impl_;
  if (!impl.options.networked)
    fail(Code::failed_precondition, "task {} was not started as part of a cluster (TaskOptions::networked)",
         name().to_string());
  if (impl.links) fail(Code::failed_precondition, "task {} already belongs to a cluster", name().to_string());
  impl.options.network.check({impl.options.host, impl.port}, cluster.token);
  for (const auto& [task, address] : cluster.tasks) impl.options.network.check(address, cluster.token);
  WireOptions wire = impl.wire;
  wire.connection.arrivals = impl.arrivals();
  impl.token = cluster.token;
  impl.cluster = cluster;
  TaskIdentity identity{name(), cluster.name, cluster.token, Incarnation{random_id()}};
  auto links = std::make_unique<ClusterPeers>(ClusterPeers::Config{
      .identity = identity,
      .on_wait = impl.options.on_wait,
      .wait_word = impl.options.wait_word,
      .cluster = cluster,
      .wire = std::move(wire),
      .tls = impl.options.network.tls,
      .system = impl.system,
      .registry = impl.registry,
      .node = impl.node,
      .scheduler = impl.scheduler,
      .rendezvous = impl.rendezvous,
      .collective = impl.collective,
      .input = impl.input,
      .introspector = impl.introspector,
      .welcome = make_welcome(identity, impl.introspection->target().value_or(HttpTarget{}).address.to_string(),
                              impl.local_devices.list(), impl.kernels)});
  {
    const std::lock_guard lock(impl.mutex);
    impl.links = std::move(links);
    if (impl.failure) throw impl.failure;
  }
  impl.introspection->joined({.name = cluster.name,
                              .token = cluster.token,
                              .incarnation = identity.incarnation,
                              .links = [links = impl.links.get()] { return links->look(); },
                              .tasks = [links = impl.links.get()] { return links->introspectors(); },
                              .meeting = [links = impl.links.get()] { return links->waiting(); }});
  const auto add_devices = [&] {
    for (const MetTask& met : impl.links->met())
      impl.infos.insert(impl.infos.end(), met.devices.begin(), met.devices.end());
  };
  try {
    impl.links->meet(std::move(impl.listener), job, deadline);
  } catch (const Error&) {
    add_devices();  // who does without the others may go on
    throw;
  }
  add_devices();
}

void Task::await(const std::string& job, std::chrono::nanoseconds timeout) { impl_->links->await(job, timeout); }

std::uint64_t Task::await_link(const TaskName& task, std::chrono::nanoseconds timeout) {
  return impl_->links ? impl_->links->await_link(task, timeout) : 0;
}

void write_wait(const std::string& text) { fmt::print(stderr, "troupe: {}\n", text); }

Error Task::failure() const { return impl_->why_failed(); }

bool Task::shutdown(std::chrono::nanoseconds deadline, std::string* still_running) {
  return impl_->shutdown(deadline, still_running);
}

}  // namespace troupe
