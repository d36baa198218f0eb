// Device part of norm_launch.hpp: layer normalisation, and that by root mean squares, which is the same without a mean
// and an offset: null pointers.
#include <troupe/kernels/cuda/norm_columns.cuh>
#include <troupe/kernels/cuda/norm_rows.cuh>

namespace troupe {
namespace device {
namespace {

// Reads each row three times, or twice without a mean; all but the first read should hit the cache.
template <class T, int kVector>
__global__ void __launch_bounds__(kNormThreads)
    normalise_rows(const T* x, const Compute<T>* scale, const Compute<T>* offset, double epsilon, T* y,
                   Compute<T>* mean, Compute<T>* inverse, std::int64_t rows, std::int64_t width, int across,
                   bool vectors) {
  using U = Compute<T>;
  __shared__ U room[32];
  const Team<U> team{across, room};
  const int thread = static_cast<int>(threadIdx.x), lane = thread % across;
  const std::int64_t per_block = kNormThreads / across;
  for (std::int64_t first = blockIdx.x * per_block; first < rows;
       first += gridDim.x * per_block) {  // the same for the whole block
    const std::int64_t row = first + thread / across, own = row < rows ? width : 0;
    const T* from = x + (row < rows ? row : 0) * width;
    U sum = 0, rest = 0, squares = 0;
    if (mean)
      along_row<kVector>(from, own, lane, across, vectors, [&](std::int64_t, const T(&values)[kVector]) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) sum += widen(values[v]);
      });
    const U rounded = mean ? team.sum(sum) / static_cast<U>(width) : U{0};
    along_row<kVector>(from, own, lane, across, vectors, [&](std::int64_t, const T(&values)[kVector]) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        const U distance = widen(values[v]) - rounded;
        rest += distance;  // rounding error of the mean
        squares += distance * distance;
      }
    });
    rest = mean ? team.sum(rest) : U{0};
    squares = team.sum(squares);
    const double off = static_cast<double>(rest) / static_cast<double>(width);
    const U middle = static_cast<U>(static_cast<double>(rounded) + off);
    const double distance = static_cast<double>(squares) - off * static_cast<double>(rest);
    const U by = static_cast<U>(1 / sqrt(distance / static_cast<double>(width) + epsilon));
    if (lane == 0 && row < rows) {
      if (mean) mean[row] = middle;
      inverse[row] = by;
    }
    along_row<kVector>(from, own, lane, across, vectors, [&](std::int64_t column, const T(&values)[kVector]) {
      T out[kVector];
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        const U scaled = (widen(values[v]) - middle) * by * scale[column + v];
        out[v] = narrow<T>(offset ? scaled + offset[column + v] : scaled);
      }
      store<kVector>(y + row * width + column, vectors, out);
    });
  }
}

// Sums of dy and of dy x^, with per-row statistics.
template <class T>
struct RowGradientSums {
  using Join = Sums;
  using U = Compute<T>;
  const T *dy, *x;
  const U *mean, *inverse;
  std::int64_t width;

  template <int kVector>
  __device__ double accumulate(std::int64_t row, std::int64_t end, std::int64_t step, std::int64_t column, bool vectors,
                               Pair (&totals)[kVector]) const {
    while (row < end) {
      U sum[kVector], products[kVector];
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[v] = products[v] = 0;
#pragma unroll 4
      for (int n = 0; n < kRunRows && row < end; ++n, row += step) {
        T flows[kVector], values[kVector];
        load<kVector>(dy + row * width + column, vectors, flows);
        load<kVector>(x + row * width + column, vectors, values);
        const U middle = mean ? mean[row] : U{0}, by = inverse[row];
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          const U d = widen(flows[v]);
          sum[v] += d;
          products[v] += d * ((widen(values[v]) - middle) * by);
        }
      }
#pragma unroll
      for (int v = 0; v < kVector; ++v)
        totals[v] = Sums::join(totals[v], 0, {static_cast<double>(sum[v]), static_cast<double>(products[v])}, 0);
    }
    return 0;
  }
};

