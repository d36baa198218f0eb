// Builder API for quantisation: integers q stand for (q - zero_point) scale. scale and zero_point are scalars, or
// vectors along `axis`.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct QuantizeOptions {
  std::int64_t axis = 1;
  Name name{};
};
// round(x / scale) + zero_point, halves to even, clipped to the limits of zero_point's dtype (i8, u8, i16 or u16),
// which is that of the result. NaN becomes the zero point. x and scale: f32, f16 or bf16.
Output quantize_linear(Output x, Output scale, Output zero_point, QuantizeOptions options = {});
// (x - zero_point) scale. x and zero_point: of one dtype, as above or i32.
Output dequantize_linear(Output x, Output scale, Output zero_point, QuantizeOptions options = {});

struct DynamicallyQuantized {
  Output y{};           // u8
  Output scale{};       // a scalar of x's dtype
  Output zero_point{};  // u8
};
// Quantises x to u8 with the scale and zero point that fit its least and greatest element and 0.
DynamicallyQuantized dynamic_quantize_linear(Output x, Name name = {});

struct FakeQuantizeOptions {
  double lowest = -128;  // limits of the integers
  double highest = 127;
  std::int64_t axis = 1;
  Name name{};
};
// What remains of x after quantize_linear() and dequantize_linear(), for training: all floating. The gradient passes
// straight through the rounding (Bengio, Leonard & Courville 2013): that of x is dy where x was not clipped, else 0;
// that of scale is as in Esser et al. 2019, "Learned step size quantization". zero_point is floating and whole.
Output fake_quantize(Output x, Output scale, Output zero_point, FakeQuantizeOptions options = {});

}  // namespace troupe
