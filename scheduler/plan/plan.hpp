// A plan: the compiled, immutable form of one partition. Flat arrays, no names on the hot path.
//
// Nodes with the same set of arrivals (Recv, Pull, Collect) among their ancestors form a segment: once those have
// arrived, the segment runs from start to end without waiting. Sends and pushes leave in the middle of it. A segment is
// ready when the arrivals it reads and the segments it depends on are complete; `waits` counts both. Plans nest: the
// branches of an If and the body of a Loop are plans without arrivals.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/devices/collective/collective.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/graph.hpp>
#include <troupe/scheduler/plan/memory_plan.hpp>
#include <troupe/scheduler/resources/waiting_resource.hpp>

namespace troupe {

// Where a node's input comes from.
struct InputRef {
  enum class Kind : std::uint8_t {
    slot,          // frame slot, still needed afterwards
    slot_last,     // frame slot, this is its last use
    slot_counted,  // frame slot whose last use is known only at run time: see PlanFrame::uses
    constant,      // Plan::constants
    variable,      // the frame's variables
  };
  Kind kind = Kind::slot;
  std::uint32_t index = 0;

  bool is_slot() const { return kind != Kind::constant && kind != Kind::variable; }
};

// What running a node needs; the rest is in its NodeInfo. Small: a null node costs little more than reading this.
struct PlanNode {
  enum class Kind : std::uint8_t { kernel, send, push, push_sparse, ask_rows, contribute, call, fetch, branch, loop };
  std::uint32_t first_input = 0;   // in Plan::inputs
  std::uint32_t first_output = 0;  // slots first_output .. + num_outputs
  std::uint32_t target = 0;        // in Plan::kernels, sends, pushes, asks, ..., branches or loops
  std::uint16_t num_inputs = 0;
  std::uint16_t num_outputs = 0;
  Kind kind = Kind::kernel;
  bool flushes = false;     // send, push, contribute: departures so far are written now (departures.hpp)
  bool recordable = false;  // kernel: KernelDef::recordable
};

struct NodeInfo {
  std::string name;
  std::string op;
  std::uint64_t hash = 0;  // of the original name, for random ops
  std::int32_t slot = -1;  // the training slot whose randomness it draws; -1: the step's
};

// The order that the nodes of a segment must keep, if running them on several threads pays off. Nodes are counted from
// the segment's first.
struct NodeOrder {
  std::vector<std::uint32_t> predecessors;     // their number, by node
  std::vector<std::uint32_t> first_successor;  // by node, plus one entry: in `successors`
  std::vector<std::uint32_t> successors;
};

struct Segment {
  std::uint32_t first_node = 0;
  std::uint32_t num_nodes = 0;
  std::uint32_t waits = 0;                // arrivals and segments before it
  std::vector<std::uint32_t> successors;  // segments that wait for this one
  std::int32_t order = -1;                // in Plan::orders; -1: nodes run one after the other
  bool loops = false;                     // has loops, which may pause: its nodes run one after the other
};

// A tensor that arrives from elsewhere.
struct Arrival {
  bool is_pull = false;
  bool is_collect = false;
  bool is_asked = false;    // a Pull of rows, for which an AskRows node asks
  EdgeId edge;              // Recv, Collect, Pull of rows. For another Pull, the scheduler actor assigns one
  std::uint32_t slice = 0;  // Pull
  std::uint32_t shard = 0;  // Pull
  std::uint32_t slot = 0;
  DType dtype = DType::invalid;
  Shape shape;                          // as far as known; the tensor must fit
  std::string name;                     // of the tensor, for messages
  std::string from;                     // device or shard
  std::vector<std::uint32_t> segments;  // that wait for it
};

struct PushTarget {
  std::uint32_t slice = 0;
  std::uint32_t shard = 0;
};

// Asks a shard for rows of a slice.
struct AskTarget {
  PushTarget slice;
  EdgeId edge;  // on which the rows are awaited
};

struct ContributionTarget {
  std::uint32_t channel = 0;
  Reduction reduction = Reduction::mean;
  std::string name;  // of the operation
};

// Calls a resource of the task (docs/design/waiting.md).
struct CallTarget {
  EdgeId edge;  // on which the answer is awaited
  ResourceOperation operation = ResourceOperation::size;
};

struct SendTarget {
  EdgeId edge;
  std::string to;  // device
};

// Edges of graphs are numbered below kFirstPullEdge, those of pulls from there on.
inline constexpr std::uint32_t kFirstPullEdge = 0x80000000u;
// The edge on which the rows of an ask are awaited: pulls of slices have lower numbers.
inline EdgeId ask_edge(std::uint32_t ask) { return EdgeId{0xa0000000u + ask}; }
// The edge on which the result of a channel is awaited: edges of graphs and pulls have lower numbers.
inline EdgeId collect_edge(std::uint32_t channel) { return EdgeId{0xc0000000u + channel}; }

struct VariableDecl {
  std::string name;
  DType dtype;  // invalid: a resource
  Shape shape;
  // Of a resource: its op, and what it is made of (scheduler/resources/make_resource.hpp).
  std::string op{};
  Attributes attributes{};
};

class Plan {
 public:
  struct Branch {
    std::shared_ptr<const Plan> then_plan;  // shared by all uses of the function
    std::shared_ptr<const Plan> else_plan;
  };
  struct Loop {
    std::shared_ptr<const Plan> body;
    std::uint32_t carried = 0;
    std::uint32_t scanned = 0;
    bool reverse = false;
    // By result of the body:
    std::vector<std::uint8_t> moved{};  // nothing else reads its slot
    std::vector<std::uint8_t> made{};   // moved, and its slot is that of a node's output
  };
  std::string device;
  std::vector<PlanNode> nodes;  // in order of execution, segment after segment
  std::vector<InputRef> inputs;
  std::vector<Segment> segments;
  std::vector<Arrival> arrivals;
  std::vector<Kernel> kernels;
  std::vector<Tensor> constants;
  std::vector<VariableDecl> variables;
  std::vector<PushTarget> pushes;
  std::vector<AskTarget> asks;
  std::vector<CallTarget> calls;
  std::vector<SendTarget> sends;
  std::vector<ContributionTarget> contributions;
  std::vector<Branch> branches;
  std::vector<Loop> loops;
  std::vector<NodeInfo> infos;               // by node
  std::vector<std::uint32_t> feed_slots;     // by feed index; kNoSlot if this partition lacks the feed
  std::vector<std::uint32_t> fetch_indices;  // fetches that this partition provides
  std::vector<std::uint16_t> slot_uses;      // of counted slots; else 0
  bool counts_uses = false;                  // there are some
  std::vector<std::uint8_t> slot_is_read;    // 0: an output that nothing reads; it is not kept
  std::vector<NodeOrder> orders;
  MemoryPlan memory;
  std::uint32_t num_slots = 0;
  static constexpr std::uint32_t kNoSlot = 0xffffffffu;

