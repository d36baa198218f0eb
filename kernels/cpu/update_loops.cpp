#include "troupe/kernels/cpu/update_loops.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include <troupe/kernels/common/nadam_momentum.hpp>

namespace troupe {
namespace {

// A rule with its constants rounded to T.
template <class T, class Rule>
struct Update;

template <class T>
struct Update<T, SgdRule> {
  T lr;
  Update(const SgdRule&, double rate, std::int64_t) : lr(static_cast<T>(rate)) {}
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0] + at;
    for (std::int64_t i = 0; i < n; ++i) var[i] -= lr * g[i];
  }
};

template <class T>
struct Update<T, MomentumRule> {
  T lr, momentum;
  bool nesterov;
  Update(const MomentumRule& rule, double rate, std::int64_t)
      : lr(static_cast<T>(rate)), momentum(static_cast<T>(rule.momentum)), nesterov(rule.nesterov) {}
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0] + at;
    T* __restrict accum = state[1] + at;
    for (std::int64_t i = 0; i < n; ++i) accum[i] = momentum * accum[i] + g[i];
    if (nesterov)
      for (std::int64_t i = 0; i < n; ++i) var[i] -= lr * (g[i] + momentum * accum[i]);
    else
      for (std::int64_t i = 0; i < n; ++i) var[i] -= lr * accum[i];
  }
};

template <class T>
struct Update<T, AdagradRule> {
  T lr, epsilon;
  Update(const AdagradRule& rule, double rate, std::int64_t)
      : lr(static_cast<T>(rate)), epsilon(static_cast<T>(rule.epsilon)) {}
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0] + at;
    T* __restrict accum = state[1] + at;
    for (std::int64_t i = 0; i < n; ++i) {
      const T sum = accum[i] + g[i] * g[i];
      accum[i] = sum;
      var[i] -= lr * g[i] / (std::sqrt(sum) + epsilon);
    }
  }
};

template <class T>
struct Update<T, RmsPropRule> {
  T lr, rho, rest, momentum, epsilon;
  Update(const RmsPropRule& rule, double rate, std::int64_t)
      : lr(static_cast<T>(rate)),
        rho(static_cast<T>(rule.rho)),
        rest(static_cast<T>(1 - rule.rho)),
        momentum(static_cast<T>(rule.momentum)),
        epsilon(static_cast<T>(rule.epsilon)) {}
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0] + at;
    T* __restrict ms = state[1] + at;
    T* __restrict mom = state[2] + at;
    for (std::int64_t i = 0; i < n; ++i) {
      const T mean = rho * ms[i] + rest * (g[i] * g[i]);
      const T step = momentum * mom[i] + lr * g[i] / std::sqrt(mean + epsilon);
      ms[i] = mean;
      mom[i] = step;
      var[i] -= step;
    }
  }
};

template <class T>
struct Update<T, AdamRule> {
  T alpha, beta1, rest1, beta2, rest2, epsilon;
  Update(const AdamRule& rule, double rate, std::int64_t number)
      : alpha(static_cast<T>(rate * std::sqrt(1 - std::pow(rule.beta2, static_cast<double>(number))) /
                             (1 - std::pow(rule.beta1, static_cast<double>(number))))),
        beta1(static_cast<T>(rule.beta1)),
        rest1(static_cast<T>(1 - rule.beta1)),
        beta2(static_cast<T>(rule.beta2)),
        rest2(static_cast<T>(1 - rule.beta2)),
        epsilon(static_cast<T>(rule.epsilon)) {}
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0] + at;
    T* __restrict m = state[1] + at;
    T* __restrict v = state[2] + at;
    for (std::int64_t i = 0; i < n; ++i) {
      const T mi = beta1 * m[i] + rest1 * g[i], vi = beta2 * v[i] + rest2 * (g[i] * g[i]);
      m[i] = mi;
      v[i] = vi;
      var[i] -= alpha * mi / (std::sqrt(vi) + epsilon);
    }
  }
};

template <class T>
struct Update<T, AdadeltaRule> {
  T lr, rho, rest, epsilon;
  Update(const AdadeltaRule& rule, double rate, std::int64_t)
      : lr(static_cast<T>(rate)),
        rho(static_cast<T>(rule.rho)),
        rest(static_cast<T>(1 - rule.rho)),
        epsilon(static_cast<T>(rule.epsilon)) {}
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0] + at;
    T* __restrict accum = state[1] + at;
    T* __restrict accum_update = state[2] + at;
    for (std::int64_t i = 0; i < n; ++i) {
      const T squares = rho * accum[i] + rest * (g[i] * g[i]);
      const T step = g[i] * std::sqrt(accum_update[i] + epsilon) / std::sqrt(squares + epsilon);
      accum[i] = squares;
      accum_update[i] = rho * accum_update[i] + rest * (step * step);
      var[i] -= lr * step;
    }
  }
};

