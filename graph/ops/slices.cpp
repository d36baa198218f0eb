// Slices, pads and tiles.
#include <troupe/graph/ops/array_shapes.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/values.hpp>

namespace troupe {
namespace {

void slice_gradient(GradientContext& c) { c.set(0, add_op("SliceGrad", {c.grad(), c.input(0), c.input(1)})); }
void slice_grad_gradient(GradientContext& c) {
  const Output g = c.grad();
  const Shape& dy = c.input(0).shape();
  if (dy.has_rank() && dy.fully_known())
    c.set(0, slice(g, c.input(2), Integers(dy.dims().begin(), dy.dims().end())));
  else
    c.set(0, slice(g, c.input(2), shape_of(c.input(0))));
}

Outputs from(GradientContext& c, int first) {
  Outputs out;
  for (int i = first; i < c.num_inputs(); ++i) out.push_back(c.input(i));
  return out;
}
void strided_slice_gradient(GradientContext& c) {
  Outputs inputs = from(c, 0);
  inputs.insert(inputs.begin(), c.grad());
  c.set(0, add_op("StridedSliceGrad", inputs));
}
void strided_slice_grad_gradient(GradientContext& c) {
  Outputs inputs = from(c, 2);
  inputs.insert(inputs.begin(), c.grad());
  c.set(0, add_op("StridedSlice", inputs));
}

// Of a constant pad: crops what was added, and adds zeros for what was cropped.
void pad_gradient(GradientContext& c) {
  const PadMode mode = parse_pad_mode(c.attributes().string("mode"));
  const Output dy = c.grad();
  if (mode != PadMode::constant) {
    c.set(0, add_op("PadGrad", {dy, c.input(0), c.input(1)}, {{"mode", std::string(name(mode))}}));
    return;
  }
  const Output opposite = -c.input(1);
  const Output dx = pad_list(dy, opposite);
  c.set(0, dx);
  if (!c.needs(2)) return;
  const Output all = sum(dy);
  c.set(2, all - sum(dx));
}
void pad_grad_gradient(GradientContext& c) {
  c.set(0, pad_list(c.grad(), c.input(2), {.mode = parse_pad_mode(c.attributes().string("mode"))}));
}

void tile_gradient(GradientContext& c) { c.set(0, add_op("TileGrad", {c.grad(), c.input(0), c.input(1)})); }
void tile_grad_gradient(GradientContext& c) { c.set(0, tile(c.grad(), c.input(2))); }

// With the lists of integers in inputs named so.
Op with_lists(Op op, std::initializer_list<const char*> lists) {
  for (const char* list : lists) op.input(list, DType::i64);
  return op;
}
Op op_of_x(std::string name, std::initializer_list<const char*> lists) {
  return with_lists(Op(std::move(name)).input("x", "T"), lists).output("y", "T").type("T");
}
// Of the gradient of such an op.
Op op_of_dy(std::string name, std::initializer_list<const char*> lists, std::vector<DType> types = {}) {
  return with_lists(Op(std::move(name)).input("dy", "T").input("x", "T"), lists)
      .output("dx", "T")
      .type("T", std::move(types));
}

void register_slices(OpRegistry& ops) {
  ops.add(op_of_x("Slice", {"begin", "size"}).shape(shapes::slice).value(values::slice).gradient(slice_gradient));
  ops.add(op_of_dy("SliceGrad", {"begin"}).shape(shapes::slice_grad).gradient(slice_grad_gradient));
  ops.add(op_of_x("StridedSlice", {"begin", "end", "strides", "axes"})
              .shape(shapes::strided_slice)
              .value(values::strided_slice)
              .gradient(strided_slice_gradient));
  ops.add(op_of_dy("StridedSliceGrad", {"begin", "end", "strides", "axes"})
              .shape(shapes::strided_slice_grad)
              .gradient(strided_slice_grad_gradient));
}

}  // namespace

void register_slice_ops(OpRegistry& ops) {
  register_slices(ops);
  ops.add(Op("Pad")
              .input("x", "T")
              .input("pads", DType::i64)
              .input("value", "T")
              .output("y", "T")
              .type("T")
              .attr("mode", std::string("constant"))
              .shape(shapes::pad)
              .value(values::pad)
              .gradient(pad_gradient));
  ops.add(op_of_dy("PadGrad", {"pads"}, kFloatTypes)
              .attr("mode", AttrType::string)
              .shape(shapes::pad_grad)
              .gradient(pad_grad_gradient));
  ops.add(op_of_x("Tile", {"multiples"}).shape(shapes::tile).value(values::tile).gradient(tile_gradient));
  ops.add(op_of_dy("TileGrad", {"multiples"}, kRealTypes).shape(shapes::tile_grad).gradient(tile_grad_gradient));
}

}  // namespace troupe
