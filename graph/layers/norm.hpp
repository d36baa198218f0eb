// Layers: normalisations, and noise in training. Parameters and statistics of normalisations are f32, or f64 if the
// data is.
#pragma once

#include <troupe/graph/layers/activations.hpp>
#include <troupe/graph/layers/network.hpp>

// Each function throws invalid_argument for options that no input fits.
namespace troupe::layers {

struct BatchNormOptions {
  double momentum = 0.9;  // the fraction that a running average keeps per step, in [0, 1)
  double epsilon = 1e-5;
  WeightOptions scale{};   // initialized to ones
  WeightOptions offset{};  // to zeros
};
// [..., c] -> the same shape (graph/builder/norm.hpp), with variables scale and offset, and the running averages mean
// and variance, all [c]. Training normalises with the statistics of the slot's batch, which the averages follow
// (graph/optimizers/running_average.hpp); otherwise, and in frozen layers, the averages are used. relu is computed in
// the same kernel.
LayerPtr batch_norm(Activation activation = Activation::none, BatchNormOptions options = {});

struct LayerNormOptions {
  double epsilon = 1e-5;
  std::int64_t dimensions = 1;  // the last ones, which are normalised together
  bool use_scale = true;
  bool use_offset = true;  // not of rms_norm
  WeightOptions scale{};
  WeightOptions offset{};
};
// [..., c] -> the same shape, each row on its own, with variables scale and offset [c], or of all its dimensions.
LayerPtr layer_norm(LayerNormOptions options = {});
// x / sqrt(mean(x^2) + epsilon) scale.
LayerPtr rms_norm(LayerNormOptions options = {.epsilon = 1e-6});

struct GroupNormOptions {
  double epsilon = 1e-5;
  WeightOptions scale{};
  WeightOptions offset{};
};
// [n, ..., c]: channels are cut into groups that are normalised together, in each example on its own, with variables
// scale and offset [c]; instance_norm: each channel alone.
LayerPtr group_norm(std::int64_t groups = 32, GroupNormOptions options = {});
LayerPtr instance_norm(GroupNormOptions options = {});
// x / sqrt(max(sum of x^2 over the axes, 1e-12)).
LayerPtr unit_norm(Integers axes = {-1});

// Noise that only training has. `rate` is in [0, 1); the seed makes another choice of random numbers.
// Zeroes each element with probability `rate` and scales the others by 1 / (1 - rate).
LayerPtr dropout(double rate, std::int64_t seed = 0);
// The same for whole channels of images [n, spatial..., channels].
LayerPtr spatial_dropout(double rate, std::int64_t seed = 0);
// Adds normal numbers.
LayerPtr gaussian_noise(double stddev, std::int64_t seed = 0);
// Multiplies with normal numbers of mean 1 and variance rate / (1 - rate).
LayerPtr gaussian_dropout(double rate, std::int64_t seed = 0);
// Dropout that keeps mean and variance of what selu gives (Klambauer et al. 2017).
LayerPtr alpha_dropout(double rate, std::int64_t seed = 0);

}  // namespace troupe::layers
