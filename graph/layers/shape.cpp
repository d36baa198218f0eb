#include "troupe/graph/layers/shape.hpp"

#include <algorithm>

#include <troupe/graph/layers/standard_layer.hpp>

namespace troupe {
namespace {

Output apply_flatten(const LayerConfig&, LayerContext&, Output x) {
  const Shape& shape = x.shape();
  if (shape.rank() < 1 || !shape.sub(1, shape.rank()).fully_known())
    invalid_argument("all dimensions of the input but the first must be known, but it is {}", shape.to_string());
  return troupe::reshape(x, Shape{kUnknown, shape.sub(1, shape.rank()).num_elements()});
}

// With the batch as it is: 0 takes over a dimension.
Output apply_reshape(const LayerConfig& config, LayerContext&, Output x) {
  require_rank(x, 1, kMaxRank, "[n, ...]");
  Integers shape = config.options.integers("shape");
  const Shape example = x.shape().sub(1, x.shape().rank());
  const bool infers = std::ranges::find(shape, kUnknown) != shape.end();
  if (example.fully_known()) {
    std::int64_t known = 1;
    for (const std::int64_t d : shape) known *= d == kUnknown ? 1 : d;
    const std::int64_t elements = example.num_elements();
    if (infers ? known == 0 || elements % known != 0 : known != elements)
      invalid_argument("an example {} has {} elements, which do not fit {}", example.to_string(), elements,
                       Shape(std::span<const std::int64_t>(shape)).to_string());
    if (infers) std::ranges::replace(shape, kUnknown, elements / known);
    return troupe::reshape(x, Shape{kUnknown}.concatenated(Shape(std::span<const std::int64_t>(shape))));
  }
  if (!infers) return troupe::reshape(x, Shape{kUnknown}.concatenated(Shape(std::span<const std::int64_t>(shape))));
  const Output batch = slice(shape_of(x), {0}, {1});
  const Output rest = constant(*x.graph, Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(shape.size())},
                                                                  std::span<const std::int64_t>(shape)));
  return troupe::reshape(x, concat({batch, rest}, 0));
}

void check_reshape(const LayerConfig& config) {
  const Integers& shape = config.options.integers("shape");
  if (shape.size() >= kMaxRank)
    invalid_argument("a shape has at most {} dimensions, not {}", kMaxRank - 1, shape.size());
  if (std::ranges::any_of(shape, [](std::int64_t d) { return d < -1 || d > (std::int64_t{1} << 40); }))
    invalid_argument("each dimension must be -1 or more");
  if (std::ranges::count(shape, kUnknown) > 1) invalid_argument("only one dimension may be -1");
}

Output apply_permute(const LayerConfig& config, LayerContext&, Output x) {
  Integers perm{0};
  for (const std::int64_t axis : config.options.integers("axes")) perm.push_back(axis);
  if (x.shape().rank() != static_cast<int>(perm.size()))
    invalid_argument("the input is {}, but {} dimensions of its examples are permuted", x.shape().to_string(),
                     perm.size() - 1);
  return transpose(x, perm);
}

void check_permute(const LayerConfig& config) {
  Integers axes = config.options.integers("axes");
  std::ranges::sort(axes);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<std::int64_t>(i) + 1)
      invalid_argument("axes must have each of 1 to {} once", axes.size());
}

Output apply_repeat_vector(const LayerConfig& config, LayerContext&, Output x) {
  require_rank(x, 2, "[n, features]");
  return tile(expand_dims(x, {1}), {1, config.options.integer("times"), 1});
}

using Join = Output (*)(Output, Output);
Output joined_sum(Output a, Output b) { return add(a, b); }
Output joined_product(Output a, Output b) { return mul(a, b); }
Output joined_maximum(Output a, Output b) { return maximum(a, b); }
Output joined_minimum(Output a, Output b) { return minimum(a, b); }
Output joined_difference(Output a, Output b) { return sub(a, b); }

// In the dtype of the first: layers before may have computed in others.
template <Join join>
Outputs apply_join(const LayerConfig&, LayerContext&, const Outputs& xs) {
  Output y = xs[0];
  for (std::size_t i = 1; i < xs.size(); ++i) y = join(y, cast(xs[i], y.dtype()));
  return {y};
}

Outputs apply_average(const LayerConfig& config, LayerContext& context, const Outputs& xs) {
  require_floating(xs[0]);
  return {apply_join<joined_sum>(config, context, xs)[0] / static_cast<double>(xs.size())};
}

Outputs apply_concatenate(const LayerConfig& config, LayerContext&, const Outputs& xs) {
  Outputs same{xs[0]};
  for (std::size_t i = 1; i < xs.size(); ++i) same.push_back(cast(xs[i], xs[0].dtype()));
  return {concat(same, config.options.integer("axis"))};
}