template <class T>
struct Update<T, FtrlRule> {
  T lr, l1, twice_l2, twice_shrinkage, beta, power;
  Update(const FtrlRule& rule, double rate, std::int64_t)
      : lr(static_cast<T>(rate)),
        l1(static_cast<T>(rule.l1)),
        twice_l2(static_cast<T>(2 * rule.l2)),
        twice_shrinkage(static_cast<T>(2 * rule.l2_shrinkage)),
        beta(static_cast<T>(rule.beta)),
        power(static_cast<T>(-rule.learning_rate_power)) {}
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    if (lr == 0) return;
    if (power == T{0.5})
      loop(state, at, g, n, [](T x) { return std::sqrt(x); });
    else
      loop(state, at, g, n, [p = power](T x) { return std::pow(x, p); });
  }
  static constexpr T kLeast = std::numeric_limits<T>::min();  // 0 / 0 is 0
  template <class Power>
  void loop(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n, Power raised) const {
    const auto [lr, l1, twice_l2, twice_shrinkage, beta, power] = *this;  // else the loop is not vectorised
    T* __restrict var = state[0] + at;
    T* __restrict accum = state[1] + at;
    T* __restrict linear = state[2] + at;
    for (std::int64_t i = 0; i < n; ++i) {
      const T next = accum[i] + g[i] * g[i], raised_next = raised(next);
      const T sigma = (raised_next - raised(accum[i])) / lr;
      const T z = linear[i] + ((g[i] + twice_shrinkage * var[i]) - sigma * var[i]);
      accum[i] = next;
      linear[i] = z;
      const T low = z < -l1 ? -l1 : z, clipped = low > l1 ? l1 : low;
      const T quadratic = (raised_next + beta) / lr + twice_l2;
      var[i] = (clipped - z) / (quadratic < kLeast ? kLeast : quadratic);
    }
  }
};

template <class T>
struct Update<T, LionRule> {
  T lr, beta1, rest1, beta2, rest2;
  Update(const LionRule& rule, double rate, std::int64_t)
      : lr(static_cast<T>(rate)),
        beta1(static_cast<T>(rule.beta1)),
        rest1(static_cast<T>(1 - rule.beta1)),
        beta2(static_cast<T>(rule.beta2)),
        rest2(static_cast<T>(1 - rule.beta2)) {}
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0] + at;
    T* __restrict m = state[1] + at;
    for (std::int64_t i = 0; i < n; ++i) {
      const T c = beta1 * m[i] + rest1 * g[i];
      const T negative = c < 0 ? T{-1} : c;  // 0 and NaN are their own signs
      var[i] -= lr * (c > 0 ? T{1} : negative);
      m[i] = beta2 * m[i] + rest2 * g[i];
    }
  }
};

template <class T>
struct Update<T, CenteredRmsPropRule> {
  T lr, rho, rest, momentum, epsilon;
  Update(const CenteredRmsPropRule& rule, double rate, std::int64_t)
      : lr(static_cast<T>(rate)),
        rho(static_cast<T>(rule.rho)),
        rest(static_cast<T>(1 - rule.rho)),
        momentum(static_cast<T>(rule.momentum)),
        epsilon(static_cast<T>(rule.epsilon)) {}
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0] + at;
    T* __restrict ms = state[1] + at;
    T* __restrict mom = state[2] + at;
    T* __restrict mg = state[3] + at;
    for (std::int64_t i = 0; i < n; ++i) {
      const T squares = rho * ms[i] + rest * (g[i] * g[i]), mean = rho * mg[i] + rest * g[i];
      const T step = momentum * mom[i] + lr * g[i] / std::sqrt((squares - mean * mean) + epsilon);
      ms[i] = squares;
      mg[i] = mean;
      mom[i] = step;
      var[i] -= step;
    }
  }
};

template <class T>
struct Update<T, AmsGradRule> {
  Update<T, AdamRule> adam;
  Update(const AmsGradRule& rule, double rate, std::int64_t number)
      : adam({.beta1 = rule.beta1, .beta2 = rule.beta2, .epsilon = rule.epsilon}, rate, number) {}
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0] + at;
    T* __restrict m = state[1] + at;
    T* __restrict v = state[2] + at;
    T* __restrict vhat = state[3] + at;
    const auto [alpha, beta1, rest1, beta2, rest2, epsilon] = adam;
    for (std::int64_t i = 0; i < n; ++i) {
      const T mi = beta1 * m[i] + rest1 * g[i], vi = beta2 * v[i] + rest2 * (g[i] * g[i]);
      const T most = vhat[i] < vi ? vi : vhat[i];
      m[i] = mi;
      v[i] = vi;
      vhat[i] = most;
      var[i] -= alpha * mi / (std::sqrt(most) + epsilon);
    }
  }
};

