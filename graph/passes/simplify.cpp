#include "troupe/graph/passes/simplify.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include <troupe/graph/op_table.hpp>
#include <troupe/graph/passes/prune.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/run_order.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kMaxConstant = 1024;  // elements of a constant computed from a shape

// Ops that can be removed, computed from shapes, or are part of a pattern.
enum class Known : std::uint8_t {
  none,
  forward,
  cast,
  add_n,
  add,
  sub,
  mul,
  div,
  size,
  shape,
  zeros,
  ones,
  reshape,
  expand_dims,
  broadcast,
  transpose,
  cross_entropy,
};
constexpr auto kKnown = op_table<Known>({
    {"Identity", Known::forward},
    {"StopGradient", Known::forward},
    {"Cast", Known::cast},
    {"AddN", Known::add_n},
    {"Add", Known::add},
    {"Sub", Known::sub},
    {"Mul", Known::mul},
    {"Div", Known::div},
    {"Size", Known::size},
    {"Shape", Known::shape},
    {"ZerosLike", Known::zeros},
    {"OnesLike", Known::ones},
    {"Reshape", Known::reshape},
    {"ExpandDims", Known::expand_dims},
    {"BroadcastLike", Known::broadcast},
    {"Transpose", Known::transpose},
    {"SparseSoftmaxCrossEntropy", Known::cross_entropy},
    {"SoftmaxCrossEntropy", Known::cross_entropy},
});
bool is_known(const Node& node, Known known) { return kKnown.of(node) == known; }

// Whether it is a constant scalar with the value of `number`, to the bit.
bool is_scalar(const Node& node, double number) {
  if (node.op->role != OpRole::constant) return false;
  const Tensor& value = node.attributes.tensor("value");
  if (!value.shape().is_scalar() || !value.space().on_host()) return false;
  const auto same = [&](double x) { return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(number); };
  const auto integer = [&](std::int64_t x) { return static_cast<double>(x) == number; };
  switch (value.dtype()) {
    case DType::f32:
      return same(value.item<float>());
    case DType::f64:
      return same(value.item<double>());
    case DType::f16:
      return same(static_cast<float>(value.item<Half>()));
    case DType::bf16:
      return same(static_cast<float>(value.item<BFloat16>()));
    case DType::i32:
      return integer(value.item<std::int32_t>());
    case DType::i64:
      return integer(value.item<std::int64_t>());
    default:
      return false;
  }
}

template <class T>
Tensor filled(const Shape& shape, double value) {
  Tensor out(dtype_of<T>, shape);
  for (T& v : out.mutable_values<T>()) v = static_cast<T>(static_cast<float>(value));
  return out;
}

// A tensor of ones or zeros; none for rare dtypes.
std::optional<Tensor> like(DType dtype, const Shape& shape, double value) {
  if (!shape.fully_known() || shape.num_elements() > kMaxConstant) return std::nullopt;
  switch (dtype) {
    case DType::f32:
      return filled<float>(shape, value);
    case DType::f64:
      return filled<double>(shape, value);
    case DType::f16:
      return filled<Half>(shape, value);
    case DType::bf16:
      return filled<BFloat16>(shape, value);
    case DType::i32:
      return filled<std::int32_t>(shape, value);
    case DType::i64:
      return filled<std::int64_t>(shape, value);
    default:
      return std::nullopt;
  }
}

// The axis of an ExpandDims that adds one dimension; none if it is not known.
std::optional<std::int64_t> only_axis(const Node& axes) {
  if (axes.op->role != OpRole::constant) return std::nullopt;
  const Tensor& value = axes.attributes.tensor("value");
  return value.num_elements() == 1 && value.space().on_host() ? std::optional(value.item<std::int64_t>())
                                                              : std::nullopt;
}

// The dimension of its input that each of its output's is; none if that is not known.
std::optional<std::vector<std::int64_t>> permutation(const Graph& graph, const Node& transpose) {
  const Shape& x = graph.shape(transpose.inputs[0]);
  std::vector<std::int64_t> out = transpose.attributes.get<std::vector<std::int64_t>>("perm");
  if (!x.has_rank()) return std::nullopt;
  if (out.empty())  // reversed
    for (std::int64_t axis = x.rank(); axis-- > 0;) out.push_back(axis);
  return out;
}

class Simplifier {
 public:
  explicit Simplifier(const Graph& graph) : old_(graph), rewriter_(graph) {}

  std::unique_ptr<Graph> run(PassNotes* notes) {
    std::string taken_out;
    int count = 0;
    for (int id : old_.topological_order()) {
      const Node& node = old_.node(id);
      if (!simplified(node)) {
        copy(node);
      } else if (++count <= 8) {
        taken_out += " " + node.name;
      }
    }
    if (notes && count > 0)
      notes->push_back(fmt::format("removed{}{}", taken_out, count > 8 ? fmt::format(" and {} more", count - 8) : ""));
    return rewriter_.finish();
  }

 private:
  const Node& source(Endpoint e) const { return old_.node(e.node); }

  void copy(const Node& node) {
    std::vector<Endpoint> inputs = rewriter_.mapped(node.inputs);
    if (const auto scalar = scalar_scale(node)) inputs = *scalar;
    if (is_known(node, Known::reshape) && !node.attributes.boolean("copy_zeros")) {
      const Node& before = source(node.inputs[0]);
      if (is_known(before, Known::reshape) && before.controls.empty() && before.id < std::ssize(reshaped_) &&
          reshaped_[static_cast<std::size_t>(before.id)].node >= 0)
        inputs[0] = reshaped_[static_cast<std::size_t>(before.id)];
      reshaped_.resize(static_cast<std::size_t>(old_.size()));
      reshaped_[static_cast<std::size_t>(node.id)] = inputs[0];
    }
    rewriter_.copy(node, std::move(inputs), rewriter_.mapped_controls(node));
  }

