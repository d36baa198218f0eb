#include "troupe/graph/builder/ragged.hpp"

#include <limits>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/order.hpp>
#include <troupe/graph/builder/reduce.hpp>

namespace troupe {
namespace {

using SegmentFn = Output (*)(Output, Output, Output, Name);

Output number(Output like, std::int64_t value) { return constant(*like.graph, value); }

// i64 scalar.
Output rows_of(const Ragged& x) { return sub(element_count(x.row_splits), number(x.row_splits, 1)); }

Output reduced(const Ragged& x, SegmentFn reduce, Name name) {
  return reduce(x.values, row_ids(x), rows_of(x), std::move(name));
}

Output splits_of(Output lengths, Name name) {
  const Output zero = constant(*lengths.graph, Tensor::vector<std::int64_t>({0}));
  return concat({zero, cumsum(lengths, 0)}, 0, std::move(name));
}

// x [n,k] with as many dimensions of size 1 behind as values have behind the first.
Output over_values(Output x, Output values) {
  const Shape& shape = values.shape();
  if (!shape.has_rank() || shape.rank() == 0)
    invalid_argument("ragged_to_tensor: the values are {}{}: their rank must be known, and at least 1",
                     name(values.dtype()), shape.to_string());
  Integers axes;
  for (int d = 1; d < shape.rank(); ++d) axes.push_back(d + 1);
  return axes.empty() ? x : expand_dims(x, axes);
}

}  // namespace

Ragged ragged_from_row_lengths(Output values, Output lengths, Name name) {
  return {values, splits_of(lengths, std::move(name))};
}

Ragged ragged_from_tensor(Output x, Output lengths, Name name) {
  const Output longest = gather(shape_of(x), number(x, 1));
  return {boolean_mask(x, sequence_mask(lengths, longest)), splits_of(lengths, std::move(name))};
}

Output ragged_row_lengths(const Ragged& x, Name name) {
  const Output all = x.row_splits;
  return sub(strided_slice(all, {1}, {std::numeric_limits<std::int64_t>::max()}), strided_slice(all, {0}, {-1}),
             std::move(name));
}

Output ragged_to_tensor(const Ragged& x, RaggedToTensorOptions options) {
  const Output lengths = ragged_row_lengths(x), begins = strided_slice(x.row_splits, {0}, {-1});
  const Output longest = max(concat({constant(*lengths.graph, Tensor::vector<std::int64_t>({0})), lengths}, 0));
  const Output places = range(longest);
  const Output there = less(expand_dims(places, 0), expand_dims(lengths, 1));
  const Output at = add(expand_dims(begins, 1), expand_dims(places, 0));
  const Output found = gather(x.values, select(there, at, zeros_like(at)));
  Output otherwise = options.default_value;
  if (!otherwise.valid()) otherwise = constant(*x.values.graph, Tensor::zeros(x.values.dtype(), Shape{}));
  return select(over_values(there, x.values), found, otherwise, std::move(options.name));
}

Output ragged_sum(const Ragged& x, Name name) { return reduced(x, unsorted_segment_sum, std::move(name)); }
Output ragged_mean(const Ragged& x, Name name) { return reduced(x, unsorted_segment_mean, std::move(name)); }
Output ragged_max(const Ragged& x, Name name) { return reduced(x, unsorted_segment_max, std::move(name)); }
Output ragged_min(const Ragged& x, Name name) { return reduced(x, unsorted_segment_min, std::move(name)); }

}  // namespace troupe
