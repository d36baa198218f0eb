// Device part of select_launch.hpp.
#include <troupe/kernels/cuda/elementwise.cuh>
#include <troupe/kernels/cuda/select_launch.hpp>

namespace troupe {
namespace device {
namespace {

template <class T, int kWidth>
__global__ __launch_bounds__(kMostThreads) void select_kernel(const __grid_constant__ SelectArguments arguments) {
  constexpr int kItems = kUnrollOf<kWidth>;
  const IndexPlan<3>& plan = arguments.plan;
  const auto* condition = static_cast<const bool*>(arguments.condition);
  const auto* a = static_cast<const T*>(arguments.a);
  const auto* b = static_cast<const T*>(arguments.b);
  auto* out = static_cast<T*>(arguments.out);
  Pack<bool, kWidth> which[kItems];
  Pack<T, kWidth> x[kItems], y[kItems];
#pragma unroll
  for (int u = 0; u < kItems; ++u) {
    const std::int64_t item = item_of_thread<kItems>(u);
    if (item >= plan.items) continue;
    const Offsets<3> offsets = locate(plan, item);
    which[u] = load_operand<kWidth>(condition + offsets.of[0], plan.moves[0]);
    x[u] = load_operand<kWidth>(a + offsets.of[1], plan.moves[1]);
    y[u] = load_operand<kWidth>(b + offsets.of[2], plan.moves[2]);
  }
#pragma unroll
  for (int u = 0; u < kItems; ++u) {
    const std::int64_t item = item_of_thread<kItems>(u);
    if (item >= plan.items) continue;
    Pack<T, kWidth> result;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) result.values[i] = which[u].values[i] ? x[u].values[i] : y[u].values[i];
    store_pack(result, out + item * kWidth);
  }
  if (const std::int64_t at = rest_of_thread(plan.items, kWidth, plan.rest); at >= 0)
    out[at] = condition[plan.moves[0] ? at : 0] ? a[plan.moves[1] ? at : 0] : b[plan.moves[2] ? at : 0];
}

template <class T>
cudaError_t select(const SelectArguments& arguments, cudaStream_t stream) {
  constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  const auto launch = [&]<int kWide>(std::integral_constant<int, kWide>) {
    const LaunchGrid grid = grid_for(arguments.plan.items, kUnrollOf<kWide>, kMostThreads);
    return device::launch(select_kernel<T, kWide>, grid.blocks, grid.threads, stream, arguments);
  };
  if (arguments.plan.width == kWidth) return launch(std::integral_constant<int, kWidth>{});
  if (arguments.plan.width == 1) return launch(std::integral_constant<int, 1>{});
  return cudaErrorInvalidValue;
}

template <class T, int kWidth>
__global__ __launch_bounds__(kMostThreads) void add_n_kernel(const __grid_constant__ AddNArguments arguments,
                                                             std::int64_t items, int rest) {
  constexpr int kItems = kUnrollOf<kWidth>;
  Pack<T, kWidth> sums[kItems] = {};
  for (int t = 0; t < arguments.num_terms; ++t) {
    const auto* term = static_cast<const T*>(arguments.terms[t]);
    Pack<T, kWidth> next[kItems];
#pragma unroll
    for (int u = 0; u < kItems; ++u)
      if (const std::int64_t item = item_of_thread<kItems>(u); item < items)
        next[u] = load_pack<kWidth>(term + item * kWidth);
#pragma unroll
    for (int u = 0; u < kItems; ++u)
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        sums[u].values[i] = t == 0 ? next[u].values[i] : rounded_sum(sums[u].values[i], next[u].values[i]);
  }
  auto* out = static_cast<T*>(arguments.out);
#pragma unroll
  for (int u = 0; u < kItems; ++u)
    if (const std::int64_t item = item_of_thread<kItems>(u); item < items) store_pack(sums[u], out + item * kWidth);
  if (const std::int64_t at = rest_of_thread(items, kWidth, rest); at >= 0) {
    T sum = static_cast<const T*>(arguments.terms[0])[at];
    for (int t = 1; t < arguments.num_terms; ++t) sum = rounded_sum(sum, static_cast<const T*>(arguments.terms[t])[at]);
    out[at] = sum;
  }
}

template <class T>
cudaError_t add_n(const AddNArguments& arguments, cudaStream_t stream) {
  constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  bool wide = is_multiple(arguments.out, 16);
  for (int t = 0; t < arguments.num_terms; ++t) wide = wide && is_multiple(arguments.terms[t], 16);
  const auto launch = [&]<int kWide>(std::integral_constant<int, kWide>) {
    const LaunchGrid grid = grid_for(arguments.count / kWide, kUnrollOf<kWide>, kMostThreads);
    return device::launch(add_n_kernel<T, kWide>, grid.blocks, grid.threads, stream, arguments, arguments.count / kWide,
                          static_cast<int>(arguments.count % kWide));
  };
  return wide ? launch(std::integral_constant<int, kWidth>{}) : launch(std::integral_constant<int, 1>{});
}

}  // namespace
}  // namespace device

cudaError_t launch_select(const SelectArguments& arguments, cudaStream_t stream) {
  switch (arguments.element_bytes) {
    case 1:
      return device::select<std::uint8_t>(arguments, stream);
    case 2:
      return device::select<std::uint16_t>(arguments, stream);
    case 4:
      return device::select<std::uint32_t>(arguments, stream);
    case 8:
      return device::select<std::uint64_t>(arguments, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t launch_add_n(DType dtype, const AddNArguments& arguments, cudaStream_t stream) {
  if (arguments.count == 0) return cudaSuccess;
  return device::dispatch(device::RealElements{}, dtype,
                          [&]<class T>() { return device::add_n<T>(arguments, stream); });
}

}  // namespace troupe
