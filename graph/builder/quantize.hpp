// Builder API for quantisation: integers q stand for (q - zero_point) scale. scale and zero_point are scalars, or
// vectors along `axis`.
#pragma once

#include <troupe/graph/builder/conv.hpp>
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

// Bytes q of a whole tensor stand for (q - zero) scale.
struct ByteSteps {
  double scale = 1;
  std::int64_t zero = 0;
};
struct QuantizedProductOptions {
  DType dtype = DType::f32;  // of the result: f32, i8 or u8
  ByteSteps y{};             // of an i8 or u8 result
  bool relu = false;
  Name name{};
};
// activation((x - zero) scale w scale_c + bias), where products of bytes have exact 32-bit sums. A result of 8 bits is
// rounded to nearest even and saturated; one that is nearly in the middle between two steps may become either.
//
// a [...,k], i8 or u8; b i8 [k,n]; b_scale f32 [] or [n]; bias f32 [n].
Output quantized_matmul(Output a, ByteSteps a_steps, Output b, Output b_scale, Output bias,
                        QuantizedProductOptions options = {});
// a f32 is quantised to u8 in each run, as by dynamic_quantize_linear(); the result is f32. options.dtype and options.y
// are not used.
Output dynamic_quantized_matmul(Output a, Output b, Output b_scale, Output bias, QuantizedProductOptions options = {});
// Bytes that are added before the activation: of the result's shape.
struct QuantizedResidual {
  Output values{};
  ByteSteps steps{};
};
// x [n,h,w,in], i8 or u8, padded with its zero; filter i8 [kh,kw,in / groups,out]; filter_scale f32 [] or [out]; bias
// f32 [out]. A residual needs a result of 8 bits. windows.format must be channels_last.
Output quantized_conv2d(Output x, ByteSteps x_steps, Output filter, Output filter_scale, Output bias,
                        const ConvOptions& windows = {}, QuantizedProductOptions options = {},
                        const QuantizedResidual& residual = {});

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
