// Kernels LearningRate, SlotsTouching, Apply<Rule>, Apply<Rule>Many and SparseApply<Rule>. Inputs: the variable, its
// slots, lr, (rules that count updates: t,) and then the gradient, or indices and values. Many: lists of variables,
// slots and gradients.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <troupe/graph/optimizers/schedules.hpp>
#include <troupe/graph/training/sparse_mean.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>
#include <troupe/kernels/cpu/updates.hpp>

namespace troupe {
namespace {

using RuleFactory = decltype(OptimizerRuleKind::read);

// The number of the update: an input of rules that count updates.
std::int64_t take_number(const OptimizerRule& rule, KernelContext& ctx, int& next_input) {
  if (!rule_kind(rule).counts_updates) return 1;
  const Tensor& t = ctx.input(next_input++);
  if (t.dtype() != DType::i64 || t.num_elements() != 1)
    invalid_argument("{}'s t must be one i64, but is {}{}", rule_kind(rule).name, name(t.dtype()),
                     t.shape().to_string());
  return t.item<std::int64_t>();
}

// The variables changed by an update, each with its slots at intervals of `stride` inputs.
class Variables {
 public:
  Variables(KernelContext& ctx, int first, int count, int stride)
      : ctx_(ctx), first_(first), count_(count), stride_(stride) {}

  // Calls fn with the current values.
  template <class Fn>
  void with_values(Fn fn) const {
    std::array<const Tensor*, kMaxState> out{};
    for (int i = 0; i < count_; ++i) out[static_cast<std::size_t>(i)] = &at(i).value();
    fn(std::span<const Tensor* const>(out.data(), static_cast<std::size_t>(count_)));
  }
  // The values, for modification.
  std::array<Tensor*, kMaxState> writable() const {
    std::array<Tensor*, kMaxState> out{};
    for (int i = 0; i < count_; ++i) out[static_cast<std::size_t>(i)] = &at(i).writable(ctx_.allocator());
    return out;
  }

 private:
  Variable& at(int i) const { return ctx_.variable(first_ + i * stride_); }

  KernelContext& ctx_;
  int first_, count_, stride_;
};

// For Apply<Rule>Many, and for Apply<Rule>, where `count` is 1.
void run_dense(KernelContext& ctx, const OptimizerRule& rule, int count) {
  constexpr int kSwept = 32;  // variables whose pointers fit on the stack
  const int roles = rule_kind(rule).slots + 1;
  int next = roles * count;
  const Tensor& lr = ctx.input(next++);
  const std::int64_t number = take_number(rule, ctx, next);
  for (int v = 0; v < count; ++v) {
    try {
      Variables(ctx, v, roles, count).with_values([&](auto state) {
        check_update(rule, state, lr, ctx.input(next + v), number);
      });
    } catch (const Error& error) {
      if (count == 1) throw;
      throw error.within(fmt::format("variable '{}'", ctx.variable(v).name()));
    }
  }
  std::array<VariableUpdate, kSwept> updates;
  for (int first = 0; first < count; first += kSwept) {
    const int n = std::min(kSwept, count - first);
    for (int i = 0; i < n; ++i)
      updates[static_cast<std::size_t>(i)] = {Variables(ctx, first + i, roles, count).writable(),
                                              &ctx.input(next + first + i)};
    apply_updates(ctx.parallelism(), rule, {updates.data(), static_cast<std::size_t>(n)}, lr, number);
  }
}

KernelFactory dense(RuleFactory make_rule) {
  return [make_rule](const KernelInit& init) -> Kernel {
    return [rule = make_rule(init.attributes)](KernelContext& ctx) { run_dense(ctx, rule, 1); };
  };
}

KernelFactory dense_many(RuleFactory make_rule) {
  return [make_rule](const KernelInit& init) -> Kernel {
    const std::int64_t count = init.attributes.integer("N");
    if (count < 0 || count > std::ssize(init.input_types))
      invalid_argument("attribute 'N' must be from 0 to the number of inputs, not {}", count);
    return [rule = make_rule(init.attributes), count = static_cast<int>(count)](KernelContext& ctx) {
      run_dense(ctx, rule, count);
    };
  };
}

KernelFactory sparse(RuleFactory make_rule) {
  return [make_rule](const KernelInit& init) -> Kernel {
    const bool exact = init.attributes.has("exact") && init.attributes.boolean("exact");
    return [rule = make_rule(init.attributes),
            slot_updates = exact ? SlotUpdates::exact : SlotUpdates::lazy](KernelContext& ctx) {
      const int roles = rule_kind(rule).slots + 1;
      const Variables variables(ctx, 0, roles, 1);
      int next = roles;
      const Tensor& lr = ctx.input(next++);
      const std::int64_t number = take_number(rule, ctx, next);
      const Tensor& indices = ctx.input(next);
      const Tensor& values = ctx.input(next + 1);
      variables.with_values([&](auto state) { check_sparse_update(rule, state, lr, indices, values, number); });
      const auto state = variables.writable();
      apply_sparse_update(ctx.parallelism(), rule, {state.data(), static_cast<std::size_t>(roles)}, lr, indices, values,
                          number, slot_updates);
    };
  };
}

}  // namespace

void register_update_kernels(KernelRegistry& registry) {
  for (const OptimizerRuleKind& rule : optimizer_rules()) {
    const std::string name(rule.name);
    registry.add({"Apply" + name, "CPU", dtypes_of(FloatTypes{}), dense(rule.read)});
    registry.add({"Apply" + name + "Many", "CPU", dtypes_of(FloatTypes{}), dense_many(rule.read)});
    registry.add({"SparseApply" + name, "CPU", dtypes_of(FloatTypes{}), sparse(rule.read)});
  }
  add_kernels(registry, "SlotsTouching", FloatTypes{}, []<class T>(KernelContext& ctx) {
    std::vector<std::span<const std::int64_t>> rows;
    for (int i = 0; i < ctx.num_inputs(); ++i) rows.push_back(ctx.input(i).values<std::int64_t>());
    const std::vector<std::int64_t> slots = slots_touching(rows);
    Tensor out = ctx.allocate(dtype_of<T>, Shape{static_cast<std::int64_t>(slots.size())});
    std::ranges::transform(slots, out.mutable_data<T>(),
                           [](std::int64_t n) { return static_cast<T>(static_cast<float>(n)); });
    ctx.set_output(0, std::move(out));
  });
  add_factories(registry, "LearningRate", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [schedule = Schedule::of(init.attributes)](KernelContext& ctx) {
      const Tensor& step = ctx.input(0);
      if (step.dtype() != DType::i64 || step.num_elements() != 1 || step.item<std::int64_t>() < 0)
        invalid_argument("the number of updates must be a single i64 of at least 0, but is {}{}", name(step.dtype()),
                         step.to_string());
      ctx.set_output(0, schedule.rate(step.item<std::int64_t>(), dtype_of<T>));
    };
  });
}

}  // namespace troupe
