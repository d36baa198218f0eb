// Compiled without fused multiply-adds: uniform values have the same bits as on the CPU.
#include <cmath>
#include <numbers>

#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/random_launch.hpp>

namespace troupe {
namespace device {
namespace {

__device__ PhiloxStream stream_of(const RandomSource& source) {
  if (!source.key) return source.stream;
  RandomKey key = *source.key;
  if (source.slot >= 0) key.slot = static_cast<std::uint32_t>(source.slot);
  return random_stream(key, source.node);
}

// Values from one block of the stream; T is float or double, also for narrower results.
template <class T>
struct Lanes {
  T values[kVectorOf<T>];
};
template <class T>
inline constexpr int kLanesOf = kVectorOf<Compute<T>>;

__device__ inline void uniform_lanes(const PhiloxBlock& block, Lanes<float>& lanes) {
  for (int i = 0; i < 4; ++i) lanes.values[i] = uniform_float(block[i]);
}
__device__ inline void uniform_lanes(const PhiloxBlock& block, Lanes<double>& lanes) {
  for (int i = 0; i < 2; ++i) lanes.values[i] = uniform_double(block[2 * i], block[2 * i + 1]);
}

__device__ inline void sine_and_cosine(float angle, float* sine, float* cosine) { sincosf(angle, sine, cosine); }
__device__ inline void sine_and_cosine(double angle, double* sine, double* cosine) { sincos(angle, sine, cosine); }

// Box and Muller, "A note on the generation of random normal deviates" (1958).
template <class T>
__device__ void normal_lanes(const PhiloxBlock& block, Lanes<T>& lanes) {
  uniform_lanes(block, lanes);
#pragma unroll
  for (int i = 0; i < kVectorOf<T>; i += 2) {
    const T radius = sqrt(T{-2} * log(T{1} - lanes.values[i]));  // 1 - u is in (0, 1]
    const T angle = T{2} * std::numbers::pi_v<T> * lanes.values[i + 1];
    T sine, cosine;
    sine_and_cosine(angle, &sine, &cosine);
    lanes.values[i] = radius * cosine;
    lanes.values[i + 1] = radius * sine;
  }
}

template <class T>
struct Uniform {
  T low, width, last;  // last: the greatest result below the end, for when low + u * width rounds up to it
  __device__ void operator()(const PhiloxStream& random, std::uint64_t block, Lanes<T>& lanes) const {
    uniform_lanes(random.block(block), lanes);
#pragma unroll
    for (T& value : lanes.values) {
      const T scaled = low + value * width;
      value = scaled < last ? scaled : last;
    }
  }
};

template <class T>
struct Normal {
  T mean, deviation;
  bool truncated;
  __device__ void operator()(const PhiloxStream& random, std::uint64_t block, Lanes<T>& lanes) const {
    normal_lanes(random.block(block), lanes);
#pragma unroll
    for (int i = 0; i < kVectorOf<T>; ++i) {
      T value = lanes.values[i];
      for (std::uint64_t attempt = 1; truncated && fabs(value) >= T{2}; ++attempt) {
        Lanes<T> again;
        normal_lanes(random.block(block + (attempt << 48)), again);
        value = again.values[i];
      }
      lanes.values[i] = mean + deviation * value;
    }
  }
};

// Each thread turns its block of the stream into a vector of output.
template <class T, class Draw>
__global__ void __launch_bounds__(kBlockThreads)
    fill(RandomSource source, Draw draw, std::int64_t count, T* out, bool vectors) {
  const PhiloxStream random = stream_of(source);
  constexpr int kVector = kLanesOf<T>;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
       block * kVector < count; block += step) {
    Lanes<Compute<T>> lanes;
    draw(random, static_cast<std::uint64_t>(block), lanes);
    T values[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = narrow<T>(lanes.values[i]);
    const std::int64_t at = block * kVector;
    if (at + kVector <= count) {
      store<kVector>(out + at, vectors, values);
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        if (at + i < count) out[at + i] = values[i];
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    dropout(RandomSource source, Compute<T> rate, T keep, std::int64_t count, const T* x, T* y, T* mask, bool vectors) {
  const PhiloxStream random = stream_of(source);
  constexpr int kVector = kLanesOf<T>;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
       block * kVector < count; block += step) {
    const std::int64_t at = block * kVector;
    const bool whole = at + kVector <= count;
    T from[kVector] = {}, kept[kVector], to[kVector];
    if (whole) {
      load<kVector>(x + at, vectors, from);
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        if (at + i < count) from[i] = x[at + i];
    }
    Lanes<Compute<T>> lanes;
    uniform_lanes(random.block(static_cast<std::uint64_t>(block)), lanes);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      kept[i] = lanes.values[i] < rate ? narrow<T>(Compute<T>{0}) : keep;
      to[i] = narrow<T>(widen(from[i]) * widen(kept[i]));
    }
    if (whole) {
      store<kVector>(mask + at, vectors, kept);
      store<kVector>(y + at, vectors, to);
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        if (at + i < count) {
          mask[at + i] = kept[i];
          y[at + i] = to[i];
        }
    }
  }
}

template <class T, class Draw>
cudaError_t launch_fill(const RandomSource& random, const Draw& draw, std::int64_t count, void* out,
                        cudaStream_t stream) {
  auto* to = static_cast<T*>(out);
  return launch(fill<T, Draw>, blocks_for(count, kBlockThreads * kLanesOf<T>), kBlockThreads, stream, random, draw,
                count, to, aligned(to));
}

}  // namespace
}  // namespace device

cudaError_t launch_random_uniform(DType dtype, const RandomSource& random, std::int64_t count, double low, double high,
                                  double last, void* out, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    using U = device::Compute<T>;
    const U from = static_cast<U>(low), width = static_cast<U>(high) - from;
    return device::launch_fill<T>(random, device::Uniform<U>{from, width, static_cast<U>(last)}, count, out, stream);
  });
}

cudaError_t launch_random_normal(DType dtype, const RandomSource& random, bool truncated, std::int64_t count,
                                 double mean, double deviation, void* out, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    using U = device::Compute<T>;
    return device::launch_fill<T>(random, device::Normal<U>{static_cast<U>(mean), static_cast<U>(deviation), truncated},
                                  count, out, stream);
  });
}

cudaError_t launch_dropout(DType dtype, const RandomSource& random, std::int64_t count, double rate, const void* x,
                           void* y, void* mask, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    using U = device::Compute<T>;
    const auto* from = static_cast<const T*>(x);
    auto *to = static_cast<T*>(y), *kept = static_cast<T*>(mask);
    return device::launch(device::dropout<T>, device::blocks_for(count, device::kBlockThreads * device::kLanesOf<T>),
                          device::kBlockThreads, stream, random, static_cast<U>(rate),
                          device::narrow<T>(static_cast<U>(1 / (1 - rate))), count, from, to, kept,
                          device::aligned(from, to, kept));
  });
}

}  // namespace troupe
