#include "troupe/kernels/cpu/updates.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <troupe/kernels/common/row_groups.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kPartElements = std::int64_t{1} << 14;
// Elements [0, n) of the variable and its slots.
template <class T>
using StatePointers = std::array<T*, kMaxState>;

// A rule with its constants rounded to T; update() loops over elements.
template <class T, class Rule>
struct Update;

template <class T>
struct Update<T, SgdRule> {
  T lr;
  Update(const SgdRule&, double rate, std::int64_t) : lr(static_cast<T>(rate)) {}
  void operator()(StatePointers<T> state, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0];
    for (std::int64_t i = 0; i < n; ++i) var[i] -= lr * g[i];
  }
};

template <class T>
struct Update<T, MomentumRule> {
  T lr, momentum;
  bool nesterov;
  Update(const MomentumRule& rule, double rate, std::int64_t)
      : lr(static_cast<T>(rate)), momentum(static_cast<T>(rule.momentum)), nesterov(rule.nesterov) {}
  void operator()(StatePointers<T> state, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0];
    T* __restrict accum = state[1];
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
  void operator()(StatePointers<T> state, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0];
    T* __restrict accum = state[1];
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
  void operator()(StatePointers<T> state, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0];
    T* __restrict ms = state[1];
    T* __restrict mom = state[2];
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
  void operator()(StatePointers<T> state, const T* __restrict g, std::int64_t n) const {
    T* __restrict var = state[0];
    T* __restrict m = state[1];
    T* __restrict v = state[2];
    for (std::int64_t i = 0; i < n; ++i) {
      const T mi = beta1 * m[i] + rest1 * g[i], vi = beta2 * v[i] + rest2 * (g[i] * g[i]);
      m[i] = mi;
      v[i] = vi;
      var[i] -= alpha * mi / (std::sqrt(vi) + epsilon);
    }
  }
};

// update(), for f16 and bf16 on floats, by blocks: each element is rounded once. G: T or its Compute type.
template <class T, class Rule, class G>
void run_update(const Update<Compute<T>, Rule>& update, StatePointers<T> state, const G* g, std::int64_t n) {
  if constexpr (!kIsNarrow<T>) {
    update(state, g, n);
  } else {
    float rooms[kMaxState][kNarrowBlock], g_room[kNarrowBlock];
    StatePointers<float> wide{};
    for (std::int64_t at = 0; at < n; at += kNarrowBlock) {
      const std::int64_t count = std::min(kNarrowBlock, n - at);
      for (std::size_t i = 0; i < kMaxState && state[i]; ++i) {
        widen(state[i] + at, rooms[i], count);
        wide[i] = rooms[i];
      }
      update(wide, widened(g + at, g_room, count), count);
      for (std::size_t i = 0; i < kMaxState && state[i]; ++i) narrow(rooms[i], state[i] + at, count);
    }
  }
}

// The rate as a double, whatever the dtype.
template <class T>
double rate_of(const Tensor& lr) {
  return static_cast<double>(static_cast<Compute<T>>(lr.item<T>()));
}

std::span<Tensor* const> state_of(const VariableUpdate& update) {
  const auto count = std::ranges::find(update.state, nullptr) - update.state.begin();
  return {update.state.data(), static_cast<std::size_t>(count)};
}

template <class T>
StatePointers<T> pointers(std::span<Tensor* const> state) {
  StatePointers<T> out{};
  for (std::size_t i = 0; i < state.size(); ++i) out[i] = state[i]->mutable_data<T>();
  return out;
}

template <class T>
StatePointers<T> advanced(StatePointers<T> state, std::int64_t offset) {
  for (T*& p : state)
    if (p) p += offset;
  return state;
}

// Maximum variables per sweep: their elements are numbered consecutively, in this order.
constexpr std::size_t kSweep = 32;

template <class T>
struct SweepEntry {
  StatePointers<T> state;
  const T* grad;
  std::int64_t end;  // number of its last element + 1
};

template <class T, class Rule>
void sweep(Parallelism& parallelism, const Update<Compute<T>, Rule>& update, std::span<const VariableUpdate> updates) {
  std::array<SweepEntry<T>, kSweep> entries;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    total += updates[i].grad->num_elements();
    entries[i] = {pointers<T>(state_of(updates[i])), updates[i].grad->data<T>(), total};
  }
  parallelism.parallel_for(total, kPartElements, [&](std::int64_t begin, std::int64_t end) {
    std::size_t i = 0;
    while (begin < end) {
      while (entries[i].end <= begin) ++i;
      const std::int64_t first = i == 0 ? 0 : entries[i - 1].end;  // start of the variable
      const std::int64_t stop = std::min(end, entries[i].end);
      run_update<T>(update, advanced(entries[i].state, begin - first), entries[i].grad + (begin - first), stop - begin);
      begin = stop;
    }
  });
}

template <class T, class Rule>
void update_dense(Parallelism& parallelism, const Rule& rule, std::span<const VariableUpdate> updates, const Tensor& lr,
                  std::int64_t number) {
  const Update<Compute<T>, Rule> update(rule, rate_of<T>(lr), number);
  for (std::size_t i = 0; i < updates.size(); i += kSweep)
    sweep<T>(parallelism, update, updates.subspan(i, std::min(kSweep, updates.size() - i)));
}