  bool simplified(const Node& node) {
    if (!node.controls.empty() || node.attributes.has(kTargetAttribute)) return false;
    if (const auto x = forwarded(node)) {
      const Endpoint to = rewriter_.mapped(*x);
      rewriter_.replace({node.id, 0}, to);
      rewriter_.replace_node(node, rewriter_.to().node(to.node));
      return true;
    }
    if (auto value = known(node)) {
      const Node& constant = rewriter_.to().add({.op = "Const",
                                                 .name = node.name,
                                                 .attributes = {{"T", value->dtype()}, {"value", *value}},
                                                 .device = node.device,
                                                 .colocate_with = node.colocate_with});
      rewriter_.replace({node.id, 0}, {constant.id, 0});
      rewriter_.replace_node(node, constant);
      return true;
    }
    return false;
  }

  // The input that equals the node's output.
  std::optional<Endpoint> forwarded(const Node& node) const {
    const auto scalar = [&](std::size_t input, double number) { return is_scalar(source(node.inputs[input]), number); };
    // The other operand, if this one is neutral.
    const auto beside = [&](double neutral) -> std::optional<Endpoint> {
      if (scalar(1, neutral)) return node.inputs[0];
      if (scalar(0, neutral)) return node.inputs[1];
      return std::nullopt;
    };
    const auto first_if = [&](bool holds) { return holds ? std::optional(node.inputs[0]) : std::nullopt; };
    switch (kKnown.of(node)) {
      case Known::forward:
        return first_if(same_place(node, source(node.inputs[0])));  // a Feed has no device of its own yet
      case Known::cast:
        return first_if(node.attributes.dtype("SrcT") == node.attributes.dtype("DstT"));
      case Known::add_n:
        return first_if(node.inputs.size() == 1);
      case Known::add:
        return beside(is_floating(node.output_types[0]) ? -0.0 : 0);
      case Known::sub:
        return first_if(scalar(1, 0));
      case Known::mul:
        return beside(1);
      case Known::div:
        return first_if(scalar(1, 1));
      case Known::transpose:
        return untransposed(node);
      default:
        return std::nullopt;
    }
  }

  // What a transpose changes nothing of, or what was transposed before so that this undoes it.
  std::optional<Endpoint> untransposed(const Node& node) const {
    const auto order = permutation(old_, node);
    if (!order) return std::nullopt;
    if (std::ranges::is_sorted(*order)) return node.inputs[0];
    const Node& before = source(node.inputs[0]);
    if (!is_known(before, Known::transpose) || !same_place(node, before)) return std::nullopt;
    const auto first = permutation(old_, before);
    if (!first) return std::nullopt;
    for (std::size_t i = 0; i < order->size(); ++i)
      if ((*first)[static_cast<std::size_t>((*order)[i])] != static_cast<std::int64_t>(i)) return std::nullopt;
    return before.inputs[0];
  }

  // The value, if it follows from the input's shape.
  std::optional<Tensor> known(const Node& node) const {
    const Known what = kKnown.of(node);
    if (what < Known::size || what > Known::ones) return std::nullopt;
    const Shape& shape = old_.shape(node.inputs[0]);
    if (!shape.fully_known()) return std::nullopt;
    if (what == Known::size) return Tensor::scalar(shape.num_elements());
    if (what == Known::shape) return Tensor::of<std::int64_t>(Shape{shape.rank()}, shape.dims());
    return like(node.output_types[0], shape, what == Known::ones ? 1 : 0);
  }

  // Whether the dimension that `expanded` adds is that of the cross-entropy's classes.
  bool expands_classes(const Node& expanded, const Node& entropy) const {
    const Shape& logits = old_.shape({entropy.id, 1});
    const auto from_start = [&](std::int64_t axis) {
      return axis < 0 && logits.has_rank() ? axis + logits.rank() : axis;
    };
    const auto added = only_axis(source(expanded.inputs[1]));
    return added && from_start(*added) == from_start(entropy.attributes.integer("axis"));
  }

  // For Mul(ExpandDims(BroadcastLike(s, loss), axis), backprop), both of one cross-entropy, s a scalar: s and backprop.
  std::optional<std::vector<Endpoint>> scalar_scale(const Node& node) const {
    if (!is_known(node, Known::mul)) return std::nullopt;
    const Node& expanded = source(node.inputs[0]);
    const Node& entropy = source(node.inputs[1]);
    if (!is_known(expanded, Known::expand_dims) || node.inputs[1].index != 1 ||
        !is_known(entropy, Known::cross_entropy) || !expands_classes(expanded, entropy))
      return std::nullopt;
    const Node& broadcast = source(expanded.inputs[0]);
    if (!expanded.controls.empty() || !broadcast.controls.empty()) return std::nullopt;
    if (!is_known(broadcast, Known::broadcast) || broadcast.inputs[1] != Endpoint{entropy.id, 0} ||
        !old_.shape(broadcast.inputs[0]).is_scalar())
      return std::nullopt;
    return std::vector<Endpoint>{rewriter_.mapped(broadcast.inputs[0]), rewriter_.mapped(node.inputs[1])};
  }

  const Graph& old_;
  Rewriter rewriter_;
  std::vector<Endpoint> reshaped_;  // by old Reshape: its input in the new graph
};

}  // namespace

std::unique_ptr<Graph> simplify(const Graph& graph, const FuseOptions& options) {
  auto simplified = Simplifier(graph).run(options.notes);
  restore_order(graph, *simplified);  // nodes that became constants no longer wait for their inputs' predecessors
  return verified("simplify", graph, std::move(simplified));
}

}  // namespace troupe
