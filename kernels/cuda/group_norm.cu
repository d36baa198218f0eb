// Device part of norm_launch.hpp: group normalisation. A row is a group of an example, or one of its channels.
#include <troupe/kernels/cuda/fast_divide.hpp>
#include <troupe/kernels/cuda/norm_rows.cuh>

namespace troupe {
namespace device {
namespace {

// Rows of `width` elements, and the channel of an element.
struct GroupRows {
  std::int64_t rows, width;
  std::int64_t groups, channels, positions;
  FastDivider divider;
  bool wide;  // 64-bit division

  __device__ std::int64_t first_channel(std::int64_t row) const { return row % groups * channels; }
  __device__ std::int64_t channel(std::int64_t column) const {
    return wide ? column / positions : divider.quotient(static_cast<std::uint32_t>(column));
  }
};

GroupRows group_rows_of(const GroupNormLaunch& l) {
  GroupRows g{l.examples * l.groups, l.channels * l.positions, l.groups, l.channels, l.positions, {}, false};
  g.wide = g.width >= std::int64_t{1} << 31;
  if (!g.wide) g.divider = make_divider(static_cast<std::uint32_t>(l.positions));
  return g;
}

// Calls fn(team, row, lane) for the rows of this block, the same number of times in each thread; `row` is -1 for
// threads without one.
template <class Fn>
__device__ inline void for_team_rows(std::int64_t rows, int across, double* room, Fn fn) {
  const Team<double> team{across, room};
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t per_block = kNormThreads / across;
  for (std::int64_t first = blockIdx.x * per_block; first < rows; first += gridDim.x * per_block) {
    const std::int64_t row = first + thread / across;
    fn(team, row < rows ? row : -1, thread % across);
  }
}

template <class T, int kVector>
__global__ void __launch_bounds__(kNormThreads)
    normalise_groups(const T* x, const Compute<T>* scale, const Compute<T>* offset, double epsilon, T* y,
                     Compute<T>* mean, Compute<T>* inverse, GroupRows g, int across, bool vectors) {
  using U = Compute<T>;
  __shared__ double room[32];
  for_team_rows(g.rows, across, room, [&](const Team<double>& team, std::int64_t row, int lane) {
    const T* from = x + (row < 0 ? 0 : row) * g.width;
    const std::int64_t own = row < 0 ? 0 : g.width;
    const auto size = static_cast<double>(g.width);
    double sum = 0, rest = 0, squares = 0;
    along_row<kVector>(from, own, lane, across, vectors, [&](std::int64_t, const T(&values)[kVector]) {
      U part = 0;
#pragma unroll
      for (int v = 0; v < kVector; ++v) part += widen(values[v]);
      sum += static_cast<double>(part);
    });
    const U rounded = static_cast<U>(team.sum(sum) / size);
    along_row<kVector>(from, own, lane, across, vectors, [&](std::int64_t, const T(&values)[kVector]) {
      U distances = 0, products = 0;
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        const U distance = widen(values[v]) - rounded;
        distances += distance;  // rounding error of the mean
        products += distance * distance;
      }
      rest += static_cast<double>(distances);
      squares += static_cast<double>(products);
    });
    rest = team.sum(rest);
    squares = team.sum(squares);
    const double off = rest / size;
    const U middle = static_cast<U>(static_cast<double>(rounded) + off);
    const U by = static_cast<U>(1 / sqrt((squares - off * rest) / size + epsilon));
    if (row < 0) return;
    if (lane == 0) {
      mean[row] = middle;
      inverse[row] = by;
    }
    const std::int64_t first = g.first_channel(row);
    along_row<kVector>(from, own, lane, across, vectors, [&](std::int64_t column, const T(&values)[kVector]) {
      const std::int64_t channel = first + g.channel(column);  // of the whole vector
      const U factor = by * scale[channel], add = offset[channel];
      T out[kVector];
#pragma unroll
      for (int v = 0; v < kVector; ++v) out[v] = narrow<T>((widen(values[v]) - middle) * factor + add);
      store<kVector>(y + row * g.width + column, vectors, out);
    });
  });
}

// Sums of dy and of dy x^ of each channel of each example.
template <class T, int kVector>
__global__ void __launch_bounds__(kNormThreads)
    sum_channels(const T* dy, const T* x, const Compute<T>* mean, const Compute<T>* inverse, std::int64_t rows,
                 GroupRows g, int across, bool vectors, Pair* sums) {
  using U = Compute<T>;
  __shared__ double room[32];
  for_team_rows(rows, across, room, [&](const Team<double>& team, std::int64_t row, int lane) {
    const std::int64_t at = row < 0 ? 0 : row * g.positions, group = row < 0 ? 0 : row / g.channels;
    const U middle = mean[group], by = inverse[group];
    double first = 0, second = 0;
    along_row<kVector>(dy + at, row < 0 ? 0 : g.positions, lane, across, vectors,
                       [&](std::int64_t column, const T(&flows)[kVector]) {
                         T values[kVector];
                         load<kVector>(x + at + column, vectors, values);
                         U sum = 0, products = 0;
#pragma unroll
                         for (int v = 0; v < kVector; ++v) {
                           const U d = widen(flows[v]);
                           sum += d;
                           products += d * ((widen(values[v]) - middle) * by);
                         }
                         first += static_cast<double>(sum);
                         second += static_cast<double>(products);
                       });
    first = team.sum(first);
    second = team.sum(second);
    if (row >= 0 && lane == 0) sums[row] = {first, second};
  });
}

// dx = inverse (g - mean(g) - x^ mean(g x^)), g = dy scale; the means are made of the channels' sums.
template <class T, int kVector>
__global__ void __launch_bounds__(kNormThreads)
    normalise_groups_grad(const T* dy, const T* x, const Compute<T>* scale, const Compute<T>* mean,
                          const Compute<T>* inverse, const Pair* sums, T* dx, GroupRows g, int across, bool vectors) {
  using U = Compute<T>;
  __shared__ double room[32];
  for_team_rows(g.rows, across, room, [&](const Team<double>& team, std::int64_t row, int lane) {
    const std::int64_t at = row < 0 ? 0 : row * g.width, first = g.first_channel(row < 0 ? 0 : row);
    double sum = 0, products = 0;
    for (std::int64_t c = lane; c < g.channels && row >= 0; c += across) {
      const Pair& of_channel = sums[row * g.channels + c];
      sum += of_channel.first * static_cast<double>(scale[first + c]);
      products += of_channel.second * static_cast<double>(scale[first + c]);
    }
    const auto size = static_cast<double>(g.width);
    const U a = static_cast<U>(team.sum(sum) / size), b = static_cast<U>(team.sum(products) / size);
    if (row < 0) return;
    const U middle = mean[row], by = inverse[row];
    along_row<kVector>(dy + at, g.width, lane, across, vectors, [&](std::int64_t column, const T(&flows)[kVector]) {
      T values[kVector];
      load<kVector>(x + at + column, vectors, values);
      const U factor = scale[first + g.channel(column)];
#pragma unroll
      for (int v = 0; v < kVector; ++v)
        values[v] = narrow<T>(by * (widen(flows[v]) * factor - a - (widen(values[v]) - middle) * by * b));
      store<kVector>(dx + at + column, vectors, values);
    });
  });
}

// One thread per channel: sums over the examples, in order.
template <class U>
__global__ void __launch_bounds__(kBlockThreads)
    join_examples(const Pair* sums, std::int64_t examples, std::int64_t channels, StoreSums<U> finish) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (c >= channels) return;
  Pair total{0, 0};
  for (std::int64_t n = 0; n < examples; ++n) total = Sums::join(total, 0, sums[n * channels + c], 0);
  finish(c, total);
}

// A vector lies in one channel, or has one element.
template <class Fn>
cudaError_t with_group_vector(const GroupNormLaunch& l, Fn fn) {
  return dispatch(FloatElements{}, l.dtype, [&]<class T>() {
    if (l.positions % kVectorOf<T> == 0) return fn.template operator()<T, kVectorOf<T>>();
    return fn.template operator()<T, 1>();
  });
}

}  // namespace
}  // namespace device

