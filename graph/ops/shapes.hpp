// What shape functions share. All throw invalid_argument; the graph adds op and node to the message. Shapes
// may be unknown wholly or in part: what cannot be decided yet is left to the kernel, which checks again.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <troupe/graph/op.hpp>

namespace troupe::shapes {

// Every output has the shape of input `index`.
ShapeFn same_as(int index);
// The one output is a scalar.
ShapeFn scalar();
// The one output has the shape of attribute "shape".
ShapeFn from_attribute();
// The one output is all inputs broadcast together.
void broadcast_inputs(ShapeContext& c);
// All inputs have one shape, and so have the outputs.
void same_shapes(ShapeContext& c);

// `shape` with its rank known to be `rank`.
Shape with_rank(const Shape& shape, int rank, std::string_view input);
// `shape`, which must have at least `rank` dimensions if its rank is known.
const Shape& at_least_rank(const Shape& shape, int rank, std::string_view input);
// What both say. `a` and `b` are the names of the inputs.
Shape merge(const Shape& x, std::string_view a, const Shape& y, std::string_view b);
std::int64_t merge_dim(std::int64_t x, std::int64_t y, std::string_view what);

// The one output is `shape` with a bias, input 2, along its last dimension and an activation, attribute
// "activation": of fused ops.
void add_bias(ShapeContext& c, Shape shape);

// An axis in [-rank, rank) as one in [0, rank).
int axis(std::int64_t axis, int rank);
// The same for a list, in ascending order; repeated axes are refused.
std::vector<int> axes(const std::vector<std::int64_t>& axes, int rank);

// The elements of input `index`, an i64 vector, if it is constant.
std::optional<std::vector<std::int64_t>> constant_vector(const ShapeContext& c, int index, std::string_view input);

// An attribute that is an axis number, count or size: in [low, high].
std::int64_t bounded(const Attributes& attributes, std::string_view name, std::int64_t low, std::int64_t high);

}  // namespace troupe::shapes
