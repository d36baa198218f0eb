// Histograms of tensors with the buckets that TensorFlow's have, so that TensorBoard can lay them over each other: the
// limits are 0 and, on both sides of it, 1e-12 1.1^n up to 1e20, and the greatest double.
#pragma once

#include <vector>

#include "messages/proto/tensorboard.pb.h"
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Ascending. A bucket is [limit before, limit): a value that is a limit counts in the bucket above.
const std::vector<double>& histogram_limits();

// Of the finite values of a tensor of numbers in host memory; `num` says how many they are. Empty buckets in a row are
// one; there are none below the least value, where TensorBoard begins the first bucket, and none above the greatest,
// where it ends the last. Throws invalid_argument for a tensor of other things.
proto::tensorboard::Histogram histogram_of(const Tensor& values);

}  // namespace troupe
