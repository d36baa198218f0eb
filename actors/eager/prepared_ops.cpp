#include "troupe/actors/eager/prepared_ops.hpp"

#include <algorithm>
#include <optional>

#include <troupe/devices/device.hpp>
#include <troupe/graph/infer_node.hpp>

namespace troupe {
namespace {

// All values are known: a shape function reads those that it wants.
class CallInputs final : public NodeInputs {
 public:
  explicit CallInputs(const NodeSpec& call) : inputs_(call.inputs) {}
  int count() const override { return static_cast<int>(inputs_.size()); }
  DType dtype(int index) const override { return at(index).dtype(); }
  const Shape& shape(int index) const override { return at(index).shape(); }
  const Tensor* constant(int index) const override {
    if (at(index).dtype() == DType::resource) return nullptr;
    const Tensor& value = at(index).value();
    return value.space().on_host() ? &value : nullptr;
  }
  std::optional<KnownIntegers> integers(int index) const override {
    const Tensor* value = constant(index);
    return value ? known_integers(*value) : std::nullopt;
  }

 private:
  const Output& at(int index) const { return inputs_.at(static_cast<std::size_t>(index)); }
  const std::vector<Output>& inputs_;
};

std::shared_ptr<Node> inferred(const OpDef& op, const Attributes& attributes, const NodeSpec& call,
                               const std::string& device) {
  auto node = std::make_shared<Node>();
  node->op = &op;
  node->attributes = attributes;
  node->inputs.resize(call.inputs.size());
  node->device = device;
  try {
    infer_node(CallInputs(call), *node);
  } catch (const Error& error) {
    throw error.within(op.name);
  }
  return node;
}

bool equal_attributes(const Attributes& a, const Attributes& b) {
  const Attributes::Map &left = a.all(), &right = b.all();
  return &left == &right ||
         (left.size() == right.size() && std::ranges::equal(left, right, [](const auto& x, const auto& y) {
            return x.first == y.first && equal(x.second, y.second);
          }));
}

std::uint64_t hash_of(const NodeSpec& call, const Device& device) {
  std::uint64_t hash = std::hash<std::string>()(call.op) ^ reinterpret_cast<std::uintptr_t>(&device);
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15ull; };
  for (const Output& x : call.inputs) mix(static_cast<std::uint64_t>(x.dtype()) + 1);
  mix(call.attributes.all().size());
  return hash ^ (hash >> 32);
}

}  // namespace

PreparedOp::PreparedOp(const OpDef& op, const NodeSpec& call, Device& device, const KernelRegistry& kernels)
    : op_(op), given_(call.attributes), device_(device) {
  for (const Output& x : call.inputs) input_types_.push_back(x.dtype());
  const std::shared_ptr<const Node> node = node_for(call);
  const KernelFactory& make = kernels.get(op.name, device.attributes().type, node->kernel_type());
  kernel_ = make({op.name, node->attributes, input_types_, node->output_types});
}

bool PreparedOp::fits(const NodeSpec& call, const Device& device) const {
  return &device == &device_ && call.op == op_.name &&
         std::ranges::equal(call.inputs, input_types_, {}, [](const Output& x) { return x.dtype(); }) &&
         equal_attributes(call.attributes, given_);
}

std::shared_ptr<const Node> PreparedOp::node_for(const NodeSpec& call) const {
  const auto same = [&](const Shapes& known) {
    return std::ranges::equal(call.inputs, known.inputs, {}, [](const Output& x) -> const Shape& { return x.shape(); });
  };
  for (const Shapes* known = known_.load(std::memory_order_acquire); known; known = known->next)
    if (same(*known)) return known->node;
  std::shared_ptr<const Node> node = inferred(op_, given_, call, device_.attributes().name.to_string());
  const std::lock_guard lock(mutex_);
  if (all_.size() == kMostShapes) return node;
  std::vector<Shape> shapes;
  for (const Output& x : call.inputs) shapes.push_back(x.shape());
  all_.push_back(std::unique_ptr<const Shapes>(new Shapes{std::move(shapes), node, known_.load()}));
  known_.store(all_.back().get(), std::memory_order_release);
  return node;
}

void PreparedOp::check(const NodeSpec& call) const { inferred(op_, given_, call, {}); }

std::shared_ptr<const PreparedOp> PreparedOps::find(const NodeSpec& call, Device& device) {
  const std::uint64_t hash = hash_of(call, device);
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = by_hash_.find(hash); found != by_hash_.end())
      for (const auto& op : found->second.ops)
        if (op->fits(call, device)) return op;
  }
  const OpDef& op = ops_.get(call.op);
  if (!op.has_kernel()) return nullptr;
  auto made = std::make_shared<const PreparedOp>(op, call, device, kernels_);
  const std::lock_guard lock(mutex_);
  Alike& alike = by_hash_[hash];
  if (alike.ops.size() < kMostAlike)
    alike.ops.push_back(made);
  else
    alike.ops[std::exchange(alike.oldest, (alike.oldest + 1) % kMostAlike)] = made;
  return made;
}

}  // namespace troupe
