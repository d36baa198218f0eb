// Prepares ops for eager mode: the first call of an op makes the kernel and the attributes that later ones use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/graph.hpp>

namespace troupe {

// "MatMul(f32[2,3], f32[4,5]) at train.cpp:12": without the line where that is one of the runtime's.
std::string text_of(const NodeSpec& call);

// The node of a call's outputs, which calls with the same shapes share.
struct InferredCall {
  Node node{};
  // Whether the shapes of its outputs follow from those of its inputs, whatever their values; negative: not known yet.
  mutable std::atomic<int> shapes_follow{-1};

  static std::shared_ptr<const Node> node_of(std::shared_ptr<const InferredCall> call) {
    const Node* const node = &call->node;
    return {std::move(call), node};
  }
};

// An op with given attributes on a device, for inputs of given dtypes. Thread-safe.
class PreparedOp {
 public:
  // Throws as Graph::add() does, for these inputs. If `wanted` has no kernel for them, `host` runs it.
  PreparedOp(const OpDef& op, const NodeSpec& call, Device& wanted, Device& host, const KernelRegistry& kernels);

  bool fits(const NodeSpec& call, const Device& wanted) const;
  const Kernel& kernel() const { return kernel_; }
  Device& device() const { return *device_; }
  bool on_host() const { return on_host_; }  // its device is a CPU
  bool stateful() const { return op_.stateful; }
  // Throws invalid_argument for shapes that do not fit.
  std::shared_ptr<const InferredCall> infer(const NodeSpec& call) const;
  // Whether the shapes of the call's outputs are those of the node, before it has run.
  bool knows_shapes(const InferredCall& inferred, const NodeSpec& call) const;
  // Throws what shapes and values of the inputs tell, if they do not fit.
  void check(const NodeSpec& call) const;

 private:
  struct Shapes {
    std::vector<Shape> inputs;
    std::shared_ptr<const InferredCall> call;
    const Shapes* next;
  };
  static constexpr std::size_t kMostShapes = 16;  // that are remembered; others are inferred in each call

  const OpDef& op_;
  const Attributes given_;
  std::vector<DType> input_types_;
  const Device& wanted_;
  Device* device_;  // that runs it
  bool on_host_ = true;
  Kernel kernel_;
  mutable std::atomic<const Shapes*> known_{nullptr};
  mutable std::mutex mutex_;  // guards what follows
  mutable std::vector<std::unique_ptr<const Shapes>> all_;
};

class PreparedOps {
 public:
  // `host` runs what another device has no kernels for.
  PreparedOps(const OpRegistry& ops, const KernelRegistry& kernels, Device& host)
      : ops_(ops), kernels_(kernels), host_(host) {}
  // Null for an op that no kernel runs (OpRole). Throws not_found for an unknown op, unimplemented for one without a
  // kernel for the device and dtypes, and as Graph::add() does.
  std::shared_ptr<const PreparedOp> find(const NodeSpec& call, Device& device);

 private:
  std::shared_ptr<const PreparedOp> find_or_make(const NodeSpec& call, Device& device, std::uint64_t hash);
  static constexpr std::size_t kMostAlike = 32;  // that differ in attributes only; the oldest is forgotten
  struct Alike {
    std::vector<std::shared_ptr<const PreparedOp>> ops;
    std::size_t oldest = 0;
  };
  static inline std::atomic<std::uint64_t> last_id_{0};

  const OpRegistry& ops_;
  const KernelRegistry& kernels_;
  Device& host_;
  const std::uint64_t id_ = ++last_id_;  // no other has it, also when this one has ended
  std::shared_mutex mutex_;
  std::unordered_map<std::uint64_t, Alike> by_hash_;
};

}  // namespace troupe
