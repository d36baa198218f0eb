// Sparse tensors, by their values.
#include "tests/kernels/gradient_cases.hpp"
#include <troupe/graph/builder/sparse.hpp>

namespace troupe::testing {
namespace {

// [3,4], with five elements; row 1 of the second has none.
SparseTensor sparse_of(Output values, bool second = false) {
  const std::vector<std::int64_t> first{0, 1, 0, 3, 1, 0, 2, 2, 2, 3}, other{0, 0, 0, 3, 2, 0, 2, 2, 2, 3};
  Graph& g = *values.graph;
  SparseTensor out{.indices = constant(g, Tensor::of<std::int64_t>({5, 2}, second ? other : first)), .values = values};
  out.dense_shape = constant<std::int64_t>(g, {3, 4});
  return out;
}

// The square of the values, or of a dense result, so that the gradient is no constant.
BuildFn of_values(std::function<SparseTensor(const Outputs&)> f) {
  return [f](Graph&, const Outputs& x) { return Outputs{square(f(x).values)}; };
}
BuildFn of_whole(std::function<Output(const Outputs&)> f) {
  return [f](Graph&, const Outputs& x) { return Outputs{square(f(x))}; };
}

void add_sparse_products(std::vector<GradientCase>& out) {
  for (const bool adjoint_a : {false, true})
    for (const bool adjoint_b : {false, true}) {
      const std::int64_t rows = adjoint_a ? 3 : 4;
      out.push_back({.name = std::string("SparseDenseMatMul") + (adjoint_a ? "_a" : "") + (adjoint_b ? "_b" : ""),
                     .shapes = {{5}, adjoint_b ? Shape{2, rows} : Shape{rows, 2}},
                     .build = of_whole([=](auto& x) {
                       return sparse_dense_matmul(sparse_of(x[0]), x[1],
                                                  {.adjoint_a = adjoint_a, .adjoint_b = adjoint_b});
                     })});
    }
  out.push_back({.name = "SampledMatMul",
                 .shapes = {{3, 2}, {4, 2}},
                 .build = of_whole([](auto& x) { return sampled_matmul(sparse_of(x[0]).indices, x[0], x[1]); })});
}

void add_sparse_elementwise(std::vector<GradientCase>& out) {
  out.push_back({.name = "SparseAdd", .shapes = {{5}, {5}}, .build = of_values([](auto& x) {
                                                              return sparse_add(sparse_of(x[0]), sparse_of(x[1], true));
                                                            })});
  out.push_back({.name = "SparseAddThreshold",
                 .shapes = {{5}, {5}},
                 .build = of_values(
                     [](auto& x) { return sparse_add(sparse_of(x[0]), sparse_of(x[1], true), {.threshold = 0.01}); }),
                 .low = 0.5});
  out.push_back(
      {.name = "SparseMaximum",
       .shapes = {{5}, {5}},
       .build = of_values([](auto& x) { return sparse_maximum(sparse_of(x[0]), sparse_of(x[1] * -2.0, true)); }),
       .low = 0.5});
  out.push_back(
      {.name = "SparseMinimum",
       .shapes = {{5}, {5}},
       .build = of_values([](auto& x) { return sparse_minimum(sparse_of(x[0]), sparse_of(x[1] * -2.0, true)); }),
       .low = 0.5});
  out.push_back({.name = "SparseMultiply",
                 .shapes = {{5}, {5}},
                 .build = of_values([](auto& x) { return sparse_multiply(sparse_of(x[0]), sparse_of(x[1], true)); })});
  out.push_back({.name = "SparseDenseMultiply",
                 .shapes = {{5}, {3, 1}},
                 .build = of_values([](auto& x) { return sparse_dense_multiply(sparse_of(x[0]), x[1]); })});
  out.push_back({.name = "SparseDenseDivide",
                 .shapes = {{5}, {4}},
                 .build = of_values([](auto& x) { return sparse_dense_divide(sparse_of(x[0]), x[1]); }),
                 .low = 0.5});
  out.push_back({.name = "SparseDenseAdd", .shapes = {{5}, {3, 4}}, .build = of_whole([](auto& x) {
                                                                      return sparse_dense_add(sparse_of(x[0]), x[1]);
                                                                    })});
  out.push_back({.name = "SparseSoftmax", .shapes = {{5}}, .build = of_values([](auto& x) {
                                                             return sparse_softmax(sparse_of(x[0]));
                                                           })});
}

void add_sparse_shapes(std::vector<GradientCase>& out) {
  const auto add = [&](std::string name, std::function<SparseTensor(const SparseTensor&)> f) {
    out.push_back(
        {.name = std::move(name), .shapes = {{5}}, .build = of_values([f](auto& x) { return f(sparse_of(x[0])); })});
  };
  add("SparseReorder", [](const SparseTensor& x) {
    const Output reversed = constant<std::int64_t>(*x.values.graph, {1, 0});
    SparseTensor turned{.indices = gather(x.indices, reversed, {.axis = 1}), .values = x.values};
    turned.dense_shape = gather(x.dense_shape, reversed);
    return sparse_reorder(turned);
  });
  add("SparseCoalesce", [](const SparseTensor& x) {
    const Output ones = constant(*x.values.graph, Tensor::of<std::int64_t>({1, 2}, {1, 0}));
    SparseTensor repeated{.indices = x.indices * ones, .values = x.values, .dense_shape = x.dense_shape};
    return sparse_coalesce(repeated);
  });
  add("SparseSlice", [](const SparseTensor& x) { return sparse_slice(x, {0, 1}, {3, 2}); });
  add("SparseConcat", [](const SparseTensor& x) { return sparse_concat({x, x}, 1); });
  add("SparseSplit", [](const SparseTensor& x) { return sparse_split(x, 1, 3)[0]; });
  add("SparseReshape", [](const SparseTensor& x) { return sparse_reshape(x, {2, -1}); });
  add("SparseTranspose", [](const SparseTensor& x) { return sparse_transpose(x); });
  add("SparseExpandDims", [](const SparseTensor& x) { return sparse_expand_dims(x, 1); });
  add("SparseRetain", [](const SparseTensor& x) {
    const Output zero = constant<std::int64_t>(*x.values.graph, 0);
    return sparse_retain(x, greater(reshape(slice(x.indices, {0, 1}, {-1, 1}), Shape{kUnknown}), zero));
  });
  for (const bool keep_dims : {false, true}) {
    const std::string suffix = keep_dims ? "_keep" : "";
    add("SparseReduceSum" + suffix, [=](const SparseTensor& x) { return sparse_reduce_sum_sparse(x, {0}, keep_dims); });
    add("SparseReduceMax" + suffix,
        [=](const SparseTensor& x) { return sparse_reduce_max_sparse(x, {-1}, keep_dims); });
  }
}

void add_sparse_to_dense(std::vector<GradientCase>& out) {
  out.push_back({.name = "SparseToDense", .shapes = {{5}, {}}, .build = of_whole([](auto& x) {
                                                                 SparseToDenseOptions options;
                                                                 options.default_value = x[1];
                                                                 return sparse_to_dense(sparse_of(x[0]), options);
                                                               })});
  out.push_back({.name = "DenseToSparse",
                 .shapes = {{2, 3}},
                 .build = of_values([](auto& x) { return dense_to_sparse(x[0]); }),
                 .low = 0.5});
  out.push_back({.name = "SparseReduceAll", .shapes = {{5}}, .build = of_whole([](auto& x) {
                                                               return sparse_reduce_sum(sparse_of(x[0]));
                                                             })});
  out.push_back(
      {.name = "SparseFillEmptyRows",
       .shapes = {{5}, {}},
       .build = of_values([](auto& x) { return sparse_fill_empty_rows(sparse_of(x[0], true), x[1]).output; })});
  out.push_back(
      {.name = "SparseSegments", .shapes = {{4, 2}}, .build = of_whole([](auto& x) {
                                                       Graph& g = *x[0].graph;
                                                       const Output rows = constant<std::int64_t>(g, {3, 0, 0, 1});
                                                       const Output ids = constant<std::int64_t>(g, {0, 0, 1, 1});
                                                       return concat({sparse_segment_sum(x[0], rows, ids),
                                                                      sparse_segment_mean(x[0], rows, ids),
                                                                      sparse_segment_sqrt_n(x[0], rows, ids)},
                                                                     0);
                                                     })});
}

}  // namespace

std::vector<GradientCase> sparse_gradients() {
  std::vector<GradientCase> out;
  add_sparse_products(out);
  add_sparse_elementwise(out);
  add_sparse_shapes(out);
  add_sparse_to_dense(out);
  return out;
}

}  // namespace troupe::testing
