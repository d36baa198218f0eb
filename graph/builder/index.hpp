// Builder API for elements by index: gathers, scatters, and rows chosen by masks. Indices are i32 or i64. Those of
// gather must be in [0, size) unless an option says otherwise; elsewhere negative ones count from the end. A step fails
// with invalid_argument for an index out of range.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct GatherOptions {
  std::int64_t axis = 0;
  std::int64_t batch_dims = 0;  // leading dimensions that table and indices have in common
  bool from_end = false;        // negative indices count from the end
  Name name{};
};
// Slices of `table` along the axis, by default its rows. Shape: table[:axis] + indices[batch_dims:] + table[axis + 1:].
Output gather(Output table, Output indices, GatherOptions options = {});
struct GatherNdOptions {
  std::int64_t batch_dims = 0;
  Name name{};
};
// Slices x[indices[..., :]].
Output gather_nd(Output x, Output indices, GatherNdOptions options = {});
// y[i, j] = x[indices[i, j], j] for axis 0 of a matrix; likewise for other axes and ranks. NumPy's take_along_axis.
Output gather_elements(Output x, Output indices, std::int64_t axis, Name name = {});

// Zeros like `like` [m,...], with values [n,...] added to the rows `indices` [n].
Output scatter_add_rows(Output indices, Output values, Output like, Name name = {});

// How elements and updates are combined: "none" (the last update of an element wins), "add", "sub", "mul", "max",
// "min". Updates of one element count in their order. Gradients of max and min are shared evenly by equal values; those
// of mul divide by the updates. Gradients of "none" count every update, also those that lose.
struct ScatterElementsOptions {
  std::int64_t axis = 0;
  std::string reduction = "none";
  Name name{};
};
// data with data[indices[i, j], j] = updates[i, j] for axis 0 of a matrix; likewise for other axes and ranks.
Output scatter_elements(Output data, Output indices, Output updates, ScatterElementsOptions options = {});
struct TensorScatterOptions {
  std::int64_t batch_dims = 0;
  std::string reduction = "none";
  Name name{};
};
// data with slices data[indices[..., :]] = updates[...].
Output tensor_scatter(Output data, Output indices, Output updates, TensorScatterOptions options = {});
// Zeros of `shape` (i64), with updates added to slices.
Output scatter_nd(Output indices, Output updates, Output shape, Name name = {});

Output non_zero(Output x, Name name = {});  // i64 [rank, n]: coordinates of the elements that are not 0, in their order
Output where(Output cond, Name name = {});  // the same as i64 [n, rank]
// Slices along the axis where condition (bool [n]) is true; n may be less than the size.
Output compress(Output x, Output condition, std::int64_t axis, Name name = {});
// Elements of x where the mask, whose shape is that of x from dimension `axis` on, is true.
Output boolean_mask(Output x, Output mask, std::int64_t axis = 0, Name name = {});

// Part p has the rows of x whose `partitions` is p. Rows begin after the dimensions that both have in common.
Outputs dynamic_partition(Output x, Output partitions, std::int64_t parts, Name name = {});
// Row indices[i][j] of the result is xs[i][j]; the last of several wins; rows without an index are zeros.
Output dynamic_stitch(const Outputs& indices, const Outputs& xs, Name name = {});
Output invert_permutation(Output x, Name name = {});

}  // namespace troupe
