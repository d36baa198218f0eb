// The rate of Dropout, for all device types.
#pragma once

#include <troupe/messages/tensor.hpp>

namespace troupe {

// The value of `rate`, in host memory. Throws invalid_argument unless it is one f64 in [0, 1).
inline double dropout_rate(const Tensor& rate) {
  if (rate.dtype() != DType::f64 || rate.num_elements() != 1)
    invalid_argument("the dropout rate must be one f64, but is {}{}", name(rate.dtype()), rate.shape().to_string());
  const double value = rate.item<double>();
  if (!(value >= 0 && value < 1)) invalid_argument("the dropout rate is {}, not in [0, 1)", value);
  return value;
}

}  // namespace troupe