cudaError_t launch_group_norm(const GroupNormLaunch& l, void* y, void* mean, void* inverse, cudaStream_t stream) {
  return device::with_group_vector(l, [&]<class T, int kVector>() {
    using U = device::Compute<T>;
    const auto* x = static_cast<const T*>(l.x);
    auto* out = static_cast<T*>(y);
    const device::GroupRows g = device::group_rows_of(l);
    const int across = device::row_threads<kVector>(g.width);
    return device::launch(device::normalise_groups<T, kVector>,
                          device::blocks_for(g.rows, device::kNormThreads / across), device::kNormThreads, stream, x,
                          static_cast<const U*>(l.scale), static_cast<const U*>(l.offset), l.epsilon, out,
                          static_cast<U*>(mean), static_cast<U*>(inverse), g, across,
                          device::aligned(x, static_cast<const T*>(out)));
  });
}

cudaError_t launch_group_norm_grad(const GroupNormLaunch& l, const void* dy, const void* mean, const void* inverse,
                                   void* dx, void* dscale, void* doffset, void* partial, cudaStream_t stream) {
  return device::with_group_vector(l, [&]<class T, int kVector>() {
    using U = device::Compute<T>;
    const auto *flows = static_cast<const T*>(dy), *x = static_cast<const T*>(l.x);
    const auto *means = static_cast<const U*>(mean), *inverses = static_cast<const U*>(inverse);
    auto* out = static_cast<T*>(dx);
    auto* sums = static_cast<device::Pair*>(partial);
    const device::GroupRows g = device::group_rows_of(l);
    const bool vectors = device::aligned(flows, x, static_cast<const T*>(out));
    const std::int64_t channels = l.groups * l.channels, rows = l.examples * channels;
    int across = device::row_threads<kVector>(l.positions);
    cudaError_t status =
        device::launch(device::sum_channels<T, kVector>, device::blocks_for(rows, device::kNormThreads / across),
                       device::kNormThreads, stream, flows, x, means, inverses, rows, g, across, vectors, sums);
    if (status != cudaSuccess) return status;
    across = device::row_threads<kVector>(g.width);
    status = device::launch(device::normalise_groups_grad<T, kVector>,
                            device::blocks_for(g.rows, device::kNormThreads / across), device::kNormThreads, stream,
                            flows, x, static_cast<const U*>(l.scale), means, inverses, sums, out, g, across, vectors);
    if (status != cudaSuccess) return status;
    return device::launch(device::join_examples<U>, device::blocks_for(channels, device::kBlockThreads),
                          device::kBlockThreads, stream, sums, l.examples, channels,
                          device::StoreSums<U>{static_cast<U*>(doffset), static_cast<U*>(dscale)});
  });
}

}  // namespace troupe
