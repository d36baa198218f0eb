#include "troupe/graph/ops/shapes.hpp"

#include <algorithm>

#include <troupe/graph/known_values.hpp>

namespace troupe::shapes {

ShapeFn same_as(int index) {
  return [index](ShapeContext& c) {
    for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(index));
  };
}

ShapeFn scalar() {
  return [](ShapeContext& c) { c.set_output(0, Shape{}); };
}

ShapeFn from_attribute() {
  return [](ShapeContext& c) { c.set_output(0, c.attributes().shape("shape")); };
}

void broadcast_inputs(ShapeContext& c) {
  Shape out;
  for (int i = 0; i < c.num_inputs(); ++i) out = broadcast(out, c.input(i));
  c.set_output(0, out);
}

void same_shapes(ShapeContext& c) {
  if (c.num_inputs() == 0) invalid_argument("needs at least one input");
  Shape out = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    const auto merged = out.merged(c.input(i));
    if (!merged)
      invalid_argument("inputs must have the same shape: input {} is {}, earlier ones are {}", i,
                       c.input(i).to_string(), out.to_string());
    out = *merged;
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, out);
}

Shape with_rank(const Shape& shape, int rank, std::string_view input) {
  if (!shape.has_rank()) return Shape::unknown(rank);
  if (shape.rank() != rank)
    invalid_argument("'{}' must have rank {}, but its shape is {}", input, rank, shape.to_string());
  return shape;
}

const Shape& at_least_rank(const Shape& shape, int rank, std::string_view input) {
  if (shape.has_rank() && shape.rank() < rank)
    invalid_argument("'{}' must have rank {} or more, but its shape is {}", input, rank, shape.to_string());
  return shape;
}

Shape merge(const Shape& x, std::string_view a, const Shape& y, std::string_view b) {
  const auto merged = x.merged(y);
  if (!merged) invalid_argument("the shapes of '{}' and '{}' differ: {} and {}", a, b, x.to_string(), y.to_string());
  return *merged;
}

std::int64_t merge_dim(std::int64_t x, std::int64_t y, std::string_view what) {
  if (x == kUnknown) return y;
  if (y != kUnknown && x != y) invalid_argument("{} differ: {} and {}", what, x, y);
  return x;
}

void add_bias(ShapeContext& c, Shape shape, int axis) {
  const std::string& activation = c.attributes().string("activation");
  if (activation != "none" && activation != "relu" && activation != "sigmoid" && activation != "tanh")
    invalid_argument("attribute 'activation' must be none, relu, sigmoid or tanh, not '{}'", activation);
  const Shape bias = with_rank(c.input(2), 1, "bias");
  if (shape.has_rank())
    shape.set_dim(axis, merge_dim(shape[axis], bias[0],
                                  fmt::format("{} of the output and the size of 'bias'",
                                              axis == -1 ? "the last dimension" : "the channels")));
  c.set_output(0, shape);
}

void check_quantized(const ShapeContext& c, int scale, const Shape& y) {
  const Shape& scales = c.input(scale);
  if (scales.has_rank() && scales.rank() > 1)
    invalid_argument("the scale of the weights must be a scalar or vector, but its shape is {}", scales.to_string());
  if (scales.has_rank() && scales.rank() == 1 && y.has_rank())
    merge_dim(scales[0], y[-1], "the size of the weights' scale and the channels of the product");
  for (const auto& [name, value] : c.attributes().all())
    if (name.ends_with("_scale") && !(c.attributes().real(name) > 0))
      invalid_argument("attribute '{}' is {}, not above 0", name, c.attributes().real(name));
  const std::string& activation = c.attributes().string("activation");
  if (activation != "none" && activation != "relu")
    invalid_argument("attribute 'activation' must be none or relu, not '{}'", activation);
}

int axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) invalid_argument("axis {} is out of range: there are {} dimensions", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> axes(const std::vector<std::int64_t>& given, int rank) {
  std::vector<int> out;
  for (std::int64_t a : given) out.push_back(axis(a, rank));
  std::ranges::sort(out);
  if (const auto twice = std::ranges::adjacent_find(out); twice != out.end())
    invalid_argument("axis {} is given twice", *twice);
  return out;
}

std::optional<std::vector<std::int64_t>> known_vector(const ShapeContext& c, int index, std::string_view input) {
  with_rank(c.input(index), 1, input);
  const auto known = c.integers(index);
  return known && known->complete() ? std::optional(known->integers()) : std::nullopt;
}

std::optional<std::int64_t> known_scalar(const ShapeContext& c, int index) {
  const auto known = c.integers(index);
  return known && known->values.size() == 1 ? known->values[0] : std::nullopt;
}

KnownEntries known_entries(const ShapeContext& c, int index, std::string_view input, std::int64_t count) {
  const Shape length = with_rank(c.input(index), 1, input);
  if (length[0] != kUnknown && count != kUnknown && length[0] != count)
    invalid_argument("'{}' has {} entries where there must be {}", input, length[0], count);
  if (const auto known = c.integers(index)) {
    if (count != kUnknown && std::ssize(known->values) != count)
      invalid_argument("'{}' has {} entries where there must be {}", input, known->values.size(), count);
    return known->values;
  }
  const std::int64_t entries = count == kUnknown ? length[0] : count;
  if (entries == kUnknown) return {};
  if (entries > 1'000'000) invalid_argument("'{}' has {} entries", input, entries);
  return KnownEntries(static_cast<std::size_t>(entries));
}

Shape known_dims(const ShapeContext& c, int index, std::string_view input) {
  const Shape count = with_rank(c.input(index), 1, input);
  if (count[0] > kMaxRank) invalid_argument("a shape has at most {} dimensions, not {}", kMaxRank, count[0]);
  const auto known = c.integers(index);
  if (!known) return count[0] == kUnknown ? Shape::unknown_rank() : Shape::unknown(static_cast<int>(count[0]));
  Shape out = Shape::unknown(static_cast<int>(known->values.size()));
  for (int i = 0; i < out.rank(); ++i) {
    const auto dim = known->values[static_cast<std::size_t>(i)];
    if (dim && *dim < 0) invalid_argument("dimension {} of '{}' is {}: it must not be negative", i, input, *dim);
    if (dim) out.set_dim(i, *dim);
  }
  return out;
}

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) invalid_argument("a dimension of {} + {} overflows", a, b);
  return sum;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) invalid_argument("a dimension of {} x {} overflows", a, b);
  return product;
}

std::int64_t bounded(const Attributes& attributes, std::string_view name, std::int64_t low, std::int64_t high) {
  const std::int64_t value = attributes.integer(name);
  if (value < low || value > high) invalid_argument("attribute '{}' is {}, not in [{}, {}]", name, value, low, high);
  return value;
}

}  // namespace troupe::shapes
