// Kernels over rows of a softmax, for a program: a type with
//   T                     float or double; f16 and bf16 are computed in float and rounded
//   kSecond               reads a second tensor of the same shape
//   kExponential          uses the exponentials of the first less its maximum; otherwise sums of term()
//   kLoss                 also returns one value per row: the sum of loss()
//   Row row(index)        per-row state
//   term(a, b)            summed into `value` of Stats, unless kExponential
//   emit(row, stats, column, a, b, e)  the output; e = exp(a - maximum), if kExponential
//   loss(row, stats, column, a, b)     one term of the loss
#pragma once

#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/softmax_grid.hpp>
#include <troupe/kernels/cuda/softmax_launch.hpp>
#include <troupe/kernels/cuda/stored.cuh>

namespace troupe::device {

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }

// For programs without per-row state.
struct NoRow {};

template <class T>
struct Stats {
  T maximum;    // ignores NaN, which the exponential brings back
  T value;      // sum of the exponentials, or of the terms
  T log_value;  // logarithm of the sum of the exponentials
  T inverse;    // 1 / that sum: one division per element would take as long as memory does
};

// Threads of one row: part of a warp, or the whole block.
template <class T>
struct Team {
  int across;
  T* room;  // 32 values

  template <class Combine>
  __device__ T all(T value, T neutral, Combine combine) const {
    for (int offset = min(across, 32) / 2; offset > 0; offset /= 2) value = combine(value, shuffle_xor(value, offset));
    if (across <= 32) return value;
    const int thread = static_cast<int>(threadIdx.x), warps = across / 32;
    if (thread % 32 == 0) room[thread / 32] = value;
    __syncthreads();
    value = thread % 32 < warps ? room[thread % 32] : neutral;
    __syncthreads();
    for (int offset = 16; offset > 0; offset /= 2) value = combine(value, shuffle_xor(value, offset));
    return value;
  }
  __device__ T sum(T value) const {
    return all(value, T{0}, [](T a, T b) { return a + b; });
  }
  __device__ T maximum(T value) const {
    return all(value, -infinity_of(T{}), [](T a, T b) { return b > a ? b : a; });
  }
};

template <class Memory>
struct RowPointers {
  const Memory* first;
  const Memory* second;  // null unless kSecond
  Memory* out;
  Memory* loss;  // null unless kLoss
};

// Keeps each row in registers, kVectors loads per thread.
template <class P, class Stored, int kVector, int kVectors>
__global__ void __launch_bounds__(kVectors == 4 ? 1024 : 256)
    rows_in_registers(P program, Stored stored, RowPointers<typename Stored::Memory> p, std::int64_t count,
                      std::int64_t width, int across, bool vectors) {
  using T = typename P::T;
  constexpr int kHeld = kVector * kVectors;
  constexpr int kRows = kVectors == 1 ? 4 : 1;  // short rows are read four at a time to keep enough bytes in flight
  __shared__ T room[32];
  const Team<T> team{across, room};
  const int thread = static_cast<int>(threadIdx.x), lane = thread % across;
  const int per_block = static_cast<int>(blockDim.x) / across;
  const std::int64_t pass = static_cast<std::int64_t>(gridDim.x) * per_block;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * per_block; first < count; first += kRows * pass) {
    T a[kRows][kHeld], b[kRows][P::kSecond ? kHeld : 1];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = first + r * pass + thread / across;
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        a[r][i] = P::kExponential ? -infinity_of(T{}) : T{0};
        if (P::kSecond) b[r][i] = T{0};
      }
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const std::int64_t column = (static_cast<std::int64_t>(i) * across + lane) * kVector;
        if (row < count && column < width) {
          stored.template load<kVector>(p.first + row * width + column, vectors,
                                        *reinterpret_cast<T(*)[kVector]>(&a[r][i * kVector]));
          if constexpr (P::kSecond)
            stored.template load<kVector>(p.second + row * width + column, vectors,
                                          *reinterpret_cast<T(*)[kVector]>(&b[r][i * kVector]));
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r * pass >= count) break;  // the same for the whole block
      const std::int64_t row = first + r * pass + thread / across;
      const auto special = program.row(row < count ? row : 0);  // while the row is being loaded
      Stats<T> stats{};
      T e[P::kExponential ? kHeld : 1];
      T part = 0;
      if constexpr (P::kExponential) {
        T largest = -infinity_of(T{});
#pragma unroll
        for (int i = 0; i < kHeld; ++i) largest = a[r][i] > largest ? a[r][i] : largest;
        stats.maximum = team.maximum(largest);
#pragma unroll
        for (int i = 0; i < kHeld; ++i) part += e[i] = exponential(a[r][i] - stats.maximum);
      } else {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) part += program.term(a[r][i], b[r][P::kSecond ? i : 0]);
      }
      stats.value = team.sum(part);
      if constexpr (P::kExponential) {
        stats.log_value = logarithm(stats.value);
        stats.inverse = T{1} / stats.value;
      }
      T loss = 0;
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const std::int64_t column = (static_cast<std::int64_t>(i) * across + lane) * kVector;
        if (row < count && column < width) {
          T out[kVector];
#pragma unroll
          for (int v = 0; v < kVector; ++v) {
            const int k = i * kVector + v;
            const T second = b[r][P::kSecond ? k : 0];
            out[v] = program.emit(special, stats, column + v, a[r][k], second, e[P::kExponential ? k : 0]);
            if constexpr (P::kLoss) loss += program.loss(special, stats, column + v, a[r][k], second);
          }
          stored.template store<kVector>(p.out + row * width + column, vectors, out);
        }
      }
      if constexpr (P::kLoss) {
        loss = team.sum(loss);
        if (lane == 0 && row < count) store_one(stored, p.loss + row, loss);
      }
    }
  }
}

