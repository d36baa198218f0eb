#include "troupe/kernels/cpu/updates.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <troupe/kernels/common/row_groups.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/update_loops.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kPartElements = std::int64_t{1} << 14;

// The loop, for f16 and bf16 on floats, by blocks: each element is rounded once. G: T or its Compute type.
template <class T, class G>
void run_update(UpdateLoop<Compute<T>> update, const StatePointers<T>& state, std::int64_t at, const G* g,
                std::int64_t n) {
  if constexpr (!kIsNarrow<T>) {
    const Stretch<T> stretch{at, g};
    update(state, {&stretch, 1}, n);
  } else {
    float rooms[kMaxState][kNarrowBlock], g_room[kNarrowBlock];
    StatePointers<float> wide{};
    for (std::int64_t done = 0; done < n; done += kNarrowBlock) {
      const std::int64_t count = std::min(kNarrowBlock, n - done);
      for (std::size_t i = 0; i < kMaxState && state[i]; ++i) {
        widen(state[i] + at + done, rooms[i], count);
        wide[i] = rooms[i];
      }
      const Stretch<float> stretch{0, widened(g + done, g_room, count)};
      update(wide, {&stretch, 1}, count);
      for (std::size_t i = 0; i < kMaxState && state[i]; ++i) narrow(rooms[i], state[i] + at + done, count);
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

// Maximum variables per sweep: their elements are numbered consecutively, in this order.
constexpr std::size_t kSweep = 32;

template <class T>
struct SweepEntry {
  StatePointers<T> state;
  const T* grad;
  std::int64_t end;  // number of its last element + 1
};

template <class T>
void sweep(Parallelism& parallelism, UpdateLoop<Compute<T>> update, std::span<const VariableUpdate> updates) {
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
      run_update<T>(update, entries[i].state, begin - first, entries[i].grad + (begin - first), stop - begin);
      begin = stop;
    }
  });
}

template <class T>
void update_dense(Parallelism& parallelism, UpdateLoop<Compute<T>> update, std::span<const VariableUpdate> updates) {
  for (std::size_t i = 0; i < updates.size(); i += kSweep)
    sweep<T>(parallelism, update, updates.subspan(i, std::min(kSweep, updates.size() - i)));
}

// Row gradients grouped by row.
template <class T>
class SparseUpdate {
 public:
  SparseUpdate(UpdateLoop<Compute<T>> update, std::span<Tensor* const> state, const Tensor& indices,
               const Tensor& values)
      : update_(update),
        state_(pointers<T>(state)),
        num_rows_(state[0]->shape()[0]),
        width_(num_rows_ == 0 ? 0 : state[0]->num_elements() / num_rows_),
        groups_(group_rows(indices.values<std::int64_t>())),
        values_(values.data<T>()) {}

  void lazy(Parallelism& parallelism) const {
    parallelism.parallel_for(std::ssize(groups_.rows), grain(), [&](std::int64_t begin, std::int64_t end) {
      std::vector<Compute<T>> sum(static_cast<std::size_t>(width_));
      SingleRows singles(*this);
      for (std::int64_t group = begin; group < end; ++group) {
        const auto [first, last] = positions(group);
        if (last - first == 1) {
          singles.add(row_of(group) * width_, value(first));
          continue;
        }
        std::transform(value(first), value(first) + width_, sum.begin(),
                       [](T x) { return static_cast<Compute<T>>(x); });
        for (std::size_t i = first + 1; i < last; ++i) add_value(i, sum);
        run_update<T>(update_, state_, row_of(group) * width_, sum.data(), width_);
      }
    });
  }

