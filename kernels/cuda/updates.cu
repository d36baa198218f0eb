// Compiled without fused multiply-adds, at no cost: updates are limited by memory bandwidth. f16 and bf16 are computed
// in float, each element rounded once. Bits match the CPU except for Adam's rate, which contains two powers.
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/fault.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/updates_launch.hpp>

namespace troupe {
namespace device {
namespace {

__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }

// Effective rate computed by a rule from the learning rate.
template <class T>
struct PlainRate {
  __device__ bool counted(const std::int64_t*) const { return true; }
  __device__ T rate(T lr, const std::int64_t*) const { return lr; }
};

// A rule with its constants rounded to T, float or double.
template <class T, class Rule>
struct Update;

template <class T>
struct Update<T, SgdRule> : PlainRate<T> {
  static constexpr int kSlots = 0;
  explicit Update(const SgdRule&) {}
  __device__ void operator()(T rate, T& var, T&, T&, T g) const { var -= rate * g; }
};

template <class T>
struct Update<T, MomentumRule> : PlainRate<T> {
  static constexpr int kSlots = 1;
  T momentum;
  bool nesterov;
  explicit Update(const MomentumRule& rule) : momentum(static_cast<T>(rule.momentum)), nesterov(rule.nesterov) {}
  __device__ void operator()(T rate, T& var, T& accum, T&, T g) const {
    accum = momentum * accum + g;
    var -= rate * (nesterov ? g + momentum * accum : accum);
  }
};

template <class T>
struct Update<T, AdagradRule> : PlainRate<T> {
  static constexpr int kSlots = 1;
  T epsilon;
  explicit Update(const AdagradRule& rule) : epsilon(static_cast<T>(rule.epsilon)) {}
  __device__ void operator()(T rate, T& var, T& accum, T&, T g) const {
    accum = accum + g * g;
    var -= rate * g / (root(accum) + epsilon);
  }
};

template <class T>
struct Update<T, RmsPropRule> : PlainRate<T> {
  static constexpr int kSlots = 2;
  T rho, rest, momentum, epsilon;
  explicit Update(const RmsPropRule& rule)
      : rho(static_cast<T>(rule.rho)),
        rest(static_cast<T>(1 - rule.rho)),
        momentum(static_cast<T>(rule.momentum)),
        epsilon(static_cast<T>(rule.epsilon)) {}
  __device__ void operator()(T rate, T& var, T& ms, T& mom, T g) const {
    ms = rho * ms + rest * (g * g);
    mom = momentum * mom + rate * g / root(ms + epsilon);
    var -= mom;
  }
};

template <class T>
struct Update<T, AdamRule> {
  static constexpr int kSlots = 2;
  T beta1, rest1, beta2, rest2, epsilon;
  double exact1, exact2;
  explicit Update(const AdamRule& rule)
      : beta1(static_cast<T>(rule.beta1)),
        rest1(static_cast<T>(1 - rule.beta1)),
        beta2(static_cast<T>(rule.beta2)),
        rest2(static_cast<T>(1 - rule.beta2)),
        epsilon(static_cast<T>(rule.epsilon)),
        exact1(rule.beta1),
        exact2(rule.beta2) {}
  __device__ bool counted(const std::int64_t* t) const { return *t >= 1; }
  __device__ T rate(T lr, const std::int64_t* t) const {
    const auto step = static_cast<double>(*t);
    return static_cast<T>(static_cast<double>(lr) * sqrt(1 - pow(exact2, step)) / (1 - pow(exact1, step)));
  }
  __device__ void operator()(T rate, T& var, T& m, T& v, T g) const {
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * (g * g);
    var -= rate * m / (root(v) + epsilon);
  }
};

// True if the update is to be made. False after a fault: the step fails, and persistent state keeps its values.
template <class Rule>
__device__ bool goes_on(const Rule& rule, const std::int64_t* t, const CudaFaultSite& fault) {
  if (failed(fault.fault)) return false;
  if (rule.counted(t)) return true;
  if (threadIdx.x == 0) report(fault, *t, 0, 0);
  return false;
}

// The rate, computed by one thread of the block.
template <class T, class Rule>
__device__ Compute<T> rate_of_block(const Rule& rule, const T* lr, const std::int64_t* t) {
  __shared__ Compute<T> rate;
  if (threadIdx.x == 0) rate = rule.rate(widen(*lr), t);
  __syncthreads();
  return rate;
}

// Updates one element; slots that the rule does not have are not touched.
template <class T, class Rule>
__device__ void update_one(const Rule& rule, Compute<T> rate, T& var, T& slot1, T& slot2, Compute<T> g) {
  using U = Compute<T>;
  U x = widen(var), a = Rule::kSlots > 0 ? widen(slot1) : U{0}, b = Rule::kSlots > 1 ? widen(slot2) : U{0};
  rule(rate, x, a, b, g);
  var = narrow<T>(x);
  if constexpr (Rule::kSlots > 0) slot1 = narrow<T>(a);
  if constexpr (Rule::kSlots > 1) slot2 = narrow<T>(b);
}

template <class T, class Rule>
__global__ void __launch_bounds__(kSweepThreads) update_all(Rule rule, const __grid_constant__ UpdateTable table,
                                                            const T* lr, const std::int64_t* t, CudaFaultSite fault) {
  constexpr int kVector = kVectorOf<T>;
  if (!goes_on(rule, t, fault)) return;
  const Compute<T> rate = rate_of_block(rule, lr, t);
  const SweepEntry<kUpdatePointers>& entry = table.entries[table.entry_of(blockIdx.x)];
  T* const var = static_cast<T*>(entry.pointers[0]);
  T* const slot1 = static_cast<T*>(entry.pointers[1]);
  T* const slot2 = static_cast<T*>(entry.pointers[2]);
  const T* const grad = static_cast<const T*>(entry.pointers[3]);
  const auto address = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  const bool vectors = (address(var) | address(slot1) | address(slot2) | address(grad)) % 16 == 0;
  const std::int64_t begin = (blockIdx.x - entry.first_block) * kSweepElements,
                     end = min(begin + kSweepElements, entry.count);
#pragma unroll 2
  for (std::int64_t i = begin + threadIdx.x * kVector; i < end; i += kSweepThreads * kVector) {
    if (i + kVector <= end) {
      T x[kVector], a[kVector] = {}, b[kVector] = {}, g[kVector];
      load<kVector>(var + i, vectors, x);
      if constexpr (Rule::kSlots > 0) load<kVector>(slot1 + i, vectors, a);
      if constexpr (Rule::kSlots > 1) load<kVector>(slot2 + i, vectors, b);
      load<kVector>(grad + i, vectors, g);
#pragma unroll
      for (int v = 0; v < kVector; ++v) update_one(rule, rate, x[v], a[v], b[v], widen(g[v]));
      store<kVector>(var + i, vectors, x);
      if constexpr (Rule::kSlots > 0) store<kVector>(slot1 + i, vectors, a);
      if constexpr (Rule::kSlots > 1) store<kVector>(slot2 + i, vectors, b);
    } else {
      for (std::int64_t j = i; j < end; ++j) {
        T none{};
        T& a = Rule::kSlots > 0 ? slot1[j] : none;
        T& b = Rule::kSlots > 1 ? slot2[j] : none;
        update_one(rule, rate, var[j], a, b, widen(grad[j]));
      }
    }
  }
}

template <class T, class Rule>
__global__ void __launch_bounds__(kSweepThreads)
    update_rows(Rule rule, SparseUpdate u, const T* lr, const std::int64_t* t, CudaFaultSite fault) {
  if (!goes_on(rule, t, fault)) return;
  const Compute<T> rate = rate_of_block(rule, lr, t);
  const auto* values = static_cast<const T*>(u.values);
  const std::int64_t all = u.groups * u.width, step = static_cast<std::int64_t>(gridDim.x) * kSweepThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kSweepThreads + threadIdx.x; i < all; i += step) {
    const std::int64_t group = i / u.width, column = i % u.width;
    const std::int64_t first = u.begins[group], last = u.begins[group + 1];
    Compute<T> g = widen(values[u.order[first] * u.width + column]);
    for (std::int64_t k = first + 1; k < last; ++k) g += widen(values[u.order[k] * u.width + column]);
    const std::int64_t at = u.rows[group] * u.width + column;
    T none{};
    T& a = Rule::kSlots > 0 ? static_cast<T*>(u.state[1])[at] : none;
    T& b = Rule::kSlots > 1 ? static_cast<T*>(u.state[2])[at] : none;
    update_one(rule, rate, static_cast<T*>(u.state[0])[at], a, b, g);
  }
}

// Calls fn.template operator()<T>(update).
template <class Fn>
cudaError_t for_rule(DType dtype, const OptimizerRule& rule, Fn fn) {
  return dispatch(FloatElements{}, dtype, [&]<class T>() {
    const auto call = [&]<class Rule>(const Rule& typed) {
      return fn.template operator()<T>(Update<Compute<T>, Rule>(typed));
    };
    return std::visit(call, rule);
  });
}

}  // namespace
}  // namespace device

cudaError_t launch_updates(DType dtype, const OptimizerRule& rule, const UpdateTable& table, const void* lr,
                           const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream) {
  if (table.blocks == 0) return cudaSuccess;
  return device::for_rule(dtype, rule, [&]<class T, class Made>(const Made& update) {
    return device::launch(device::update_all<T, Made>, static_cast<unsigned>(table.blocks), kSweepThreads, stream,
                          update, table, static_cast<const T*>(lr), t, fault);
  });
}

cudaError_t launch_sparse_update(DType dtype, const OptimizerRule& rule, const SparseUpdate& update, const void* lr,
                                 const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream) {
  return device::for_rule(dtype, rule, [&]<class T, class Made>(const Made& made) {
    return device::launch(device::update_rows<T, Made>, device::blocks_for(update.groups * update.width, kSweepThreads),
                          kSweepThreads, stream, made, update, static_cast<const T*>(lr), t, fault);
  });
}

}  // namespace troupe