// One block per row; reads each row twice.
template <class P, class Stored, int kVector>
__global__ void __launch_bounds__(1024)
    rows_read_twice(P program, Stored stored, RowPointers<typename Stored::Memory> p, std::int64_t count,
                    std::int64_t width, bool vectors) {
  using T = typename P::T;
  __shared__ T room[32];
  const Team<T> team{static_cast<int>(blockDim.x), room};
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * kVector;
  for (std::int64_t row = blockIdx.x; row < count; row += gridDim.x) {
    const auto* first = p.first + row * width;
    const auto* second = P::kSecond ? p.second + row * width : nullptr;
    Stats<T> stats{};
    T part = 0, largest = -infinity_of(T{});
#pragma unroll 2
    for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * kVector; column < width; column += step) {
      T a[kVector], b[kVector] = {};
      stored.template load<kVector>(first + column, vectors, a);
      if constexpr (P::kSecond && !P::kExponential) stored.template load<kVector>(second + column, vectors, b);
      if constexpr (P::kExponential) {
        T greater = largest;
#pragma unroll
        for (int v = 0; v < kVector; ++v) greater = a[v] > greater ? a[v] : greater;
        if (greater > largest) {
          part *= exponential(largest - greater);
          largest = greater;
        }
        const T shift = largest == -infinity_of(T{}) ? T{0} : largest;  // all values so far are -infinity or NaN
#pragma unroll
        for (int v = 0; v < kVector; ++v) part += exponential(a[v] - shift);
      } else {
#pragma unroll
        for (int v = 0; v < kVector; ++v) part += program.term(a[v], b[v]);
      }
    }
    if constexpr (P::kExponential) {
      stats.maximum = team.maximum(largest);
      stats.value = team.sum(part * exponential(largest - stats.maximum));
      stats.log_value = logarithm(stats.value);
      stats.inverse = T{1} / stats.value;
    } else {
      stats.value = team.sum(part);
    }
    const auto special = program.row(row);
    T loss = 0;
#pragma unroll 2
    for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * kVector; column < width; column += step) {
      T a[kVector], b[kVector] = {}, out[kVector];
      stored.template load<kVector>(first + column, vectors, a);
      if constexpr (P::kSecond) stored.template load<kVector>(second + column, vectors, b);
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        out[v] = program.emit(special, stats, column + v, a[v], b[v],
                              P::kExponential ? exponential(a[v] - stats.maximum) : T{0});
        if constexpr (P::kLoss) loss += program.loss(special, stats, column + v, a[v], b[v]);
      }
      stored.template store<kVector>(p.out + row * width + column, vectors, out);
    }
    if constexpr (P::kLoss) {
      loss = team.sum(loss);
      if (threadIdx.x == 0) store_one(stored, p.loss + row, loss);
    }
  }
}

template <int kVector, class P, class Stored>
cudaError_t launch_rows_by(const P& program, const Stored& stored, const RowPointers<typename Stored::Memory>& p,
                           const SoftmaxRows& rows, const SoftmaxGrid& grid, cudaStream_t stream) {
  using Memory = typename Stored::Memory;
  const bool vectors = aligned(p.first, p.second, static_cast<const Memory*>(p.out));
  if (grid.vectors == 0)
    return launch(rows_read_twice<P, Stored, kVector>, blocks_for(rows.count, 1), grid.across, stream, program, stored,
                  p, rows.count, rows.width, vectors);
  const int threads = grid.across == 1024 ? 1024 : 256;
  const auto start = [&](auto kernel, int rows_at_once) {
    const std::int64_t per_block =
        static_cast<std::int64_t>(threads / grid.across) * (rows.count >= 65536 ? rows_at_once : 1);
    return launch(kernel, blocks_for(rows.count, per_block), threads, stream, program, stored, p, rows.count,
                  rows.width, grid.across, vectors);
  };
  if (grid.vectors == 1) return start(rows_in_registers<P, Stored, kVector, 1>, 4);
  if (grid.vectors == 4) return start(rows_in_registers<P, Stored, kVector, 4>, 1);
  return start(rows_in_registers<P, Stored, kVector, 8>, 1);
}

// Tensors of rows.dtype: the inputs, the output and the loss of a program that has them.
struct RowTensors {
  const void* first = nullptr;
  const void* second = nullptr;
  void* out = nullptr;
  void* loss = nullptr;
};

// Runs make(T), a program for T: float or double.
template <class Make>
cudaError_t launch_rows(const SoftmaxRows& rows, const RowTensors& t, cudaStream_t stream, Make make) {
  const SoftmaxGrid grid = softmax_grid(rows.dtype, rows.width);
  const auto start = [&]<class T, class Stored>(T, const Stored& stored) {
    using Memory = typename Stored::Memory;
    const auto program = make(T{});
    const RowPointers<Memory> p{static_cast<const Memory*>(t.first), static_cast<const Memory*>(t.second),
                                static_cast<Memory*>(t.out), static_cast<Memory*>(t.loss)};
    if constexpr (std::is_same_v<T, float>)
      if (grid.vector == 4) return launch_rows_by<4>(program, stored, p, rows, grid, stream);
    return launch_rows_by<1>(program, stored, p, rows, grid, stream);
  };
  return with_stored(rows.dtype, [&](auto stored) { return start(typename decltype(stored)::Type{}, stored); });
}

}  // namespace troupe::device
