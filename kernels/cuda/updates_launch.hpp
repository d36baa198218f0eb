// Optimizer update rules on a GPU: interface between host and device code. Same operations in the same order as
// kernels/cpu/update_loops.cpp. f32, f64, f16, bf16.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/graph/optimizers/optimizer_rules.hpp>
#include <troupe/kernels/cuda/sweep.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// The variable, its slots (null for unused ones), the gradient.
inline constexpr int kUpdatePointers = 5;
using UpdateTable = SweepTable<kUpdatePointers>;

// Updates the variables of the table and their slots. lr: one element of dtype. t: the number of the update as one i64,
// if the rule counts updates; below 1 is a fault. After a fault in this kernel or an earlier one, nothing changes.
cudaError_t launch_updates(DType dtype, const OptimizerRule& rule, const UpdateTable& table, const void* lr,
                           const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream);
// Its part for f16 and bf16.
cudaError_t launch_narrow_updates(DType dtype, const OptimizerRule& rule, const UpdateTable& table, const void* lr,
                                  const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream);

// Row gradients: those of one row are first summed in order, in float if they are narrower.
struct SparseUpdate {
  void* state[4];         // the variable and its slots
  const void* values;     // [n, width]
  std::int64_t width;     // at least 1
  std::int64_t groups;    // rows with gradients; at least 1, or 0 if all_rows is not
  std::int64_t all_rows;  // of the variable, if those without gradients are updated by 0 (SlotUpdates::exact); or 0
  const std::int64_t* begins;  // [groups + 1]: start of each group's positions in `order`
  const std::int64_t* order;   // [n]: positions in `values`
  const std::int64_t* rows;    // [groups], ascending
};
cudaError_t launch_sparse_update(DType dtype, const OptimizerRule& rule, const SparseUpdate& update, const void* lr,
                                 const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream);

}  // namespace troupe
