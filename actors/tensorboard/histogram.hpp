// Histograms of tensors with TensorFlow's buckets, so that TensorBoard can overlay them: the limits are 0, on both
// sides of it 1e-12 1.1^n up to 1e20, and the greatest double.
#pragma once

#include <vector>

#include "messages/proto/tensorboard.pb.h"
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Ascending. A bucket is [previous limit, limit): a value equal to a limit counts in the bucket above.
const std::vector<double>& histogram_limits();

// The histogram of the finite values of a numeric tensor in host memory; `num` is their count. Merges consecutive empty
// buckets; has none below the least value, where TensorBoard begins the first bucket, and none above the greatest,
// where it ends the last. Throws invalid_argument for a tensor that is not numeric.
proto::tensorboard::Histogram histogram_of(const Tensor& values);

}  // namespace troupe
