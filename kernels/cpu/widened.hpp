// Tensors of f16 and bf16 as f32, for kernels that compute whole operands in f32 and round their results.
#pragma once

#include <utility>

#include <troupe/devices/kernel.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {

inline bool is_narrow(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
// The dtype of arithmetic.
inline DType wide_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// `t` in aligned memory and in wide_type().
inline Tensor widened_tensor(KernelContext& ctx, const Tensor& t) {
  if (!is_narrow(t.dtype())) return aligned(t);
  Tensor out = ctx.allocate(DType::f32, t.shape());
  dispatch(Types<Half, BFloat16>{}, t.dtype(), [&]<class T>() {
    convert_elements(ctx.parallelism(), t.data<T>(), out.mutable_data<float>(), t.num_elements());
  });
  return out;
}

// Sets an output of `dtype` from a value in wide_type().
inline void set_narrowed(KernelContext& ctx, int index, Tensor value, DType dtype) {
  if (!is_narrow(dtype)) return ctx.set_output(index, std::move(value));
  Tensor out = ctx.allocate(dtype, value.shape());
  dispatch(Types<Half, BFloat16>{}, dtype, [&]<class T>() {
    convert_elements(ctx.parallelism(), value.data<float>(), out.mutable_data<T>(), value.num_elements());
  });
  ctx.set_output(index, std::move(out));
}

}  // namespace troupe
