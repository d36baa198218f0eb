#include "troupe/graph/builder/order.hpp"

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/reduce.hpp>

namespace troupe {
namespace {

Output order_scalar(Output x, std::int64_t value) {
  if (!x.valid()) invalid_argument("x is not a tensor");
  return constant(*x.graph, value);
}

Output add_sort(const char* op, Output x, SortOptions options) {
  return add_op(op, {x}, {{"axis", options.axis}, {"descending", options.descending}}, std::move(options.name));
}

Output add_cumulative(const char* op, Output x, Output axis, CumulativeOptions options) {
  return add_op(op, {x, axis}, {{"exclusive", options.exclusive}, {"reverse", options.reverse}},
                std::move(options.name));
}

CumulativeExtremum add_extremum(const char* op, Output x, std::int64_t axis, CumulativeExtremumOptions options) {
  const Output along = order_scalar(x, axis);
  const Outputs out = add_outputs(op, {x, along}, {{"reverse", options.reverse}}, std::move(options.name));
  return {out[0], out[1]};
}

// The last of ids, or of any, plus one; 0 if there are none.
Output segments_in(Output ids) {
  const Output none = order_scalar(ids, -1);
  const Output flat = reshape(cast(ids, DType::i64), Shape{kUnknown});
  return max(concat({flat, reshape(none, Shape{1})}, 0)) + 1;
}

Output add_segment(const char* reduction, bool in_order, Output x, Output ids, Output segments, Name name) {
  return add_op("SegmentReduce", {std::move(x), std::move(ids), std::move(segments)},
                {{"reduction", std::string(reduction)}, {"sorted", in_order}}, std::move(name));
}

}  // namespace

Output sort(Output x, SortOptions options) { return add_sort("Sort", x, std::move(options)); }
Output arg_sort(Output x, SortOptions options) { return add_sort("ArgSort", x, std::move(options)); }

TopK top_k(Output x, Output k, TopKOptions options) {
  const Outputs out =
      add_outputs("TopK", {x, k}, {{"axis", options.axis}, {"largest", options.largest}}, std::move(options.name));
  return {out[0], out[1]};
}
TopK top_k(Output x, std::int64_t k, TopKOptions options) { return top_k(x, order_scalar(x, k), std::move(options)); }
Output in_top_k(Output predictions, Output targets, Output k, Name name) {
  return add_op("InTopK", {std::move(predictions), std::move(targets), std::move(k)}, {}, std::move(name));
}

Unique unique(Output x, UniqueOptions options) {
  const Outputs out = add_outputs("Unique", {x}, {{"axes", std::move(options.axes)}, {"sorted", options.sorted}},
                                  std::move(options.name));
  return {out[0], out[1], out[2], out[3]};
}

Output search_sorted(Output sorted_rows, Output values, SearchOptions options) {
  return add_op("SearchSorted", {std::move(sorted_rows), std::move(values)}, {{"right", options.right}},
                std::move(options.name));
}

Output bincount(Output x, BincountOptions options) {
  const Output least = options.min_length.valid() ? options.min_length : order_scalar(x, 0);
  if (!options.weights.valid()) return add_op("Bincount", {x, least}, {}, std::move(options.name));
  const Output segments = maximum(segments_in(x), least);
  return add_segment("sum", false, options.weights, x, segments, std::move(options.name));
}
Output histogram_fixed_width(Output values, Output range, Output bins, Name name) {
  return add_op("HistogramFixedWidth", {std::move(values), std::move(range), std::move(bins)}, {}, std::move(name));
}

Output cumsum(Output x, Output axis, CumulativeOptions options) {
  return add_cumulative("CumSum", x, axis, std::move(options));
}
Output cumsum(Output x, std::int64_t axis, CumulativeOptions options) {
  return cumsum(x, order_scalar(x, axis), std::move(options));
}
Output cumprod(Output x, Output axis, CumulativeOptions options) {
  return add_cumulative("CumProd", x, axis, std::move(options));
}
Output cumprod(Output x, std::int64_t axis, CumulativeOptions options) {
  return cumprod(x, order_scalar(x, axis), std::move(options));
}
Output cumulative_logsumexp(Output x, std::int64_t axis, CumulativeOptions options) {
  return add_cumulative("CumLogSumExp", x, order_scalar(x, axis), std::move(options));
}
CumulativeExtremum cumulative_max(Output x, std::int64_t axis, CumulativeExtremumOptions options) {
  return add_extremum("CumMax", x, axis, std::move(options));
}
CumulativeExtremum cumulative_min(Output x, std::int64_t axis, CumulativeExtremumOptions options) {
  return add_extremum("CumMin", x, axis, std::move(options));
}

Output segment_sum(Output x, Output ids, Name name) {
  return add_segment("sum", true, x, ids, segments_in(ids), std::move(name));
}
Output segment_mean(Output x, Output ids, Name name) {
  return add_segment("mean", true, x, ids, segments_in(ids), std::move(name));
}
Output segment_max(Output x, Output ids, Name name) {
  return add_segment("max", true, x, ids, segments_in(ids), std::move(name));
}
Output segment_min(Output x, Output ids, Name name) {
  return add_segment("min", true, x, ids, segments_in(ids), std::move(name));
}
Output segment_prod(Output x, Output ids, Name name) {
  return add_segment("prod", true, x, ids, segments_in(ids), std::move(name));
}
Output unsorted_segment_sum(Output x, Output ids, Output segments, Name name) {
  return add_segment("sum", false, x, ids, segments, std::move(name));
}
Output unsorted_segment_mean(Output x, Output ids, Output segments, Name name) {
  return add_segment("mean", false, x, ids, segments, std::move(name));
}
Output unsorted_segment_max(Output x, Output ids, Output segments, Name name) {
  return add_segment("max", false, x, ids, segments, std::move(name));
}
Output unsorted_segment_min(Output x, Output ids, Output segments, Name name) {
  return add_segment("min", false, x, ids, segments, std::move(name));
}
Output unsorted_segment_prod(Output x, Output ids, Output segments, Name name) {
  return add_segment("prod", false, x, ids, segments, std::move(name));
}

}  // namespace troupe
