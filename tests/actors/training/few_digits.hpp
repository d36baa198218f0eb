// A small set of drawn digits for tests that train.
#pragma once

#include <troupe/kernels/readers/digits.hpp>

namespace troupe::testing {

// Enough to see a loss fall: 320 images to train with, 100 to test.
inline const DataSplits& few_digits() {
  static const DataSplits data = draw_digits({.train = 320, .test = 100});
  return data;
}

// The first images of a data set as floats from 0 to 1.
inline Tensor floats(const Dataset& data, std::int64_t count) {
  const Tensor pixels = data.images.rows(0, count);
  Tensor out(DType::f32, pixels.shape());
  for (std::int64_t i = 0; i < out.num_elements(); ++i)
    out.mutable_data<float>()[i] = static_cast<float>(pixels.data<std::uint8_t>()[i]) / 255.0f;
  return out;
}

}  // namespace troupe::testing
