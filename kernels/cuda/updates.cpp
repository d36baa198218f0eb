// LearningRate, SlotsTouching, Apply<Rule>, Apply<Rule>Many and SparseApply<Rule>. Inputs: the variable, its slots, lr,
// (rules that count updates: t,) and then the gradient or indices and values. Many: lists of variables, slots and
// gradients.
//
// The learning rate and t stay on the GPU: an invalid t fails the step later (devices/cuda/cuda_faults.hpp), and once a
// fault is detected a step makes no further updates. Sparse updates and SlotsTouching read their row numbers on the
// host and wait for them.
#include <algorithm>
#include <optional>
#include <vector>

#include <troupe/graph/optimizers/schedules.hpp>
#include <troupe/graph/training/sparse_mean.hpp>
#include <troupe/kernels/common/row_groups.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/schedule_launch.hpp>
#include <troupe/kernels/cuda/schedule_of.hpp>
#include <troupe/kernels/cuda/updates_launch.hpp>
#include <troupe/kernels/cuda/variables.hpp>

namespace troupe {
namespace {

using RuleFactory = decltype(OptimizerRuleKind::read);

template <class Rule>
Error not_counted(const CudaFault& fault) {
  return {Code::invalid_argument,
          fmt::format("{} counts updates from 1, but t is {}", rule_kind(Rule{}).name, fault.value)};
}

// Only rules that count updates can report a fault.
CudaFaultSite fault_of(KernelContext& context, const OptimizerRule& rule) {
  CudaDevice& device = cuda_device(context);
  if (rule_kind(rule).counts_updates)
    return std::visit([&]<class Rule>(const Rule&) { return device.fault_site(not_counted<Rule>); }, rule);
  return {.fault = const_cast<CudaFault*>(device.fault())};
}

constexpr fmt::format_string<std::string_view, std::string> kBadCount =
    "the number of updates must be a single i64 of at least 0, but is {}{}";
Error no_count(const CudaFault& fault) {
  return {Code::invalid_argument, fmt::format(kBadCount, name(DType::i64), Tensor::scalar(fault.value).to_string())};
}

// Inputs before the gradients: handles of variables and slots, `stride` inputs apart, then lr and t.
struct Inputs {
  Inputs(KernelContext& context, const OptimizerRule& rule, int count)
      : context(context), roles(rule_kind(rule).slots + 1), stride(count), lr(context.input(roles * count)) {
    next = roles * count + 1;
    if (!rule_kind(rule).counts_updates) return;
    const Tensor& given = context.input(next++);
    if (given.dtype() != DType::i64 || given.num_elements() != 1)
      invalid_argument("{}'s t must be one i64, but is {}{}", rule_kind(rule).name, name(given.dtype()),
                       given.shape().to_string());
    t = reinterpret_cast<const std::int64_t*>(given.raw());
  }
  const Tensor& value(int variable, int role) const { return context.variable(variable + role * stride).value(); }
  void check_state(int variable) const {
    const Tensor& var = value(variable, 0);
    if (!is_floating(var.dtype()))
      invalid_argument("a variable updated by gradients must be floating, not {}", name(var.dtype()));
    for (int role = 1; role < roles; ++role) check_tensor("the slot", value(variable, role), var.dtype(), var.shape());
    if (lr.dtype() != var.dtype() || lr.num_elements() != 1)
      invalid_argument("the learning rate must be a single {}, but is {}{}", name(var.dtype()), name(lr.dtype()),
                       lr.shape().to_string());
  }
  // Mutable values of a variable and its slots.
  template <class Pointers>
  void take_writable(int variable, Pointers& pointers) const {
    for (int role = 0; role < roles; ++role)
      pointers[static_cast<std::size_t>(role)] = writable(context, variable + role * stride).mutable_raw();
  }

  KernelContext& context;
  int roles, stride, next;
  const Tensor& lr;
  const std::int64_t* t = nullptr;
};

void run_dense(KernelContext& context, const OptimizerRule& rule, int count) {
  const Inputs in(context, rule, count);
  for (int v = 0; v < count; ++v) {
    try {
      in.check_state(v);
      check_tensor("the gradient", context.input(in.next + v), in.value(v, 0).dtype(), in.value(v, 0).shape());
    } catch (const Error& error) {
      if (count == 1) throw;
      throw error.within(fmt::format("variable '{}'", context.variable(v).name()));
    }
  }
  const DType dtype = in.lr.dtype();
  UpdateTable table;
  const CudaFaultSite fault = fault_of(context, rule);
  const auto launch = [&] {
    check_cuda(launch_updates(dtype, rule, table, in.lr.raw(), in.t, fault, cuda_device(context).stream()),
               "the update of variables");
  };
  for (int v = 0; v < count; ++v) {
    const Tensor& grad = context.input(in.next + v);
    std::array<void*, kUpdatePointers> pointers{};
    in.take_writable(v, pointers);
    pointers[kUpdatePointers - 1] = const_cast<std::byte*>(grad.raw());
    if (table.add(pointers, grad.num_elements())) continue;
    launch();
    table.size = 0;
    table.blocks = 0;
    table.add(pointers, grad.num_elements());
  }
  launch();
}

void run_sparse(KernelContext& context, const OptimizerRule& rule, bool exact) {
  const Inputs in(context, rule, 1);
  in.check_state(0);
  const Tensor &indices = context.input(in.next), &values = context.input(in.next + 1);
  const Shape shape = in.value(0, 0).shape();
  if (shape.rank() < 1) invalid_argument("a sparse update needs a variable with rows, not a scalar");
  if (indices.dtype() != DType::i64 || indices.shape().rank() != 1)
    invalid_argument("the indices must be an i64 vector, but are {}{}", name(indices.dtype()),
                     indices.shape().to_string());
  Shape wanted = shape;
  wanted.set_dim(0, indices.shape()[0]);
  check_tensor("the gradient values", values, in.lr.dtype(), wanted);
  const Tensor on_host = context.device().read(indices);  // waits for the GPU: an invalid row must change nothing
  const auto rows = on_host.values<std::int64_t>();
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] < 0 || rows[i] >= shape[0])
      fail(Code::out_of_range, "row {} at position {} of the indices is not in [0,{})", rows[i], i, shape[0]);
  const std::int64_t elements = in.value(0, 0).num_elements();
  if (elements == 0 || (!exact && values.num_elements() == 0)) return;
  const RowGroups groups = group_rows(rows);
  const Tensor tables = context.device().upload(groups.packed());
  const auto* packed = reinterpret_cast<const std::int64_t*>(tables.raw());
  SparseUpdate update{};
  in.take_writable(0, update.state);
  update.values = values.raw();
  update.width = elements / shape[0];
  update.all_rows = exact ? shape[0] : 0;
  update.groups = std::ssize(groups.rows);
  update.begins = packed;
  update.order = packed + groups.begins.size();
  update.rows = update.order + groups.order.size();
  const CudaFaultSite fault = fault_of(context, rule);
  check_cuda(launch_sparse_update(in.lr.dtype(), rule, update, in.lr.raw(), in.t, fault, cuda_device(context).stream()),
             "the update of rows");
}

