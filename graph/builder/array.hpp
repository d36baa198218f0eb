// Builder API for arrays: shapes, slices, joins, rows. Axes may be negative.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

Output reshape(Output x, const Shape& shape, Name name = {});  // one dimension may be unknown (-1)
Output reshape(Output x, Output shape, Name name = {});
Output reshape_like(Output x, Output like, Name name = {});
Output transpose(Output x, Integers perm = {}, Name name = {});  // default: reverses the dimensions
Output squeeze(Output x, Integers axes = {}, Name name = {});    // default: all dimensions of size 1
Output expand_dims(Output x, std::int64_t axis, Name name = {});
Output concat(const Outputs& xs, std::int64_t axis, Name name = {});
Output stack(const Outputs& xs, std::int64_t axis, Name name = {});
Outputs split(Output x, std::int64_t axis, std::int64_t parts, Name name = {});
Outputs split_sizes(Output x, std::int64_t axis, Integers sizes, Name name = {});
Outputs unstack(Output x, std::int64_t axis, Name name = {});           // the size along the axis must be known
Output slice(Output x, Integers begin, Integers size, Name name = {});  // size -1: to the end
struct PadOptions {
  double value = 0;
  Name name{};
};
Output pad(Output x, Integers before, Integers after, PadOptions options = {});
Output tile(Output x, Integers multiples, Name name = {});
Output gather(Output table, Output indices, Name name = {});  // rows of axis 0
// Zeros like `like` [m,...], with values [n,...] added to the rows `indices` [n].
Output scatter_add_rows(Output indices, Output values, Output like, Name name = {});
struct OneHotOptions {
  DType dtype = DType::f32;
  double on = 1;
  double off = 0;
  Name name{};
};
Output one_hot(Output indices, std::int64_t depth, OneHotOptions options = {});
Output fill(Output dims, Output value, Name name = {});
Output range(Output start, Output limit, Output delta, Name name = {});

}  // namespace troupe
