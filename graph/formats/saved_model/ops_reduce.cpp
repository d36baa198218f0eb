// TensorFlow's reductions, products of matrices, and sums along an axis.
#include <troupe/graph/formats/saved_model/node.hpp>

namespace troupe {
namespace {

template <Output (*build)(Output, Axes, ReduceOptions)>
void tf_reduce(TfNode& node) {
  const Output x = node.in(0);
  const Integers axes = node.integers_in(1, "the axes");
  if (axes.empty()) return node.set(identity(x));  // ours: all axes
  node.set(build(x, axes, {.keep_dims = node.boolean("keep_dims", false)}));
}

template <Output (*build)(Output, IntegersArg, ArgOptions)>
void tf_arg(TfNode& node) {
  const std::int64_t axis = node.num_inputs() > 1 ? node.integer_in(1, "the axis") : 0;
  node.set(cast(build(node.in(0), axis, {}), node.dtype("output_type", DType::i64)));
}

template <Output (*build)(Output, std::int64_t, CumulativeOptions)>
void tf_cumulative(TfNode& node) {
  node.set(build(node.in(0), node.integer_in(1, "the axis"),
                 {.exclusive = node.boolean("exclusive", false), .reverse = node.boolean("reverse", false)}));
}

void tf_mat_mul(TfNode& node) {
  node.set(
      matmul(node.in(0), node.in(1),
             {.transpose_a = node.boolean("transpose_a", false), .transpose_b = node.boolean("transpose_b", false)}));
}
void tf_batch_mat_mul(TfNode& node) {
  node.set(matmul(node.in(0), node.in(1),
                  {.transpose_a = node.boolean("adj_x", false), .transpose_b = node.boolean("adj_y", false)}));
}
void tf_einsum(TfNode& node) { node.set(einsum(node.string("equation", ""), node.in(0, node.num_inputs()))); }
void tf_l2_loss(TfNode& node) { node.set(l2_loss(node.in(0))); }

void tf_top_k(TfNode& node) {
  const TopK found = top_k(node.in(0), node.integer_in(1, "the number of elements"));
  node.set(0, found.values);
  node.set(1, cast(found.indices, node.dtype("index_type", DType::i32)));
}

constexpr TfOp kTfReduceOps[] = {
    {"All", tf_reduce<reduce_all>},
    {"Any", tf_reduce<reduce_any>},
    {"ArgMax", tf_arg<arg_max>},
    {"ArgMin", tf_arg<arg_min>},
    {"BatchMatMul", tf_batch_mat_mul},
    {"BatchMatMulV2", tf_batch_mat_mul},
    {"BatchMatMulV3", tf_batch_mat_mul},
    {"Cumprod", tf_cumulative<cumprod>},
    {"Cumsum", tf_cumulative<cumsum>},
    {"Einsum", tf_einsum},
    {"L2Loss", tf_l2_loss},
    {"MatMul", tf_mat_mul},
    {"Max", tf_reduce<max>},
    {"Mean", tf_reduce<mean>},
    {"Min", tf_reduce<min>},
    {"Prod", tf_reduce<prod>},
    {"Sum", tf_reduce<sum>},
    {"TopKV2", tf_top_k, "values,indices"},
};

}  // namespace

std::span<const TfOp> tensorflow_reduce_ops() { return kTfReduceOps; }

}  // namespace troupe
