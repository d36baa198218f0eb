// Conversion between floating tensors and integers with a scale and zero point, for a whole tensor or per index of an
// axis.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

// Inputs: x, scale, zero_point. The latter two are of one shape, a scalar or a vector along the axis.
void quantize_shape(ShapeContext& c) {
  const Shape& x = c.input(0);
  const Shape scale = shapes::merge(c.input(1), "scale", c.input(2), "zero_point");
  Shape out = x;
  if (scale.has_rank() && scale.rank() > 1)
    invalid_argument("'scale' must be a scalar or vector, but its shape is {}", scale.to_string());
  if (scale.has_rank() && scale.rank() == 1 && scale[0] != 1 && x.has_rank()) {
    const int axis = shapes::axis(c.attributes().integer("axis"), x.rank());
    out.set_dim(axis, shapes::merge_dim(x[axis], scale[0], "the size of 'x' along the axis and that of 'scale'"));
  }
  c.set_output(0, out);
}

// y = (x - zero_point) scale. Only the scale is a real number.
void dequantize_gradient(GradientContext& c) {
  if (!c.needs(1)) return;
  const Output x = c.input(0), scale = c.input(1);
  Output zero_point = cast(c.input(2), scale.dtype()), like = scale;
  if (scale.shape() != Shape{} && scale.shape() != Shape{1}) {  // along the axis
    const Output rank = rank_of(x);
    const Output axis = floor_mod(constant(c.graph(), c.attributes().integer("axis")), rank);
    const Output here = equal(range(rank), axis);
    const Output one = constant<std::int64_t>(c.graph(), 1);
    const Output dims = select(here, constant<std::int64_t>(c.graph(), kUnknown), one);
    like = reshape(scale, dims);
    zero_point = reshape(zero_point, dims);
  }
  const Output steps = cast(x, scale.dtype()) - zero_point;
  c.set(1, reshape_like(sum_to_like(c.grad() * steps, like), scale));
}

const std::vector<DType> kQuantizedTypes = {DType::i8, DType::u8, DType::i16, DType::u16};
const std::vector<DType> kDequantizedTypes = {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32};

}  // namespace

void register_quantize_ops(OpRegistry& ops) {
  ops.add(Op("QuantizeLinear")
              .input("x", "T")
              .input("scale", "T")
              .input("zero_point", "Q")
              .output("y", "Q")
              .type("T", kFloatTypes)
              .type("Q", kQuantizedTypes)
              .attr("axis", std::int64_t{1})
              .shape(quantize_shape)
              .no_gradient());
  ops.add(Op("DequantizeLinear")
              .input("x", "Q")
              .input("scale", "T")
              .input("zero_point", "Q")
              .output("y", "T")
              .type("T", kFloatTypes)
              .type("Q", kDequantizedTypes)
              .attr("axis", std::int64_t{1})
              .shape(quantize_shape)
              .gradient(dequantize_gradient));
}

}  // namespace troupe
