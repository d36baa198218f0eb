// Device part of softmax_launch.hpp: cross entropies.
#include <troupe/kernels/cuda/fault.cuh>
#include <troupe/kernels/cuda/softmax_rows.cuh>

namespace troupe {
namespace device {
namespace {

template <class Element>
struct SparseCrossEntropy {
  using T = Element;
  static constexpr bool kSecond = false, kExponential = true, kLoss = true;
  struct Row {
    std::int64_t label;
    T poison;  // 0, or NaN for an invalid label
    bool counts;
  };

  SoftmaxLabels given;
  std::int64_t classes;
  CudaFaultSite fault;
  T chosen;  // probability of the label's class beyond that of the others
  T share;   // probability of each class

  __device__ Row row(std::int64_t index) const {
    const std::int64_t label = given.wide ? static_cast<const std::int64_t*>(given.labels)[index]
                                          : static_cast<const std::int32_t*>(given.labels)[index];
    const bool counts = label != given.ignored;
    const bool known = (label >= 0 && label < classes) || !counts;
    if (!known) report(fault, label, index, classes);
    return {label, known ? T{0} : infinity_of(T{}) - infinity_of(T{}), counts};
  }
  __device__ T probability(const Row& row, std::int64_t column) const {
    return column == row.label ? chosen + share : share;
  }
  __device__ T emit(const Row& row, const Stats<T>& stats, std::int64_t column, T, T, T e) const {
    return row.counts ? e * stats.inverse - probability(row, column) + row.poison : T{0};
  }
  __device__ T loss(const Row& row, const Stats<T>& stats, std::int64_t column, T x, T) const {
    const T p = row.counts ? probability(row, column) : T{0};
    return (p == T{0} ? T{0} : p * (stats.log_value - (x - stats.maximum))) + row.poison;
  }
};

template <class Element>
struct CrossEntropy {
  using T = Element;
  static constexpr bool kSecond = true, kExponential = true, kLoss = true;
  struct Row {};

  __device__ Row row(std::int64_t) const { return {}; }
  __device__ T emit(Row, const Stats<T>& stats, std::int64_t, T, T z, T e) const { return e * stats.inverse - z; }
  __device__ T loss(Row, const Stats<T>& stats, std::int64_t, T x, T z) const {
    return z * (stats.log_value - (x - stats.maximum));
  }
};

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    sigmoid_cross_entropy(const T* logits, const T* labels, T* out, std::int64_t count, bool vectors) {
  using U = Compute<T>;
  constexpr int kVector = kVectorOf<T>;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads * kVector;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x) * kVector; i < count;
       i += step) {
    const auto one = [](T logit, T label) {
      const U x = widen(logit), z = widen(label);
      const U magnitude = x < U{0} ? -x : x, positive = x < U{0} ? U{0} : x;
      return narrow<T>(positive - x * z + log1p(exponential(-magnitude)));
    };
    if (i + kVector <= count) {
      T x[kVector], z[kVector];
      load<kVector>(logits + i, vectors, x);
      load<kVector>(labels + i, vectors, z);
#pragma unroll
      for (int v = 0; v < kVector; ++v) x[v] = one(x[v], z[v]);
      store<kVector>(out + i, vectors, x);
    } else {
      for (std::int64_t j = i; j < count; ++j) out[j] = one(logits[j], labels[j]);
    }
  }
}

}  // namespace
}  // namespace device

cudaError_t launch_sparse_cross_entropy(SoftmaxRows rows, const void* logits, const SoftmaxLabels& labels,
                                        CudaFaultSite fault, void* loss, void* backprop, cudaStream_t stream) {
  return device::launch_rows(rows, {.first = logits, .out = backprop, .loss = loss}, stream, [&]<class T>(T) {
    const auto smoothing = static_cast<T>(labels.smoothing);
    return device::SparseCrossEntropy<T>{labels, rows.width, fault, T{1} - smoothing,
                                         smoothing / static_cast<T>(rows.width)};
  });
}

cudaError_t launch_cross_entropy(SoftmaxRows rows, const void* logits, const void* labels, void* loss, void* backprop,
                                 cudaStream_t stream) {
  return device::launch_rows(rows, {logits, labels, backprop, loss}, stream,
                             [](auto t) { return device::CrossEntropy<decltype(t)>{}; });
}

cudaError_t launch_sigmoid_cross_entropy(DType dtype, std::int64_t count, const void* logits, const void* labels,
                                         void* out, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    const auto *x = static_cast<const T*>(logits), *z = static_cast<const T*>(labels);
    auto* to = static_cast<T*>(out);
    return device::launch(device::sigmoid_cross_entropy<T>,
                          device::blocks_for(count, device::kBlockThreads * device::kVectorOf<T>),
                          device::kBlockThreads, stream, x, z, to, count, device::aligned(x, z, to));
  });
}

}  // namespace troupe
