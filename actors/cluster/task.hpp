// A task: the runtime of one process. Owns its devices, its actor system and its actors and, in a cluster, its
// connections to the other tasks.
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
class LocalDevices;
struct TaskActors;  // actors/cluster/task_actors.hpp

void write_wait(const std::string& text);  // "troupe: ..." on stderr

struct TaskOptions {
  TaskName name{"local", 0};
  int cpu_devices = 1;
  int threads = 0;                 // per CPU device; 0: cores / CPU devices. Tasks on one host should share its cores
  std::uint64_t memory_limit = 0;  // limit on tensors in use and cached, in bytes per device; 0: no limit
  GpuOptions gpus{};
  // In a cluster: binds the task's port in `cluster`, or port 0 if it has none there yet.
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  bool networked = false;
  NetworkOptions network{};  // certificates and limits
  bool counters = true;      // actors count their activity (docs/design/introspection.md)
  // Port of the introspector at `host`. 0: any free port. None: any free port for a task of a cluster, no socket
  // otherwise.
  std::optional<std::uint16_t> introspect_port{};
  // Called every `wait_word` while join() or await() waits, with the missing tasks and the reason. Default: prints a
  // line to stderr.
  std::function<void(const std::string&)> on_wait = write_wait;
  std::chrono::nanoseconds wait_word = std::chrono::seconds(5);
  std::string flight_directory{};  // directory for the last messages of all actors, written when the task fails; "":
                                   // not written
  // For user-defined ops: a copy of standard_ops() with the program's additions, used for its graphs. Null:
  // standard_ops().
  std::shared_ptr<const OpRegistry> ops{};
  std::function<void(KernelRegistry&)> register_kernels{};  // adds kernels to the standard ones
  // Libraries of ops to load before the task starts, as by load_op_library() (actors/cluster/op_libraries.hpp).
  std::vector<std::string> op_libraries{};
  // Plug-ins of devices other than NVIDIA's GPUs (devices/plugin.hpp), all of whose devices the task uses, as it does
  // GPUs: they run all ops that have a kernel for them and request no other device.
  std::vector<std::string> device_libraries{};
};

class Task {
 public:
  explicit Task(TaskOptions options = {});
  // Makes this process a task: of the cluster started by troupe-launch; with --job, --task and --cluster FILE, of that
  // cluster, joined for training (Member::join_for_training); otherwise a task by itself. The command line and the
  // launcher override `options`. Removes its own options from the arguments and leaves the program's. Call it once,
  // before the program starts child processes. Throws invalid_argument for invalid options, and the errors of
  // ClusterSpec::read() and join().
  static std::unique_ptr<Task> from_command_line(int& argc, char** argv, TaskOptions options = {});
  // Help for these options, one per line, for the program's --help.
  static std::string command_line_help();
  ~Task();  // shuts down; of a static task, after main()
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  const TaskName& name() const;
  // The bound port of a networked task. Connections that arrive before join() are answered once it is called.
  std::uint16_t port() const;

  // Connects to all other tasks of the cluster, or, as a client, to all tasks if this task's name is not in the
  // cluster. Blocks until the links to all tasks of `job` ("": all jobs) are up; the others come up when they can, and
  // lost links are restored. Throws deadline_exceeded naming the missing tasks, or the error of a peer
  // (unauthenticated, ...).
  void join(const ClusterSpec& cluster, std::chrono::nanoseconds deadline, const std::string& job = "");

  // Waits until the links to all other tasks of a job are up. Throws as join().
  void await(const std::string& job, std::chrono::nanoseconds timeout);
  // Waits until the link to another task of the cluster is up: steps may run there. Returns its number, and another one
  // once it was lost and is up again; 0 if it is not up by then. Throws why this task has failed, and
  // failed_precondition once it has shut down.
  std::uint64_t await_link(const TaskName& task, std::chrono::nanoseconds timeout);
  // The joined cluster; empty for a task without a cluster.
  const ClusterSpec& cluster() const;
  // Devices of this task and, after join(), of the tasks met by then.
  const std::vector<DeviceInfo>& devices() const;
  const OpRegistry& ops() const;  // ops available to graphs of this task
  const KernelRegistry& kernels() const;
  Device& device(int index = 0);  // CPUs come first
  LocalDevices& local_devices();  // also private ones
  // Pinned host memory for GPU feeds, copied directly from it. Null without a GPU. Valid until the task ends; its
  // tensors stay valid.
  Allocator* pinned_memory();
  // "2 GPUs: CUDA 13.0, NVIDIA H200, NVIDIA H200", or why there are none.
  const std::string& accelerators() const;
  // Token for requests to nodes: the cluster's, once this task has joined.
  const std::string& token() const;
  // Actors that other parts of this process send to.
  const TaskActors& handles() const;
  const std::shared_ptr<ClientGate>& client_gate() const;
  // Number of the last training job known to this task (frames.hpp).
  std::atomic<std::uint64_t>& last_job();
  caf::actor_system& system();
  ActorRegistry& actors();
  // Lets others inspect this task.
  Introspection& introspection();

  // Expires when this object is destroyed.
  std::weak_ptr<const void> alive() const { return alive_; }

  // Why this task has failed: the error of an actor that it depends on (actors/base/actor_kind.hpp), or none. After a
  // failure all its calls fail, and peers see it as lost for this reason.
  Error failure() const;

  // Ends all actors and threads. Returns false, and sets `still_running`, if something still runs at the deadline.
  bool shutdown(std::chrono::nanoseconds deadline = std::chrono::seconds(5), std::string* still_running = nullptr);

 private:
  class Impl;
  const std::shared_ptr<const void> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
