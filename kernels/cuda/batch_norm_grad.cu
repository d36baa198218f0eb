// Device part of norm_launch.hpp: gradients of batch normalisation.
#include <troupe/kernels/cuda/batch_norm.cuh>

namespace troupe {
namespace device {
namespace {

template <class T, int kVector>
struct GradientColumns : BatchNormColumns<T, kVector> {
  using U = Compute<T>;
  U inverse[kVector];
  bool relu;

  __device__ void load(const BatchNormParameters<U>& p, std::int64_t column) {
    BatchNormColumns<T, kVector>::load(p, column);
    relu = p.relu;
#pragma unroll
    for (int v = 0; v < kVector; ++v) inverse[v] = p.inverse[column + v];
  }
  // dy where y was above 0, else 0.
  __device__ U flow(int v, U dy, U x) const { return !relu || widen(narrow<T>(this->result(v, x))) > 0 ? dy : U{0}; }
  __device__ U normalised(int v, U x) const { return (x - this->mean[v]) * inverse[v]; }
};

// Sums of dy and of dy x^.
template <class T>
struct GradientSums {
  using Join = Sums;
  using U = Compute<T>;
  const T *dy, *x;
  BatchNormParameters<U> p;
  std::int64_t width;

  template <int kVector>
  __device__ double accumulate(std::int64_t row, std::int64_t end, std::int64_t step, std::int64_t column, bool vectors,
                               Pair (&totals)[kVector]) const {
    constexpr int kUnroll = 2;
    GradientColumns<T, kVector> c;
    c.load(p, column);
    while (row < end) {
      U sum[kVector], products[kVector];
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[v] = products[v] = 0;
      const auto take = [&](const T(&flows)[kVector], const T(&values)[kVector]) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          const U value = widen(values[v]), d = c.flow(v, widen(flows[v]), value);
          sum[v] += d;
          products[v] += d * c.normalised(v, value);
        }
      };
      T flows[kUnroll][kVector], values[kUnroll][kVector];
      int n = 0;
      for (; n <= kRunRows - kUnroll && row + (kUnroll - 1) * step < end; n += kUnroll, row += kUnroll * step) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          const std::int64_t at = (row + u * step) * width + column;
          load<kVector>(dy + at, vectors, flows[u]);
          load<kVector>(x + at, vectors, values[u]);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) take(flows[u], values[u]);
      }
      for (; n < kRunRows && row < end; ++n, row += step) {
        load<kVector>(dy + row * width + column, vectors, flows[0]);
        load<kVector>(x + row * width + column, vectors, values[0]);
        take(flows[0], values[0]);
      }
#pragma unroll
      for (int v = 0; v < kVector; ++v)
        totals[v] = Sums::join(totals[v], 0, {static_cast<double>(sum[v]), static_cast<double>(products[v])}, 0);
    }
    return 0;
  }
};

// dx = factor (dy - mean(dy) - x^ mean(dy x^)). dx may be dy or x.
template <class T, int kVector>
__global__ void __launch_bounds__(kNormThreads)
    normalise_grad(const T* dy, const T* x, BatchNormParameters<Compute<T>> p, const Compute<T>* dscale,
                   const Compute<T>* doffset, T* dx, std::int64_t rows, std::int64_t width, int across, bool vectors) {
  using U = Compute<T>;
  const T* const inputs[] = {dy, x};
  walk_columns<kVector>(inputs, dx, rows, width, across, vectors, [&](std::int64_t column) {
    GradientColumns<T, kVector> c;
    c.load(p, column);
    U a[kVector], b[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      a[v] = doffset[column + v] / static_cast<U>(rows);
      b[v] = dscale[column + v] / static_cast<U>(rows);
    }
    return [=](T(&values)[2][kVector]) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        const U value = widen(values[1][v]);
        values[0][v] =
            narrow<T>(c.factor[v] * (c.flow(v, widen(values[0][v]), value) - a[v] - c.normalised(v, value) * b[v]));
      }
    };
  });
}

}  // namespace
}  // namespace device

cudaError_t launch_batch_norm_grad(const NormColumns& columns, const BatchNormLaunch& l, const void* dy,
                                   const void* mean, const void* inverse, void* dx, void* dscale, void* doffset,
                                   cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, columns.dtype, [&]<class T>() {
    using U = device::Compute<T>;
    return device::with_vector<T>(columns, [&]<int kVector>() {
      const auto *flows = static_cast<const T*>(dy), *x = static_cast<const T*>(l.x);
      auto* out = static_cast<T*>(dx);
      const auto p = device::batch_norm_parameters<U>(l, mean, inverse);
      const device::StoreSums<U> finish{static_cast<U*>(doffset), static_cast<U*>(dscale)};
      const cudaError_t status = device::launch_columns<device::GradientSums<T>, kVector>(
          {flows, x, p, columns.width}, finish, columns, device::aligned(flows, x), stream);
      if (status != cudaSuccess) return status;
      const device::ColumnWalk walk = device::column_walk<kVector>(columns.rows, columns.width, device::kRowsOfThread);
      return device::launch(device::normalise_grad<T, kVector>, walk.grid, device::kNormThreads, stream, flows, x, p,
                            finish.dscale, finish.doffset, out, columns.rows, columns.width, walk.across,
                            device::aligned(flows, x, static_cast<const T*>(out)));
    });
  });
}

}  // namespace troupe
