// Helpers for shape functions. All throw invalid_argument; the graph adds op and node to the message. Shapes may be
// wholly or partly unknown: checks that need unknown dimensions are left to the kernel, which checks again.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <troupe/graph/op.hpp>

namespace troupe::shapes {

// Every output has the shape of input `index`.
ShapeFn same_as(int index);
// The only output is a scalar.
ShapeFn scalar();
// The only output has the shape of attribute "shape".
ShapeFn from_attribute();
// The only output is all inputs broadcast together.
void broadcast_inputs(ShapeContext& c);
// All inputs have the same shape, and so do the outputs.
void same_shapes(ShapeContext& c);

// `shape` with its rank known to be `rank`.
Shape with_rank(const Shape& shape, int rank, std::string_view input);
// `shape`, which must have at least `rank` dimensions if its rank is known.
const Shape& at_least_rank(const Shape& shape, int rank, std::string_view input);
// The combined knowledge of both shapes. `a` and `b` name the inputs in errors.
Shape merge(const Shape& x, std::string_view a, const Shape& y, std::string_view b);
std::int64_t merge_dim(std::int64_t x, std::int64_t y, std::string_view what);

// For fused ops: the only output is `shape` with a bias (input 2) along its last dimension, or dimension `axis`, and an
// activation (attribute "activation").
void add_bias(ShapeContext& c, Shape shape, int axis = -1);

// For products of bytes: the scale of the weights (input `scale`) is a scalar, or one for each channel of the product
// `y`; those of attributes are above 0, and the activation is none or relu.
void check_quantized(const ShapeContext& c, int scale, const Shape& y);

// Converts an axis in [-rank, rank) to one in [0, rank).
int axis(std::int64_t axis, int rank);
// The same for a list, in ascending order; throws if an axis is repeated.
std::vector<int> axes(const std::vector<std::int64_t>& axes, int rank);

// The elements of input `index`, an integer vector, if all are known.
std::optional<std::vector<std::int64_t>> known_vector(const ShapeContext& c, int index, std::string_view input);
// The same for a scalar (or a vector of one element).
std::optional<std::int64_t> known_scalar(const ShapeContext& c, int index);
// The entries of input `index`, an integer vector of `count` entries (kUnknown: as many as it has), as far as they are
// known; none if their number is not.
using KnownEntries = std::vector<std::optional<std::int64_t>>;
KnownEntries known_entries(const ShapeContext& c, int index, std::string_view input, std::int64_t count);
// The dimensions in input `index`, an integer vector, as far as known: elements that are not become kUnknown. Their
// number may be unknown too. Throws for negative ones.
Shape known_dims(const ShapeContext& c, int index, std::string_view input);

// Dimensions computed; throw invalid_argument on overflow.
std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t checked_mul(std::int64_t a, std::int64_t b);

// An attribute that is an axis, count or size: in [low, high].
std::int64_t bounded(const Attributes& attributes, std::string_view name, std::int64_t low, std::int64_t high);

}  // namespace troupe::shapes
