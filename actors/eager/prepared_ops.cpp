#include "troupe/actors/eager/prepared_ops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <source_location>
#include <string_view>

#include <troupe/actors/eager/values.hpp>
#include <troupe/devices/device.hpp>
#include <troupe/graph/infer_node.hpp>
#include <troupe/graph/passes/resource_calls.hpp>

namespace troupe {
namespace {

// A shape function reads the values that it wants, of those that are on the host; or none.
class CallInputs final : public NodeInputs {
 public:
  CallInputs(const NodeSpec& call, bool with_values) : inputs_(call.inputs), with_values_(with_values) {}
  int count() const override { return static_cast<int>(inputs_.size()); }
  DType dtype(int index) const override { return at(index).dtype(); }
  const Shape& shape(int index) const override { return at(index).shape(); }
  const Tensor* constant(int index) const override {
    if (!with_values_ || at(index).dtype() == DType::resource || tensor_of(at(index).eager).results()) return nullptr;
    return &at(index).value();
  }
  std::optional<KnownIntegers> integers(int index) const override {
    const Tensor* value = constant(index);
    return value ? known_integers(*value) : std::nullopt;
  }

 private:
  const Output& at(int index) const { return inputs_.at(static_cast<std::size_t>(index)); }
  const std::vector<Output>& inputs_;
  const bool with_values_;
};

std::shared_ptr<InferredCall> inferred(const OpDef& op, const Attributes& attributes, const NodeSpec& call,
                                       const std::string& device, bool with_values = true) {
  auto out = std::make_shared<InferredCall>();
  Node& node = out->node;
  node.op = &op;
  node.attributes = attributes;
  node.inputs.resize(call.inputs.size());
  node.device = device;
  try {
    infer_node(CallInputs(call, with_values), node);
  } catch (const Error& error) {
    throw error.within(text_of(call));
  }
  return out;
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

// Whether a source is one of the runtime, whose lines tell users nothing.
bool is_own_source(std::string_view file) {
  const std::string_view here = std::source_location::current().file_name();
  const std::string_view root = here.substr(0, here.find("actors/eager/"));
  for (const std::string_view folder : {"actors/", "graph/", "kernels/", "apps/c/", "apps/python/"})
    if (file.starts_with(std::string(root) + std::string(folder)) ||
        file.find("troupe/" + std::string(folder)) != file.npos)
      return true;
  return false;
}

}  // namespace

std::string text_of(const NodeSpec& call) {
  std::string text = call.op + "(";
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", name(call.inputs[i].dtype()), call.inputs[i].shape().to_string());
  const std::string_view file = call.name.where().file_name();
  if (is_own_source(file)) return text + ")";
  return fmt::format("{}) at {}:{}", text, file.substr(file.rfind('/') + 1), call.name.where().line());
}

PreparedOp::PreparedOp(const OpDef& op, const NodeSpec& call, Device& wanted, Device& host,
                       const KernelRegistry& kernels)
    : op_(op), given_(call.attributes), wanted_(wanted), device_(&wanted) {
  for (const Output& x : call.inputs) input_types_.push_back(x.dtype());
  const Node node = inferred(op_, given_, call, {})->node;
  const bool takes_variables = std::ranges::find(input_types_, DType::resource) != input_types_.end();
  if (!takes_variables && !kernels.supports(op.name, wanted.attributes().type, node.kernel_type())) device_ = &host;
  on_host_ = device_->attributes().synchronous;
  const KernelFactory& make = kernels.get(op.name, device_->attributes().type, node.kernel_type());
  kernel_ = make({op.name, node.attributes, input_types_, node.output_types});
}

bool PreparedOp::fits(const NodeSpec& call, const Device& wanted) const {
  return &wanted == &wanted_ && call.op == op_.name &&
         std::ranges::equal(call.inputs, input_types_, {}, [](const Output& x) { return x.dtype(); }) &&
         equal_attributes(call.attributes, given_);
}

std::shared_ptr<const InferredCall> PreparedOp::infer(const NodeSpec& call) const {
  const auto same = [&](const Shapes& known) {
    return std::ranges::equal(call.inputs, known.inputs, {}, [](const Output& x) -> const Shape& { return x.shape(); });
  };
  for (const Shapes* known = known_.load(std::memory_order_acquire); known; known = known->next)
    if (same(*known)) return known->call;
  std::shared_ptr<const InferredCall> made = inferred(op_, given_, call, device().attributes().name.to_string());
  const std::lock_guard lock(mutex_);
  if (all_.size() == kMostShapes) return made;
  std::vector<Shape> shapes;
  for (const Output& x : call.inputs) shapes.push_back(x.shape());
  all_.push_back(std::unique_ptr<const Shapes>(new Shapes{std::move(shapes), made, known_.load()}));
  known_.store(all_.back().get(), std::memory_order_release);
  return made;
}

bool PreparedOp::knows_shapes(const InferredCall& known, const NodeSpec& call) const {
  int follow = known.shapes_follow.load(std::memory_order_relaxed);
  if (follow < 0) {
    try {
      const auto without = inferred(op_, given_, call, {}, false);
      follow = std::ranges::all_of(without->node.output_shapes, &Shape::fully_known) ? 1 : 0;
    } catch (const Error&) {
      follow = 0;  // it wants a value
    }
    known.shapes_follow.store(follow, std::memory_order_relaxed);
  }
  return follow == 1;
}

void PreparedOp::check(const NodeSpec& call) const { inferred(op_, given_, call, {}); }

std::shared_ptr<const PreparedOp> PreparedOps::find(const NodeSpec& call, Device& device) {
  // Of the last calls of a thread: without the lock that threads share.
  struct Recent {
    std::uint64_t of = 0;  // the id of its owner
    std::shared_ptr<const PreparedOp> op;
  };
  static thread_local std::array<Recent, 64> recent;
  const std::uint64_t hash = hash_of(call, device);
  Recent& place = recent[hash % recent.size()];
  if (place.of == id_ && place.op->fits(call, device)) return place.op;
  std::shared_ptr<const PreparedOp> found = find_or_make(call, device, hash);
  if (found && found->on_host()) place = {id_, found};  // what GPUs need may end before the thread does
  return found;
}

std::shared_ptr<const PreparedOp> PreparedOps::find_or_make(const NodeSpec& call, Device& device, std::uint64_t hash) {
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = by_hash_.find(hash); found != by_hash_.end())
      for (const auto& op : found->second.ops)
        if (op->fits(call, device)) return op;
  }
  const OpDef& op = ops_.get(call.op);
  if (!op.has_kernel() || calls_resource(op)) return nullptr;
  auto made = std::make_shared<const PreparedOp>(op, call, device, host_, kernels_);
  const std::lock_guard lock(mutex_);
  Alike& alike = by_hash_[hash];
  if (alike.ops.size() < kMostAlike)
    alike.ops.push_back(made);
  else
    alike.ops[std::exchange(alike.oldest, (alike.oldest + 1) % kMostAlike)] = made;
  return made;
}

}  // namespace troupe
