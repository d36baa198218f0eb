// Segments of rows, rows dealt out and put together, and coordinates of elements that are not 0.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

// The part of `x` that each element of `ids` stands for; of unknown rank if that is not known.
Shape row_of(const Shape& x, const Shape& ids, std::string_view name) {
  if (!ids.has_rank() || !x.has_rank()) return Shape::unknown_rank();
  shapes::at_least_rank(x, ids.rank(), "x");
  shapes::merge(x.sub(0, ids.rank()), "the leading dimensions of x", ids, name);
  return x.sub(ids.rank(), x.rank());
}

void segment_shape(ShapeContext& c) {
  if (c.attributes().boolean("sorted")) shapes::with_rank(c.input(1), 1, "ids");
  const Shape row = row_of(c.input(0), c.input(1), "ids");
  const auto count = shapes::known_scalar(c, 2);
  if (count && *count < 0) invalid_argument("the number of segments is {}", *count);
  c.set_output(0, Shape{count ? *count : kUnknown}.concatenated(row));
}

void partition_shape(ShapeContext& c) {
  shapes::bounded(c.attributes(), "N", 1, 1'000'000);
  const Shape row = row_of(c.input(0), c.input(1), "partitions");
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, Shape{kUnknown}.concatenated(row));
}

void stitch_shape(ShapeContext& c) {
  const int count = c.num_inputs() / 2;
  if (count == 0) invalid_argument("needs at least one input");
  Shape row = Shape::unknown_rank();
  for (int i = 0; i < count; ++i)
    row = shapes::merge(row, "rows before", row_of(c.input(count + i), c.input(i), "indices"), "rows");
  c.set_output(0, Shape{kUnknown}.concatenated(row));
}

void invert_shape(ShapeContext& c) { c.set_output(0, shapes::with_rank(c.input(0), 1, "x")); }

void non_zero_shape(ShapeContext& c) {
  const Shape& x = c.input(0);
  c.set_output(0, Shape{x.has_rank() ? x.rank() : kUnknown, kUnknown});
}

// For each row of x, that of `per_segment` with its id; zeros for rows in no segment.
Output spread_segments(GradientContext& c, Output per_segment) {
  const Output ids = c.input(1);
  if (c.attributes().boolean("sorted")) return gather(per_segment, ids);
  const Output zero = scalar_like(ids, 0);
  const Output rows = gather(per_segment, maximum(ids, zero));
  const Shape &x = c.input(0).shape(), &shape = ids.shape();
  Output inside = greater_equal(ids, zero);
  if (x.has_rank() && shape.has_rank()) {
    for (int d = shape.rank(); d < x.rank(); ++d) inside = expand_dims(inside, -1);
  } else {
    const Output own = rank_of(ids);
    const Output behind = reshape(rank_of(c.input(0)) - own, Shape{1});
    const Output ones = fill(behind, constant<std::int64_t>(c.graph(), 1));
    inside = reshape(inside, concat({shape_of(ids), ones}, 0));
  }
  return select(inside, rows, scalar_like(rows, 0));
}

Output like_segments(GradientContext& c, Output x) {
  return add_op("SegmentReduce", {x, c.input(1), c.input(2)},
                {{"reduction", std::string("sum")}, {"sorted", c.attributes().boolean("sorted")}});
}

void segment_gradient(GradientContext& c) {
  const std::string& reduction = c.attributes().string("reduction");
  const Output g = c.grad();
  const Output x = c.input(0), y = c.output(0);
  if (reduction == "sum") return c.set(0, spread_segments(c, g));
  if (reduction == "mean") {
    const Output counts = like_segments(c, ones_like(x));
    return c.set(0, spread_segments(c, g / maximum(counts, ones_like(counts))));
  }
  if (reduction == "prod") {
    const Output products = spread_segments(c, g * y);
    return c.set(0, products / x);
  }
  // Elements that equal the extremum share its gradient evenly.
  const Output extremum = spread_segments(c, y);
  const Output chosen = cast(equal(x, extremum), x.dtype());
  const Output ties = like_segments(c, chosen);
  const Output share = g / maximum(ties, ones_like(ties));
  const Output shares = spread_segments(c, share);
  c.set(0, chosen * shares);
}

// Sends the gradients of the parts back by stitching the rows' own numbers, dealt out likewise.
void partition_gradient(GradientContext& c) {
  const Output partitions = c.input(1);
  const Output first = constant<std::int64_t>(c.graph(), 0);
  const Output step = constant<std::int64_t>(c.graph(), 1);
  const Output numbers = range(first, element_count(partitions), step);
  const Outputs places = dynamic_partition(reshape_like(numbers, partitions), partitions, c.num_outputs());
  Outputs gradients;
  for (int i = 0; i < c.num_outputs(); ++i) gradients.push_back(c.grad(i));
  const Output rows = dynamic_stitch(places, gradients);
  c.set(0, reshape_like(rows, c.input(0)));
}

void stitch_gradient(GradientContext& c) {
  const int count = c.num_inputs() / 2;
  const Output g = c.grad();
  for (int i = 0; i < count; ++i)
    if (c.needs(count + i)) c.set(count + i, gather_nd(g, expand_dims(c.input(i), -1)));
}

}  // namespace

void register_segment_ops(OpRegistry& ops) {
  ops.add(Op("SegmentReduce")
              .input("x", "T")
              .input("ids", "Tindices")
              .input("segments", DType::i64)
              .output("y", "T")
              .type("T", kRealTypes)
              .type("Tindices", kIndexTypes)
              .attr("reduction", AttrType::string)
              .attr("sorted", false)
              .shape(segment_shape)
              .gradient(segment_gradient));
  ops.add(Op("DynamicPartition")
              .input("x", "T")
              .input("partitions", "Tindices")
              .output_list("parts", "T", "N")
              .type("T")
              .type("Tindices", kIndexTypes)
              .shape(partition_shape)
              .gradient(partition_gradient));
  ops.add(Op("DynamicStitch")
              .input_list("indices", "Tindices", "N")
              .input_list("xs", "T", "N")
              .output("y", "T")
              .type("T")
              .type("Tindices", kIndexTypes)
              .shape(stitch_shape)
              .gradient(stitch_gradient));
  ops.add(Op("InvertPermutation")
              .input("x", "T")
              .output("y", "T")
              .type("T", kIndexTypes)
              .shape(invert_shape)
              .no_gradient());
  ops.add(Op("NonZero")
              .input("x", "T")
              .output("places", DType::i64)
              .type("T", kDataTypes)
              .shape(non_zero_shape)
              .no_gradient());
}

}  // namespace troupe
