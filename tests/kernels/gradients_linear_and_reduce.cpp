// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {

namespace {

// Symmetric, with eigenvalues that are far from each other.
Output spread_symmetric(Output x) {
  const Output numbers = constant(*x.graph, Tensor::of<double>({3, 3}, {5, 0, 0, 0, -10, 0, 0, 0, 15}));
  const Output swapped = einsum("bij->bji", {x});
  const Output both = x + swapped;
  return both * 0.5 + numbers;
}
// Its singular values are far from each other, and its first columns independent.
Output spread_matrix(Output x, const Shape& shape) {
  Tensor numbers = Tensor::zeros(DType::f64, {shape[-2], shape[-1]});
  for (std::int64_t i = 0; i < std::min(shape[-2], shape[-1]); ++i)
    numbers.mutable_data<double>()[i * (shape[-1] + 1)] = static_cast<double>(10 + 12 * i);
  return x + constant(*x.graph, numbers);
}

std::vector<GradientCase> decomposition_gradients() {
  std::vector<GradientCase> out;
  // Squares do not depend on the signs of vectors.
  out.push_back({.name = "Eigh", .shapes = {{2, 3, 3}}, .build = [](Graph&, const Outputs& x) {
                   const Eigh found = eigh(spread_symmetric(x[0]));
                   return Outputs{found.values, square(found.vectors)};
                 }});
  out.push_back({.name = "EighValues", .shapes = {{2, 3, 3}}, .build = of([](auto& x) {
                                                                return square(eigvalsh(spread_symmetric(x[0])));
                                                              })});
  for (const auto& [name, shape] :
       {std::pair{"Square", Shape{2, 3, 3}}, {"Tall", Shape{2, 4, 2}}, {"Wide", Shape{1, 2, 4}}}) {
    const auto spread = [shape = shape](Output x) { return spread_matrix(x, shape); };
    out.push_back({.name = std::string("Qr") + name, .shapes = {shape}, .build = [=](Graph&, const Outputs& x) {
                     const Qr found = qr(spread(x[0]));
                     return Outputs{found.q, found.r};
                   }});
    out.push_back({.name = std::string("Svd") + name, .shapes = {shape}, .build = [=](Graph&, const Outputs& x) {
                     const Svd found = svd(spread(x[0]));
                     return Outputs{square(found.u), found.s, square(found.vh)};
                   }});
    out.push_back(
        {.name = std::string("SvdValues") + name, .shapes = {shape}, .build = of([=](auto& x) {
                                                                       const Output s = svdvals(spread(x[0]));
                                                                       const Output of_full =
                                                                           svd(spread(x[0]), {.full_matrices = true}).s;
                                                                       return s * of_full;
                                                                     })});
    out.push_back({.name = std::string("PseudoInverse") + name, .shapes = {shape}, .build = of([=](auto& x) {
                                                                                     return pinv(spread(x[0]));
                                                                                   })});
  }
  out.push_back({.name = "QrOfR", .shapes = {{2, 3, 2}}, .build = of([](auto& x) {
                                                           return qr(spread_matrix(x[0], {3, 2})).r;
                                                         })});
  // Of rank 1: products of a column and a row.
  out.push_back({.name = "PseudoInverseOfRank1",
                 .shapes = {{3, 1}, {1, 2}},
                 .build = of([](auto& x) { return pinv(matmul(x[0], x[1])); }),
                 .low = 0.5});
  out.push_back(
      {.name = "LeastSquares", .shapes = {{4, 2}, {4, 3}}, .build = of([](auto& x) { return lstsq(x[0], x[1]); })});
  out.push_back({.name = "SolveOfBroadcast", .shapes = {{3, 3}, {2, 3, 1}}, .build = of([](auto& x) {
                                                                              return matrix_solve(x[0], x[1]);
                                                                            })});
  return out;
}

}  // namespace

