// Elements by index, orders, cumulative ops and segments.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {
namespace {

using Longs = std::initializer_list<std::int64_t>;

Output longs(const Outputs& x, const Shape& shape, Longs values) {
  return constant(*x[0].graph, Tensor::of<std::int64_t>(shape, values));
}
// The square of one result, so that the gradient is no constant.
BuildFn index_squared(std::function<Output(const Outputs&)> f) {
  return [f](Graph&, const Outputs& x) { return Outputs{square(f(x))}; };
}

void add_gathers(std::vector<GradientCase>& out) {
  out.push_back({.name = "GatherFromEnd",
                 .shapes = {{4, 2}},
                 .build = index_squared([](auto& x) {
                   return gather(x[0], longs(x, {3}, {-1, 0, 3}), {.from_end = true});
                 })});
  out.push_back(
      {.name = "GatherAlongLast", .shapes = {{2, 4}}, .build = index_squared([](auto& x) {
                                                        return gather(x[0], longs(x, {3}, {3, 0, 3}), {.axis = -1});
                                                      })});
  out.push_back({.name = "GatherBatches",
                 .shapes = {{2, 3, 4, 2}},
                 .build = index_squared([](auto& x) {
                   return gather(x[0], longs(x, {2, 2}, {3, 0, 1, 1}), {.axis = 2, .batch_dims = 1});
                 })});
  out.push_back({.name = "GatherGrad",
                 .shapes = {{2, 3}, {2, 4}},
                 .build = index_squared([](auto& x) {
                   return add_op("GatherGrad", {x[0], longs(x, {3}, {3, 0, 3}), x[1]}, {{"axis", std::int64_t{1}}});
                 })});
  out.push_back(
      {.name = "GatherND", .shapes = {{3, 4, 2}}, .build = index_squared([](auto& x) {
                                                    return gather_nd(x[0], longs(x, {3, 2}, {2, -1, 0, 1, 2, 3}));
                                                  })});
  out.push_back({.name = "GatherNDBatches",
                 .shapes = {{2, 3}},
                 .build = index_squared([](auto& x) {
                   return gather_nd(x[0], longs(x, {2, 1}, {2, 0}), {.batch_dims = 1});
                 })});
  out.push_back(
      {.name = "GatherElements", .shapes = {{3, 2}}, .build = index_squared([](auto& x) {
                                                       return gather_elements(x[0], longs(x, {2, 2}, {2, 0, 2, -1}), 0);
                                                     })});
}

void add_scatters(std::vector<GradientCase>& out) {
  for (const char* reduction : {"none", "add", "sub", "mul", "max", "min"}) {
    const std::string name = reduction;
    // "none" has no gradient for updates that lose, so its indices differ.
    const bool none = name == "none";
    out.push_back({.name = "ScatterElements_" + name,
                   .shapes = {{3, 3}, {2, 3}},
                   .build = index_squared([=](auto& x) {
                     const Output at = longs(x, {2, 3}, {2, 0, 1, none ? 0 : 2, 1, -1});
                     return scatter_elements(x[0], at, x[1], {.axis = 0, .reduction = name});
                   }),
                   .low = 0.5});
    out.push_back({.name = "ScatterND_" + name,
                   .shapes = {{4, 2}, {3, 2}},
                   .build = index_squared([=](auto& x) {
                     return tensor_scatter(x[0], longs(x, {3, 1}, {2, none ? 0 : 2, -1}), x[1], {.reduction = name});
                   }),
                   .low = 0.5});
  }
  out.push_back({.name = "ScatterNDIntoZeros",
                 .shapes = {{3, 2}},
                 .build = index_squared([](auto& x) {
                   return scatter_nd(longs(x, {3, 1}, {3, 0, 3}), x[0], longs(x, {2}, {4, 2}));
                 })});
}

void add_choices(std::vector<GradientCase>& out) {
  out.push_back(
      {.name = "Compress", .shapes = {{2, 4}}, .build = index_squared([](auto& x) {
                                                 const Output keep = constant<bool>(*x[0].graph, {true, false, true});
                                                 return compress(x[0], keep, 1);
                                               })});
  out.push_back({.name = "BooleanMask",
                 .shapes = {{2, 2, 3}},
                 .build = index_squared([](auto& x) {
                   const Output mask = constant(*x[0].graph, Tensor::of<bool>(Shape{2, 2}, {true, false, false, true}));
                   return boolean_mask(x[0], mask);
                 })});
  out.push_back({.name = "DynamicPartition", .shapes = {{4, 2}}, .build = [](Graph&, const Outputs& x) {
                   const Outputs parts = dynamic_partition(x[0], longs(x, {4}, {1, 0, 2, 1}), 3);
                   return Outputs{square(parts[0]), square(parts[1])};
                 }});
  out.push_back({.name = "DynamicStitch", .shapes = {{2, 2}, {2}}, .build = index_squared([](auto& x) {
                                                                     const Output two = longs(x, {2}, {3, 0});
                                                                     const Output one = longs(x, {}, {1});
                                                                     return dynamic_stitch({two, one}, {x[0], x[1]});
                                                                   })});
  out.push_back({.name = "TopK", .shapes = {{3, 5}}, .build = index_squared([](auto& x) {
                                                       return top_k(x[0], 3, {.axis = 1}).values;
                                                     })});
  out.push_back({.name = "Sort", .shapes = {{4, 3}}, .build = index_squared([](auto& x) {
                                                       return sort(x[0], {.axis = 0, .descending = true});
                                                     })});
  out.push_back(
      {.name = "Unique", .shapes = {{5}}, .build = index_squared([](auto& x) { return unique(x[0]).values; })});
  out.push_back({.name = "UniqueRows", .shapes = {{2, 3}}, .build = index_squared([](auto& x) {
                                                             return unique(x[0], {.axes = {1}}).values;
                                                           })});
}

void add_cumulative(std::vector<GradientCase>& out) {
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true}) {
      const std::string suffix = std::string(exclusive ? "Exclusive" : "") + (reverse ? "Reverse" : "");
      const CumulativeOptions o{.exclusive = exclusive, .reverse = reverse};
      out.push_back({.name = "CumSum" + suffix, .shapes = {{3, 4}}, .build = index_squared([o](auto& x) {
                                                                      return cumsum(x[0], 1, o);
                                                                    })});
      out.push_back({.name = "CumProd" + suffix, .shapes = {{4, 2}}, .build = index_squared([o](auto& x) {
                                                                       return cumprod(x[0], 0, o);
                                                                     })});
      out.push_back({.name = "CumLogSumExp" + suffix,
                     .shapes = {{2, 4}},
                     .build = index_squared([o](auto& x) {
                       const Output y = cumulative_logsumexp(x[0], -1, o);
                       return exp(y);  // the first exclusive sum is empty: log 0
                     })});
    }
  out.push_back({.name = "CumMax", .shapes = {{2, 5}}, .build = index_squared([](auto& x) {
                                                         return cumulative_max(x[0], 1).values;
                                                       })});
  // The axis is not known while the graph is built.
  const auto late = [](Graph& g, std::int64_t number) {
    return cast(floor(constant(g, static_cast<double>(number) + 0.5)), DType::i64);
  };
  for (const std::int64_t axis : {0, 1, -1})
    out.push_back({.name = fmt::format("CumMaxOfLateAxis{}", axis < 0 ? 9 : axis),
                   .shapes = {{2, 3, 2}},
                   .build = index_squared([=](auto& x) {
                     return add_op("CumMax", {x[0], late(*x[0].graph, axis)});
                   })});
  out.push_back({.name = "CumMin", .shapes = {{5, 2}}, .build = index_squared([](auto& x) {
                                                         return cumulative_min(x[0], 0, {.reverse = true}).values;
                                                       })});
}

