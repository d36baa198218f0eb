// A task: the runtime of one process. Owns its devices, its actor system and its actors; if it belongs to a cluster,
// its connections to the other tasks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/cluster/gpu_options.hpp>
#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/network/network_options.hpp>
#include <troupe/graph/placement/placement.hpp>

namespace caf {
class actor_system;
}

namespace troupe {

class ActorRegistry;
class Allocator;
class ClientGate;
class Device;
class Introspection;
class KernelRegistry;
struct TaskActors;  // actors/cluster/task_actors.hpp

void write_wait(const std::string& text);  // "troupe: ..." on stderr

struct TaskOptions {
  TaskName name{"local", 0};
  int cpu_devices = 1;
  int threads = 0;  // of each CPU device; 0: cores / CPU devices. Tasks that share a host should share its cores
  std::uint64_t memory_limit = 0;  // bytes of tensors in use and kept for reuse, on each device; 0: none
  GpuOptions gpus{};
  // Of a cluster: the port is bound at the task's address in `cluster`, or at port 0 if it is not there yet.
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  bool networked = false;
  NetworkOptions network{};  // certificates and limits
  bool counters = true;      // actors count what they do (docs/design/introspection.md)
  // The introspector's socket, at `host`: 0: any free port. None: a task of a cluster has any free one, another has no
  // socket.
  std::optional<std::uint16_t> introspect_port{};
  // Called every `wait_word` while join() or await() wait: for whom, and why. Default: a line on stderr.
  std::function<void(const std::string&)> on_wait = write_wait;
  std::chrono::nanoseconds wait_word = std::chrono::seconds(5);
  std::string flight_directory{};  // where the last messages of all actors are written when the task fails; "": nowhere
  // Ops of the program's own: what its graphs are made with, a copy of standard_ops() with more. Null: standard_ops().
  std::shared_ptr<const OpRegistry> ops{};
  std::function<void(KernelRegistry&)> register_kernels{};  // adds their kernels to the standard ones
};

class Task {
 public:
  explicit Task(TaskOptions options = {});
  // The task that this process is: one of the cluster that troupe-launch has started, or with --job, --task and
  // --cluster FILE one of that cluster, met as training needs it (Member::join_for_training); else one of its own.
  // What the command line and the launcher say wins over `options`. Takes its options out of the arguments: what is
  // left is the program's. Call it once, before the program starts processes of its own. Throws invalid_argument for
  // options that make no sense, and what ClusterSpec::read() and join() throw.
  static std::unique_ptr<Task> from_command_line(int& argc, char** argv, TaskOptions options = {});
  // The options that it takes, a line for each, for the program's --help.
  static std::string command_line_help();
  ~Task();  // shuts down
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  const TaskName& name() const;
  // The bound port of a networked task. Peers that come before join() are answered when it is called.
  std::uint16_t port() const;

  // Meets all other tasks of the cluster, or, for a client, whose name is not in it, becomes their client. Blocks until
  // the links to all tasks of `job` are up ("": to all); the others come up when they can, and a link that is lost is
  // made again. Throws deadline_exceeded naming who did not come, or what a peer said (unauthenticated, ...).
  void join(const ClusterSpec& cluster, std::chrono::nanoseconds deadline, const std::string& job = "");

  // Waits until the links to all other tasks of a job are up. Throws as join().
  void await(const std::string& job, std::chrono::nanoseconds timeout);
  // Once joined; that of a task of its own has no tasks.
  const ClusterSpec& cluster() const;
  // Devices of this task and, after join(), of the others that were met by then.
  const std::vector<DeviceInfo>& devices() const;
  const OpRegistry& ops() const;  // that graphs of this task may be made of
  const KernelRegistry& kernels() const;
  Device& device(int index = 0);  // CPUs come first
  // Memory of the host for what is fed to GPUs: copies go straight from it. Null without a GPU. Gone with the task; its
  // tensors are not.
  Allocator* pinned_memory();
  // "2 GPUs: CUDA 13.0, NVIDIA H200, NVIDIA H200", or why there are none.
  const std::string& accelerators() const;
  // For requests to nodes: of the cluster, once this task has joined it.
  const std::string& token() const;
  // The actors that others of this process send to.
  const TaskActors& handles() const;
  const std::shared_ptr<ClientGate>& client_gate() const;
  // The number of the last training job that this task knows of (frames.hpp).
  std::atomic<std::uint64_t>& last_job();
  caf::actor_system& system();
  ActorRegistry& actors();
  // How others look into this task.
  Introspection& introspection();

  // Expired once this is destroyed.
  std::weak_ptr<const void> alive() const { return alive_; }

  // Why this task has failed: an actor that it cannot do without has (actors/base/actor_kind.hpp). None if it has
  // not. All its calls fail then, and to others it is lost, for this reason.
  Error failure() const;

  // Ends all actors and threads. False if something still runs at the deadline; `still_running` then names it.
  bool shutdown(std::chrono::nanoseconds deadline = std::chrono::seconds(5), std::string* still_running = nullptr);

 private:
  class Impl;
  const std::shared_ptr<const void> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
