// Signal processing: Fourier transforms, frames, mel-frequency weights.
#include <algorithm>
#include <limits>

#include <troupe/graph/builder/layout.hpp>
#include <troupe/graph/builder/signal.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

void dft_shape(ShapeContext& c) {
  const Shape& x = shapes::at_least_rank(c.input(0), 2, "x");
  shapes::with_rank(c.input(1), 0, "length");
  const bool onesided = c.attributes().boolean("onesided");
  const bool real_result = onesided && c.attributes().boolean("inverse");
  if (!x.has_rank()) return;
  const int axis = shapes::axis(c.attributes().integer("axis"), x.rank());
  if (axis == x.rank() - 1) invalid_argument("attribute 'axis' is the last dimension, which holds (real, imaginary)");
  if (x[-1] != kUnknown && x[-1] != 1 && x[-1] != 2)
    invalid_argument("the last dimension of 'x' must be 1 (real) or 2 (complex): {}", x.to_string());
  if (real_result && x[-1] == 1)
    invalid_argument("a one-sided inverse transform is of complex numbers [...,2]: {}", x.to_string());
  const auto given = shapes::known_scalar(c, 1);
  std::int64_t length = kUnknown;
  if (given) length = *given >= 0 || x[axis] == kUnknown ? *given : real_result ? 2 * (x[axis] - 1) : x[axis];
  if (length == 0) invalid_argument("the length of the transform is 0");
  if (length < 0) length = kUnknown;
  if (length != kUnknown && onesided && !real_result) length = length / 2 + 1;
  Shape out = x;
  out.set_dim(axis, length);
  out.set_dim(-1, real_result ? 1 : 2);
  c.set_output(0, out);
}

// The number of an axis of x, from 0, as a vector.
Output axis_place(std::int64_t axis, Output x) {
  if (x.shape().has_rank()) return constant<std::int64_t>(*x.graph, {shapes::axis(axis, x.shape().rank())});
  const Output given = constant<std::int64_t>(*x.graph, {axis});
  return floor_mod(given, rank_of(x));
}

// x cut or padded with zeros along `axis` to the size that `like` has there.
Output resized(Output x, Output like, std::int64_t axis) {
  const Shape &from = x.shape(), &to = like.shape();
  const int fixed = to.has_rank() ? shapes::axis(axis, to.rank()) : 0;
  if (from.has_rank() && to.has_rank() && from[fixed] != kUnknown && from[fixed] == to[fixed]) return x;
  const Output at = axis_place(axis, like);
  const Output size = gather(shape_of(like), at);
  const Output cut = strided_slice(x, Integers{0}, size, {.axes = at});
  const Output have = gather(shape_of(cut), at);
  const Output missing = size - have;
  const Output here = equal(range(rank_of(like)), at);
  const Output after = missing * cast(here, DType::i64);
  const Output before = zeros_like(after);
  return pad_list(cut, concat({before, after}, 0));
}

// Real numbers of a symmetric spectrum: each number but the first and that of n / 2 counts twice, for itself and its
// mirror image, so that dx is twice the spectrum of dy / n, but there.
void real_inverse_gradient(GradientContext& c) {
  const Output x = c.input(0), g = c.grad();
  const std::int64_t axis = c.attributes().integer("axis");
  const Output spectrum = dft(g, {.axis = axis, .onesided = true});
  const Output at = axis_place(axis, x);
  const Output n = reshape(gather(shape_of(g), at), Shape{});
  const Output bins = gather(shape_of(spectrum), at);
  const Output places = range(reshape(bins, Shape{}));
  const Output first = equal(places, scalar_like(places, 0));
  const Output last = equal(places * 2, n);
  const Output once = logical_or(first, last);
  const Output one = scalar_like(x, 1), two = scalar_like(x, 2);
  const Output counts = select(once, one, two);
  const Output weights = counts / cast(n, x.dtype());
  // [bins] along the axis.
  const Output here = equal(range(rank_of(x)), at);
  const Output shape = select(here, bins, scalar_like(bins, 1));
  c.set(0, resized(spectrum * reshape(weights, shape), x, axis));
}

