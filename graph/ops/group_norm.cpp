// Normalisation of groups of channels (Wu & He 2018) and by root mean squares (Zhang & Sennrich 2019). Dtypes as in
// norm.cpp: T of the data, U of scales, offsets and statistics.
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/ops/composed_gradients.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

void check_types(const ShapeContext& c) {
  const Attributes& a = c.attributes();
  const DType data = a.dtype("T"), own = a.dtype("U");
  if ((data == DType::f64) != (own == DType::f64))
    invalid_argument("{} data needs scales, offsets and statistics in {}, not {}", name(data),
                     name(data == DType::f64 ? DType::f64 : DType::f32), name(own));
  if (a.has("epsilon") && !(a.real("epsilon") > 0))
    invalid_argument("attribute 'epsilon' is {}, not positive", a.real("epsilon"));
}

// x [n,c,...] with vectors [c] as inputs [first, last).
Shape with_channel_vectors(const ShapeContext& c, Shape x, int first, int last) {
  check_types(c);
  shapes::at_least_rank(x, 2, "x");
  std::int64_t channels = x.has_rank() ? x[1] : kUnknown;
  for (int i = first; i < last; ++i)
    channels = shapes::merge_dim(channels, shapes::with_rank(c.input(i), 1, "the scale or offset")[0],
                                 "dimension 1 of 'x' and the length of a scale or offset");
  if (x.has_rank()) x.set_dim(1, channels);
  return x;
}

void group_norm_shape(ShapeContext& c) {
  const Shape x = with_channel_vectors(c, c.input(0), 1, 3);
  const std::int64_t given = c.attributes().integer("groups");
  if (given < 0) invalid_argument("attribute 'groups' is {}, which is negative", given);
  const std::int64_t channels = x.has_rank() ? x[1] : c.input(1).has_rank() ? c.input(1)[0] : kUnknown;
  if (given > 0 && channels != kUnknown && channels % given != 0)
    invalid_argument("{} groups do not divide {} channels", given, channels);
  c.set_output(0, x);
  for (int i = 1; i < 3; ++i) c.set_output(i, Shape{x.has_rank() ? x[0] : kUnknown, given == 0 ? channels : given});
}

void group_norm_grad_shape(ShapeContext& c) {
  const Shape x = with_channel_vectors(c, shapes::merge(c.input(0), "dy", c.input(1), "x"), 2, 3);
  for (int i = 3; i < 5; ++i) shapes::with_rank(c.input(i), 2, "the statistic");
  c.set_output(0, x);
  for (int i = 1; i < 3; ++i) c.set_output(i, c.input(2));
}

// x with a scale [c] along its last dimension.
Shape with_scale(const ShapeContext& c, Shape x, int scale) {
  check_types(c);
  shapes::at_least_rank(x, 1, "x");
  const std::int64_t width = shapes::with_rank(c.input(scale), 1, "scale")[0];
  if (x.has_rank())
    x.set_dim(-1, shapes::merge_dim(x[-1], width, "the last dimension of 'x' and the length of the scale"));
  return x;
}
Shape without_last(const Shape& x) { return x.has_rank() ? x.sub(0, x.rank() - 1) : Shape::unknown_rank(); }

void rms_norm_shape(ShapeContext& c) {
  const Shape x = with_scale(c, c.input(0), 1);
  c.set_output(0, x);
  c.set_output(1, without_last(x));
}

void rms_norm_grad_shape(ShapeContext& c) {
  const Shape x = with_scale(c, shapes::merge(c.input(0), "dy", c.input(1), "x"), 2);
  shapes::merge(without_last(x), "the rows of x", c.input(3), "the statistic");
  c.set_output(0, x);
  c.set_output(1, c.input(2));
}

Op with_types(Op op) {
  return op.type("T", kFloatTypes).type("U", kWideFloatTypes).precision(PrecisionClass::follower);
}

}  // namespace

void register_group_norm_ops(OpRegistry& ops) {
  ops.add(with_types(Op("GroupNorm")
                         .input("x", "T")
                         .input("scale", "U")
                         .input("offset", "U")
                         .output("y", "T")
                         .output("mean", "U")
                         .output("inverse_deviation", "U"))
              .attr("groups", AttrType::integer)
              .attr("epsilon", AttrType::real)
              .shape(group_norm_shape)
              .gradient(group_norm_gradient));
  ops.add(with_types(Op("GroupNormGrad")
                         .input("dy", "T")
                         .input("x", "T")
                         .input("scale", "U")
                         .input("mean", "U")
                         .input("inverse_deviation", "U")
                         .output("dx", "T")
                         .output("dscale", "U")
                         .output("doffset", "U"))
              .shape(group_norm_grad_shape)
              .gradient(group_norm_grad_gradient));
  ops.add(with_types(Op("RMSNorm").input("x", "T").input("scale", "U").output("y", "T").output("inverse", "U"))
              .attr("epsilon", AttrType::real)
              .shape(rms_norm_shape)
              .gradient(rms_norm_gradient));
  ops.add(with_types(Op("RMSNormGrad")
                         .input("dy", "T")
                         .input("x", "T")
                         .input("scale", "U")
                         .input("inverse", "U")
                         .output("dx", "T")
                         .output("dscale", "U"))
              .shape(rms_norm_grad_shape)
              .gradient(rms_norm_grad_gradient));
}

}  // namespace troupe
