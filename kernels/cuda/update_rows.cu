// Updates by gradients of rows. f16 and bf16 are computed in float, each element rounded once.
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/update_rules.cuh>
#include <troupe/kernels/cuda/updates_launch.hpp>

namespace troupe {
namespace device {
namespace {

// The first of groups whose row is not below `row`.
__device__ inline std::int64_t group_of(const SparseUpdate& u, std::int64_t row) {
  std::int64_t low = 0, high = u.groups;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (u.rows[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// The sum of a group's values in a column, in order, from `sum` on.
template <class T>
__device__ Compute<T> added(const SparseUpdate& u, std::int64_t first, std::int64_t last, std::int64_t column,
                            Compute<T> sum) {
  const auto* values = static_cast<const T*>(u.values);
  for (std::int64_t k = first; k < last; ++k) sum += widen(values[u.order[k] * u.width + column]);
  return sum;
}

template <class T, class Rule>
__global__ void __launch_bounds__(kSweepThreads)
    update_rows(DecayedUpdate<T, Rule> rule, SparseUpdate u, const T* lr, const std::int64_t* t, CudaFaultSite fault) {
  constexpr int kSlots = DecayedUpdate<T, Rule>::kSlots;
  if (!goes_on(rule, t, fault)) return;
  const auto& scalars = rule.step_of_block(lr, t);
  const bool exact = u.all_rows > 0;
  const std::int64_t all = (exact ? u.all_rows : u.groups) * u.width,
                     step = static_cast<std::int64_t>(gridDim.x) * kSweepThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kSweepThreads + threadIdx.x; i < all; i += step) {
    const std::int64_t column = i % u.width;
    const std::int64_t group = exact ? group_of(u, i / u.width) : i / u.width;
    const std::int64_t row = exact ? i / u.width : u.rows[group];
    Compute<T> g{0};
    if (group < u.groups && u.rows[group] == row) {
      const std::int64_t first = u.begins[group], last = u.begins[group + 1];
      // Exact sums begin with 0, as those of a dense gradient.
      g = exact ? added<T>(u, first, last, column, g)
                : added<T>(u, first + 1, last, column,
                           widen(static_cast<const T*>(u.values)[u.order[first] * u.width + column]));
    }
    const std::int64_t at = row * u.width + column;
    T none{};
    rule(scalars, static_cast<T*>(u.state[0])[at], kSlots > 0 ? static_cast<T*>(u.state[1])[at] : none,
         kSlots > 1 ? static_cast<T*>(u.state[2])[at] : none, kSlots > 2 ? static_cast<T*>(u.state[3])[at] : none, g);
  }
}

}  // namespace
}  // namespace device

cudaError_t launch_sparse_update(DType dtype, const OptimizerRule& rule, const SparseUpdate& update, const void* lr,
                                 const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream) {
  const std::int64_t elements = (update.all_rows > 0 ? update.all_rows : update.groups) * update.width;
  return device::for_rule(
      device::FloatElements{}, dtype, rule, [&]<class T, class Rule>(const device::DecayedUpdate<T, Rule>& made) {
        return device::launch(device::update_rows<T, Rule>, device::blocks_for(elements, kSweepThreads), kSweepThreads,
                              stream, made, update, static_cast<const T*>(lr), t, fault);
      });
}

}  // namespace troupe
