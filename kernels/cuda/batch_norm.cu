#include "troupe/kernels/cuda/batch_norm.cuh"

namespace troupe {
namespace device {
namespace {

template <class T>
struct MomentsOf {
  using Join = Moments;
  using U = Compute<T>;
  const T* x;
  std::int64_t width;

  template <int kVector>
  __device__ double accumulate(std::int64_t row, std::int64_t end, std::int64_t step, std::int64_t column, bool vectors,
                               Pair (&totals)[kVector]) const {
    constexpr int kUnroll = 4;
    const T* from = x + column;
    double count = 0;
    while (row < end) {
      T values[kUnroll][kVector];
      U shift[kVector], sum[kVector], squares[kVector];
      load<kVector>(from + row * width, vectors, values[0]);
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        shift[v] = widen(values[0][v]);
        sum[v] = squares[v] = 0;
      }
      const auto take = [&](const T(&some)[kVector]) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          const U distance = widen(some[v]) - shift[v];
          sum[v] += distance;
          squares[v] += distance * distance;
        }
      };
      row += step;
      int n = 1;
      for (; n <= kRunRows - kUnroll + 1 && row + (kUnroll - 1) * step < end; n += kUnroll, row += kUnroll * step) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) load<kVector>(from + (row + u * step) * width, vectors, values[u]);
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) take(values[u]);
      }
      for (; n <= kRunRows && row < end; ++n, row += step) {
        load<kVector>(from + row * width, vectors, values[0]);
        take(values[0]);
      }
      const double more = n, part = 1 / more;
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        const double off = static_cast<double>(sum[v]) * part,
                     distance = static_cast<double>(squares[v]) - off * static_cast<double>(sum[v]);
        totals[v] =
            Moments::join(totals[v], count, {static_cast<double>(shift[v]) + off, distance < 0 ? 0 : distance}, more);
      }
      count += more;
    }
    return count;
  }
};

template <class U>
struct StoreMoments {
  U *mean, *variance, *inverse;
  double count, epsilon;
  __device__ void operator()(std::int64_t column, const Pair& total) const {
    mean[column] = static_cast<U>(total.first);
    variance[column] = static_cast<U>(total.second / (count > 1 ? count - 1 : 1));
    inverse[column] = static_cast<U>(1 / sqrt(total.second / count + epsilon));
  }
};

// Scales by p.inverse, or, if `variance` is not null, by 1 / sqrt(variance + epsilon).
template <class T, int kVector>
__global__ void __launch_bounds__(kNormThreads)
    normalise(const T* x, BatchNormParameters<Compute<T>> p, const Compute<T>* variance, double epsilon, T* y,
              std::int64_t rows, std::int64_t width, int across, bool vectors) {
  using U = Compute<T>;
  const T* const inputs[] = {x};
  walk_columns<kVector>(inputs, y, rows, width, across, vectors, [&](std::int64_t column) {
    BatchNormColumns<T, kVector> c;
    c.load(p, column);
    if (variance) {
#pragma unroll
      for (int v = 0; v < kVector; ++v)
        c.factor[v] =
            p.scale[column + v] * static_cast<U>(1 / sqrt(static_cast<double>(variance[column + v]) + epsilon));
    }
    return [c, relu = p.relu](T(&values)[1][kVector]) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        const U result = c.result(v, widen(values[0][v]));
        values[0][v] = narrow<T>(relu && result < 0 ? U{0} : result);
      }
    };
  });
}

template <class T, int kVector>
cudaError_t launch_normalise(const NormColumns& columns, const BatchNormLaunch& l, const void* mean,
                             const void* inverse, const void* variance, void* y, cudaStream_t stream) {
  using U = Compute<T>;
  const auto* x = static_cast<const T*>(l.x);
  auto* out = static_cast<T*>(y);
  const ColumnWalk walk = column_walk<kVector>(columns.rows, columns.width, kRowsOfThread);
  return launch(normalise<T, kVector>, walk.grid, kNormThreads, stream, x, batch_norm_parameters<U>(l, mean, inverse),
                static_cast<const U*>(variance), l.epsilon, out, columns.rows, columns.width, walk.across,
                aligned(x, static_cast<const T*>(out)));
}

}  // namespace
}  // namespace device

cudaError_t launch_batch_norm(const NormColumns& columns, const BatchNormLaunch& l, void* y, void* mean, void* variance,
                              void* inverse, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, columns.dtype, [&]<class T>() {
    using U = device::Compute<T>;
    return device::with_vector<T>(columns, [&]<int kVector>() {
      const auto* x = static_cast<const T*>(l.x);
      const device::StoreMoments<U> finish{static_cast<U*>(mean), static_cast<U*>(variance), static_cast<U*>(inverse),
                                           static_cast<double>(columns.rows), l.epsilon};
      const cudaError_t status = device::launch_columns<device::MomentsOf<T>, kVector>(
          {x, columns.width}, finish, columns, device::aligned(x), stream);
      if (status != cudaSuccess) return status;
      return device::launch_normalise<T, kVector>(columns, l, mean, inverse, nullptr, y, stream);
    });
  });
}

cudaError_t launch_batch_norm_inference(const NormColumns& columns, const BatchNormLaunch& l, const void* mean,
                                        const void* variance, void* y, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, columns.dtype, [&]<class T>() {
    return device::with_vector<T>(columns, [&]<int kVector>() {
      return device::launch_normalise<T, kVector>(columns, l, mean, nullptr, variance, y, stream);
    });
  });
}

}  // namespace troupe