std::vector<GradientCase> linear_and_reduce_gradients() {
  std::vector<GradientCase> out;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const Shape a = ta ? Shape{3, 2} : Shape{2, 3};
      const Shape b = tb ? Shape{4, 3} : Shape{3, 4};
      out.push_back({.name = fmt::format("MatMul{}{}", ta ? "T" : "N", tb ? "T" : "N"),
                     .shapes = {a, b},
                     .build = of([=](auto& x) { return matmul(x[0], x[1], {.transpose_a = ta, .transpose_b = tb}); })});
    }
  struct Batch {
    const char* name;
    Shape a, b;
    bool ta = false, tb = false;
  };
  for (const Batch& c :
       {Batch{"MatMulBatch", {2, 2, 3}, {2, 3, 2}}, Batch{"MatMulBatchTN", {2, 3, 2}, {2, 3, 2}, true},
        Batch{"MatMulBatchNT", {2, 2, 3}, {2, 2, 3}, false, true},
        Batch{"MatMulBatchTT", {2, 3, 2}, {2, 2, 3}, true, true}, Batch{"MatMulBatchMatrix", {2, 2, 3}, {3, 2}},
        Batch{"MatMulBatchMatrixNT", {2, 2, 3}, {2, 3}, false, true},
        Batch{"MatMulBatchMatrixTN", {2, 3, 2}, {3, 2}, true}, Batch{"MatMulMatrixBatch", {2, 3}, {2, 3, 2}},
        Batch{"MatMulBroadcast", {2, 1, 2, 3}, {3, 3, 1}}, Batch{"MatMulVectorVector", {3}, {3}},
        Batch{"MatMulVectorMatrix", {3}, {3, 2}}, Batch{"MatMulVectorMatrixT", {3}, {2, 3}, false, true},
        Batch{"MatMulVectorBatch", {3}, {2, 3, 2}}, Batch{"MatMulMatrixVector", {2, 3}, {3}},
        Batch{"MatMulBatchVector", {2, 2, 3}, {3}}, Batch{"MatMulBatchTVector", {2, 3, 2}, {3}, true}})
    out.push_back({.name = c.name, .shapes = {c.a, c.b}, .build = of([ta = c.ta, tb = c.tb](auto& x) {
                                                           return matmul(x[0], x[1],
                                                                         {.transpose_a = ta, .transpose_b = tb});
                                                         })});
  struct Sum {
    const char *name, *equation;
    std::vector<Shape> shapes;
  };
  for (const Sum& c :
       {Sum{"EinsumDiagonal", "iij->ji", {{3, 3, 2}}}, Sum{"EinsumTrace", "ii", {{3, 3}}},
        Sum{"EinsumAttention", "bqhd,bkhd->bhqk", {{2, 2, 2, 2}, {2, 3, 2, 2}}},
        Sum{"EinsumChain", "ij,jk,kl->li", {{2, 3}, {3, 2}, {2, 2}}}, Sum{"EinsumRows", "bi,bi->b", {{2, 3}, {2, 3}}},
        Sum{"EinsumEllipsis", "...ij,...jk->...ik", {{2, 2, 3}, {1, 3, 2}}}})
    out.push_back({.name = c.name, .shapes = c.shapes, .build = of([equation = c.equation](auto& x) {
                                                         return einsum(equation, x);
                                                       })});
  for (const auto& [name, f] : {std::pair{"Det", &det}, {"Cofactors", cofactors}, {"MatrixInverse", matrix_inverse}})
    out.push_back(
        {.name = name,
         .shapes = {{2, 3, 3}},
         .build = of([f = f](auto& x) {
           // Far from singular.
           const Output numbers = constant(*x[0].graph, Tensor::of<double>({3, 3}, {5, 0, 0, 0, 6, 0, 0, 0, 7}));
           return f(x[0] + numbers, {});
         })});
  // Ranks that only the steps know.
  for (const auto& [name, a, b] : {std::tuple{"Batch", Shape{2, 1, 2, 3}, Shape{3, 3, 2}},
                                   {"Vectors", Shape{3}, Shape{3}},
                                   {"VectorBatch", Shape{3}, Shape{2, 3, 2}},
                                   {"BatchVector", Shape{2, 2, 3}, Shape{3}}})
    out.push_back({.name = std::string("MatMulOfLateRanks") + name,
                   .shapes = {a, b},
                   .build = of([=](auto& x) { return matmul(of_late_rank(x[0]), of_late_rank(x[1])); }),
                   .eager = GradientCase::Eager::rounds});
  for (const bool ta : {false, true})
    out.push_back({.name = ta ? "MatMulOfLateRanksTN" : "MatMulOfLateRanksNT",
                   .shapes = {{2, 2, 3}, {2, 2, 3}},
                   .build = of([=](auto& x) {
                     return matmul(of_late_rank(x[0]), of_late_rank(x[1]), {.transpose_a = ta, .transpose_b = !ta});
                   })});
  const Tensor steps = Tensor::of<std::int8_t>(Shape{2, 3}, {1, -2, 7, 0, 3, 9}),
               zeros = Tensor::vector<std::int8_t>({0, 4, -2});
  out.push_back(
      {.name = "DequantizeAlong", .shapes = {{3}}, .build = of([=](auto& x) {
                                                     Graph& g = *x[0].graph;
                                                     const Output q = constant(g, steps), z = constant(g, zeros);
                                                     return square(dequantize_linear(q, x[0], z, {.axis = 1}));
                                                   })});
  out.push_back({.name = "DequantizeOfLateRank", .shapes = {{3}}, .build = of([=](auto& x) {
                                                                    Graph& g = *x[0].graph;
                                                                    const Output q = of_late_rank(constant(g, steps)),
                                                                                 z = constant(g, zeros);
                                                                    return square(
                                                                        dequantize_linear(q, x[0], z, {.axis = -1}));
                                                                  })});
  out.push_back({.name = "Dequantize", .shapes = {{}}, .build = of([=](auto& x) {
                                                         const Output q = constant(*x[0].graph, steps);
                                                         const Output z = constant<std::int8_t>(*x[0].graph, 3);
                                                         return square(dequantize_linear(q, x[0], z));
                                                       })});
  for (const bool adjoint : {false, true}) {
    const std::string suffix = adjoint ? "Adjoint" : "";
    out.push_back({.name = "MatrixSolve" + suffix,
                   .shapes = {{2, 3, 3}, {2, 3, 2}},
                   .build = of([=](auto& x) { return matrix_solve(x[0], x[1], {.adjoint = adjoint}); })});
    for (const bool lower : {false, true})
      out.push_back(
          {.name = "TriangularSolve" + suffix + (lower ? "Lower" : "Upper"),
           .shapes = {{3, 3}, {3, 2}},
           .build = of([=](auto& x) { return triangular_solve(x[0], x[1], {.adjoint = adjoint, .lower = lower}); }),
           .low = 0.5});
  }
  out.push_back(
      {.name = "Cholesky", .shapes = {{2, 3, 3}}, .build = of([](auto& x) {
                                                    const Output squares = matmul(x[0], x[0], {.transpose_b = true});
                                                    return cholesky(set_diag(squares, diag_part(squares) + 3));
                                                  })});
  for (GradientCase& c : decomposition_gradients()) out.push_back(std::move(c));
  out.push_back({.name = "LogDet", .shapes = {{2, 3, 3}}, .build = of([](auto& x) {
                                                            const LogDet found = slogdet(x[0]);
                                                            return found.log_abs * found.sign;
                                                          })});
  out.push_back({.name = "BiasAdd", .shapes = {{2, 3, 4}, {4}}, .build = of([](auto& x) {
                                                                  return square(bias_add(x[0], x[1]));
                                                                })});
  out.push_back({.name = "BiasAddGrad", .shapes = {{2, 3, 4}}, .build = of([](auto& x) {
                                                                 return square(add_op("BiasAddGrad", {x[0]}));
                                                               })});
  const std::vector<std::pair<std::string, Output (*)(Output, Axes, ReduceOptions)>> reductions = {
      {"Sum", sum},           {"Mean", mean},   {"Max", max}, {"Min", min}, {"Prod", prod}, {"LogSumExp", log_sum_exp},
      {"Variance", variance}, {"L2", reduce_l2}};
  for (const auto& [name, f] : reductions)
    for (const Integers& axes : {Integers{}, Integers{0}, Integers{-1, 0}, Integers{1}})
      for (const bool keep : {false, true})
        out.push_back(
            {.name = fmt::format("{}{}axes{}{}", name, axes.size(), axes.empty() ? 0 : axes[0] + 1, keep ? "Keep" : ""),
             .shapes = {{3, 2, 2}},
             .build = of([=](auto& x) { return square(f(x[0], axes, {.keep_dims = keep})); })});
  // Axes that are not known while the graph is built.
  for (const auto& [name, f] : reductions)
    out.push_back({.name = name + "ComputedAxes",
                   .shapes = {{3, 2, 2}},
                   .build = of([f = f](auto& x) {
                     const Output rank = element_count(shape_of(x[0]));
                     const Output last = sub(rank, constant<std::int64_t>(*x[0].graph, 1));
                     return square(f(x[0], stop_gradient(reshape(last, Shape{1})), {}));
                   })});
  out.push_back({.name = "L2Loss", .shapes = {{3, 2}}, .build = unary(l2_loss)});
  return out;
}

}  // namespace troupe::testing
