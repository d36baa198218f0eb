// Normalisation: of batches (Ioffe & Szegedy 2015) and of layers (Ba, Kiros & Hinton 2016).
//
// T is the dtype of the data. Scales, offsets and statistics are of U: f32, or f64 if the data is f64. "activation" is
// none or relu, applied to y; in a gradient, to the y that it differentiates.
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/ops/composed_gradients.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

// Checks common to all: the dtype of the statistics, and the attributes.
void check_common(const ShapeContext& c) {
  const Attributes& a = c.attributes();
  const DType data = a.dtype("T"), own = a.dtype("U");
  if ((data == DType::f64) != (own == DType::f64))
    invalid_argument("{} data needs scales, offsets and statistics in {}, not {}", name(data),
                     name(data == DType::f64 ? DType::f64 : DType::f32), name(own));
  if (a.has("epsilon") && !(a.real("epsilon") > 0))
    invalid_argument("attribute 'epsilon' is {}, not positive", a.real("epsilon"));
  if (a.has("activation") && a.string("activation") != "none" && a.string("activation") != "relu")
    invalid_argument("attribute 'activation' is '{}', not none or relu", a.string("activation"));
}

// x with inputs [first, last) as vectors along its last dimension.
struct Normalised {
  Shape x;
  std::int64_t channels = kUnknown;
};
Normalised with_vectors(const ShapeContext& c, const Shape& x, int first, int last) {
  check_common(c);
  Normalised out{shapes::at_least_rank(x, 1, "x")};
  if (x.has_rank()) out.channels = x[-1];
  for (int i = first; i < last; ++i)
    out.channels =
        shapes::merge_dim(out.channels, shapes::with_rank(c.input(i), 1, "the scale, offset or statistic")[0],
                          "the last dimension of 'x' and the length of a scale, offset or statistic");
  if (x.has_rank()) out.x.set_dim(-1, out.channels);
  return out;
}

void batch_norm_shape(ShapeContext& c) {
  const Normalised n = with_vectors(c, c.input(0), 1, 3);
  c.set_output(0, n.x);
  for (int i = 1; i < 4; ++i) c.set_output(i, Shape{n.channels});
}

void batch_norm_inference_shape(ShapeContext& c) { c.set_output(0, with_vectors(c, c.input(0), 1, 5).x); }

void batch_norm_grad_shape(ShapeContext& c) {
  const Normalised n = with_vectors(c, shapes::merge(c.input(0), "dy", c.input(1), "x"), 2, 6);
  c.set_output(0, n.x);
  c.set_output(1, Shape{n.channels});
  c.set_output(2, Shape{n.channels});
}

// The statistics of each row have x's shape without the last dimension.
Shape rows_of(const Shape& x) { return x.has_rank() ? x.sub(0, x.rank() - 1) : Shape::unknown_rank(); }

void layer_norm_shape(ShapeContext& c) {
  const Normalised n = with_vectors(c, c.input(0), 1, 3);
  c.set_output(0, n.x);
  c.set_output(1, rows_of(n.x));
  c.set_output(2, rows_of(n.x));
}

void layer_norm_grad_shape(ShapeContext& c) {
  const Normalised n = with_vectors(c, shapes::merge(c.input(0), "dy", c.input(1), "x"), 2, 3);
  for (int i = 3; i < 5; ++i) shapes::merge(rows_of(n.x), "the rows of x", c.input(i), "a statistic");
  c.set_output(0, n.x);
  c.set_output(1, Shape{n.channels});
  c.set_output(2, Shape{n.channels});
}

// Statistics are inputs here: y = scale (x - mean) / sqrt(variance + epsilon) + offset.
void batch_norm_inference_gradient(GradientContext& c) {
  const DType own = c.attributes().dtype("U");
  Output flow = c.grad(0);
  if (c.attributes().string("activation") == "relu") flow = add_op("ReluGrad", {flow, c.output(0)});
  const Output dy = cast(flow, own), scale = c.input(1), mean = c.input(3), variance = c.input(4);
  const Output inverse = rsqrt(variance + c.attributes().real("epsilon"));
  if (c.needs(0)) c.set(0, cast(dy * (scale * inverse), c.input(0).dtype()));
  if (c.needs(2)) c.set(2, sum_to_like(dy, mean));
  if (c.needs(3)) {
    const Output slope = -(scale * inverse);
    c.set(3, sum_to_like(dy, mean) * slope);
  }
  if (!c.needs(1) && !c.needs(4)) return;
  const Output along = sum_to_like(dy * ((cast(c.input(0), own) - mean) * inverse), mean);
  if (c.needs(1)) c.set(1, along);
  if (c.needs(4)) {
    const Output squared = square(inverse);
    c.set(4, along * scale * squared * -0.5);
  }
}

Op norm_op(std::string name, std::initializer_list<const char*> data, std::initializer_list<const char*> own) {
  Op op(std::move(name));
  for (const char* input : data) op.input(input, "T");
  for (const char* input : own) op.input(input, "U");
  return op;
}
// The statistics, scales and offsets keep f32 when the data is in 16 bits.
Op typed(Op op) { return op.type("T", kFloatTypes).type("U", kWideFloatTypes).precision(PrecisionClass::follower); }

}  // namespace

void register_norm_ops(OpRegistry& ops) {
  const std::string none = "none";
  ops.add(typed(norm_op("BatchNorm", {"x"}, {"scale", "offset"})
                    .output("y", "T")
                    .output("mean", "U")
                    .output("variance", "U")
                    .output("inverse_deviation", "U"))
              .attr("epsilon", AttrType::real)
              .attr("activation", none)
              .shape(batch_norm_shape)
              .gradient(batch_norm_gradient));
  ops.add(typed(norm_op("BatchNormInference", {"x"}, {"scale", "offset", "mean", "variance"}).output("y", "T"))
              .attr("epsilon", AttrType::real)
              .attr("activation", none)
              .shape(batch_norm_inference_shape)
              .gradient(batch_norm_inference_gradient));
  ops.add(typed(norm_op("BatchNormGrad", {"dy", "x"}, {"scale", "offset", "mean", "inverse_deviation"})
                    .output("dx", "T")
                    .output("dscale", "U")
                    .output("doffset", "U"))
              .attr("activation", none)
              .shape(batch_norm_grad_shape)
              .gradient(batch_norm_grad_gradient));
  ops.add(typed(norm_op("LayerNorm", {"x"}, {"scale", "offset"})
                    .output("y", "T")
                    .output("mean", "U")
                    .output("inverse_deviation", "U"))
              .attr("epsilon", AttrType::real)
              .shape(layer_norm_shape)
              .gradient(layer_norm_gradient));
  ops.add(typed(norm_op("LayerNormGrad", {"dy", "x"}, {"scale", "mean", "inverse_deviation"})
                    .output("dx", "T")
                    .output("dscale", "U")
                    .output("doffset", "U"))
              .shape(layer_norm_grad_shape)
              .gradient(layer_norm_grad_gradient));
}

}  // namespace troupe
