// One kernel runs all programs: each thread runs every step on 16 elements (8 for f64), so decoding a step is amortised
// over them. Values stay in registers; those needed beyond the next step go through shared memory, where each thread
// has its own places.
#include <cuda_runtime.h>

#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cuda/cuda_math.cuh>
#include <troupe/kernels/cuda/fused_elementwise_launch.hpp>
#include <troupe/kernels/cuda/index_plan.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/pack.cuh>

namespace troupe {
namespace device {
namespace {

// Elements of a thread: kItems items of kWidth. C: type that holds values.
template <class C, int kWidth>
struct Values {
  static constexpr int kCount = kFusedThreadBytes / static_cast<int>(sizeof(C));
  static constexpr int kItems = kCount / kWidth;
  C values[kCount];
};

// Index of this thread's item `u`; the last item for threads past the end.
template <int kItems>
__device__ std::int64_t item_at(const FusedArguments& arguments, int u) {
  const std::int64_t item =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x * kItems) + u * blockDim.x + threadIdx.x;
  return item < arguments.plan.items ? item : arguments.plan.items - 1;
}

// ---- sources of y

template <class T, class C, int kWidth>
__device__ void load_input(const FusedArguments& arguments, int index, Values<C, kWidth>& to) {
  constexpr int kItems = Values<C, kWidth>::kItems;
  const FusedInput& input = arguments.inputs[index];
  const auto* data = static_cast<const T*>(input.data);
  if (input.walk == FusedWalk::flat) {  // no code between the loads, so that all are in flight at once
    Pack<T, kWidth> packs[kItems];
#pragma unroll
    for (int u = 0; u < kItems; ++u) packs[u] = load_pack<kWidth>(data + item_at<kItems>(arguments, u) * kWidth);
#pragma unroll
    for (int u = 0; u < kItems; ++u)
#pragma unroll
      for (int i = 0; i < kWidth; ++i) to.values[u * kWidth + i] = static_cast<C>(widen(packs[u].values[i]));
    return;
  }
  if (input.walk == FusedWalk::one) {
    const C value = static_cast<C>(widen(*data));
#pragma unroll
    for (C& all : to.values) all = value;
    return;
  }
  const bool moves = arguments.plan.moves[index];
#pragma unroll
  for (int u = 0; u < kItems; ++u) {
    const T* const from = data + locate_one(arguments.plan, item_at<kItems>(arguments, u), index);
    const Pack<T, kWidth> pack = load_operand<kWidth>(from, moves);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to.values[u * kWidth + i] = static_cast<C>(widen(pack.values[i]));
  }
}

// This thread's place: its 16-byte quarters are interleaved with those of other threads to avoid bank conflicts.
__device__ inline uint4* quarters_of(uint4* kept, int place) {
  return kept + place * (kFusedThreadBytes / 16) * blockDim.x + threadIdx.x;
}

template <class C, int kWidth>
__device__ void load_kept(uint4* kept, int place, Values<C, kWidth>& to) {
  constexpr int kQuarters = kFusedThreadBytes / 16;
  uint4 raw[kQuarters];
#pragma unroll
  for (int q = 0; q < kQuarters; ++q) raw[q] = quarters_of(kept, place)[q * blockDim.x];
  memcpy(to.values, raw, sizeof raw);
}

template <class C, int kWidth>
__device__ void keep(const Values<C, kWidth>& x, uint4* kept, int place) {
  constexpr int kQuarters = kFusedThreadBytes / 16;
  uint4 raw[kQuarters];
  memcpy(raw, x.values, sizeof raw);
#pragma unroll
  for (int q = 0; q < kQuarters; ++q) quarters_of(kept, place)[q * blockDim.x] = raw[q];
}

template <class C, int kWidth>
__device__ void load(const FusedArguments& arguments, std::uint8_t source, uint4* kept, const Values<C, kWidth>& x,
                     Values<C, kWidth>& y) {
  if (source == kFusedSame) {
    asm volatile("");  // a separate basic block: otherwise other sources pay for the copies
    y = x;
    return;
  }
  if (source < kFusedInput) return load_kept(kept, source, y);
  const int index = source - kFusedInput;
  switch (arguments.inputs[index].dtype) {
    case DType::f32:
      if constexpr (kWidth <= 4)
        return load_input<float>(arguments, index, y);
      else
        __builtin_unreachable();
    case DType::f16:
      return load_input<F16>(arguments, index, y);
    case DType::bf16:
      return load_input<BF16>(arguments, index, y);
    case DType::boolean:
      return load_input<bool>(arguments, index, y);
    case DType::u8:
      return load_input<std::uint8_t>(arguments, index, y);
    default:
      if constexpr (std::is_same_v<C, double>)
        return load_input<double>(arguments, index, y);
      else
        __builtin_unreachable();
  }
}

// ---- arithmetic

// Elementary functions of f64 are large code, and few programs use them.
template <class Op>
__device__ __noinline__ double called(double x) {
  return Op{}(x);
}

// A: type of the step's arithmetic.
template <class A, class C, int kWidth>
struct Compute1 {
  Values<C, kWidth>& x;
  template <class Op>
  __device__ void operator()(Op op) const {
#pragma unroll
    for (C& value : x.values) {
      if constexpr (std::is_same_v<A, double>)
        value = called<Op>(value);
      else
        value = static_cast<C>(op(static_cast<A>(value)));
    }
  }
};

template <class A, class C, int kWidth>
struct Compute2 {
  Values<C, kWidth>& x;
  const Values<C, kWidth>& y;
  template <class Op>
  __device__ void operator()(Op op) const {
#pragma unroll
    for (int i = 0; i < Values<C, kWidth>::kCount; ++i)
      x.values[i] = static_cast<C>(op(static_cast<A>(x.values[i]), static_cast<A>(y.values[i])));
  }
};

template <class Op>
struct Reversed {
  template <class T>
  __device__ auto operator()(T a, T b) const {
    return Op{}(b, a);
  }
};

template <class A, class C, int kWidth>
__device__ void compute_unary(FusedOp op, Values<C, kWidth>& x) {
  const Compute1<A, C, kWidth> unary{x};
#define TROUPE_CASE(NAME) \
  case FusedOp::NAME:     \
    return unary(NAME##Op{});
#define TROUPE_MATH_CASE(NAME) \
  case FusedOp::NAME:          \
    return unary(NAME##Op<CudaMath>{});
  switch (op) {
    TROUPE_REAL_UNARY_OPS(TROUPE_CASE)
    TROUPE_FLOAT_UNARY_OPS(TROUPE_CASE)
    TROUPE_MATH_UNARY_OPS(TROUPE_MATH_CASE)
    TROUPE_RARE_UNARY_OPS(TROUPE_MATH_CASE)
    default:
      __builtin_unreachable();
  }
}

template <class A, class C, int kWidth>
__device__ void compute_binary(FusedOp op, bool swapped, Values<C, kWidth>& x, const Values<C, kWidth>& y) {
  const Compute2<A, C, kWidth> binary{x, y};
#undef TROUPE_CASE
#undef TROUPE_MATH_CASE
#define TROUPE_CASE(NAME) \
  case FusedOp::NAME:     \
    return binary(NAME##Op{});
#define TROUPE_SWAPPED_CASE(NAME) \
  case FusedOp::NAME:             \
    return binary(Reversed<NAME##Op>{});
  if (swapped) {
    switch (op) {
      TROUPE_ORDERED_OPS(TROUPE_SWAPPED_CASE)
      TROUPE_FLOAT_GRADIENT_OPS(TROUPE_SWAPPED_CASE)
      TROUPE_SWAPPED_CASE(Div)
      TROUPE_SWAPPED_CASE(ReluGrad)
      default:
        __builtin_unreachable();
    }
  }
  switch (op) {
    TROUPE_ARITHMETIC_OPS(TROUPE_CASE)
    TROUPE_FLOAT_GRADIENT_OPS(TROUPE_CASE)
    TROUPE_COMPARISON_OPS(TROUPE_CASE)
    TROUPE_CASE(Div)
    TROUPE_CASE(ReluGrad)
    default:
      __builtin_unreachable();
  }
}
#undef TROUPE_SWAPPED_CASE
#undef TROUPE_CASE

template <class C, int kWidth>
__device__ void round_to(FusedRounding rounding, Values<C, kWidth>& x) {
  constexpr int kCount = Values<C, kWidth>::kCount;
  switch (rounding) {
    case FusedRounding::none:
      return;
    case FusedRounding::f32:
#pragma unroll
      for (C& value : x.values) value = static_cast<C>(static_cast<float>(value));
      return;
    case FusedRounding::f16:
#pragma unroll
      for (int i = 0; i < kCount; i += 2) {  // one instruction rounds two
        const float2 back =
            __half22float2(__floats2half2_rn(static_cast<float>(x.values[i]), static_cast<float>(x.values[i + 1])));
        x.values[i] = static_cast<C>(back.x);
        x.values[i + 1] = static_cast<C>(back.y);
      }
      return;
    case FusedRounding::bf16:
#pragma unroll
      for (int i = 0; i < kCount; i += 2) {
        const float2 back = __bfloat1622float2(
            __floats2bfloat162_rn(static_cast<float>(x.values[i]), static_cast<float>(x.values[i + 1])));
        x.values[i] = static_cast<C>(back.x);
        x.values[i + 1] = static_cast<C>(back.y);
      }
      return;
  }
}

// ---- destination of x

template <class T, class C, int kWidth>
__device__ void store(const FusedArguments& arguments, const Values<C, kWidth>& x) {
  constexpr int kItems = Values<C, kWidth>::kItems;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x * kItems) + threadIdx.x;
#pragma unroll
  for (int u = 0; u < kItems; ++u) {
    const std::int64_t item = first + u * blockDim.x;
    if (item >= arguments.plan.items) continue;
    Pack<T, kWidth> pack;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pack.values[i] = narrow<T>(static_cast<Compute<T>>(x.values[u * kWidth + i]));
    store_pack(pack, static_cast<T*>(arguments.out) + item * kWidth);
  }
}

template <class C, int kWidth>
__device__ void store_result(const FusedArguments& arguments, const Values<C, kWidth>& x) {
  switch (arguments.dtype) {
    case DType::f32:
      if constexpr (kWidth <= 4) store<float>(arguments, x);
      return;
    case DType::f16:
      return store<F16>(arguments, x);
    case DType::bf16:
      return store<BF16>(arguments, x);
    default:
      if constexpr (std::is_same_v<C, double>) store<double>(arguments, x);
  }
}

// Blocks that must fit on a multiprocessor: enough threads to hide memory latency.
template <class C, int kWidth>
inline constexpr int kResidentBlocks = kWidth == 1 || std::is_same_v<C, double> ? 2 : 3;

// A thread loads all its elements before storing any: an input may share the result's memory.
template <class C, int kWidth>
__global__ __launch_bounds__(kFusedThreads, kResidentBlocks<C, kWidth>) void fused_kernel(
    const __grid_constant__ FusedArguments arguments) {
  extern __shared__ uint4 kept[];
  constexpr int kCount = Values<C, kWidth>::kCount;
  Values<C, kWidth> x;
#pragma unroll
  for (C& value : x.values) value = C{0};
  std::uint32_t bits = 0;
#pragma unroll 1
  for (int s = 0; s < arguments.num_steps; ++s) {
    const FusedStep step = arguments.steps[s];
    const bool own_type = std::is_same_v<C, float> || step.wide;
    if (step.op == FusedOp::Cast) {
    } else if (is_unary(step.op)) {
      if (own_type)
        compute_unary<C>(step.op, x);
      else
        compute_unary<float>(step.op, x);
    } else {
      Values<C, kWidth> y;
      load(arguments, step.source, kept, x, y);
      if (step.op == FusedOp::load) {
        x = y;
      } else if (step.op == FusedOp::mask) {
        bits = 0;
#pragma unroll
        for (int i = 0; i < kCount; ++i) bits |= (y.values[i] != C{0} ? 1u : 0u) << i;
      } else if (step.op == FusedOp::Select) {
        const std::uint32_t mine = step.swapped ? ~bits : bits;
#pragma unroll
        for (int i = 0; i < kCount; ++i) x.values[i] = (mine >> i & 1u) != 0 ? x.values[i] : y.values[i];
      } else if (own_type) {
        compute_binary<C>(step.op, step.swapped, x, y);
      } else {
        compute_binary<float>(step.op, step.swapped, x, y);
      }
    }
    if (step.rounding != FusedRounding::none) round_to(step.rounding, x);
    if (step.keep != kFusedNone) keep(x, kept, step.keep);
  }
  store_result(arguments, x);
}

template <class C, int kWidth>
cudaError_t launch_program(const FusedArguments& arguments, cudaStream_t stream) {
  const LaunchGrid grid = grid_for(arguments.plan.items, Values<C, kWidth>::kItems, fused_threads(arguments.places));
  const std::size_t shared = static_cast<std::size_t>(arguments.places) * kFusedThreadBytes * grid.threads;
  return launch_sharing(shared, fused_kernel<C, kWidth>, grid.blocks, grid.threads, stream, arguments);
}

}  // namespace
}  // namespace device

cudaError_t launch_fused(const FusedArguments& arguments, cudaStream_t stream) {
  switch (arguments.plan.width) {
    case 8:
      return arguments.wide ? cudaErrorInvalidValue : device::launch_program<float, 8>(arguments, stream);
    case 4:
      return arguments.wide ? cudaErrorInvalidValue : device::launch_program<float, 4>(arguments, stream);
    case 2:
      return arguments.wide ? device::launch_program<double, 2>(arguments, stream) : cudaErrorInvalidValue;
    case 1:
      return arguments.wide ? device::launch_program<double, 1>(arguments, stream)
                            : device::launch_program<float, 1>(arguments, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace troupe
