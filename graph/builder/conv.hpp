// Builder API for convolutions (cross-correlations) of one to three dimensions.
//
// Images are [n, spatial..., c], filters [spatial..., in / groups, out]. With DataFormat::channels_first, images are
// [n, c, spatial...] and filters [out, in / groups, spatial...].
#pragma once

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/builder/padding.hpp>

namespace troupe {

// Along each spatial axis, y[o] = the sum over taps k of x[o * stride - before + k * dilation] filter[k], where x
// exists.
struct ConvOptions {
  Integers strides{};    // for each spatial axis; default 1
  Integers dilations{};  // default 1
  // Channels are split into so many equal groups; those of y depend on the same group of x only.
  std::int64_t groups = 1;
  Padding padding = Padding::same;
  Integers pads{};  // of Padding::explicit_pads: before each axis, then after each
  DataFormat format = DataFormat::channels_last;
  Name name{};
};
// Of any number of dimensions.
Output conv(Output x, Output filter, ConvOptions options = {});
Output conv1d(Output x, Output filter, ConvOptions options = {});  // x [n,w,c]
Output conv2d(Output x, Output filter, ConvOptions options = {});  // x [n,h,w,c]
Output conv3d(Output x, Output filter, ConvOptions options = {});  // x [n,d,h,w,c]
// Each channel with `multiplier` filters of its own: x [n,h,w,c], filter [kh,kw,c,multiplier] -> y
// [n,oh,ow,c * multiplier], with channel c * multiplier + m of y by filter [..,c,m]. With channels first, the filter is
// [c * multiplier,1,kh,kw]. options.groups is not used: the number of channels must be known.
Output depthwise_conv2d(Output x, Output filter, ConvOptions options = {});
// depthwise_conv2d, then a 1 x 1 convolution by `pointwise` [1,1,c * multiplier,out].
Output separable_conv2d(Output x, Output depthwise, Output pointwise, ConvOptions options = {});

struct ConvTransposeOptions {
  Integers strides{};
  Integers dilations{};
  std::int64_t groups = 1;
  Padding padding = Padding::same;
  Integers pads{};
  Integers output_padding{};  // elements more at the end of y, each below the stride
  DataFormat format = DataFormat::channels_last;
  Name name{};
};
// Transposed convolution: the linear map whose transpose is conv() with the same filter and options, from its y to its
// x. x [n, spatial..., in], filter [spatial..., out / groups, in] -> y [n, spatial..., out]. Along each axis, y has
//   (x - 1) stride + output_padding + (kernel - 1) dilation + 1 - before - after, or x stride if the padding is SAME.
Output conv_transpose(Output x, Output filter, ConvTransposeOptions options = {});
// With a y of these spatial sizes (i64), which conv() must map to x's.
Output conv_transpose(Output x, Output filter, Output sizes, ConvTransposeOptions options = {});
Output conv_transpose(Output x, Output filter, Integers sizes, ConvTransposeOptions options = {});

// How a block walks over an image: sizes for each spatial axis, pads before each axis, then after each.
struct BlockOptions {
  Integers strides{};    // default 1
  Integers dilations{};  // default 1
  Integers pads{};       // default 0
  Name name{};
};
// The elements of x [n,c,spatial...] below each place of a block: [n, c * elements of the block, places]; 0 in pads.
// The spatial dimensions must be known. PyTorch's unfold, TensorFlow's extract_patches of channels first.
Output im2col(Output x, const Integers& block, BlockOptions options = {});
// Its transpose: sums columns [n, c * elements of the block, places] to images [n,c,image...]. ONNX's Col2Im.
Output col2im(Output columns, const Integers& image, const Integers& block, BlockOptions options = {});

// Of integers, as ONNX's ConvInteger: (x - x_zero) convolved with (filter - filter_zero), i32. x and filter are i8 or
// u8; x_zero is a scalar, filter_zero a scalar or one for each output channel.
Output conv_integer(Output x, Output filter, Output x_zero, Output filter_zero, ConvOptions options = {});

}  // namespace troupe