template <class T, class Rule>
void update_sparse(Parallelism& parallelism, const Rule& rule, std::span<Tensor* const> state, const Tensor& lr,
                   const Tensor& indices, const Tensor& values, std::int64_t number) {
  const Update<Compute<T>, Rule> update(rule, rate_of<T>(lr), number);
  const StatePointers<T> all = pointers<T>(state);
  const auto rows = indices.values<std::int64_t>();
  if (rows.empty()) return;
  const std::int64_t width = values.num_elements() / values.shape()[0];
  const RowGroups groups = group_rows(rows);
  const T* g = values.data<T>();
  const std::int64_t distinct = std::ssize(groups.rows);
  const std::int64_t grain = std::max<std::int64_t>(1, kPartElements / std::max<std::int64_t>(1, width));
  parallelism.parallel_for(distinct, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Compute<T>> sum(static_cast<std::size_t>(width));
    for (std::int64_t group = begin; group < end; ++group) {
      const auto first = static_cast<std::size_t>(groups.begins[static_cast<std::size_t>(group)]);
      const auto last = static_cast<std::size_t>(groups.begins[static_cast<std::size_t>(group) + 1]);
      const StatePointers<T> row = advanced(all, groups.rows[static_cast<std::size_t>(group)] * width);
      if (last - first == 1) {
        run_update<T>(update, row, g + groups.order[first] * width, width);
        continue;
      }
      std::transform(g + groups.order[first] * width, g + (groups.order[first] + 1) * width, sum.begin(),
                     [](T x) { return static_cast<Compute<T>>(x); });
      for (std::size_t i = first + 1; i < last; ++i)
        for (std::int64_t j = 0; j < width; ++j)
          sum[static_cast<std::size_t>(j)] += static_cast<Compute<T>>(g[groups.order[i] * width + j]);
      run_update<T>(update, row, sum.data(), width);
    }
  });
}

void check_state(const OptimizerRule& rule, std::span<const Tensor* const> state, const Tensor& lr,
                 std::int64_t number) {
  if (static_cast<int>(state.size()) != rule_kind(rule).slots + 1)
    invalid_argument("the update rule takes a variable and {} slots, but got {} tensors", rule_kind(rule).slots,
                     state.size());
  const Tensor& var = *state[0];
  if (!is_floating(var.dtype()))
    invalid_argument("a variable updated by gradients must be floating, not {}", name(var.dtype()));
  for (const Tensor* slot : state.subspan(1)) check_tensor("the slot", *slot, var.dtype(), var.shape());
  if (lr.dtype() != var.dtype() || lr.num_elements() != 1)
    invalid_argument("the learning rate must be a single {}, but is {}{}", name(var.dtype()), name(lr.dtype()),
                     lr.shape().to_string());
  if (rule_kind(rule).counts_updates && number < 1)
    invalid_argument("{} counts updates from 1, but t is {}", rule_kind(rule).name, number);
}

// The tensors of `state`, read-only.
class ConstState {
 public:
  explicit ConstState(std::span<Tensor* const> state) : count_(std::min(state.size(), all_.size())) {
    std::copy_n(state.begin(), count_, all_.begin());
  }
  std::span<const Tensor* const> all() const { return {all_.data(), count_}; }

 private:
  std::array<const Tensor*, kMaxState + 1> all_{};  // one more than any rule takes, so that an excess is rejected
  std::size_t count_;
};

}  // namespace

void check_update(const OptimizerRule& rule, std::span<const Tensor* const> state, const Tensor& lr, const Tensor& grad,
                  std::int64_t number) {
  check_state(rule, state, lr, number);
  check_tensor("the gradient", grad, state[0]->dtype(), state[0]->shape());
}

void check_sparse_update(const OptimizerRule& rule, std::span<const Tensor* const> state, const Tensor& lr,
                         const Tensor& indices, const Tensor& values, std::int64_t number) {
  check_state(rule, state, lr, number);
  const Shape& shape = state[0]->shape();
  if (shape.rank() < 1) invalid_argument("a sparse update needs a variable with rows, not a scalar");
  if (indices.dtype() != DType::i64 || indices.shape().rank() != 1)
    invalid_argument("the indices must be an i64 vector, but are {}{}", name(indices.dtype()),
                     indices.shape().to_string());
  Shape wanted = shape;
  wanted.set_dim(0, indices.shape()[0]);
  check_tensor("the gradient values", values, state[0]->dtype(), wanted);
  const auto rows = indices.values<std::int64_t>();
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] < 0 || rows[i] >= shape[0])
      fail(Code::out_of_range, "row {} at position {} of the indices is not in [0,{})", rows[i], i, shape[0]);
}

void apply_update(Parallelism& parallelism, const OptimizerRule& rule, std::span<Tensor* const> state, const Tensor& lr,
                  const Tensor& grad, std::int64_t number) {
  check_update(rule, ConstState(state).all(), lr, grad, number);
  VariableUpdate update{.grad = &grad};
  std::copy(state.begin(), state.end(), update.state.begin());
  apply_updates(parallelism, rule, {&update, 1}, lr, number);
}

void apply_updates(Parallelism& parallelism, const OptimizerRule& rule, std::span<const VariableUpdate> updates,
                   const Tensor& lr, std::int64_t number) {
  for (const VariableUpdate& u : updates) check_update(rule, ConstState(state_of(u)).all(), lr, *u.grad, number);
  std::visit(
      [&](const auto& typed) {
        dispatch(FloatTypes{}, lr.dtype(),
                 [&]<class T>() { update_dense<T>(parallelism, typed, updates, lr, number); });
      },
      rule);
}

void apply_sparse_update(Parallelism& parallelism, const OptimizerRule& rule, std::span<Tensor* const> state,
                         const Tensor& lr, const Tensor& indices, const Tensor& values, std::int64_t number) {
  check_sparse_update(rule, ConstState(state).all(), lr, indices, values, number);
  std::visit(
      [&](const auto& typed) {
        dispatch(FloatTypes{}, values.dtype(),
                 [&]<class T>() { update_sparse<T>(parallelism, typed, state, lr, indices, values, number); });
      },
      rule);
}

}  // namespace troupe
