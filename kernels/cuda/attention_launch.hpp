// Attention on a GPU: interface between host and device code. f32, f64, and f16 and bf16, which are computed in f32.
//
// As on the CPU (kernels/cpu/attention.hpp), scores exist for 64 queries and 64 keys at a time only (Dao 2023,
// "FlashAttention-2"). There are no atomic additions: bits depend on dtype and sizes only. A block of threads
// accumulates up to 128 columns of a result (f64: 64); wider results are made by several blocks, which compute the
// scores again.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/kernels/common/attention_geometry.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

struct AttentionMaskLaunch {
  const void* data = nullptr;  // bool, or of the data's dtype; null: no mask
  bool boolean = false;
  MaskGeometry geometry;
};

struct AttentionLaunch {
  DType dtype = DType::invalid;
  AttentionSizes sizes;  // at least one query, and a depth of at least 1
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  AttentionMaskLaunch mask;
};

// log_sums: f32, or f64 for f64.
cudaError_t launch_attention(const AttentionLaunch& l, void* y, void* log_sums, cudaStream_t stream);

struct AttentionGradLaunch {
  AttentionLaunch forward;
  const void* y = nullptr;
  const void* log_sums = nullptr;
  const void* dy = nullptr;
  void* deltas = nullptr;  // scratch: as log_sums
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  void* dmask = nullptr;  // null: not wanted
  std::int64_t mask_elements = 0;
};
// Three kernels, and one for dmask.
cudaError_t launch_attention_grad(const AttentionGradLaunch& l, cudaStream_t stream);

}  // namespace troupe
