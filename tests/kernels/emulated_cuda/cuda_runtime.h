// The part of CUDA's language that kernels/cuda uses, as ordinary C++: what nvcc compiles for a GPU, g++ compiles for
// the emulated one. A launch runs its blocks one after the other; the threads of a block take turns, and change where
// they wait for each other. Stands in for the toolkit's header of this name.
#pragma once

#include <math.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <type_traits>

#include "tests/kernels/emulated_cuda/cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
// One block runs at a time. Its memory is not cleared for the next.
#define __shared__ static

struct alignas(8) uint2 {
  unsigned x, y;
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// Of the thread that runs now.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace troupe::emulated_cuda {

// What a launch may ask for in `dynamicSmemBytes`: as much as a kernel has without asking for more than others do.
inline constexpr std::size_t kSharedBytes = 48 * 1024;

// Runs thread() for each thread of the grid. cudaErrorInvalidConfiguration, and nothing runs, for a grid that CUDA
// would refuse. Ends the process, with a message, where threads wait for others in different places, or take a value
// that no thread gives.
cudaError_t run_grid(const cudaLaunchConfig_t& config, const std::function<void()>& thread);

using Place = std::source_location;
// Waits for all threads of the block that have not ended; returns whether `vote` was true for all of them.
bool await_block(bool vote, const Place& place);
// Waits for the lanes of the warp; returns the bits that lane `mine ^ mask` gave.
std::uint64_t exchange(std::uint64_t bits, int mask, const Place& place);

}  // namespace troupe::emulated_cuda

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const Arguments&... arguments) {
  return troupe::emulated_cuda::run_grid(*config, [&] { kernel(arguments...); });
}

struct cudaFuncAttributes {};
template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, void (*)(Parameters...)) {
  return cudaSuccess;
}

inline void __syncthreads(const troupe::emulated_cuda::Place& place = troupe::emulated_cuda::Place::current()) {
  troupe::emulated_cuda::await_block(true, place);
}
inline int __syncthreads_and(int vote,
                             const troupe::emulated_cuda::Place& place = troupe::emulated_cuda::Place::current()) {
  return troupe::emulated_cuda::await_block(vote != 0, place) ? 1 : 0;
}
template <class T>
T __shfl_xor_sync(unsigned lanes, T value, int mask,
                  const troupe::emulated_cuda::Place& place = troupe::emulated_cuda::Place::current()) {
  static_assert((sizeof(T) == 4 || sizeof(T) == 8) && std::is_arithmetic_v<T>);
  static_cast<void>(lanes);  // always all of them
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = troupe::emulated_cuda::exchange(bits, mask, place);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline void __threadfence() {}
// Threads take turns: each is alone.
inline unsigned __activemask() { return 1u << (threadIdx.x % 32); }
inline void __syncwarp(unsigned) {}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline void __threadfence_system() {}
inline unsigned atomicCAS(unsigned* at, unsigned expected, unsigned desired) {
  const unsigned found = *at;
  if (found == expected) *at = desired;
  return found;
}
inline unsigned atomicExch(unsigned* at, unsigned desired) {
  const unsigned found = *at;
  *at = desired;
  return found;
}

template <class T>
concept Arithmetic = std::is_arithmetic_v<T>;
template <Arithmetic A, Arithmetic B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <Arithmetic A, Arithmetic B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
inline float rsqrtf(float x) { return static_cast<float>(1 / sqrt(static_cast<double>(x))); }
inline double rsqrt(double x) { return static_cast<double>(1 / sqrtl(static_cast<long double>(x))); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
