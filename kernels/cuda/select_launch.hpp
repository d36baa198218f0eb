// Select and AddN: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <troupe/kernels/cuda/index_plan.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// out = condition ? a : b, broadcast. Elements have 1, 2, 4 or 8 bytes; the plan's width is 1 or the elements in 16
// bytes. Requires at least one element.
struct SelectArguments {
  const void* condition = nullptr;  // bool
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  std::size_t element_bytes = 0;
  IndexPlan<3> plan;
};
cudaError_t launch_select(const SelectArguments& arguments, cudaStream_t stream);

// out = ((x0 + x1) + x2) + ..., rounded after each; `out` may be x0.
inline constexpr int kMaxTerms = 32;
struct AddNArguments {
  const void* terms[kMaxTerms] = {};
  int num_terms = 0;  // at least 1
  void* out = nullptr;
  std::int64_t count = 0;
};
// Returns cudaErrorInvalidValue for a dtype that is not real.
cudaError_t launch_add_n(DType dtype, const AddNArguments& arguments, cudaStream_t stream);

}  // namespace troupe
