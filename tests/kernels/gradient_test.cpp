#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/kernels/gradient_check.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {

// What gtest prints of a case.
void PrintTo(const testing::GradientCase& c, std::ostream* out) { *out << c.name; }
namespace testing {
void PrintTo(const GradientCase& c, std::ostream* out) { *out << c.name; }
}  // namespace testing

namespace {

using testing::BuildFn;
using testing::check_gradients;
using testing::first_gradients;
using testing::GradientCase;

BuildFn unary(Output (*f)(Output, Name)) {
  return [f](Graph&, const Outputs& x) { return Outputs{f(x[0], {})}; };
}
BuildFn binary(Output (*f)(Output, Output, Name)) {
  return [f](Graph&, const Outputs& x) { return Outputs{f(x[0], x[1], {})}; };
}
BuildFn op(std::string name, Attributes attributes = {}) {
  return [=](Graph&, const Outputs& x) { return add_outputs(name, x, attributes); };
}
// One result of the inputs.
BuildFn of(std::function<Output(const Outputs&)> f) {
  return [f](Graph&, const Outputs& x) { return Outputs{f(x)}; };
}

std::vector<GradientCase> elementwise_cases() {
  std::vector<GradientCase> out;
  const std::vector<std::vector<Shape>> pairs = {{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1, 2}, {3, 1}}, {{}, {4}}};
  const std::vector<std::pair<std::string, Output (*)(Output, Output, Name)>> binaries = {
      {"Add", add},         {"Sub", sub},         {"Mul", mul}, {"Div", div},
      {"Maximum", maximum}, {"Minimum", minimum}, {"Pow", pow}, {"SquaredDifference", squared_difference}};
  for (const auto& [name, f] : binaries)
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const bool positive = name == "Pow" || name == "Div";
      out.push_back(
          {.name = name + std::to_string(i), .shapes = pairs[i], .build = binary(f), .low = positive ? 0.5 : -2});
    }
  const std::vector<std::pair<std::string, Output (*)(Output, Name)>> unaries = {
      {"Neg", neg},         {"Abs", abs},           {"Square", square}, {"Exp", exp},   {"Tanh", tanh},
      {"Sigmoid", sigmoid}, {"Softplus", softplus}, {"Erf", erf},       {"Relu", relu}, {"Identity", identity}};
  for (const auto& [name, f] : unaries) out.push_back({.name = name, .shapes = {{3, 4}}, .build = unary(f)});
  const std::vector<std::pair<std::string, Output (*)(Output, Name)>> positives = {
      {"Log", log}, {"Log1p", log1p}, {"Sqrt", sqrt}, {"Rsqrt", rsqrt}};
  for (const auto& [name, f] : positives)
    out.push_back({.name = name, .shapes = {{3, 4}}, .build = unary(f), .low = 0.4});
  const std::vector<Shape> two = {{3, 4}, {3, 4}};
  out.push_back({.name = "LeakyRelu", .shapes = {{3, 4}}, .build = of([](auto& x) { return leaky_relu(x[0], 0.3); })});
  out.push_back({.name = "ReluGrad", .shapes = two, .build = op("ReluGrad"), .twice = false});
  out.push_back(
      {.name = "LeakyReluGrad", .shapes = two, .build = op("LeakyReluGrad", {{"alpha", 0.3}}), .twice = false});
  out.push_back({.name = "SigmoidGrad", .shapes = two, .build = op("SigmoidGrad")});
  out.push_back({.name = "TanhGrad", .shapes = two, .build = op("TanhGrad")});
  out.push_back({.name = "Cast", .shapes = {{3}}, .build = of([](auto& x) {
                                                    return cast(cast(x[0], DType::f64, "same"), DType::f64, "again") *
                                                           x[0];
                                                  })});
  out.push_back(
      {.name = "Select",
       .shapes = {{2, 3}, {3}, {2, 1}},
       .build = of([](auto& x) { return select(greater(x[0], scalar_like(x[0], 0)), x[1] * x[1], x[2]) * x[0]; })});
  out.push_back({.name = "AddN", .shapes = {{2, 2}, {2, 2}, {2, 2}}, .build = of([](auto& x) {
                                                                       return square(add_n({x[0], x[1], x[0], x[2]}));
                                                                     })});
  out.push_back({.name = "SumToLike", .shapes = {{2, 3, 4}, {3, 1}}, .build = of([](auto& x) {
                                                                       return square(sum_to_like(x[0], x[1]));
                                                                     })});
  out.push_back({.name = "BroadcastLike",
                 .shapes = {{3, 1}, {2, 3, 4}},
                 .build = of([](auto& x) { return square(broadcast_like(x[0], x[1])) * x[1]; })});
  return out;
}

