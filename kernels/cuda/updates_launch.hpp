// Optimizer update rules on a GPU: interface between host and device code. Same operations in the same order as
// kernels/cpu/updates.cpp. f32, f64, f16, bf16.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/graph/optimizers/optimizer_rules.hpp>
#include <troupe/kernels/cuda/sweep.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// The variable, its slots (null for unused ones), the gradient.
inline constexpr int kUpdatePointers = 4;
using UpdateTable = SweepTable<kUpdatePointers>;

// Updates the variables of the table and their slots. lr: one element of dtype. t: the number of the update as one i64,
// if the rule counts updates; below 1 is a fault. After a fault in this kernel or an earlier one, nothing changes.
cudaError_t launch_updates(DType dtype, const OptimizerRule& rule, const UpdateTable& table, const void* lr,
                           const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream);

// Row gradients: those of one row are first summed in order, in float if they are narrower.
struct SparseUpdate {
  void* state[3];              // the variable and its slots
  const void* values;          // [n, width]
  std::int64_t width;          // at least 1
  std::int64_t groups;         // rows to change; at least 1
  const std::int64_t* begins;  // [groups + 1]: start of each group's positions in `order`
  const std::int64_t* order;   // [n]: positions in `values`
  const std::int64_t* rows;    // [groups]
};
cudaError_t launch_sparse_update(DType dtype, const OptimizerRule& rule, const SparseUpdate& update, const void* lr,
                                 const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream);

}  // namespace troupe
