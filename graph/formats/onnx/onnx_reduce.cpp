// ONNX's reductions, over axes that are an attribute or, in later opsets, an input.
#include <algorithm>

#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

using Reduce = Output (*)(Output, Axes, ReduceOptions);

// Reduces over the axes of an input that are computed, or are none: then nothing is reduced, where the model wants
// that. A dimension of 1 before all others is always reduced, so the axes are never none.
Output reduce_or_keep(Reduce reduce, Output x, Output axes, bool keep) {
  const Output one = constant<std::int64_t>(*x.graph, 1);
  const Output zero = constant<std::int64_t>(*x.graph, 0);
  const Output longer = expand_dims(x, 0);
  const Output shifted = select(less(axes, zero), axes, axes + one);
  const Output first = constant(*x.graph, Tensor::vector<std::int64_t>({0}));
  const Output reduced = reduce(longer, concat({first, shifted}, 0), {.keep_dims = keep});
  return keep ? squeeze(reduced, {0}) : reduced;
}

// Of bool and of integers that a function has no kernel for: computed in another dtype.
Output reduced(OnnxNode& node, Reduce reduce, Output x) {
  const bool keep = node.integer("keepdims", 1) != 0;
  if (!node.has(1)) {
    const Integers axes = node.integers("axes", Integers{});
    if (axes.empty() && node.integer("noop_with_empty_axes", 0) != 0) return identity(x);
    return reduce(x, axes, {.keep_dims = keep});
  }
  const Output axes = cast(node.in(1), DType::i64);
  if (node.integer("noop_with_empty_axes", 0) == 0) return reduce(x, axes, {.keep_dims = keep});
  const Shape& count = axes.shape();
  if (count.fully_known()) return count.num_elements() == 0 ? identity(x) : reduce(x, axes, {.keep_dims = keep});
  return reduce_or_keep(reduce, x, axes, keep);
}

// Of images with channels last, if their result needs no Transpose either; false otherwise.
bool set_reduced_images(OnnxNode& node, Reduce reduce) {
  const Output x = node.images(0);
  const auto given = node.has(1) ? node.known(1) : std::nullopt;
  if (!x.valid() || (node.has(1) && !given)) return false;
  Integers axes = given ? node.integers_in(1, "the axes") : node.integers("axes", Integers{}), spatial;
  if (axes.empty()) return false;
  for (std::int64_t& axis : axes) {
    if (axis < -4 || axis > 3) return false;
    axis = kOnnxToImages[static_cast<std::size_t>(axis < 0 ? axis + 4 : axis)];
  }
  spatial = axes;
  std::ranges::sort(spatial);
  const bool keep = node.integer("keepdims", 1) != 0;
  if (!keep && spatial != Integers{1, 2}) return false;
  const Output y = reduce(x, axes, {.keep_dims = keep});
  keep ? node.set_images(0, y) : node.set(y);
  return true;
}

template <Reduce function>
void reduce_node(OnnxNode& node) {
  if (!set_reduced_images(node, function)) node.set(reduced(node, function, node.in(0)));
}

// Functions with a root or logarithm, of integers too: rounded towards zero.
template <Reduce function>
void real_reduce_node(OnnxNode& node) {
  const Output x = node.in(0);
  const Output real = is_integer(x.dtype()) ? cast(x, DType::f64) : x;
  node.set(cast(reduced(node, function, real), x.dtype()));
}

// Maxima and minima of bool are those of 0 and 1.
template <Reduce function, Reduce of_bool>
void extreme_node(OnnxNode& node) {
  node.set(reduced(node, node.in(0).dtype() == DType::boolean ? of_bool : function, node.in(0)));
}

template <Output (*function)(Output, IntegersArg, ArgOptions)>
void arg_node(OnnxNode& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const bool last = node.integer("select_last_index", 0) != 0;
  const Output index = function(node.in(0), axis, {.select_last_index = last});
  node.set(node.integer("keepdims", 1) != 0 ? expand_dims(index, axis) : index);
}

constexpr OnnxOp kReduceOps[] = {
    {"ArgMax", arg_node<arg_max>},
    {"ArgMin", arg_node<arg_min>},
    {"ReduceL1", reduce_node<reduce_l1>},
    {"ReduceL2", real_reduce_node<reduce_l2>},
    {"ReduceLogSum", real_reduce_node<log_sum>},
    {"ReduceLogSumExp", real_reduce_node<log_sum_exp>},
    {"ReduceMax", extreme_node<max, reduce_any>, OnnxImages::itself},
    {"ReduceMean", reduce_node<mean>, OnnxImages::itself},
    {"ReduceMin", extreme_node<min, reduce_all>, OnnxImages::itself},
    {"ReduceProd", reduce_node<prod>, OnnxImages::itself},
    {"ReduceSum", reduce_node<sum>, OnnxImages::itself},
    {"ReduceSumSquare", reduce_node<sum_square>},
};

}  // namespace

std::span<const OnnxOp> onnx_reduce_ops() { return kReduceOps; }

}  // namespace troupe