template <class T>
struct Update<T, AdamaxRule> {
  T alpha, beta1, rest1, beta2, epsilon;
  Update(const AdamaxRule& rule, double rate, std::int64_t number)
      : alpha(static_cast<T>(rate / (1 - std::pow(rule.beta1, static_cast<double>(number))))),
        beta1(static_cast<T>(rule.beta1)),
        rest1(static_cast<T>(1 - rule.beta1)),
        beta2(static_cast<T>(rule.beta2)),
        epsilon(static_cast<T>(rule.epsilon)) {}
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0] + at;
    T* __restrict m = state[1] + at;
    T* __restrict u = state[2] + at;
    for (std::int64_t i = 0; i < n; ++i) {
      const T mi = beta1 * m[i] + rest1 * g[i], kept = beta2 * u[i], size = std::fabs(g[i]);
      const T most = kept < size ? size : kept;
      m[i] = mi;
      u[i] = most;
      var[i] -= alpha * mi / (most + epsilon);
    }
  }
};

template <class T>
struct Update<T, NadamRule> {
  T of_m, of_g, of_v, beta1, rest1, beta2, rest2, epsilon;
  Update(const NadamRule& rule, double rate, std::int64_t number)
      : beta1(static_cast<T>(rule.beta1)),
        rest1(static_cast<T>(1 - rule.beta1)),
        beta2(static_cast<T>(rule.beta2)),
        rest2(static_cast<T>(1 - rule.beta2)),
        epsilon(static_cast<T>(rule.epsilon)) {
    const NadamFactors factors = nadam_factors(rule.beta1, rule.beta2, rate, static_cast<double>(number));
    of_m = static_cast<T>(factors.of_m);
    of_g = static_cast<T>(factors.of_g);
    of_v = static_cast<T>(factors.of_v);
  }
  void operator()(const StatePointers<T>& state, std::int64_t at, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0] + at;
    T* __restrict m = state[1] + at;
    T* __restrict v = state[2] + at;
    for (std::int64_t i = 0; i < n; ++i) {
      const T mi = beta1 * m[i] + rest1 * g[i], vi = beta2 * v[i] + rest2 * (g[i] * g[i]);
      m[i] = mi;
      v[i] = vi;
      var[i] -= (of_m * mi + of_g * g[i]) / (std::sqrt(vi * of_v) + epsilon);
    }
  }
};

// Blocks stay in the cache between both loops.
constexpr std::int64_t kDecayBlock = 1024;

template <class T, class Rule>
void decay_and_update(const Update<T, Rule>& update, T decay, const StatePointers<T>& state, std::int64_t at,
                      const T* g, std::int64_t n) {
  for (std::int64_t done = 0; done < n; done += kDecayBlock) {
    const std::int64_t count = std::min(kDecayBlock, n - done);
    T* var = state[0] + at + done;
    for (std::int64_t i = 0; i < count; ++i) var[i] -= decay * var[i];
    update(state, at + done, g + done, count);
  }
}

// Rows are anywhere in memory: those of the stretch after the next are fetched meanwhile.
template <class T>
void fetch(const StatePointers<T>& state, std::int64_t at, std::int64_t n) {
  constexpr std::int64_t kLine = 64 / sizeof(T), kMost = 32 * kLine;
  for (std::size_t i = 0; i < state.size() && state[i]; ++i)
    for (std::int64_t j = 0; j < std::min(n, kMost); j += kLine) __builtin_prefetch(state[i] + at + j, 1);
}

template <class T, class One>
void for_stretches(const StatePointers<T>& state, std::span<const Stretch<T>> stretches, std::int64_t n, One one) {
  constexpr std::size_t kAhead = 2;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    if (i + kAhead < stretches.size()) fetch(state, stretches[i + kAhead].at, n);
    one(stretches[i].at, stretches[i].g);
  }
}

}  // namespace

template <class T>
void with_update_loop(const OptimizerRule& rule, double rate, std::int64_t number,
                      FunctionRef<void(UpdateLoop<T> loop)> use) {
  const auto call = [&]<class Rule>(const Rule& typed) {
    const Update<T, Rule> update(typed, rate, number);
    if (typed.weight_decay == 0)
      return use([&](const StatePointers<T>& state, std::span<const Stretch<T>> stretches, std::int64_t n) {
        for_stretches(state, stretches, n, [&](std::int64_t at, const T* g) { update(state, at, g, n); });
      });
    const T decay = static_cast<T>(rate * typed.weight_decay);
    use([&](const StatePointers<T>& state, std::span<const Stretch<T>> stretches, std::int64_t n) {
      for_stretches(state, stretches, n,
                    [&](std::int64_t at, const T* g) { decay_and_update(update, decay, state, at, g, n); });
    });
  };
  std::visit(call, rule);
}

template void with_update_loop<float>(const OptimizerRule&, double, std::int64_t, FunctionRef<void(UpdateLoop<float>)>);
template void with_update_loop<double>(const OptimizerRule&, double, std::int64_t,
                                       FunctionRef<void(UpdateLoop<double>)>);

}  // namespace troupe
