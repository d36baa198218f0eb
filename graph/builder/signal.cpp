#include "troupe/graph/builder/signal.hpp"

#include <numbers>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

// 2 pi i / n for i = 0, 1, ..., where n is the size, or one less for a symmetric window.
Output phases(Output size, bool periodic) {
  Graph& graph = *size.graph;
  const Output count = cast(size, DType::i64);
  const auto number = [&](std::int64_t n) { return constant<std::int64_t>(graph, n); };
  const Output steps = range(number(0), count, number(1));
  const Output period = periodic ? count : maximum(count - 1, number(1));
  return cast(steps, DType::f64) * (2 * std::numbers::pi) / cast(period, DType::f64);
}

Output named(Output x, DType dtype, Name name) {
  const Output typed = cast(x, dtype);
  return name.empty() ? typed : identity(typed, std::move(name));
}

}  // namespace

Output dft(Output x, DftOptions options) {
  if (!options.length.valid()) options.length = constant<std::int64_t>(*x.graph, -1);
  return add_op("DFT", {x, cast(options.length, DType::i64)},
                {{"axis", options.axis}, {"inverse", options.inverse}, {"onesided", options.onesided}},
                std::move(options.name));
}

namespace {

// An axis of a real tensor in one with a last dimension of complex numbers.
std::int64_t complex_axis(std::int64_t axis) { return axis < 0 ? axis - 1 : axis; }

}  // namespace

Output rfft(Output x, RealDftOptions options) {
  return dft(expand_dims(x, -1), {.axis = complex_axis(options.axis),
                                  .length = options.length,
                                  .onesided = true,
                                  .name = std::move(options.name)});
}
Output irfft(Output y, RealDftOptions options) {
  const Output real =
      dft(y, {.axis = complex_axis(options.axis), .length = options.length, .inverse = true, .onesided = true});
  return squeeze(real, -1, std::move(options.name));
}

Output fftn(Output x, DftAxesOptions options) {
  for (const std::int64_t axis : options.axes) x = dft(x, {.axis = complex_axis(axis), .inverse = options.inverse});
  return identity(x, std::move(options.name));
}
Output rfftn(Output x, const Integers& axes, Name name) {
  if (axes.empty()) invalid_argument("rfftn: there is no axis");
  const Output first = rfft(x, {.axis = axes.back()});
  return fftn(first, {.axes = Integers(axes.begin(), axes.end() - 1), .name = std::move(name)});
}
Output irfftn(Output y, const Integers& axes, Output length, Name name) {
  if (axes.empty()) invalid_argument("irfftn: there is no axis");
  const Output rest = fftn(y, {.axes = Integers(axes.begin(), axes.end() - 1), .inverse = true});
  return irfft(rest, {.axis = axes.back(), .length = length, .name = std::move(name)});
}

Output stft(Output x, Output frame_step, StftOptions options) {
  if (!options.window.valid() && !options.frame_length.valid())
    invalid_argument("stft: give a window, the frame length, or both");
  const Output length =
      options.frame_length.valid() ? cast(options.frame_length, DType::i64) : element_count(options.window);
  const Output frames = add_op("Frame", {x, length, cast(frame_step, DType::i64)});  // [batch,frames,length,c]
  Output windowed = frames;
  if (options.window.valid()) windowed = frames * expand_dims(options.window, Integers{-1});
  return dft(windowed, {.axis = 2, .onesided = options.onesided, .name = std::move(options.name)});
}

Output hann_window(Output size, bool periodic, DType dtype, Name name) {
  return named(0.5 - 0.5 * cos(phases(size, periodic)), dtype, std::move(name));
}
Output hamming_window(Output size, bool periodic, DType dtype, Name name) {
  constexpr double kAlpha = 25.0 / 46.0;
  return named(kAlpha - (1 - kAlpha) * cos(phases(size, periodic)), dtype, std::move(name));
}
Output blackman_window(Output size, bool periodic, DType dtype, Name name) {
  const Output phase = phases(size, periodic);
  const Output first = 0.42 - 0.5 * cos(phase);
  return named(first + 0.08 * cos(phase * 2.0), dtype, std::move(name));
}

Output mel_weight_matrix(Output bins, Output dft_length, Output sample_rate, Output lower_edge, Output upper_edge,
                         DType dtype, Name name) {
  const Output length = cast(dft_length, DType::i64), count = cast(bins, DType::i64);
  const Output weights = add_op("MelWeightMatrix", {count, length, cast(sample_rate, DType::i64),
                                                    cast(lower_edge, DType::f32), cast(upper_edge, DType::f32)});
  return named(weights, dtype, std::move(name));
}

}  // namespace troupe