int dot_axis(const LayerConfig& config, const char* option, Output x) {
  require_rank(x, 2, 4, "[n, ...] of rank 2 to 4");
  const std::int64_t given = config.options.integer(option), rank = x.shape().rank();
  const std::int64_t axis = given < 0 ? given + rank : given;
  if (axis < 1 || axis >= rank)
    invalid_argument("there is no axis {} of {} but the batch", given, x.shape().to_string());
  return static_cast<int>(axis);
}

Outputs apply_dot(const LayerConfig& config, LayerContext&, const Outputs& xs) {
  Output a = xs[0], b = cast(xs[1], xs[0].dtype());
  const int axis_a = dot_axis(config, "axis_a", a), axis_b = dot_axis(config, "axis_b", b);
  if (config.options.boolean("normalize")) {
    a = l2_normalize(a, {axis_a});
    b = l2_normalize(b, {axis_b});
  }
  // Letters: n batch, k summed, others as they come.
  std::string of_a = "n", of_b = "n", result = "n";
  char letter = 'p';
  for (int axis = 1; axis < a.shape().rank(); ++axis) of_a += axis == axis_a ? 'k' : (result += letter, letter++);
  for (int axis = 1; axis < b.shape().rank(); ++axis) of_b += axis == axis_b ? 'k' : (result += letter, letter++);
  const Output y = einsum(of_a + "," + of_b + "->" + result, {a, b});
  return {result.size() == 1 ? expand_dims(y, {1}) : y};
}

LayerPtr plain(const char* kind) { return standard_layer({.kind = kind}); }

}  // namespace

std::span<const LayerKind> shape_kinds() {
  static const std::vector<LayerKind> kinds = [] {
    std::vector<LayerKind> all = {
        {.name = "flatten", .apply = of_one<apply_flatten>},
        {.name = "reshape", .options = {{"shape", Integers{}}}, .apply = of_one<apply_reshape>, .check = check_reshape},
        {.name = "permute", .options = {{"axes", Integers{}}}, .apply = of_one<apply_permute>, .check = check_permute},
        {.name = "repeat_vector",
         .options = {{"times", std::int64_t{1}}},
         .apply = of_one<apply_repeat_vector>,
         .check = [](const LayerConfig& c) { require_positive(c, "times"); }},
        {.name = "dot",
         .options = {{"axis_a", std::int64_t{-1}}, {"axis_b", std::int64_t{-1}}, {"normalize", false}},
         .apply = apply_dot,
         .min_inputs = 2,
         .max_inputs = 2},
        {.name = "concatenate",
         .options = {{"axis", std::int64_t{-1}}},
         .apply = apply_concatenate,
         .max_inputs = kAnyNumber},
        {.name = "subtract", .apply = apply_join<joined_difference>, .min_inputs = 2, .max_inputs = 2},
    };
    const auto add_join = [&](const char* name, auto apply) {
      all.push_back({.name = name, .apply = apply, .min_inputs = 2, .max_inputs = kAnyNumber});
    };
    add_join("add", apply_join<joined_sum>);
    add_join("multiply", apply_join<joined_product>);
    add_join("maximum", apply_join<joined_maximum>);
    add_join("minimum", apply_join<joined_minimum>);
    add_join("average", apply_average);
    return all;
  }();
  return kinds;
}

namespace layers {

LayerPtr flatten() { return plain("flatten"); }
LayerPtr reshape(Integers shape) {
  return standard_layer({.kind = "reshape", .options = {{"shape", std::move(shape)}}});
}
LayerPtr permute(Integers axes) { return standard_layer({.kind = "permute", .options = {{"axes", std::move(axes)}}}); }
LayerPtr repeat_vector(std::int64_t times) {
  return standard_layer({.kind = "repeat_vector", .options = {{"times", times}}});
}
LayerPtr add() { return plain("add"); }
LayerPtr multiply() { return plain("multiply"); }
LayerPtr average() { return plain("average"); }
LayerPtr maximum() { return plain("maximum"); }
LayerPtr minimum() { return plain("minimum"); }
LayerPtr subtract() { return plain("subtract"); }
LayerPtr concatenate(std::int64_t axis) { return standard_layer({.kind = "concatenate", .options = {{"axis", axis}}}); }
LayerPtr dot(DotOptions options) {
  return standard_layer(
      {.kind = "dot",
       .options = {{"axis_a", options.axis_a}, {"axis_b", options.axis_b}, {"normalize", options.normalize}}});
}

}  // namespace layers
}  // namespace troupe
