// Compiles a graph and a signature into the registrations for each task: prune, optimize, place, partition. With passes
// for inference, the graph is kept as it is before shapes of feeds matter: plans for given shapes are compiled from it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
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
  DType precision = DType::f32;  // of matrix products
  bool check_numerics = false;
  std::optional<std::set<std::string>> inference;  // passes for inference, without those of these names
  bool shape_classes = false;                      // with `inference`: keep Compiled::prepared
  std::vector<TaskName> shards;
  std::string container;  // of the variables; "": the session's own
};

// A node that requested a device it does not run on.
struct Fallback {
  std::string node;
  std::string requested;  // "/device:GPU:0"
  std::string used;
};

struct Compiled {
  std::map<TaskName, proto::RegisterGraph> tasks;       // always includes the client's
  std::shared_ptr<std::vector<Tensor>> tensors;         // large constants of the client's task, which its body counts
  std::map<std::string, std::unique_ptr<Graph>> parts;  // the parts they register, by device
  std::string report;                                   // passes and placement, as text
  std::string placement;                                // placement only
  std::vector<Fallback> fallbacks;                      // the first for each requested device
  // The graph before passes that depend on the shapes of its feeds; null if all shapes are known, or it is not wanted.
  std::shared_ptr<const Graph> prepared;
};

// What graphs are compiled with.
struct Compiler {
  std::span<const DeviceInfo> devices;
  Device& constant_device;  // runs the kernels of constant nodes
  const KernelRegistry& kernels;
};

// Throws errors of the passes.
Compiled compile(const Graph& graph, const Signature& signature, const Compiler& compiler,
                 const CompileOptions& options);
// The same for tensors of these shapes alone, by the index of their feed; `prepared` is that of the general graph. Its
// constants are shared, not copied.
Compiled compile_for_shapes(const Graph& prepared, const std::map<std::int64_t, Shape>& feeds, const Compiler& compiler,
                            const CompileOptions& options);

// Explains how a call is compiled, as text: the report, and the plan of each device. Each task plans its own devices;
// plans for device types that `kernels` does not know are omitted, with a note.
std::string explain_call(const Compiled& compiled, const KernelRegistry& kernels);

}  // namespace troupe
