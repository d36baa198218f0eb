// Host code shared by the elementwise families: shapes, memory, and how to walk the operands.
#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>

#include <troupe/kernels/common/elementwise.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/elementwise_launch.hpp>
#include <troupe/messages/function_ref.hpp>

namespace troupe {

inline constexpr std::initializer_list<DType> kFloatDTypes{DType::f32, DType::f64, DType::f16, DType::bf16};
inline constexpr std::initializer_list<DType> kRealDTypes{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                                                          DType::u8,  DType::i16, DType::i32, DType::i64};
inline constexpr std::initializer_list<DType> kDataDTypes{DType::f32, DType::f64,    DType::f16, DType::bf16,
                                                          DType::i8,  DType::u8,     DType::i16, DType::i32,
                                                          DType::i64, DType::boolean};

// Runs out = op(a, b), broadcasting; skips `launch` if there are no elements. `op` is used in error messages.
void run_binary(KernelContext& context, const char* op, DType out,
                FunctionRef<cudaError_t(const BinaryArguments&)> launch);

// Makes a one-element host tensor from a real attribute.
Tensor host_scalar(DType dtype, double value);

}  // namespace troupe