std::vector<GradientCase> linear_and_reduce_cases() {
  std::vector<GradientCase> out;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const Shape a = ta ? Shape{3, 2} : Shape{2, 3};
      const Shape b = tb ? Shape{4, 3} : Shape{3, 4};
      out.push_back({.name = fmt::format("MatMul{}{}", ta ? "T" : "N", tb ? "T" : "N"),
                     .shapes = {a, b},
                     .build = of([=](auto& x) { return matmul(x[0], x[1], {.transpose_a = ta, .transpose_b = tb}); })});
    }
  out.push_back({.name = "BiasAdd", .shapes = {{2, 3, 4}, {4}}, .build = of([](auto& x) {
                                                                  return square(bias_add(x[0], x[1]));
                                                                })});
  out.push_back({.name = "BiasAddGrad", .shapes = {{2, 3, 4}}, .build = of([](auto& x) {
                                                                 return square(add_op("BiasAddGrad", {x[0]}));
                                                               })});
  const std::vector<std::pair<std::string, Output (*)(Output, Integers, ReduceOptions)>> reductions = {
      {"Sum", sum}, {"Mean", mean}, {"Max", max}, {"Min", min}};
  for (const auto& [name, f] : reductions)
    for (const Integers& axes : {Integers{}, Integers{0}, Integers{-1, 0}, Integers{1}})
      for (const bool keep : {false, true})
        out.push_back(
            {.name = fmt::format("{}{}axes{}{}", name, axes.size(), axes.empty() ? 0 : axes[0] + 1, keep ? "Keep" : ""),
             .shapes = {{3, 2, 2}},
             .build = of([=](auto& x) { return square(f(x[0], axes, {.keep_dims = keep})); })});
  out.push_back({.name = "L2Loss", .shapes = {{3, 2}}, .build = unary(l2_loss)});
  return out;
}

