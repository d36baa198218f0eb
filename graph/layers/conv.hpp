// Layers: convolutions and pools of one to three dimensions, and what changes the size of images. Images are
// [n, spatial..., channels]; sizes and strides have a number for each spatial axis.
#pragma once

#include <troupe/graph/builder/padding.hpp>
#include <troupe/graph/layers/activations.hpp>
#include <troupe/graph/layers/network.hpp>

// Each function throws invalid_argument for options that no input fits.
namespace troupe::layers {

struct ConvOptions {
  Integers strides{};    // default 1
  Integers dilations{};  // default 1
  std::int64_t groups = 1;
  Padding padding = Padding::valid;  // or same, same_lower
  // Of one dimension: as if preceded by zeros, so that a step depends on none after it. Not with same padding.
  bool causal = false;
  bool use_bias = true;
  WeightOptions kernel{};  // initialized by glorot_uniform()
  WeightOptions bias{};    // zeros()
  DType compute = DType::invalid;
};
// [n, spatial..., in] -> [n, spatial'..., filters], with kernel [size..., in / groups, filters] and bias [filters].
LayerPtr conv1d(std::int64_t filters, std::int64_t size, Activation activation = Activation::none,
                ConvOptions options = {});
LayerPtr conv2d(std::int64_t filters, std::int64_t size, Activation activation = Activation::none,
                ConvOptions options = {});
LayerPtr conv2d(std::int64_t filters, Integers size, Activation activation = Activation::none,
                ConvOptions options = {});
LayerPtr conv3d(std::int64_t filters, Integers size, Activation activation = Activation::none,
                ConvOptions options = {});

// Each channel with `multiplier` filters of its own: kernel [size..., in, multiplier], bias [in * multiplier]; without
// groups.
LayerPtr depthwise_conv1d(std::int64_t size, std::int64_t multiplier = 1, Activation activation = Activation::none,
                          ConvOptions options = {});
LayerPtr depthwise_conv2d(Integers size, std::int64_t multiplier = 1, Activation activation = Activation::none,
                          ConvOptions options = {});
// That, then a convolution of size 1 by `pointwise` [1..., in * multiplier, filters], which has the options of
// `kernel`, too.
LayerPtr separable_conv1d(std::int64_t filters, std::int64_t size, Activation activation = Activation::none,
                          ConvOptions options = {}, std::int64_t multiplier = 1);
LayerPtr separable_conv2d(std::int64_t filters, Integers size, Activation activation = Activation::none,
                          ConvOptions options = {}, std::int64_t multiplier = 1);

// The transpose of a convolution, which makes images larger: kernel [size..., filters / groups, in]. Along each axis
// the result has x stride elements for same padding, x stride + max(size - stride, 0) for valid padding.
LayerPtr conv1d_transpose(std::int64_t filters, std::int64_t size, Activation activation = Activation::none,
                          ConvOptions options = {});
LayerPtr conv2d_transpose(std::int64_t filters, Integers size, Activation activation = Activation::none,
                          ConvOptions options = {});
LayerPtr conv3d_transpose(std::int64_t filters, Integers size, Activation activation = Activation::none,
                          ConvOptions options = {});

struct PoolOptions {
  Integers strides{};  // default: the size
  Padding padding = Padding::valid;
};
// Over windows, by default without overlap; leftover rows and columns are ignored.
LayerPtr max_pool(std::int64_t size);  // of two dimensions, size x size
LayerPtr average_pool(std::int64_t size);
LayerPtr max_pool(std::int64_t size, std::int64_t stride, Padding padding);
LayerPtr max_pool1d(std::int64_t size, PoolOptions options = {});
LayerPtr max_pool2d(Integers size, PoolOptions options = {});
LayerPtr max_pool3d(Integers size, PoolOptions options = {});
LayerPtr average_pool1d(std::int64_t size, PoolOptions options = {});
LayerPtr average_pool2d(Integers size, PoolOptions options = {});
LayerPtr average_pool3d(Integers size, PoolOptions options = {});
// [n, spatial..., c] -> [n, c]: over all positions; the average takes a mask, too, bool [n, spatial...]: over those
// where it is true, 0 if there are none.
LayerPtr global_average_pool();
LayerPtr global_max_pool();

enum class Interpolation { nearest, linear, cubic };
// Each element factors[i] times along spatial axis i. Linear and cubic: half-pixel centres; Keras has them for two
// dimensions.
LayerPtr up_sampling(Integers factors, Interpolation interpolation = Interpolation::nearest);
// Zeros before and after the elements of each spatial axis; elements less.
LayerPtr zero_padding(Integers before, Integers after);
LayerPtr cropping(Integers before, Integers after);

}  // namespace troupe::layers