KernelFactory dense(RuleFactory make_rule) {
  return [make_rule](const KernelInit& init) -> Kernel {
    return [rule = make_rule(init.attributes)](KernelContext& context) { run_dense(context, rule, 1); };
  };
}

KernelFactory dense_many(RuleFactory make_rule) {
  return [make_rule](const KernelInit& init) -> Kernel {
    const std::int64_t count = init.attributes.integer("N");
    if (count < 0 || count > std::ssize(init.input_types))
      invalid_argument("attribute 'N' must be from 0 to the number of inputs, not {}", count);
    return [rule = make_rule(init.attributes), count = static_cast<int>(count)](KernelContext& context) {
      run_dense(context, rule, count);
    };
  };
}

KernelFactory sparse(RuleFactory make_rule) {
  return [make_rule](const KernelInit& init) -> Kernel {
    const bool exact = init.attributes.has("exact") && init.attributes.boolean("exact");
    return [rule = make_rule(init.attributes), exact](KernelContext& context) { run_sparse(context, rule, exact); };
  };
}

Kernel make_slots_touching(const KernelInit& init) {
  return [dtype = init.output_types[0]](KernelContext& context) {
    std::vector<Tensor> on_host;
    std::vector<std::span<const std::int64_t>> rows;
    for (int i = 0; i < context.num_inputs(); ++i) on_host.push_back(context.device().read(context.input(i)));
    for (const Tensor& t : on_host) rows.push_back(t.values<std::int64_t>());
    const std::vector<std::int64_t> slots = slots_touching(rows);
    Tensor out(dtype, Shape{std::ssize(slots)});
    const auto fill = [&]<class T>(T) {
      std::ranges::transform(slots, out.mutable_data<T>(),
                             [](std::int64_t n) { return static_cast<T>(static_cast<float>(n)); });
    };
    switch (dtype) {
      case DType::f32:
        fill(float{});
        break;
      case DType::f64:
        fill(double{});
        break;
      case DType::f16:
        fill(Half{});
        break;
      case DType::bf16:
        fill(BFloat16{});
        break;
      default:
        fail(Code::unimplemented, "dtype {} is not supported", name(dtype));
    }
    context.set_output(0, context.device().upload(out));
  };
}

Kernel make_learning_rate(const KernelInit& init) {
  const auto check = [](const Tensor& step) {
    if (step.dtype() != DType::i64 || step.num_elements() != 1)
      invalid_argument(kBadCount, name(step.dtype()), step.shape().to_string());
  };
  const DType dtype = init.output_types[0];
  const Schedule schedule = Schedule::of(init.attributes);
  if (const std::optional<CudaSchedule> on_gpu = cuda_schedule(schedule))
    return [check, dtype, schedule = *on_gpu](KernelContext& context) {
      check(context.input(0));
      Tensor rate = context.allocate(dtype, Shape{});
      check_cuda(launch_learning_rate(dtype, schedule, reinterpret_cast<const std::int64_t*>(context.input(0).raw()),
                                      cuda_device(context).fault_site(no_count), rate.mutable_raw(),
                                      cuda_device(context).stream()),
                 "LearningRate");
      context.set_output(0, std::move(rate));
    };
  return [check, dtype, schedule](KernelContext& context) {
    check(context.input(0));
    const Tensor step = context.device().read(context.input(0));  // too long a schedule: waits for the GPU
    context.set_output(0, context.device().upload(schedule.rate(step.item<std::int64_t>(), dtype)));
  };
}

}  // namespace

void register_cuda_update_kernels(KernelRegistry& registry) {
  const auto floats = {DType::f32, DType::f64, DType::f16, DType::bf16};
  for (const OptimizerRuleKind& rule : optimizer_rules()) {
    const std::string name(rule.name);
    add_cuda(registry, "Apply" + name, floats, dense(rule.read));
    add_cuda(registry, "Apply" + name + "Many", floats, dense_many(rule.read));
    add_cuda(registry, "SparseApply" + name, floats, sparse(rule.read), Replay::never);
  }
  add_cuda(registry, "SlotsTouching", floats, make_slots_touching, Replay::never);
  add_cuda(registry, "LearningRate", floats, make_learning_rate);
}

}  // namespace troupe
