// Update rules of one element, for kernels that update variables. Compiled without fused multiply-adds, at no cost:
// updates are limited by memory bandwidth. Bits match the CPU except where powers, or Nadam's logarithms, are computed.
#pragma once

#include <limits>

#include <troupe/graph/optimizers/optimizer_rules.hpp>
#include <troupe/kernels/common/nadam_momentum.hpp>
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/fault.cuh>

namespace troupe {
namespace device {
namespace {

__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }
__device__ inline float raised(float x, float p) { return p == 0.5f ? sqrtf(x) : powf(x, p); }
__device__ inline double raised(double x, double p) { return p == 0.5 ? sqrt(x) : pow(x, p); }
__device__ inline float size_of(float x) { return fabsf(x); }
__device__ inline double size_of(double x) { return fabs(x); }

// Step: the scalars of one update, computed from the learning rate and t by one thread of a block.
template <class T>
struct PlainRate {
  using Step = T;
  __device__ bool counted(const std::int64_t*) const { return true; }
  __device__ T step(T lr, const std::int64_t*) const { return lr; }
};
struct Counted {
  __device__ bool counted(const std::int64_t* t) const { return *t >= 1; }
};

// A rule with its constants rounded to T, float or double. Slots that it does not have are not touched.
template <class T, class Rule>
struct Update;

template <class T>
struct Update<T, SgdRule> : PlainRate<T> {
  static constexpr int kSlots = 0;
  explicit Update(const SgdRule&) {}
  __device__ void operator()(T rate, T& var, T&, T&, T&, T g) const { var -= rate * g; }
};

template <class T>
struct Update<T, MomentumRule> : PlainRate<T> {
  static constexpr int kSlots = 1;
  T momentum;
  bool nesterov;
  explicit Update(const MomentumRule& rule) : momentum(static_cast<T>(rule.momentum)), nesterov(rule.nesterov) {}
  __device__ void operator()(T rate, T& var, T& accum, T&, T&, T g) const {
    accum = momentum * accum + g;
    var -= rate * (nesterov ? g + momentum * accum : accum);
  }
};

template <class T>
struct Update<T, AdagradRule> : PlainRate<T> {
  static constexpr int kSlots = 1;
  T epsilon;
  explicit Update(const AdagradRule& rule) : epsilon(static_cast<T>(rule.epsilon)) {}
  __device__ void operator()(T rate, T& var, T& accum, T&, T&, T g) const {
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
  __device__ void operator()(T rate, T& var, T& ms, T& mom, T&, T g) const {
    ms = rho * ms + rest * (g * g);
    mom = momentum * mom + rate * g / root(ms + epsilon);
    var -= mom;
  }
};

template <class T>
struct Update<T, CenteredRmsPropRule> : PlainRate<T> {
  static constexpr int kSlots = 3;
  T rho, rest, momentum, epsilon;
  explicit Update(const CenteredRmsPropRule& rule)
      : rho(static_cast<T>(rule.rho)),
        rest(static_cast<T>(1 - rule.rho)),
        momentum(static_cast<T>(rule.momentum)),
        epsilon(static_cast<T>(rule.epsilon)) {}
  __device__ void operator()(T rate, T& var, T& ms, T& mom, T& mg, T g) const {
    ms = rho * ms + rest * (g * g);
    mg = rho * mg + rest * g;
    mom = momentum * mom + rate * g / root((ms - mg * mg) + epsilon);
    var -= mom;
  }
};

template <class T>
struct Update<T, AdadeltaRule> : PlainRate<T> {
  static constexpr int kSlots = 2;
  T rho, rest, epsilon;
  explicit Update(const AdadeltaRule& rule)
      : rho(static_cast<T>(rule.rho)), rest(static_cast<T>(1 - rule.rho)), epsilon(static_cast<T>(rule.epsilon)) {}
  __device__ void operator()(T rate, T& var, T& accum, T& accum_update, T&, T g) const {
    accum = rho * accum + rest * (g * g);
    const T step = g * root(accum_update + epsilon) / root(accum + epsilon);
    accum_update = rho * accum_update + rest * (step * step);
    var -= rate * step;
  }
};

template <class T>
struct Update<T, FtrlRule> : PlainRate<T> {
  static constexpr int kSlots = 2;
  T l1, twice_l2, twice_shrinkage, beta, power;
  explicit Update(const FtrlRule& rule)
      : l1(static_cast<T>(rule.l1)),
        twice_l2(static_cast<T>(2 * rule.l2)),
        twice_shrinkage(static_cast<T>(2 * rule.l2_shrinkage)),
        beta(static_cast<T>(rule.beta)),
        power(static_cast<T>(-rule.learning_rate_power)) {}
  __device__ void operator()(T rate, T& var, T& accum, T& linear, T&, T g) const {
    if (rate == 0) return;
    const T next = accum + g * g, raised_next = raised(next, power);
    const T sigma = (raised_next - raised(accum, power)) / rate;
    linear = linear + ((g + twice_shrinkage * var) - sigma * var);
    accum = next;
    const T low = linear < -l1 ? -l1 : linear, clipped = low > l1 ? l1 : low;
    const T quadratic = (raised_next + beta) / rate + twice_l2;
    constexpr T kLeast = std::numeric_limits<T>::min();  // 0 / 0 is 0
    var = (clipped - linear) / (quadratic < kLeast ? kLeast : quadratic);
  }
};

template <class T>
struct Update<T, LionRule> : PlainRate<T> {
  static constexpr int kSlots = 1;
  T beta1, rest1, beta2, rest2;
  explicit Update(const LionRule& rule)
      : beta1(static_cast<T>(rule.beta1)),
        rest1(static_cast<T>(1 - rule.beta1)),
        beta2(static_cast<T>(rule.beta2)),
        rest2(static_cast<T>(1 - rule.beta2)) {}
  __device__ void operator()(T rate, T& var, T& m, T&, T&, T g) const {
    const T c = beta1 * m + rest1 * g;
    var -= rate * (c > 0 ? T{1} : c < 0 ? T{-1} : c);  // 0 and NaN are their own signs
    m = beta2 * m + rest2 * g;
  }
};

template <class T>
struct AdamMeans : Counted {
  T beta1, rest1, beta2, rest2, epsilon;
  double exact1, exact2;
  template <class Rule>
  explicit AdamMeans(const Rule& rule)
      : beta1(static_cast<T>(rule.beta1)),
        rest1(static_cast<T>(1 - rule.beta1)),
        beta2(static_cast<T>(rule.beta2)),
        rest2(static_cast<T>(1 - rule.beta2)),
        epsilon(static_cast<T>(rule.epsilon)),
        exact1(rule.beta1),
        exact2(rule.beta2) {}
  __device__ void move(T& m, T& v, T g) const {
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * (g * g);
  }
  using Step = T;
  __device__ T step(T lr, const std::int64_t* t) const {
    const auto number = static_cast<double>(*t);
    return static_cast<T>(static_cast<double>(lr) * sqrt(1 - pow(exact2, number)) / (1 - pow(exact1, number)));
  }
};

template <class T>
struct Update<T, AdamRule> : AdamMeans<T> {
  static constexpr int kSlots = 2;
  using AdamMeans<T>::AdamMeans;
  __device__ void operator()(T rate, T& var, T& m, T& v, T&, T g) const {
    this->move(m, v, g);
    var -= rate * m / (root(v) + this->epsilon);
  }
};

template <class T>
struct Update<T, AmsGradRule> : AdamMeans<T> {
  static constexpr int kSlots = 3;
  using AdamMeans<T>::AdamMeans;
  __device__ void operator()(T rate, T& var, T& m, T& v, T& vhat, T g) const {
    this->move(m, v, g);
    vhat = vhat < v ? v : vhat;
    var -= rate * m / (root(vhat) + this->epsilon);
  }
};

template <class T>
struct Update<T, AdamaxRule> : Counted {
  static constexpr int kSlots = 2;
  T beta1, rest1, beta2, epsilon;
  double exact1;
  explicit Update(const AdamaxRule& rule)
      : beta1(static_cast<T>(rule.beta1)),
        rest1(static_cast<T>(1 - rule.beta1)),
        beta2(static_cast<T>(rule.beta2)),
        epsilon(static_cast<T>(rule.epsilon)),
        exact1(rule.beta1) {}
  using Step = T;
  __device__ T step(T lr, const std::int64_t* t) const {
    return static_cast<T>(static_cast<double>(lr) / (1 - pow(exact1, static_cast<double>(*t))));
  }
  __device__ void operator()(T rate, T& var, T& m, T& u, T&, T g) const {
    m = beta1 * m + rest1 * g;
    const T kept = beta2 * u, size = size_of(g);
    u = kept < size ? size : kept;
    var -= rate * m / (u + epsilon);
  }
};

template <class T>
struct Update<T, NadamRule> : AdamMeans<T> {
  static constexpr int kSlots = 2;
  using AdamMeans<T>::AdamMeans;
  struct Step {
    T of_m, of_g, of_v;
  };
  __device__ Step step(T lr, const std::int64_t* t) const {
    const NadamFactors factors =
        nadam_factors(this->exact1, this->exact2, static_cast<double>(lr), static_cast<double>(*t));
    return {static_cast<T>(factors.of_m), static_cast<T>(factors.of_g), static_cast<T>(factors.of_v)};
  }
  __device__ void operator()(const Step& step, T& var, T& m, T& v, T&, T g) const {
    this->move(m, v, g);
    var -= (step.of_m * m + step.of_g * g) / (root(v * step.of_v) + this->epsilon);
  }
};

// An update, and the weight decay before it.
template <class T, class Rule>
struct DecayedUpdate {
  using Wide = Compute<T>;
  Update<Wide, Rule> update;
  double weight_decay;
  static constexpr int kSlots = Update<Wide, Rule>::kSlots;

