// Placement: assigns every node of a graph the device it runs on.
//
// A node may request a device, in part ("/job:ps", "GPU:0"). Nodes that must share one form a group: those colocated by
// name, and all that take the handle of a variable, with the variable. A group gets the first device that satisfies the
// requests of all members and can run all of them, in this order: devices of the client's task, accelerators before
// CPUs, the first of them being the default device; then others as listed. After that
//   * Feed and Fetch run on CPU:0 of the client's task, regardless of their requests; or, if everything else runs on
//     one device of that task and no strings are fed or fetched, there;
//   * an Identity without a request goes where its input is;
//   * a node without inputs or a request (Const), and one that draws random values of a constant shape, goes to its
//     consumers, if they are on one device that can run it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>
#include <troupe/messages/device_name.hpp>

namespace troupe {

// A device, as placement needs to know it.
struct DeviceInfo {
  DeviceName name{};  // complete
  std::string type{};
  std::uint64_t memory = 0;         // bytes
  std::set<std::string> kernels{};  // "MatMul:f32", or "Gather" for a kernel of any dtype
};

// The devices of a task that share work without a requested device: its accelerators, or, if it has none, its CPUs.
std::vector<std::string> default_devices(std::span<const DeviceInfo> devices, const TaskName& task);

struct PlacementOptions {
  TaskName client{};  // the task of the session
  // If the requested type or index does not exist or has no kernel: use another device of that task. Types other than
  // CPU and GPU exist if one of the devices has them.
  bool soft = true;
};

// A copy of the graph with the same ids in which node.device is a full name. Throws invalid_argument for nodes that
// must share a device but request different ones, and for requests that no device satisfies, naming nodes, requests and
// devices; not_found for colocation with a node that does not exist.
std::unique_ptr<Graph> place(const Graph& graph, std::span<const DeviceInfo> devices, const PlacementOptions& options);

// One line per device ("/job:worker/task:0/device:CPU:0: 12 nodes"), followed by its nodes as "Op 'name'" lines.
std::string placement_report(const Graph& placed);

// "MatMul:f32": the name in `kernels` of the kernel for this node; "" if the node needs no kernel.
std::string kernel_name(const Node& node);

}  // namespace troupe
