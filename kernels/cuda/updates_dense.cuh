// Updates of whole variables by one kernel; for sources that compile it for some of the dtypes, in parallel.
#pragma once

#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/update_rules.cuh>
#include <troupe/kernels/cuda/updates_launch.hpp>

namespace troupe {
namespace device {
namespace {

template <class T, class Rule>
__global__ void __launch_bounds__(kSweepThreads)
    update_all(DecayedUpdate<T, Rule> rule, const __grid_constant__ UpdateTable table, const T* lr,
               const std::int64_t* t, CudaFaultSite fault) {
  constexpr int kVector = kVectorOf<T>, kSlots = DecayedUpdate<T, Rule>::kSlots;
  if (!goes_on(rule, t, fault)) return;
  const auto& step = rule.step_of_block(lr, t);
  const SweepEntry<kUpdatePointers>& entry = table.entries[table.entry_of(blockIdx.x)];
  T* const var = static_cast<T*>(entry.pointers[0]);
  T* const slot1 = static_cast<T*>(entry.pointers[1]);
  T* const slot2 = static_cast<T*>(entry.pointers[2]);
  T* const slot3 = static_cast<T*>(entry.pointers[3]);
  const T* const grad = static_cast<const T*>(entry.pointers[4]);
  const auto address = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  const bool vectors = (address(var) | address(slot1) | address(slot2) | address(slot3) | address(grad)) % 16 == 0;
  const std::int64_t begin = (blockIdx.x - entry.first_block) * kSweepElements,
                     end = min(begin + kSweepElements, entry.count);
#pragma unroll 2
  for (std::int64_t i = begin + threadIdx.x * kVector; i < end; i += kSweepThreads * kVector) {
    if (i + kVector <= end) {
      T x[kVector], a[kVector] = {}, b[kVector] = {}, c[kVector] = {}, g[kVector];
      load<kVector>(var + i, vectors, x);
      if constexpr (kSlots > 0) load<kVector>(slot1 + i, vectors, a);
      if constexpr (kSlots > 1) load<kVector>(slot2 + i, vectors, b);
      if constexpr (kSlots > 2) load<kVector>(slot3 + i, vectors, c);
      load<kVector>(grad + i, vectors, g);
#pragma unroll
      for (int v = 0; v < kVector; ++v) rule(step, x[v], a[v], b[v], c[v], widen(g[v]));
      store<kVector>(var + i, vectors, x);
      if constexpr (kSlots > 0) store<kVector>(slot1 + i, vectors, a);
      if constexpr (kSlots > 1) store<kVector>(slot2 + i, vectors, b);
      if constexpr (kSlots > 2) store<kVector>(slot3 + i, vectors, c);
    } else {
      for (std::int64_t j = i; j < end; ++j) {
        T none{};
        rule(step, var[j], kSlots > 0 ? slot1[j] : none, kSlots > 1 ? slot2[j] : none, kSlots > 2 ? slot3[j] : none,
             widen(grad[j]));
      }
    }
  }
}

template <class Floats>
cudaError_t launch_updates_of(Floats floats, DType dtype, const OptimizerRule& rule, const UpdateTable& table,
                              const void* lr, const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream) {
  return for_rule(floats, dtype, rule, [&]<class T, class Rule>(const DecayedUpdate<T, Rule>& update) {
    return launch(update_all<T, Rule>, static_cast<unsigned>(table.blocks), kSweepThreads, stream, update, table,
                  static_cast<const T*>(lr), t, fault);
  });
}

}  // namespace
}  // namespace device
}  // namespace troupe
