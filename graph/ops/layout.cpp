// Ops that reorder elements, and diagonals.
#include <algorithm>

#include <troupe/graph/known_values.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>
#include <troupe/graph/ops/values.hpp>

namespace troupe {
namespace {

// Shapes.

void reverse_shape(ShapeContext& c) {
  const Shape& x = c.input(0);
  const auto axes = shapes::known_vector(c, 1, "axes");
  if (axes && x.has_rank()) shapes::axes(*axes, x.rank());
  c.set_output(0, x);
}

void reverse_sequence_shape(ShapeContext& c) {
  const Shape lengths = shapes::with_rank(c.input(1), 1, "lengths");
  Shape x = shapes::at_least_rank(c.input(0), 2, "x");
  if (x.has_rank()) {
    const int seq = shapes::axis(c.attributes().integer("seq_axis"), x.rank());
    const int batch = shapes::axis(c.attributes().integer("batch_axis"), x.rank());
    if (seq == batch) invalid_argument("'seq_axis' and 'batch_axis' are both {}", seq);
    x.set_dim(batch, shapes::merge_dim(x[batch], lengths[0], "the size of the batch and the number of lengths"));
  }
  c.set_output(0, x);
}

void roll_shape(ShapeContext& c) {
  const Shape shifts = shapes::with_rank(c.input(1), 1, "shifts"), axes = shapes::with_rank(c.input(2), 1, "axes");
  shapes::merge_dim(shifts[0], axes[0], "the numbers of shifts and axes");
  const auto given = shapes::known_vector(c, 2, "axes");
  if (given && c.input(0).has_rank()) shapes::axes(*given, c.input(0).rank());
  c.set_output(0, c.input(0));
}

// The size of a dimension whose elements are repeated so.
std::int64_t repeated_size(std::int64_t size, const shapes::KnownEntries& repeats) {
  std::int64_t total = 0;
  for (const auto& times : repeats) {
    if (times && *times < 0) invalid_argument("'repeats' has the negative entry {}", *times);
    total = times && total != kUnknown ? shapes::checked_add(total, *times) : kUnknown;
  }
  if (repeats.empty() || total == kUnknown) return kUnknown;
  if (repeats.size() > 1) return total;
  return size == kUnknown ? kUnknown : shapes::checked_mul(size, total);
}

void repeat_shape(ShapeContext& c) {
  const shapes::KnownEntries repeats = shapes::known_entries(c, 1, "repeats", kUnknown);
  Shape x = shapes::at_least_rank(c.input(0), 1, "x");
  if (!x.has_rank()) return c.set_output(0, x);
  const int at = shapes::axis(c.attributes().integer("axis"), x.rank());
  if (repeats.size() > 1)
    shapes::merge_dim(x[at], std::ssize(repeats), "the size along the axis and the number of repeats");
  x.set_dim(at, repeated_size(x[at], repeats));
  c.set_output(0, x);
}
void repeat_grad_shape(ShapeContext& c) {
  shapes::with_rank(c.input(2), 1, "repeats");
  c.set_output(0, c.input(1));
}

void trilu_shape(ShapeContext& c) {
  shapes::with_rank(c.input(1), 0, "k");
  c.set_output(0, shapes::at_least_rank(c.input(0), 2, "x"));
}

// Of diagonal k of matrices of this shape.
Shape diagonal_shape(const ShapeContext& c, const Shape& x, int k) {
  shapes::with_rank(c.input(k), 0, "k");
  shapes::at_least_rank(x, 2, "x");
  if (!x.has_rank()) return x;
  const auto at = shapes::known_scalar(c, k);
  std::int64_t length = kUnknown;
  if (at && x[-2] != kUnknown && x[-1] != kUnknown) {
    const std::int64_t above = std::clamp<std::int64_t>(*at, 0, x[-1]),
                       below = -std::clamp<std::int64_t>(*at, -x[-2], 0);
    length = std::min(x[-2] - below, x[-1] - above);
  }
  return x.sub(0, x.rank() - 2).with_appended(length);
}
void diag_part_shape(ShapeContext& c) { c.set_output(0, diagonal_shape(c, c.input(0), 1)); }
void set_diag_shape(ShapeContext& c) {
  shapes::merge(diagonal_shape(c, c.input(0), 2), "the diagonal of x", c.input(1), "diagonal");
  c.set_output(0, c.input(0));
}

std::int64_t divided(std::int64_t size, std::int64_t by, std::string_view what) {
  if (size != kUnknown && size % by != 0) invalid_argument("{}, {}, is not divisible by {}", what, size, by);
  return size == kUnknown ? kUnknown : size / by;
}
std::int64_t multiplied(std::int64_t size, std::int64_t by) {
  return size == kUnknown ? kUnknown : shapes::checked_mul(size, by);
}

template <bool kToSpace>
void depth_shape(ShapeContext& c) {
  const std::int64_t block = shapes::bounded(c.attributes(), "block", 1, 1 << 20);
  const std::string &layout = c.attributes().string("layout"), &mode = c.attributes().string("mode");
  if (layout != "NCHW" && layout != "NHWC")
    invalid_argument("attribute 'layout' must be NCHW or NHWC, not '{}'", layout);
  if (mode != "DCR" && mode != "CRD") invalid_argument("attribute 'mode' must be DCR or CRD, not '{}'", mode);
  Shape x = shapes::with_rank(c.input(0), 4, "x");
  const int channels = layout == "NCHW" ? 1 : 3, rows = layout == "NCHW" ? 2 : 1;
  for (const int d : {rows, rows + 1})
    x.set_dim(d, kToSpace ? multiplied(x[d], block) : divided(x[d], block, "the size of an image"));
  const std::int64_t depth = x[channels];
  x.set_dim(channels,
            kToSpace ? divided(depth, block * block, "the number of channels") : multiplied(depth, block * block));
  c.set_output(0, x);
}

template <bool kToBatch>
void batch_shape(ShapeContext& c) {
  const shapes::KnownEntries block = shapes::known_entries(c, 1, "block", kUnknown);
  shapes::with_rank(c.input(2), 1, "pads");
  Shape x = shapes::at_least_rank(c.input(0), 1 + static_cast<int>(std::min<std::size_t>(block.size(), kMaxRank)), "x");
  if (!x.has_rank() || block.empty()) return c.set_output(0, x.has_rank() ? Shape::unknown(x.rank()) : x);
  const std::size_t count = block.size();
  const shapes::KnownEntries pads = shapes::known_entries(c, 2, "pads", 2 * std::ssize(block));
  std::int64_t product = 1;
  for (std::size_t i = 0; i < count; ++i) {
    const int d = static_cast<int>(i) + 1;
    if (block[i] && *block[i] < 1) invalid_argument("'block' has the entry {}: it must be positive", *block[i]);
    if ((pads[i] && *pads[i] < 0) || (pads[count + i] && *pads[count + i] < 0))
      invalid_argument("'pads' has a negative entry");
    product = block[i] && product != kUnknown ? shapes::checked_mul(product, *block[i]) : kUnknown;
    if (!block[i] || !pads[i] || !pads[count + i] || x[d] == kUnknown) {
      x.set_dim(d, kUnknown);
      continue;
    }
    const std::int64_t added = shapes::checked_add(*pads[i], *pads[count + i]);
    if (kToBatch) {
      x.set_dim(d, divided(shapes::checked_add(x[d], added), *block[i], "a padded dimension"));
    } else {
      x.set_dim(d, multiplied(x[d], *block[i]) - added);
      if (x[d] < 0) invalid_argument("'crops' has {} elements in all for dimension {}, more than there are", added, d);
    }
  }
  if (product == kUnknown)
    x.set_dim(0, kUnknown);
  else
    x.set_dim(0, kToBatch ? multiplied(x[0], product) : divided(x[0], product, "the size of the batch"));
  c.set_output(0, x);
}

// Gradients.

void reverse_gradient(GradientContext& c) { c.set(0, reverse(c.grad(), c.input(1))); }
void reverse_sequence_gradient(GradientContext& c) {
  c.set(0, reverse_sequence(
               c.grad(), c.input(1),
               {.seq_axis = c.attributes().integer("seq_axis"), .batch_axis = c.attributes().integer("batch_axis")}));
}
void roll_gradient(GradientContext& c) {
  const Output back = -c.input(1);
  c.set(0, roll(c.grad(), back, c.input(2)));
}
void repeat_gradient(GradientContext& c) {
  c.set(0, add_op("RepeatGrad", {c.grad(), c.input(0), c.input(1)}, {{"axis", c.attributes().integer("axis")}}));
}
void repeat_grad_gradient(GradientContext& c) {
  c.set(0, repeat(c.grad(), c.input(2), c.attributes().integer("axis")));
}
void trilu_gradient(GradientContext& c) {
  c.set(0, add_op("Trilu", {c.grad(), c.input(1)}, {{"upper", c.attributes().boolean("upper")}}));
}
void diag_part_gradient(GradientContext& c) {
  const Output zeros = zeros_like(c.input(0));
  c.set(0, set_diag(zeros, c.grad(), c.input(1)));
}
void set_diag_gradient(GradientContext& c) {
  const Output zeros = zeros_like(c.input(1));
  c.set(0, set_diag(c.grad(), zeros, c.input(2)));
  c.set(1, diag_part(c.grad(), c.input(2)));
}
// Each of a pair of ops is the other's gradient, with the same inputs and attributes.
GradientFn paired(const char* op) {
  return [op](GradientContext& c) {
    Outputs inputs = {c.grad()};
    for (int i = 1; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
    Attributes attributes;
    for (const char* key : {"block", "mode", "layout"})
      if (c.attributes().has(key)) attributes.set(key, c.attributes().all().find(key)->second);
    c.set(0, add_op(op, inputs, std::move(attributes)));
  };
}

Op layout_op(std::string name, std::initializer_list<const char*> lists, std::vector<DType> types = {}) {
  Op op(std::move(name));
  op.input("x", "T");
  for (const char* list : lists) op.input(list, DType::i64);
  return op.output("y", "T").type("T", std::move(types));
}

void register_orders(OpRegistry& ops) {
  ops.add(layout_op("Reverse", {"axes"}).shape(reverse_shape).value(values::reverse).gradient(reverse_gradient));
  ops.add(layout_op("ReverseSequence", {"lengths"})
              .attr("seq_axis", AttrType::integer)
              .attr("batch_axis", AttrType::integer)
              .shape(reverse_sequence_shape)
              .gradient(reverse_sequence_gradient));
  ops.add(layout_op("Roll", {"shifts", "axes"}).shape(roll_shape).gradient(roll_gradient));
  ops.add(
      layout_op("Repeat", {"repeats"}).attr("axis", AttrType::integer).shape(repeat_shape).gradient(repeat_gradient));
  ops.add(Op("RepeatGrad")
              .input("dy", "T")
              .input("x", "T")
              .input("repeats", DType::i64)
              .output("dx", "T")
              .type("T", kFloatTypes)
              .attr("axis", AttrType::integer)
              .shape(repeat_grad_shape)
              .gradient(repeat_grad_gradient));
}

void register_diagonals(OpRegistry& ops) {
  ops.add(layout_op("Trilu", {"k"}, kDataTypes).attr("upper", true).shape(trilu_shape).gradient(trilu_gradient));
  ops.add(layout_op("DiagPart", {"k"}).shape(diag_part_shape).gradient(diag_part_gradient));
  ops.add(Op("SetDiag")
              .input("x", "T")
              .input("diagonal", "T")
              .input("k", DType::i64)
              .output("y", "T")
              .type("T")
              .shape(set_diag_shape)
              .gradient(set_diag_gradient));
}

void register_blocks(OpRegistry& ops) {
  const auto depth_op = [](const char* name) {
    return layout_op(name, {})
        .attr("block", AttrType::integer)
        .attr("mode", std::string("DCR"))
        .attr("layout", std::string("NCHW"));
  };
  ops.add(depth_op("DepthToSpace").shape(depth_shape<true>).gradient(paired("SpaceToDepth")));
  ops.add(depth_op("SpaceToDepth").shape(depth_shape<false>).gradient(paired("DepthToSpace")));
  ops.add(layout_op("SpaceToBatch", {"block", "pads"}).shape(batch_shape<true>).gradient(paired("BatchToSpace")));
  ops.add(layout_op("BatchToSpace", {"block", "crops"}).shape(batch_shape<false>).gradient(paired("SpaceToBatch")));
}

}  // namespace

void register_layout_ops(OpRegistry& ops) {
  register_orders(ops);
  register_diagonals(ops);
  register_blocks(ops);
}

}  // namespace troupe
