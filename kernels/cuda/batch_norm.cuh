// Per-channel state of the batch normalisation kernels. The forward pass computes y, and a gradient that checks whether
// y was above 0 recomputes it with identical bits.
#pragma once

#include <troupe/kernels/cuda/column_walk.cuh>
#include <troupe/kernels/cuda/norm_columns.cuh>

namespace troupe::device {

inline constexpr std::int64_t kRowsOfThread = 16;  // in the kernels that write y and dx

template <class U>
struct BatchNormParameters {
  const U *scale, *offset, *mean;
  const U* inverse;  // null if not known
  bool relu;
};

template <class U>
BatchNormParameters<U> batch_norm_parameters(const BatchNormLaunch& l, const void* mean, const void* inverse) {
  return {static_cast<const U*>(l.scale), static_cast<const U*>(l.offset), static_cast<const U*>(mean),
          static_cast<const U*>(inverse), l.relu};
}

// State of kVector adjacent channels.
template <class T, int kVector>
struct BatchNormColumns {
  using U = Compute<T>;
  U mean[kVector], factor[kVector], offset[kVector];

  __device__ void load(const BatchNormParameters<U>& p, std::int64_t column) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      mean[v] = p.mean[column + v];
      factor[v] = p.inverse ? p.scale[column + v] * p.inverse[column + v] : U{0};
      offset[v] = p.offset[column + v];
    }
  }
  // y before rounding to T and before relu.
  __device__ U result(int v, U x) const { return (x - mean[v]) * factor[v] + offset[v]; }
};

}  // namespace troupe::device