std::vector<GradientCase> array_cases() {
  const auto squared = [](std::function<Output(const Outputs&)> f) {
    return of([f](const Outputs& x) { return square(f(x)); });
  };
  std::vector<GradientCase> out;
  out.push_back({.name = "Reshape", .shapes = {{2, 6}}, .build = squared([](auto& x) {
                                                          return reshape(x[0], Shape{3, -1});
                                                        })});
  out.push_back({.name = "ReshapeLike", .shapes = {{2, 6}, {3, 4}}, .build = squared([](auto& x) {
                                                                      return reshape_like(x[0], x[1]);
                                                                    })});
  out.push_back(
      {.name = "Squeeze", .shapes = {{2, 1, 3}}, .build = squared([](auto& x) { return squeeze(x[0], {1}); })});
  out.push_back(
      {.name = "ExpandDims", .shapes = {{2, 3}}, .build = squared([](auto& x) { return expand_dims(x[0], -1); })});
  out.push_back(
      {.name = "TransposeReverse", .shapes = {{2, 3, 2}}, .build = squared([](auto& x) { return transpose(x[0]); })});
  out.push_back({.name = "Transpose", .shapes = {{2, 3, 4}}, .build = squared([](auto& x) {
                                                               return transpose(x[0], {2, 0, 1});
                                                             })});
  out.push_back({.name = "Concat",
                 .shapes = {{2, 1}, {2, 3}, {2, 2}},
                 .build = squared([](auto& x) {
                   return concat({x[0], x[1], x[2]}, -1);
                 }),
                 .dynamic = false});
  out.push_back({.name = "Stack", .shapes = {{2, 3}, {2, 3}}, .build = squared([](auto& x) {
                                                                return stack({x[0], x[1], x[0]}, 1);
                                                              })});
  out.push_back({.name = "Split", .shapes = {{2, 4}}, .build = squared([](auto& x) {
                                                        return split(x[0], 1,
                                                                     2)[1];  // nothing flows into the first part
                                                      })});
  out.push_back({.name = "SplitSizes",
                 .shapes = {{5, 2}},
                 .build =
                     [](Graph&, const Outputs& x) {
                       const Outputs parts = split_sizes(x[0], 0, {2, 0, 3});
                       return Outputs{square(parts[0]), parts[2] * 3};
                     },
                 .dynamic = false});
  out.push_back({.name = "Unstack",
                 .shapes = {{2, 3}},
                 .build =
                     [](Graph&, const Outputs& x) {
                       const Outputs parts = unstack(x[0], 1);
                       return Outputs{parts[0] * parts[2]};
                     },
                 .dynamic = false});
  out.push_back({.name = "Slice", .shapes = {{3, 4}}, .build = squared([](auto& x) {
                                                        return slice(x[0], {1, 0}, {2, -1});
                                                      })});
  out.push_back({.name = "SliceGrad",
                 .shapes = {{1, 4}, {3, 4}},
                 .build = squared([](auto& x) {
                   return add_op("SliceGrad", {x[0], x[1]}, {{"begin", Integers{1, 0}}});
                 }),
                 .dynamic = false});
  out.push_back({.name = "Pad",
                 .shapes = {{2, 3}},
                 .build = squared([](auto& x) {
                   return pad(x[0], {1, 0}, {0, 2}, {.value = 3});
                 }),
                 .dynamic = false});
  out.push_back({.name = "PadInFront", .shapes = {{2, 3}}, .build = squared([](auto& x) {
                                                             return pad(x[0], {1, 2}, {0, 0});
                                                           })});
  out.push_back({.name = "Tile", .shapes = {{2, 3}}, .build = squared([](auto& x) { return tile(x[0], {2, 3}); })});
  out.push_back({.name = "TileGrad",
                 .shapes = {{4, 3}, {2, 3}},
                 .build = squared([](auto& x) {
                   return add_op("TileGrad", {x[0], x[1]}, {{"multiples", Integers{2, 1}}});
                 })});
  out.push_back(
      {.name = "Gather", .shapes = {{4, 2}}, .build = squared([](auto& x) {
                                               return gather(x[0], constant<std::int32_t>(*x[0].graph, {3, 0, 3}));
                                             })});
  out.push_back({.name = "GatherAndMore",
                 .shapes = {{4, 2}},
                 .build = squared([](auto& x) {
                   const Output rows = constant(*x[0].graph, Tensor::of<std::int64_t>(Shape{2, 2}, {3, 0, 3, 1}));
                   return sum(gather(x[0] * x[0], rows), {0, 1}) * sum(x[0], {0}) * sum(gather(x[0], rows), {0, 1}) *
                          gather(x[0], constant<std::int64_t>(*x[0].graph, {1}));
                 })});
  out.push_back({.name = "ScatterAddRows",
                 .shapes = {{3, 2}, {4, 2}},
                 .build = squared([](auto& x) {
                   return scatter_add_rows(constant<std::int64_t>(*x[0].graph, {3, 0, 3}), x[0], x[1]);
                 })});
  out.push_back({.name = "Fill", .shapes = {{}}, .build = squared([](auto& x) {
                                                   return fill(constant<std::int64_t>(*x[0].graph, {2, 3}), x[0]);
                                                 })});
  return out;
}