// Transposed: y = F x gives dx = F^H dy, which is the inverse transform without its factor.
void dft_gradient(GradientContext& c) {
  if (c.attributes().boolean("onesided") && c.attributes().boolean("inverse")) return real_inverse_gradient(c);
  const Output x = c.input(0), g = c.grad();
  const std::int64_t axis = c.attributes().integer("axis");
  const bool inverse = c.attributes().boolean("inverse");
  const Output given = c.input(1);
  const Output at = axis_place(axis, x);
  const Output whole = reshape(gather(shape_of(x), at), Shape{});
  const Output length = select(less(given, scalar_like(given, 0)), whole, given);
  const Output back = dft(g, {.axis = axis, .length = length, .inverse = !inverse});
  const Output n = cast(length, x.dtype());
  Output dx = inverse ? back / n : back * n;
  dx = resized(dx, x, axis);
  // The imaginary part of a real x is no input.
  const Output channels = strided_slice(shape_of(x), Integers{-1}, Integers{std::numeric_limits<std::int64_t>::max()});
  c.set(0, strided_slice(dx, Integers{0}, channels, {.axes = Integers{-1}}));
}

void frame_shape(ShapeContext& c) {
  const Shape x = shapes::with_rank(c.input(0), 3, "x");
  shapes::with_rank(c.input(1), 0, "length");
  shapes::with_rank(c.input(2), 0, "step");
  const auto length = shapes::known_scalar(c, 1), step = shapes::known_scalar(c, 2);
  if ((length && *length < 1) || (step && *step < 1)) invalid_argument("'length' and 'step' must be positive");
  std::int64_t frames = kUnknown;
  if (length && step && x[1] != kUnknown) {
    if (*length > x[1]) invalid_argument("a frame of {} is longer than the signal's {}", *length, x[1]);
    frames = (x[1] - *length) / *step + 1;
  }
  c.set_output(0, Shape{x[0], frames, length ? *length : kUnknown, x[2]});
}

void frame_gradient(GradientContext& c) {
  const Output step = c.input(2);
  c.set(0, add_op("FrameGrad", {c.grad(), c.input(0), step}));
}
void frame_grad_shape(ShapeContext& c) { c.set_output(0, shapes::with_rank(c.input(1), 3, "x")); }
void frame_grad_gradient(GradientContext& c) {
  const Output length = reshape(slice(shape_of(c.input(0)), {2}, {1}), Shape{});
  c.set(0, add_op("Frame", {c.grad(), length, c.input(2)}));
}

void mel_shape(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) shapes::with_rank(c.input(i), 0, "an argument");
  const auto bins = shapes::known_scalar(c, 0), length = shapes::known_scalar(c, 1);
  if ((bins && *bins < 1) || (length && *length < 1)) invalid_argument("'bins' and 'length' must be positive");
  c.set_output(0, Shape{length ? *length / 2 + 1 : kUnknown, bins ? *bins : kUnknown});
}

}  // namespace

void register_signal_ops(OpRegistry& ops) {
  ops.add(Op("DFT")
              .input("x", "T")
              .input("length", DType::i64)
              .output("y", "T")
              .type("T", kFloatTypes)
              .attr("axis", std::int64_t{1})
              .attr("inverse", false)
              .attr("onesided", false)
              .shape(dft_shape)
              .gradient(dft_gradient));
  // x [batch,n,c] -> frames [batch,m,length,c], which begin at 0, step, 2 step, ...
  ops.add(Op("Frame")
              .input("x", "T")
              .input("length", DType::i64)
              .input("step", DType::i64)
              .output("frames", "T")
              .type("T", kRealTypes)
              .shape(frame_shape)
              .gradient(frame_gradient));
  ops.add(Op("FrameGrad")
              .input("dframes", "T")
              .input_shape("x", "T")
              .input("step", DType::i64)
              .output("dx", "T")
              .type("T", kFloatTypes)
              .shape(frame_grad_shape)
              .gradient(frame_grad_gradient));
  ops.add(Op("MelWeightMatrix")
              .input("bins", DType::i64)
              .input("dft_length", DType::i64)
              .input("sample_rate", DType::i64)
              .input("lower_edge", DType::f32)
              .input("upper_edge", DType::f32)
              .output("weights", DType::f32)
              .shape(mel_shape)
              .no_gradient());
}

}  // namespace troupe