// dx = inverse (g - mean(g) - x^ mean(g x^)), g = dy scale; without a mean, mean(g) is left out.
template <class T, int kVector>
__global__ void __launch_bounds__(kNormThreads)
    normalise_rows_grad(const T* dy, const T* x, const Compute<T>* scale, const Compute<T>* mean,
                        const Compute<T>* inverse, T* dx, std::int64_t rows, std::int64_t width, int across,
                        bool vectors) {
  using U = Compute<T>;
  __shared__ U room[32];
  const Team<U> team{across, room};
  const int thread = static_cast<int>(threadIdx.x), lane = thread % across;
  const std::int64_t per_block = kNormThreads / across;
  for (std::int64_t first = blockIdx.x * per_block; first < rows;
       first += gridDim.x * per_block) {  // the same for the whole block
    const std::int64_t row = first + thread / across, at = (row < rows ? row : 0) * width, own = row < rows ? width : 0;
    const U middle = mean ? mean[row < rows ? row : 0] : U{0}, by = inverse[row < rows ? row : 0];
    U sum = 0, products = 0;
    along_row<kVector>(dy + at, own, lane, across, vectors, [&](std::int64_t column, const T(&flows)[kVector]) {
      T values[kVector];
      load<kVector>(x + at + column, vectors, values);
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        const U g = widen(flows[v]) * scale[column + v];
        sum += g;
        products += g * ((widen(values[v]) - middle) * by);
      }
    });
    const U a = mean ? team.sum(sum) / static_cast<U>(width) : U{0}, b = team.sum(products) / static_cast<U>(width);
    along_row<kVector>(dy + at, own, lane, across, vectors, [&](std::int64_t column, const T(&flows)[kVector]) {
      T values[kVector];
      load<kVector>(x + at + column, vectors, values);
#pragma unroll
      for (int v = 0; v < kVector; ++v)
        values[v] = narrow<T>(by * (widen(flows[v]) * scale[column + v] - a - (widen(values[v]) - middle) * by * b));
      store<kVector>(dx + at + column, vectors, values);
    });
  }
}

}  // namespace
}  // namespace device

cudaError_t launch_layer_norm(const NormColumns& columns, const LayerNormLaunch& l, void* y, void* mean, void* inverse,
                              cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, columns.dtype, [&]<class T>() {
    using U = device::Compute<T>;
    return device::with_vector<T>(columns, [&]<int kVector>() {
      const auto* x = static_cast<const T*>(l.x);
      auto* out = static_cast<T*>(y);
      const int across = device::row_threads<kVector>(columns.width);
      return device::launch(device::normalise_rows<T, kVector>,
                            device::blocks_for(columns.rows, device::kNormThreads / across), device::kNormThreads,
                            stream, x, static_cast<const U*>(l.scale), static_cast<const U*>(l.offset), l.epsilon, out,
                            static_cast<U*>(mean), static_cast<U*>(inverse), columns.rows, columns.width, across,
                            device::aligned(x, static_cast<const T*>(out)));
    });
  });
}

cudaError_t launch_layer_norm_grad(const NormColumns& columns, const LayerNormLaunch& l, const void* dy,
                                   const void* mean, const void* inverse, void* dx, void* dscale, void* doffset,
                                   cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, columns.dtype, [&]<class T>() {
    using U = device::Compute<T>;
    return device::with_vector<T>(columns, [&]<int kVector>() {
      const auto *flows = static_cast<const T*>(dy), *x = static_cast<const T*>(l.x);
      const auto *means = static_cast<const U*>(mean), *inverses = static_cast<const U*>(inverse);
      auto* out = static_cast<T*>(dx);
      const bool vectors = device::aligned(flows, x, static_cast<const T*>(out));
      const device::StoreSums<U> finish{static_cast<U*>(doffset), static_cast<U*>(dscale)};
      const cudaError_t status = device::launch_columns<device::RowGradientSums<T>, kVector>(
          {flows, x, means, inverses, columns.width}, finish, columns, vectors, stream);
      if (status != cudaSuccess) return status;
      const int across = device::row_threads<kVector>(columns.width);
      return device::launch(device::normalise_rows_grad<T, kVector>,
                            device::blocks_for(columns.rows, device::kNormThreads / across), device::kNormThreads,
                            stream, flows, x, static_cast<const U*>(l.scale), means, inverses, out, columns.rows,
                            columns.width, across, vectors);
    });
  });
}

}  // namespace troupe