std::vector<GradientCase> nn_cases() {
  std::vector<GradientCase> out;
  out.push_back({.name = "Softmax", .shapes = {{3, 4}}, .build = of([](auto& x) { return softmax(x[0]); })});
  out.push_back({.name = "LogSoftmax", .shapes = {{3, 4}}, .build = of([](auto& x) { return log_softmax(x[0]); })});
  out.push_back({.name = "SoftmaxGrad", .shapes = {{3, 4}, {3, 4}}, .build = op("SoftmaxGrad")});
  out.push_back({.name = "LogSoftmaxGrad", .shapes = {{3, 4}, {3, 4}}, .build = op("LogSoftmaxGrad")});
  out.push_back(
      {.name = "SparseSoftmaxCrossEntropy", .shapes = {{3, 4}}, .build = [](Graph& g, const Outputs& x) {
         return outputs_of(g, sparse_softmax_cross_entropy(x[0], constant<std::int64_t>(g, {2, 0, 3})).source());
       }});
  out.push_back({.name = "SoftmaxCrossEntropy", .shapes = {{3, 4}, {3, 4}}, .build = [](Graph& g, const Outputs& x) {
                   return outputs_of(g, softmax_cross_entropy(x[0], softmax(x[1])).source());
                 }});
  out.push_back({.name = "SigmoidCrossEntropy", .shapes = {{3, 4}, {3, 4}}, .build = of([](auto& x) {
                                                                              return sigmoid_cross_entropy(x[0], x[1]);
                                                                            })});
  const auto conv = [](Integers strides, Padding padding) {
    return of([=](auto& x) { return conv2d(x[0], x[1], {.strides = strides, .padding = padding}); });
  };
  out.push_back({.name = "Conv2DSame", .shapes = {{2, 4, 3, 2}, {3, 2, 2, 3}}, .build = conv({1, 1}, Padding::same)});
  out.push_back(
      {.name = "Conv2DSameStrided", .shapes = {{1, 5, 4, 1}, {3, 3, 1, 2}}, .build = conv({2, 3}, Padding::same)});
  out.push_back({.name = "Conv2DValid", .shapes = {{1, 4, 5, 2}, {2, 3, 2, 1}}, .build = conv({2, 1}, Padding::valid)});
  const Attributes window = {{"strides", Integers{1, 2}}, {"padding", std::string("SAME")}};
  const std::vector<Shape> three = {{1, 3, 4, 2}, {2, 2, 2, 1}, {1, 3, 2, 1}};
  out.push_back({.name = "Conv2DBackpropInput", .shapes = three, .build = op("Conv2DBackpropInput", window)});
  out.push_back({.name = "Conv2DBackpropFilter", .shapes = three, .build = op("Conv2DBackpropFilter", window)});
  const PoolOptions pooling{.ksize = {2, 3}, .strides = {2, 1}};
  out.push_back({.name = "MaxPool",
                 .shapes = {{1, 4, 4, 2}},
                 .build = of([=](auto& x) { return max_pool(x[0], pooling); }),
                 .twice = false});
  out.push_back({.name = "AvgPool", .shapes = {{1, 3, 4, 2}}, .build = of([=](auto& x) {
                                                                return square(avg_pool(x[0], pooling));
                                                              })});
  out.push_back({.name = "AvgPoolGrad",
                 .shapes = {{1, 3, 4, 2}, {1, 2, 4, 2}},
                 .build = of([](auto& x) {
                   return square(add_op(
                       "AvgPoolGrad", {x[0], x[1]},
                       {{"ksize", Integers{2, 3}}, {"strides", Integers{2, 1}}, {"padding", std::string("SAME")}}));
                 })});
  const std::vector<Shape> normalised = {{3, 2, 4}, {4}, {4}};
  for (const bool relu : {false, true}) {
    const std::string suffix = relu ? "Relu" : "";
    out.push_back(
        {.name = "BatchNorm" + suffix,
         .shapes = normalised,
         .build = of([=](auto& x) { return batch_norm(x[0], x[1], x[2], {.epsilon = 0.01, .relu = relu}).y; }),
         .twice = false});
    out.push_back({.name = "BatchNormInference" + suffix,
                   .shapes = {{3, 2, 4}, {4}, {4}, {4}, {4}},
                   .build = of([=](auto& x) {
                     return batch_norm_inference(x[0], x[1], x[2], x[3], square(x[4]) + 0.5,
                                                 {.epsilon = 0.01, .relu = relu});
                   }),
                   .twice = !relu});
  }
  out.push_back({.name = "LayerNorm",
                 .shapes = normalised,
                 .build = of([](auto& x) { return layer_norm(x[0], x[1], x[2], {.epsilon = 0.01}); }),
                 .twice = false});
  out.push_back(
      {.name = "Dropout", .shapes = {{4, 5}}, .build = of([](auto& x) { return square(dropout(x[0], 0.4)); })});
  return out;
}

