// Accumulates two numbers per column of [rows, width] down the rows: first chunks of rows, cut as in reduce_plan.hpp,
// then the chunks of each column. The order depends only on dtype and shape. A program is a type with
//   Join                             Moments or Sums
//   accumulate<kVector>(begin, end, step, column, vectors, totals)
//                                    adds kVector columns, rows begin, begin + step, ...; returns the number of rows
#pragma once

#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/norm_launch.hpp>
#include <troupe/kernels/cuda/reduce_plan.hpp>

namespace troupe::device {

inline constexpr int kNormThreads = kReduceThreads;
inline constexpr int kJoinThreads = 128;

struct Pair {
  double first, second;
};
static_assert(sizeof(Pair) == kNormPartialBytes);

// Mean, and sum of squared distances from the mean (Chan, Golub & LeVeque 1983).
struct Moments {
  __device__ static Pair join(const Pair& a, double count, const Pair& b, double more) {
    if (more == 0) return a;
    const double weight = more / (count + more), apart = b.first - a.first;
    return {a.first + apart * weight, a.second + b.second + apart * apart * count * weight};
  }
};

struct Sums {
  __device__ static Pair join(const Pair& a, double, const Pair& b, double) {
    return {a.first + b.first, a.second + b.second};
  }
};

// Joins the kPerThread totals of each thread into those of the first `least` threads, by thread number modulo `least`.
// All threads of the block must call it.
template <class Join, int kThreads, int kPerThread>
__device__ inline void join_block(int least, Pair (&totals)[kPerThread], double count, Pair* room, double* counts) {
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // `room` and `counts` may still be read
  counts[thread] = count;
#pragma unroll
  for (int v = 0; v < kPerThread; ++v) room[v * kThreads + thread] = totals[v];
  for (int half = kThreads / 2; half >= least; half /= 2) {
    __syncthreads();
    if (thread < half) {
      const double more = counts[thread + half];
#pragma unroll
      for (int v = 0; v < kPerThread; ++v) {
        totals[v] = Join::join(totals[v], count, room[v * kThreads + thread + half], more);
        room[v * kThreads + thread] = totals[v];
      }
      count += more;
      counts[thread] = count;
    }
  }
}

// partial: [width, chunks].
template <class P, int kVector>
__global__ void __launch_bounds__(kNormThreads)
    accumulate_columns(P program, ReduceGrid grid, std::int64_t rows, std::int64_t width, bool vectors, Pair* partial) {
  __shared__ Pair room[kVector * kNormThreads];
  __shared__ double counts[kNormThreads];
  const int thread = static_cast<int>(threadIdx.x), across = grid.across;
  for (std::int64_t unit = blockIdx.x; unit < grid.units; unit += gridDim.x) {
    const std::int64_t chunk = unit % grid.chunks, tile = unit / grid.chunks;
    const std::int64_t column = (tile * across + thread % across) * kVector;
    const std::int64_t begin = chunk * grid.chunk_terms, end = min(begin + grid.chunk_terms, rows);
    Pair totals[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) totals[v] = {0, 0};
    double count = 0;
    if (column < width)
      count = program.template accumulate<kVector>(begin + thread / across, end, kNormThreads / across, column, vectors,
                                                   totals);
    join_block<typename P::Join, kNormThreads>(across, totals, count, room, counts);
    if (thread < across && column < width) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) partial[(column + v) * grid.chunks + chunk] = totals[v];
    }
  }
}

// One block per column; calls finish(column, total).
template <class Join, class Finish>
__global__ void __launch_bounds__(kJoinThreads)
    join_chunks(Finish finish, std::int64_t rows, std::int64_t width, std::int64_t chunks, std::int64_t chunk_rows,
                const Pair* partial) {
  __shared__ Pair room[kJoinThreads];
  __shared__ double counts[kJoinThreads];
  for (std::int64_t column = blockIdx.x; column < width; column += gridDim.x) {
    Pair totals[1] = {{0, 0}};
    double count = 0;
    for (std::int64_t c = threadIdx.x; c < chunks; c += kJoinThreads) {
      const auto more = static_cast<double>(min(chunk_rows, rows - c * chunk_rows));
      totals[0] = Join::join(totals[0], count, partial[column * chunks + c], more);
      count += more;
    }
    join_block<Join, kJoinThreads>(1, totals, count, room, counts);
    if (threadIdx.x == 0) finish(column, totals[0]);
  }
}

template <class P, int kVector, class Finish>
cudaError_t launch_columns(const P& program, const Finish& finish, const NormColumns& columns, bool vectors,
                           cudaStream_t stream) {
  static_assert(sizeof(Pair) * kVector * kNormThreads + sizeof(double) * kNormThreads <= 48 * 1024);
  auto* partial = static_cast<Pair*>(columns.partial);
  const cudaError_t status = launch(accumulate_columns<P, kVector>, blocks_for(columns.grid.units, 1), kNormThreads,
                                    stream, program, columns.grid, columns.rows, columns.width, vectors, partial);
  if (status != cudaSuccess) return status;
  return launch(join_chunks<typename P::Join, Finish>, blocks_for(columns.width, 1), kJoinThreads, stream, finish,
                columns.rows, columns.width, columns.grid.chunks, columns.grid.chunk_terms, partial);
}

// Calls fn.template operator()<kVector>() with the grid's vector width.
template <class T, class Fn>
cudaError_t with_vector(const NormColumns& columns, Fn&& fn) {
  if (columns.grid.vector == kVectorOf<T>) return fn.template operator()<kVectorOf<T>>();
  if (columns.grid.vector != 1) return cudaErrorInvalidValue;
  return fn.template operator()<1>();
}

// Stores sums of dy, if wanted, and of dy x^.
template <class U>
struct StoreSums {
  U *doffset, *dscale;
  __device__ void operator()(std::int64_t column, const Pair& total) const {
    if (doffset) doffset[column] = static_cast<U>(total.first);
    dscale[column] = static_cast<U>(total.second);
  }
};

// Rows per thread accumulated in U before they are joined into a Pair; for moments one more, which is subtracted from
// the others.
inline constexpr int kRunRows = 32;

}  // namespace troupe::device