  // For functions: slots of the arguments, and locations of the results. The last `kept_arguments` of a loop's body are
  // the same in each iteration: they stay in their slots.
  std::vector<std::uint32_t> argument_slots;
  std::vector<std::uint32_t> argument_variables;  // index in variables, or kNoSlot
  std::vector<InputRef> results;
  std::size_t kept_arguments = 0;
  bool is_kept(const InputRef& ref) const;  // the slot of such an argument

  const NodeInfo& info(const PlanNode& node) const { return infos[static_cast<std::size_t>(&node - nodes.data())]; }
  std::size_t kernel_count() const;  // nodes that run a kernel, not counting those in branches
  // Its size and memory, for people.
  std::string summary() const;
  // The same, and its segments with their nodes, waits and arrivals.
  std::string dump() const;
};

// Compiles a placed partition (all nodes on one device). Kernels are looked up in `kernels` for the device's type.
// Throws Error naming the node: an op without a kernel, an unfed Placeholder, a cycle.
// `place` puts a constant where the device's kernels read it; kernel factories get it as it is in the graph.
using PlaceConstant = std::function<Tensor(const Tensor&)>;
std::unique_ptr<const Plan> build_plan(const Graph& partition, const KernelRegistry& kernels,
                                       const std::string& device_type, const std::string& device_name,
                                       const PlaceConstant& place = nullptr);

// FNV-1a over a node's original name: attribute "_original_name" if it has one, else its name.
std::uint64_t original_name_hash(const Node& node);

}  // namespace troupe
