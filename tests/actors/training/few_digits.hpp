// A small set of drawn digits for tests that train.
#pragma once

#include <troupe/kernels/readers/digits.hpp>

namespace troupe::testing {

// Enough to see a loss fall: 320 images to train with, 100 to test.
inline const DataSplits& few_digits() {
  static const DataSplits data = draw_digits({.train = 320, .test = 100});
  return data;
}

}  // namespace troupe::testing
