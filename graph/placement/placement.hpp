// Placement: gives every node of a graph the device it runs on.
//
// A node may ask for a device, in part ("/job:ps", "GPU:0"). Nodes that must share one form a group: those
// colocated by name, and all that take the handle of a variable, with the variable. A group gets the first
// device that fits all its members' requests and can run all of them, in this order: those of the client's task,
// accelerators before CPUs, the first of them being the default device; others as listed. Then
//   * Feed and Fetch run on CPU:0 of the client's task, whatever they ask for; or, if all else runs on one device of
//     that task and nothing fed or fetched is of strings, there;
//   * an Identity that asks for nothing goes where its input is;
//   * a node without inputs that asks for nothing (Const) goes to its consumers, if they are on one device
//   that can run it.
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

// What placement has to know of a device.
struct DeviceInfo {
  DeviceName name{};  // complete
  std::string type{};
  std::uint64_t memory = 0;         // bytes
  std::set<std::string> kernels{};  // "MatMul:f32", or "Gather" for a kernel of any dtype
};

// The devices of a task that share work if nobody says where it is to run: its accelerators, or, if it has none, its
// CPUs.
std::vector<std::string> default_devices(std::span<const DeviceInfo> devices, const TaskName& task);

struct PlacementOptions {
  TaskName client{};  // the task of the session
  bool soft = true;   // where the requested type or index does not exist or has no kernel: another device of that task
};

// A copy of the graph with the same ids in which node.device is a complete name. Throws invalid_argument: for
// nodes that must share a device but ask for different ones, and for requests nothing meets, naming nodes,
// requests and devices; not_found for colocation with a node that does not exist.
std::unique_ptr<Graph> place(const Graph& graph, std::span<const DeviceInfo> devices, const PlacementOptions& options);

// One line per device ("/job:worker/task:0/device:CPU:0: 12 nodes"), with its nodes as "Op 'name'" lines
// below it.
std::string placement_report(const Graph& placed);

// "MatMul:f32": how `kernels` names what runs this node; "" if the node needs no kernel.
std::string kernel_name(const Node& node);

}  // namespace troupe
