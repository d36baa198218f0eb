// From a graph and a signature to what each task must register: prune, optimize, place, partition.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "messages/proto/run.pb.h"
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/placement/placement.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe {

struct CompileOptions {
  SessionId session;
  GraphId graph;
  TaskName client;
  bool optimize = true;
  bool soft_placement = true;
  DType precision = DType::f32;  // of products
  std::vector<TaskName> shards;
};

// A node that asked for a device it does not run on.
struct Fallback {
  std::string node;
  std::string requested;  // "/device:GPU:0"
  std::string used;
};

struct Compiled {
  std::map<TaskName, proto::RegisterGraph> tasks;       // the client's is always there
  std::map<std::string, std::unique_ptr<Graph>> parts;  // what they register, by device
  std::string report;                                   // passes and placement, as text
  std::string placement;                                // the latter alone
  std::vector<Fallback> fallbacks;                      // the first of each device that was asked for
};

// `constant_device` runs the kernels of constant nodes. Throws what the passes throw.
Compiled compile(const Graph& graph, const Signature& signature, std::span<const DeviceInfo> devices,
                 Device& constant_device, const KernelRegistry& kernels, const CompileOptions& options);

// What becomes of a call, as text: the report, and the plan of each device. A task makes the plans of its own devices;
// those for types of devices that `kernels` does not know are left out, and said to be.
std::string explain_call(const Compiled& compiled, const KernelRegistry& kernels);

}  // namespace troupe