void add_segments(std::vector<GradientCase>& out) {
  const auto add = [&](const std::string& name, auto sorted, auto unsorted) {
    out.push_back({.name = "Segment" + name,
                   .shapes = {{5, 2}},
                   .build = index_squared([=](auto& x) {
                     return sorted(x[0], longs(x, {5}, {0, 0, 1, 3, 3}), Name());
                   }),
                   .low = 0.5});
    out.push_back({.name = "UnsortedSegment" + name,
                   .shapes = {{2, 3, 2}},
                   .build = index_squared([=](auto& x) {
                     const Output ids = longs(x, {2, 3}, {1, 0, 1, -1, 0, 1});
                     const Output segments = longs(x, {}, {2});
                     return unsorted(x[0], ids, segments, Name());
                   }),
                   .low = 0.5});
  };
  out.push_back({.name = "UnsortedSegmentMaxOfLateRanks",
                 .shapes = {{3, 2}},
                 .build = index_squared([](auto& x) {
                   const Output ids = of_late_rank(longs(x, {3}, {1, -1, 0}));
                   return unsorted_segment_max(of_late_rank(x[0]), ids, longs(x, {}, {2}));
                 })});
  add("Sum", segment_sum, unsorted_segment_sum);
  add("Mean", segment_mean, unsorted_segment_mean);
  add("Max", segment_max, unsorted_segment_max);
  add("Min", segment_min, unsorted_segment_min);
  add("Prod", segment_prod, unsorted_segment_prod);
}

}  // namespace

std::vector<GradientCase> index_gradients() {
  std::vector<GradientCase> out;
  add_gathers(out);
  add_scatters(out);
  add_choices(out);
  add_cumulative(out);
  add_segments(out);
  return out;
}

}  // namespace troupe::testing
