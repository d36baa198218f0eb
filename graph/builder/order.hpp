// Builder API for order: sorts, search, cumulative ops, counts and segments. NaN is greater than all numbers and equal
// to NaN; -0 equals 0. Axes may be negative; indices and counts are i64.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct SortOptions {
  std::int64_t axis = -1;
  bool descending = false;
  Name name{};
};
// Stable: equal elements keep their order, also in a descending sort.
Output sort(Output x, SortOptions options = {});
Output arg_sort(Output x, SortOptions options = {});

struct TopK {
  Output values{};
  Output indices{};
};
struct TopKOptions {
  std::int64_t axis = -1;
  bool largest = true;  // false: the smallest, in ascending order
  Name name{};
};
// The k (i64 scalar) largest elements along the axis, in descending order; of equal ones those with the lower index.
TopK top_k(Output x, Output k, TopKOptions options = {});
TopK top_k(Output x, std::int64_t k, TopKOptions options = {});
// bool [n]: whether fewer than k predictions [n, classes] are greater than that of the target [n]; false if any is not
// finite.
Output in_top_k(Output predictions, Output targets, Output k, Name name = {});

struct Unique {
  Output values{};
  Output indices{};  // of the first of equal elements
  Output inverse{};  // for each element, its place in `values`
  Output counts{};
};
struct UniqueOptions {
  Integers axes{};     // of the slices that are compared, if any; default: elements of x as a vector
  bool sorted = true;  // false: in the order of first occurrence
  Name name{};
};
Unique unique(Output x, UniqueOptions options = {});

struct SearchOptions {
  bool right = false;  // after equal elements
  Name name{};
};
// Where each value would be inserted to keep `sorted` sorted: rows of [..., n] serve rows of [..., m]; a vector serves
// values of any shape.
Output search_sorted(Output sorted, Output values, SearchOptions options = {});

// Numbers of occurrences of 0, 1, ..., at least min_length (i64 scalar) of them. With weights: their sums,
// where negative values count nowhere.
struct BincountOptions {
  Output weights{};
  Output min_length{};
  Name name{};
};
Output bincount(Output x, BincountOptions options = {});
// i64 [bins]: how many values lie in each of equal bins over range [2]; values outside count in the first or last.
Output histogram_fixed_width(Output values, Output range, Output bins, Name name = {});

struct CumulativeOptions {
  bool exclusive = false;  // without the element itself
  bool reverse = false;    // from the end
  Name name{};
};
Output cumsum(Output x, Output axis, CumulativeOptions options = {});  // axis: an i64 scalar
Output cumsum(Output x, std::int64_t axis, CumulativeOptions options = {});
Output cumprod(Output x, Output axis, CumulativeOptions options = {});
Output cumprod(Output x, std::int64_t axis, CumulativeOptions options = {});
Output cumulative_logsumexp(Output x, std::int64_t axis, CumulativeOptions options = {});
// The extremum so far, and its index along the axis: the first of equal ones. NaN stays.
struct CumulativeExtremum {
  Output values{};
  Output indices{};
};
struct CumulativeExtremumOptions {
  bool reverse = false;
  Name name{};
};
CumulativeExtremum cumulative_max(Output x, std::int64_t axis, CumulativeExtremumOptions options = {});
CumulativeExtremum cumulative_min(Output x, std::int64_t axis, CumulativeExtremumOptions options = {});

// Reductions of the rows of x [n,...] with equal ids [n], which ascend; the result has as many rows as the last id + 1.
// Ids that do not occur have 0, a product 1.
Output segment_sum(Output x, Output ids, Name name = {});
Output segment_mean(Output x, Output ids, Name name = {});
Output segment_max(Output x, Output ids, Name name = {});
Output segment_min(Output x, Output ids, Name name = {});
Output segment_prod(Output x, Output ids, Name name = {});
// The same for ids in any order, of any leading dimensions of x; rows with negative ids are dropped. The number of
// segments is an i64 scalar. Ids that do not occur have 0, a product 1, an extremum the limit of the dtype.
Output unsorted_segment_sum(Output x, Output ids, Output segments, Name name = {});
Output unsorted_segment_mean(Output x, Output ids, Output segments, Name name = {});
Output unsorted_segment_max(Output x, Output ids, Output segments, Name name = {});
Output unsorted_segment_min(Output x, Output ids, Output segments, Name name = {});
Output unsorted_segment_prod(Output x, Output ids, Output segments, Name name = {});

}  // namespace troupe