std::vector<GradientCase> control_cases() {
  const auto branches = [](bool taken) {
    return [taken](Graph& g, const Outputs& x) {
      return if_else(
          constant(g, taken), {x[0], constant<std::int64_t>(g, {1, 0}), x[1]},
          [](Graph&, const Outputs& in) {
            return Outputs{gather(in[0] * in[0], in[1]) * in[2], in[2] * 2};
          },
          [](Graph& body, const Outputs& in) {
            return Outputs{if_else(
                               less(sum(in[0]), constant(body, 1000.0)), {in[0]},
                               [](Graph&, const Outputs& y) { return Outputs{exp(y[0]) * 2}; },
                               [](Graph&, const Outputs& y) { return Outputs{y[0]}; })[0],
                           dropout(in[2], 0.5) * in[2]};
          });
    };
  };
  const auto repeated = [](bool recompute) {
    return [recompute](Graph& g, const Outputs& x) {
      const Outputs out = while_loop([&](const Outputs& v) { return less(v[0], scalar_like(v[0], 3)); },
                                     [&](const Outputs& v) {
                                       return Outputs{v[0] + 1.0, tanh(matmul(v[1], x[1])) + v[1] * x[1]};
                                     },
                                     {constant<std::int64_t>(g, 0), x[0]}, {.recompute = recompute});
      return Outputs{out[1]};
    };
  };
  const auto scanned = [](bool reverse) {
    return [reverse](Graph&, const Outputs& x) {
      const Scanned out = scan(
          [&](const Outputs& state, const Outputs& row) {
            const Output next = tanh(reshape(matmul(reshape(state[0], Shape{1, 2}), x[2]), Shape{2}) + row[0]);
            return Scanned{{next}, {next * row[0]}};
          },
          {x[0]}, {x[1]}, {.reverse = reverse});
      return Outputs{out.state[0], out.ys[0]};
    };
  };
  const auto nested = [](Graph& g, const Outputs& x) {
    return scan(
               [&](const Outputs& state, const Outputs& row) {
                 const Output inner = for_loop(constant<std::int64_t>(g, 2),
                                               [&](Output i, const Outputs& v) {
                                                 return if_else(
                                                     equal(i, scalar_like(i, 1)), {},
                                                     [&](Graph&, const Outputs&) { return Outputs{tanh(v[0])}; },
                                                     [&](Graph&, const Outputs&) { return Outputs{v[0] * row[0]}; });
                                               },
                                               {state[0]})[0];
                 return Scanned{{inner}, {square(inner)}};
               },
               {sum(x[1], {0})}, {x[0]})
        .ys;
  };
  return {{.name = "IfThen", .shapes = {{2, 2}, {2, 2}}, .build = branches(true)},
          {.name = "IfElse", .shapes = {{2, 2}, {2, 2}}, .build = branches(false)},
          {.name = "While", .shapes = {{2, 2}, {2, 2}}, .build = repeated(false)},
          {.name = "WhileRecomputed", .shapes = {{2, 2}, {2, 2}}, .build = repeated(true)},
          {.name = "Scan", .shapes = {{2}, {3, 2}, {2, 2}}, .build = scanned(false)},
          {.name = "ScanReversed", .shapes = {{2}, {3, 2}, {2, 2}}, .build = scanned(true)},
          {.name = "Rows", .shapes = {{3, 2}}, .build = of([](auto& x) {
                                                 return square(list_stack(list_unstack(x[0]), DType::f64, Shape{2}));
                                               })},
          {.name = "LoopsInLoops", .shapes = {{3, 2}, {2, 2}}, .build = nested}};
}

std::vector<GradientCase> all_cases() {
  std::vector<GradientCase> out;
  for (const auto& family :
       {elementwise_cases(), linear_and_reduce_cases(), array_cases(), nn_cases(), control_cases()})
    out.insert(out.end(), family.begin(), family.end());
  return out;
}

class Gradients : public ::testing::TestWithParam<GradientCase> {};

TEST_P(Gradients, AgreeWithDifferences) { EXPECT_EQ(check_gradients(GetParam(), GetParam().build, false), ""); }

TEST_P(Gradients, AgreeWhenShapesAreUnknown) {
  if (!GetParam().dynamic) return;
  EXPECT_EQ(check_gradients(GetParam(), GetParam().build, true), "");
}

TEST_P(Gradients, AreDifferentiableAgain) {
  if (!GetParam().twice) return;
  const BuildFn again = [&](Graph& graph, const Outputs& xs) { return first_gradients(graph, GetParam().build, xs); };
  EXPECT_EQ(check_gradients(GetParam(), again, false), "");
}

INSTANTIATE_TEST_SUITE_P(AllOps, Gradients, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(GradientCoverage, EveryDifferentiableOpHasACase) {
  std::set<std::string> seen;
  const auto note = [&seen](const Graph& graph) {
    for (int i = 0; i < graph.size(); ++i) seen.insert(graph.node(i).op->name);
  };
  for (const GradientCase& c : all_cases()) {
    Graph graph;
    Outputs xs;
    for (const Shape& shape : c.shapes) xs.push_back(placeholder(graph, DType::f64, shape));
    c.build(graph, xs);
    note(graph);
    for (const auto& [name, function] : graph.functions()) note(*function.body);
  }
  for (const std::string& name : standard_ops().names()) {
    if (!standard_ops().get(name).gradient) continue;
    EXPECT_TRUE(seen.contains(name)) << name;
  }
}

}  // namespace
}  // namespace troupe
