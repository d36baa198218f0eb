// Device part of cumulative_launch.hpp. Kernels for a monoid: a type with
//   State, identity(), join(a, b)
//   load(at, along)          the state of element `at`, whose place along the axis is `along`
//   store(at, state)
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cuda/cuda_math.cuh>
#include <troupe/kernels/cuda/cumulative_launch.hpp>
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/stored.cuh>

namespace troupe {
namespace device {
namespace {

constexpr int kScanThreads = 256;
constexpr int kScanOwn = 4;  // elements of a thread, of a tile

struct Lanes {
  std::int64_t count, size, inner;
  bool exclusive, reverse;
};

// Where element p of a lane is, and its place along the axis.
struct Lane {
  std::int64_t begin, step, last;

  __device__ Lane(const Lanes& l, std::int64_t number)
      : begin((number / l.inner * l.size + (l.reverse ? l.size - 1 : 0)) * l.inner + number % l.inner),
        step(l.reverse ? -l.inner : l.inner),
        last(l.reverse ? l.size - 1 : -1) {}
  __device__ std::int64_t at(std::int64_t p) const { return begin + p * step; }
  __device__ std::int64_t along(std::int64_t p) const { return last < 0 ? p : last - p; }
};

template <class M>
__global__ void __launch_bounds__(kScanThreads) scan_by_threads(M monoid, Lanes lanes) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kScanThreads;
  for (std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * kScanThreads + threadIdx.x; number < lanes.count;
       number += step) {
    const Lane lane(lanes, number);
    typename M::State state = monoid.identity();
    for (std::int64_t p = 0; p < lanes.size; ++p) {
      const std::int64_t at = lane.at(p);
      const typename M::State next = monoid.join(state, monoid.load(at, lane.along(p)));
      monoid.store(at, lanes.exclusive ? state : next);
      state = next;
    }
  }
}

template <class M>
__global__ void __launch_bounds__(kScanThreads) scan_by_blocks(M monoid, Lanes lanes) {
  using State = typename M::State;
  __shared__ State totals[kScanThreads];
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t number = blockIdx.x; number < lanes.count; number += gridDim.x) {
    const Lane lane(lanes, number);
    State carry = monoid.identity();
    for (std::int64_t tile = 0; tile < lanes.size; tile += kScanThreads * kScanOwn) {
      const std::int64_t first = tile + thread * kScanOwn;
      State own[kScanOwn], total = monoid.identity();
#pragma unroll
      for (int i = 0; i < kScanOwn; ++i) {
        own[i] = first + i < lanes.size ? monoid.load(lane.at(first + i), lane.along(first + i)) : monoid.identity();
        total = monoid.join(total, own[i]);
      }
      // Totals of this thread and those before it (Hillis & Steele 1986).
      __syncthreads();
      totals[thread] = total;
#pragma unroll 1
      for (int distance = 1; distance < kScanThreads; distance *= 2) {
        __syncthreads();
        const State before = thread >= distance ? totals[thread - distance] : monoid.identity();
        __syncthreads();
        total = monoid.join(before, total);
        totals[thread] = total;
      }
      __syncthreads();
      State state = thread == 0 ? carry : monoid.join(carry, totals[thread - 1]);
      carry = monoid.join(carry, totals[kScanThreads - 1]);
#pragma unroll
      for (int i = 0; i < kScanOwn; ++i) {
        const State next = monoid.join(state, own[i]);
        if (first + i < lanes.size) monoid.store(lane.at(first + i), lanes.exclusive ? state : next);
        state = next;
      }
    }
  }
}

template <class T>
struct SumOrProduct {
  using State = Compute<T>;
  const T* x;
  T* out;
  bool product;

  __device__ State identity() const { return product ? State{1} : State{0}; }
  __device__ State join(State a, State b) const { return product ? MulOp{}(a, b) : AddOp{}(a, b); }
  __device__ State load(std::int64_t at, std::int64_t) const { return widen(x[at]); }
  __device__ void store(std::int64_t at, State state) const { out[at] = narrow<T>(state); }
};

template <class U>
struct PlacedExtremum {
  U value;
  std::int64_t place;  // -1: of nothing
};
template <class T>
struct Extrema {
  using State = PlacedExtremum<Compute<T>>;
  const T* x;
  T* out;
  std::int64_t* places;
  bool least;

  __device__ State identity() const { return {Compute<T>{0}, -1}; }
  __device__ State join(const State& a, const State& b) const {
    if (b.place < 0) return a;
    const bool better =
        (least ? b.value < a.value : b.value > a.value) || (b.value != b.value && a.value == a.value) || a.place < 0;
    return better ? b : a;
  }
  __device__ State load(std::int64_t at, std::int64_t along) const { return {widen(x[at]), along}; }
  __device__ void store(std::int64_t at, const State& state) const {
    out[at] = narrow<T>(state.value);
    places[at] = state.place;
  }
};

template <class T>
struct LogSumExp {
  using State = double;
  const T* x;
  T* out;

  __device__ State identity() const { return -infinity_of(double{}); }
  // log(exp(a) + exp(b)). Not inlined: large code.
  __noinline__ __device__ State join(State a, State b) const {
    if (a == b) return a + 0.69314718055994530942;  // infinities too
    const double distance = fabs(a - b);
    return distance != distance ? distance : fmax(a, b) + ::log1p(::exp(-distance));
  }
  __device__ State load(std::int64_t at, std::int64_t) const { return static_cast<double>(widen(x[at])); }
  __device__ void store(std::int64_t at, State state) const { out[at] = narrow<T>(static_cast<Compute<T>>(state)); }
};

template <class M>
cudaError_t launch_scan(const M& monoid, const CumulativeLaunch& l, cudaStream_t stream) {
  const Lanes lanes{l.outer * l.inner, l.size, l.inner, l.exclusive, l.reverse};
  // As many threads as lanes keep a GPU busy, or lanes are short.
  const bool by_threads = lanes.count >= 16384 || lanes.size <= 64;
  return by_threads
             ? launch(scan_by_threads<M>, blocks_for(lanes.count, kScanThreads), kScanThreads, stream, monoid, lanes)
             : launch(scan_by_blocks<M>, blocks_for(lanes.count, 1), kScanThreads, stream, monoid, lanes);
}

cudaError_t launch_sum_or_product(const CumulativeLaunch& l, bool product, cudaStream_t stream) {
  return dispatch(RealElements{}, l.dtype, [&]<class T>() {
    return launch_scan(SumOrProduct<T>{static_cast<const T*>(l.x), static_cast<T*>(l.out), product}, l, stream);
  });
}

}  // namespace
}  // namespace device

cudaError_t launch_cumulative_sum(const CumulativeLaunch& l, cudaStream_t stream) {
  return device::launch_sum_or_product(l, false, stream);
}

cudaError_t launch_cumulative_product(const CumulativeLaunch& l, cudaStream_t stream) {
  return device::launch_sum_or_product(l, true, stream);
}

cudaError_t launch_cumulative_extremum(const CumulativeLaunch& l, bool least, std::int64_t* places,
                                       cudaStream_t stream) {
  return device::dispatch(device::RealElements{}, l.dtype, [&]<class T>() {
    return device::launch_scan(device::Extrema<T>{static_cast<const T*>(l.x), static_cast<T*>(l.out), places, least}, l,
                               stream);
  });
}

cudaError_t launch_cumulative_log_sum_exp(const CumulativeLaunch& l, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, l.dtype, [&]<class T>() {
    return device::launch_scan(device::LogSumExp<T>{static_cast<const T*>(l.x), static_cast<T*>(l.out)}, l, stream);
  });
}

}  // namespace troupe
