// Update rules of optimizers on a GPU, between host and device code: the operations of kernels/cpu/updates.cpp in the
// same order. f32 and f64.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/graph/optimizers/optimizer_rules.hpp>
#include <troupe/kernels/cuda/sweep.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// The variable, its slots (null for those that a rule does not have), the gradient.
inline constexpr int kUpdatePointers = 4;
using UpdateTable = SweepTable<kUpdatePointers>;

// Changes the variables of the table and their slots. lr: one element of dtype. t: the number of the update as one i64,
// if the rule counts them; below 1 it is a fault. After a fault, of this kernel or one before it, nothing changes.
cudaError_t launch_updates(DType dtype, const OptimizerRule& rule, const UpdateTable& table, const void* lr,
                           const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream);

// Gradients of rows: those of one row are summed in order first.
struct SparseUpdate {
  void* state[3];              // the variable and its slots
  const void* values;          // [n, width]
  std::int64_t width;          // at least 1
  std::int64_t groups;         // rows that change; at least 1
  const std::int64_t* begins;  // [groups + 1]: where each one's positions begin in `order`
  const std::int64_t* order;   // [n]: positions in `values`
  const std::int64_t* rows;    // [groups]
};
cudaError_t launch_sparse_update(DType dtype, const OptimizerRule& rule, const SparseUpdate& update, const void* lr,
                                 const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream);

}  // namespace troupe
