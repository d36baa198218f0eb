// Normalisation on a GPU: interface between host and device code. Formulas: kernels/cpu/batch_norm.hpp,
// layer_norm.hpp, rms_norm.hpp and group_norm.hpp.
//
// T is the dtype of the data; U, the dtype of scales, offsets and statistics, is f32, or f64 for f64. Statistics
// accumulate in U over runs of at most 33 rows, with the first row subtracted so that a large mean costs no precision,
// and are joined in f64. Bits depend only on dtype and shape.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <troupe/kernels/cuda/reduce_plan.hpp>

namespace troupe {

inline constexpr std::size_t kNormPartialBytes = 16;

// [rows, width], each at least 1.
struct NormColumns {
  DType dtype = DType::invalid;  // T
  std::int64_t rows = 1;
  std::int64_t width = 1;
  ReduceGrid grid;          // reduce_grid() for reductions over rows
  void* partial = nullptr;  // kNormPartialBytes per chunk and column; only for column reductions
};

// Pointers are to U [width] unless noted otherwise.
struct BatchNormLaunch {
  const void* x = nullptr;  // T
  const void* scale = nullptr;
  const void* offset = nullptr;
  bool relu = false;
  double epsilon = 0;
};

// Three kernels: x is read twice, y written once.
cudaError_t launch_batch_norm(const NormColumns& columns, const BatchNormLaunch& l, void* y, void* mean, void* variance,
                              void* inverse, cudaStream_t stream);
cudaError_t launch_batch_norm_inference(const NormColumns& columns, const BatchNormLaunch& l, const void* mean,
                                        const void* variance, void* y, cudaStream_t stream);
// Three kernels: dy and x are read twice, dx written once. dx may be dy or x.
cudaError_t launch_batch_norm_grad(const NormColumns& columns, const BatchNormLaunch& l, const void* dy,
                                   const void* mean, const void* inverse, void* dx, void* dscale, void* doffset,
                                   cudaStream_t stream);

// mean and inverse are U [rows]. Without mean, offset and doffset (null): normalisation by root mean squares.
struct LayerNormLaunch {
  const void* x = nullptr;  // T
  const void* scale = nullptr;
  const void* offset = nullptr;  // forward only
  double epsilon = 0;            // forward only
};
// One kernel; x is read from memory once if a row stays in the cache.
cudaError_t launch_layer_norm(const NormColumns& columns, const LayerNormLaunch& l, void* y, void* mean, void* inverse,
                              cudaStream_t stream);
// Three kernels: dy and x are read twice, dx written once.
cudaError_t launch_layer_norm_grad(const NormColumns& columns, const LayerNormLaunch& l, const void* dy,
                                   const void* mean, const void* inverse, void* dx, void* dscale, void* doffset,
                                   cudaStream_t stream);

// x is [examples, groups, channels of a group, positions], each at least 1. Moments of a group are sums in f64.
struct GroupNormLaunch {
  DType dtype = DType::invalid;  // T
  std::int64_t examples = 1, groups = 1, channels = 1, positions = 1;
  const void* x = nullptr;       // T
  const void* scale = nullptr;   // [groups * channels], and so are dscale and doffset
  const void* offset = nullptr;  // the same; forward only
  double epsilon = 0;            // forward only
};
// mean and inverse: [examples, groups]. One kernel.
cudaError_t launch_group_norm(const GroupNormLaunch& l, void* y, void* mean, void* inverse, cudaStream_t stream);
// partial: kNormPartialBytes per example and channel. Three kernels: dy and x are read twice.
cudaError_t launch_group_norm_grad(const GroupNormLaunch& l, const void* dy, const void* mean, const void* inverse,
                                   void* dx, void* dscale, void* doffset, void* partial, cudaStream_t stream);

}  // namespace troupe