  struct Step {
    typename Update<Wide, Rule>::Step step;
    Wide decay;
  };
  // Computed by one thread of the block.
  __device__ const Step& step_of_block(const T* lr, const std::int64_t* t) const {
    __shared__ Step step;
    if (threadIdx.x == 0) {
      const Wide rate = widen(*lr);
      step = {update.step(rate, t), static_cast<Wide>(static_cast<double>(rate) * weight_decay)};
    }
    __syncthreads();
    return step;
  }
  // Updates one element; slots that the rule does not have are not touched.
  __device__ void operator()(const Step& step, T& var, T& slot1, T& slot2, T& slot3, Wide g) const {
    Wide x = widen(var), a = kSlots > 0 ? widen(slot1) : Wide{0}, b = kSlots > 1 ? widen(slot2) : Wide{0},
         c = kSlots > 2 ? widen(slot3) : Wide{0};
    if (weight_decay != 0) x -= step.decay * x;
    update(step.step, x, a, b, c, g);
    var = narrow<T>(x);
    if constexpr (kSlots > 0) slot1 = narrow<T>(a);
    if constexpr (kSlots > 1) slot2 = narrow<T>(b);
    if constexpr (kSlots > 2) slot3 = narrow<T>(c);
  }
};

// True if the update is to be made. False after a fault: the step fails, and persistent state keeps its values.
template <class T, class Rule>
__device__ bool goes_on(const DecayedUpdate<T, Rule>& rule, const std::int64_t* t, const CudaFaultSite& fault) {
  if (failed(fault.fault)) return false;
  if (rule.update.counted(t)) return true;
  if (threadIdx.x == 0) report(fault, *t, 0, 0);
  return false;
}

// Calls fn(update) with a DecayedUpdate for the elements of the dtype, one of `floats`.
template <class Floats, class Fn>
cudaError_t for_rule(Floats floats, DType dtype, const OptimizerRule& rule, Fn fn) {
  return dispatch(floats, dtype, [&]<class T>() {
    const auto call = [&]<class Rule>(const Rule& typed) {
      return fn(DecayedUpdate<T, Rule>{Update<Compute<T>, Rule>(typed), typed.weight_decay});
    };
    return std::visit(call, rule);
  });
}

}  // namespace
}  // namespace device
}  // namespace troupe