  // Sums begin with 0, as those of a dense gradient.
  void exact(Parallelism& parallelism) const {
    parallelism.parallel_for(num_rows_, grain(), [&](std::int64_t begin, std::int64_t end) {
      std::vector<Compute<T>> sum(static_cast<std::size_t>(width_));
      std::int64_t group = std::ranges::lower_bound(groups_.rows, begin) - groups_.rows.begin();
      for (std::int64_t next = begin; next < end; ++next) {
        const std::int64_t touched = group < std::ssize(groups_.rows) ? std::min(end, row_of(group)) : end;
        update_without_gradient(next, touched);
        next = touched;
        if (next == end) break;
        const auto [first, last] = positions(group++);
        std::ranges::fill(sum, Compute<T>{0});
        for (std::size_t i = first; i < last; ++i) add_value(i, sum);
        run_update<T>(update_, state_, next * width_, sum.data(), width_);
      }
    });
  }

 private:
  // Rows with one value each, which need no sum, several in a call.
  class SingleRows {
   public:
    explicit SingleRows(const SparseUpdate& all) : all_(all) {}
    ~SingleRows() { flush(); }
    void add(std::int64_t at, const T* g) {
      if constexpr (kIsNarrow<T>) {
        run_update<T>(all_.update_, all_.state_, at, g, all_.width_);
      } else {
        rows_[count_++] = {at, g};
        if (count_ == rows_.size()) flush();
      }
    }

   private:
    void flush() {
      if constexpr (!kIsNarrow<T>)
        if (count_ > 0) all_.update_(all_.state_, std::span(rows_).first(std::exchange(count_, 0)), all_.width_);
    }
    const SparseUpdate& all_;
    std::array<Stretch<Compute<T>>, 64> rows_;
    std::size_t count_ = 0;
  };

  std::int64_t grain() const { return std::max<std::int64_t>(1, kPartElements / std::max<std::int64_t>(1, width_)); }
  std::int64_t row_of(std::int64_t group) const { return groups_.rows[static_cast<std::size_t>(group)]; }
  // Of a group's values, in groups_.order.
  std::pair<std::size_t, std::size_t> positions(std::int64_t group) const {
    const auto at = static_cast<std::size_t>(group);
    return {static_cast<std::size_t>(groups_.begins[at]), static_cast<std::size_t>(groups_.begins[at + 1])};
  }
  const T* value(std::size_t position) const { return values_ + groups_.order[position] * width_; }
  void add_value(std::size_t position, std::vector<Compute<T>>& sum) const {
    const T* g = value(position);
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<Compute<T>>(g[j]);
  }
  void update_without_gradient(std::int64_t first, std::int64_t last) const {
    constexpr std::int64_t kZeros = 1024;
    static constexpr std::array<Compute<T>, kZeros> zeros{};
    const std::int64_t end = last * width_;
    for (std::int64_t at = first * width_; at < end; at += kZeros)
      run_update<T>(update_, state_, at, zeros.data(), std::min(kZeros, end - at));
  }

  UpdateLoop<Compute<T>> update_;
  StatePointers<T> state_;
  std::int64_t num_rows_, width_;
  RowGroups groups_;
  const T* values_;
};

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
  dispatch(FloatTypes{}, lr.dtype(), [&]<class T>() {
    with_update_loop<Compute<T>>(rule, rate_of<T>(lr), number,
                                 [&](UpdateLoop<Compute<T>> update) { update_dense<T>(parallelism, update, updates); });
  });
}

void apply_sparse_update(Parallelism& parallelism, const OptimizerRule& rule, std::span<Tensor* const> state,
                         const Tensor& lr, const Tensor& indices, const Tensor& values, std::int64_t number,
                         SlotUpdates slot_updates) {
  check_sparse_update(rule, ConstState(state).all(), lr, indices, values, number);
  dispatch(FloatTypes{}, values.dtype(), [&]<class T>() {
    with_update_loop<Compute<T>>(rule, rate_of<T>(lr), number, [&](UpdateLoop<Compute<T>> update) {
      const SparseUpdate<T> rows(update, state, indices, values);
      if (slot_updates == SlotUpdates::exact)
        rows.exact(parallelism);
      else
        rows.lazy(parallelism);
    });
  });
}

}  // namespace troupe
