#include <gtest/gtest.h>

#include <deque>

#include "tests/kernels/random_tensors.hpp"
#include <troupe/kernels/cpu/updates.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

struct Optimizer {
  std::string name;
  OptimizerRule rule;
};

std::vector<Optimizer> optimizers() {
  return {{"SGD", SgdRule{}},
          {"Momentum", MomentumRule{0.8, false}},
          {"Momentum", MomentumRule{0.8, true}},
          {"Adagrad", AdagradRule{1e-7}},
          {"RMSProp", RmsPropRule{0.9, 0.5, 1e-7}},
          {"Adam", AdamRule{0.9, 0.999, 1e-8}},
          {"Adadelta", AdadeltaRule{0.95, 1e-6}},
          {"Ftrl", FtrlRule{.l1 = 0.1, .l2 = 0.2, .l2_shrinkage = 0.05, .beta = 0.5}},
          {"Ftrl", FtrlRule{.l1 = 0.1, .beta = 0.5, .learning_rate_power = -0.75}},
          {"Lion", LionRule{0.9, 0.99}},
          {"CenteredRMSProp", CenteredRmsPropRule{0.9, 0.5, 1e-7}},
          {"AMSGrad", AmsGradRule{0.9, 0.5, 1e-8}},
          {"Adamax", AdamaxRule{0.9, 0.999, 1e-8}},
          {"Nadam", NadamRule{0.9, 0.999, 1e-8}},
          {"SGD", SgdRule{.weight_decay = 0.3}},
          {"Adam", AdamRule{0.9, 0.999, 1e-8, 0.3}},
          {"Lion", LionRule{0.9, 0.99, 0.3}}};
}

// The published formulas, one element at a time. Slots as in ops: accum; ms, mom; m, v.
struct ReferenceStep {
  double& var;
  std::array<double, 3>& slot;
  double lr, g;
  int t;

  void operator()(const SgdRule&) const { var -= lr * g; }
  void operator()(const MomentumRule& r) const {
    slot[0] = r.momentum * slot[0] + g;
    var -= lr * (r.nesterov ? g + r.momentum * slot[0] : slot[0]);
  }
  void operator()(const AdagradRule& r) const {
    slot[0] += g * g;
    var -= lr * g / (std::sqrt(slot[0]) + r.epsilon);
  }
  void operator()(const RmsPropRule& r) const {
    slot[0] = r.rho * slot[0] + (1 - r.rho) * g * g;
    slot[1] = r.momentum * slot[1] + lr * g / std::sqrt(slot[0] + r.epsilon);
    var -= slot[1];
  }
  void operator()(const CenteredRmsPropRule& r) const {
    slot[0] = r.rho * slot[0] + (1 - r.rho) * g * g;
    slot[2] = r.rho * slot[2] + (1 - r.rho) * g;
    slot[1] = r.momentum * slot[1] + lr * g / std::sqrt(slot[0] - slot[2] * slot[2] + r.epsilon);
    var -= slot[1];
  }
  template <class Adam>
  void move(const Adam& r) const {
    slot[0] = r.beta1 * slot[0] + (1 - r.beta1) * g;
    slot[1] = r.beta2 * slot[1] + (1 - r.beta2) * g * g;
  }
  void operator()(const AdamRule& r) const {
    move(r);
    const double m = slot[0] / (1 - std::pow(r.beta1, t)), v = slot[1] / (1 - std::pow(r.beta2, t));
    var -= lr * m / (std::sqrt(v) + r.epsilon / std::sqrt(1 - std::pow(r.beta2, t)));
  }
  void operator()(const AmsGradRule& r) const {
    move(r);
    slot[2] = std::max(slot[2], slot[1]);
    const double alpha = lr * std::sqrt(1 - std::pow(r.beta2, t)) / (1 - std::pow(r.beta1, t));
    var -= alpha * slot[0] / (std::sqrt(slot[2]) + r.epsilon);
  }
  void operator()(const AdamaxRule& r) const {
    slot[0] = r.beta1 * slot[0] + (1 - r.beta1) * g;
    slot[1] = std::max(r.beta2 * slot[1], std::abs(g));
    var -= lr / (1 - std::pow(r.beta1, t)) * slot[0] / (slot[1] + r.epsilon);
  }
  void operator()(const NadamRule& r) const {
    move(r);
    const auto mu = [&](int i) { return r.beta1 * (1 - 0.5 * std::pow(0.96, i)); };
    double product = 1;
    for (int i = 1; i <= t; ++i) product *= mu(i);
    const double m = mu(t + 1) * slot[0] / (1 - product * mu(t + 1)) + (1 - mu(t)) * g / (1 - product);
    var -= lr * m / (std::sqrt(slot[1] / (1 - std::pow(r.beta2, t))) + r.epsilon);
  }
  void operator()(const AdadeltaRule& r) const {
    slot[0] = r.rho * slot[0] + (1 - r.rho) * g * g;
    const double step = std::sqrt(slot[1] + r.epsilon) / std::sqrt(slot[0] + r.epsilon) * g;
    slot[1] = r.rho * slot[1] + (1 - r.rho) * step * step;
    var -= lr * step;
  }
  void operator()(const FtrlRule& r) const {
    const double p = -r.learning_rate_power, before = std::pow(slot[0], p);
    slot[0] += g * g;
    const double after = std::pow(slot[0], p);
    slot[1] += g + 2 * r.l2_shrinkage * var - (after - before) / lr * var;
    const double z = slot[1], sign = z < 0 ? -1 : 1;
    var = std::abs(z) <= r.l1 ? 0 : (sign * r.l1 - z) / ((r.beta + after) / lr + 2 * r.l2);
  }
  void operator()(const LionRule& r) const {
    const double c = r.beta1 * slot[0] + (1 - r.beta1) * g;
    var -= lr * (c > 0 ? 1 : c < 0 ? -1 : 0);
    slot[0] = r.beta2 * slot[0] + (1 - r.beta2) * g;
  }
};

void reference_step(const OptimizerRule& rule, double& var, std::array<double, 3>& slot, double lr, double g, int t) {
  std::visit([&](const auto& r) { var -= lr * r.weight_decay * var; }, rule);
  std::visit(ReferenceStep{var, slot, lr, g, t}, rule);
}

// A variable and its slots, initialised to zero, and the kernel call on them.
struct State {
  State(const Optimizer& optimizer, const Tensor& value) {
    for (int i = 0; i <= rule_kind(optimizer.rule).slots; ++i) {
      variables.emplace_back(fmt::format("v{}", i), value.dtype(), value.shape());
      variables.back().assign(i == 0 ? value.clone() : Tensor::zeros(value.dtype(), value.shape()));
    }
  }
  KernelCall call(const Optimizer& optimizer, bool sparse, const Tensor& lr, std::int64_t t,
                  std::vector<Tensor> gradient) {
    KernelCall call{
        (sparse ? "SparseApply" : "Apply") + optimizer.name, lr.dtype(), {}, attributes_of(optimizer.rule), 0};
    for (Variable& variable : variables) call.variables.push_back(&variable);
    call.inputs.resize(variables.size());
    call.inputs.push_back(lr);
    if (rule_kind(optimizer.rule).counts_updates) call.inputs.push_back(Tensor::scalar(t));
    for (Tensor& g : gradient) call.inputs.push_back(std::move(g));
    return call;
  }
  std::deque<Variable> variables;
};

Tensor rate(DType dtype, double value) {
  return dtype == DType::f32 ? Tensor::scalar(static_cast<float>(value)) : Tensor::scalar(value);
}

TEST(Apply, FollowsThePublishedFormulaForSeveralSteps) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  std::mt19937_64 engine(41);
  for (const Optimizer& optimizer : optimizers())
    for (DType dtype : {DType::f32, DType::f64})
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{13, 7}, Shape{0, 3}, Shape{40000}}) {
        State state(optimizer, random_tensor(dtype, shape, engine));
        std::vector<double> var = doubles(state.variables[0].value());
        std::vector<std::array<double, 3>> slots(var.size());
        const Tensor lr = rate(dtype, 0.0625);
        for (int t = 1; t <= 5; ++t) {
          const Tensor grad = random_tensor(dtype, shape, engine);
          run_kernel(registry, *device, state.call(optimizer, false, lr, t, {grad}));
          const auto g = doubles(grad);
          for (std::size_t i = 0; i < var.size(); ++i)
            reference_step(optimizer.rule, var[i], slots[i], 0.0625, g[i], t);
        }
        // FTRL's sums are of values divided by the rate.
        const double tolerance = (dtype == DType::f32 ? 2e-6 : 1e-14) * (optimizer.name == "Ftrl" ? 16 : 1);
        const auto got = doubles(state.variables[0].value());
        for (std::size_t i = 0; i < var.size(); ++i)
          ASSERT_NEAR(got[i], var[i], tolerance) << optimizer.name << " at " << i;
        for (std::size_t s = 1; s < state.variables.size(); ++s) {
          const auto slot = doubles(state.variables[s].value());
          for (std::size_t i = 0; i < slot.size(); ++i)
            ASSERT_NEAR(slot[i], slots[i][s - 1], tolerance) << optimizer.name << " slot " << s;
        }
      }
}

// The update of floats with the same values, rounded once.
TEST(Apply, ComputesNarrowVariablesInFloat) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device(3);
  std::mt19937_64 engine(47);
  const auto as = [&](const Tensor& t, DType dtype) {
    return run_kernel(
        registry, *device,
        {"Cast", t.dtype(), {t}, {{"SrcT", t.dtype()}, {"DstT", dtype}}, 1, {}, {}, 0, "cast", {dtype}})[0];
  };
  for (const Optimizer& optimizer : optimizers())
    for (DType dtype : {DType::f16, DType::bf16})
      for (const bool sparse : {false, true}) {
        SCOPED_TRACE(optimizer.name + " " + std::string(name(dtype)) + (sparse ? " sparse" : ""));
        const Shape shape{19, 701};
        State narrow(optimizer, as(random_tensor(DType::f32, shape, engine), dtype));
        State wide(optimizer, as(narrow.variables[0].value(), DType::f32));
        for (int t = 1; t <= 3; ++t) {
          const Tensor grad = as(random_tensor(DType::f32, sparse ? Shape{3, 701} : shape, engine), dtype);
          const Tensor rows = Tensor::vector<std::int64_t>({7, 2, 7});
          const auto gradient = [&](const Tensor& g) {
            return sparse ? std::vector<Tensor>{rows, g} : std::vector<Tensor>{g};
          };
          run_kernel(registry, *device,
                     narrow.call(optimizer, sparse, as(rate(DType::f32, 0.0625), dtype), t, gradient(grad)));
          run_kernel(registry, *device,
                     wide.call(optimizer, sparse, rate(DType::f32, 0.0625), t, gradient(as(grad, DType::f32))));
          for (std::size_t i = 0; i < wide.variables.size(); ++i) {
            const Tensor rounded = as(wide.variables[i].value(), dtype);
            ASSERT_TRUE(bitwise_equal(narrow.variables[i].value(), rounded)) << "step " << t << ", tensor " << i;
            wide.variables[i].assign(as(rounded, DType::f32));
          }
        }
      }
}

// Deterministic values with many distinct magnitudes, so that an order of operations that changed would show.
Tensor spread(const Shape& shape, std::mt19937_64& engine) {
  Tensor t = random_tensor(DType::f32, shape, engine);
  for (float& v : t.mutable_values<float>()) v = std::ldexp(v, static_cast<int>(engine() % 20) - 10);
  return t;
}

TEST(Apply, GivesTheSameBitsForAnyCutAndAnyThreads) {
  const auto one = test_device(1), three = test_device(3);
  std::mt19937_64 engine(42);
  constexpr std::int64_t kRows = 1237, kWidth = 37;
  for (const Optimizer& optimizer : optimizers()) {
    const int tensors = rule_kind(optimizer.rule).slots + 1;
    std::vector<Tensor> whole, threaded, cut;
    for (int i = 0; i < tensors; ++i) {
      Tensor initial = spread({kRows, kWidth}, engine);
      for (float& v : initial.mutable_values<float>()) v = std::fabs(v);  // accumulators of squares
      whole.push_back(initial);
      threaded.push_back(initial.clone());
      cut.push_back(initial.clone());
    }
    const auto views = [](std::vector<Tensor>& all, std::int64_t begin, std::int64_t end) {
      std::vector<Tensor> out;
      for (Tensor& t : all) out.push_back(t.rows(begin, end));
      return out;
    };
    const auto apply = [&](Device& device, std::vector<Tensor> state, const Tensor& grad) {
      std::vector<Tensor*> pointers;
      for (Tensor& t : state) pointers.push_back(&t);
      apply_update(device.parallelism(), optimizer.rule, pointers, Tensor::scalar(0.1f), grad);
    };
    const Tensor grad = spread({kRows, kWidth}, engine);
    apply(*one, whole, grad);
    apply(*three, threaded, grad);
    for (std::int64_t begin = 0, size = 1; begin < kRows; begin += size, size = size * 2 + 1) {
      const std::int64_t end = std::min(kRows, begin + size);
      apply(*one, views(cut, begin, end), grad.rows(begin, end));
    }
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(whole[i], threaded[i])) << optimizer.name;
      EXPECT_TRUE(bitwise_equal(whole[i], cut[i])) << optimizer.name;
    }
  }
}

TEST(SparseApply, EqualsADenseUpdateOfTheNamedRowsAndLeavesTheOthers) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(43);
  constexpr std::int64_t kRows = 300, kWidth = 129;
  for (const Optimizer& optimizer : optimizers())
    for (int threads : {1, 3}) {
      const auto device = test_device(threads);
      const Tensor initial = spread({kRows, kWidth}, engine), lr = Tensor::scalar(0.1f);
      State sparse(optimizer, initial), dense(optimizer, initial);
      // Every row from 0 to 199 in some order; rows divisible by 3 twice, by 5 once more.
      std::vector<std::int64_t> rows;
      for (std::int64_t i = 0; i < 200; ++i) {
        rows.push_back(i);
        if (i % 3 == 0) rows.push_back(i);
        if (i % 5 == 0) rows.push_back(i);
      }
      std::shuffle(rows.begin(), rows.end(), engine);
      const auto n = static_cast<std::int64_t>(rows.size());
      const Tensor indices = Tensor::of<std::int64_t>({n}, rows), values = spread({n, kWidth}, engine);
      // Repeated rows summed in order first.
      Tensor grad = Tensor::zeros(DType::f32, {kRows, kWidth});
      std::vector<bool> seen(kRows);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto row = rows[static_cast<std::size_t>(i)];
        for (std::int64_t j = 0; j < kWidth; ++j) {
          float& sum = grad.mutable_data<float>()[row * kWidth + j];
          const float value = values.data<float>()[i * kWidth + j];
          sum = seen[static_cast<std::size_t>(row)] ? sum + value : value;
        }
        seen[static_cast<std::size_t>(row)] = true;
      }
      run_kernel(registry, *device, sparse.call(optimizer, true, lr, 3, {indices, values}));
      run_kernel(registry, *device, dense.call(optimizer, false, lr, 3, {grad}));
      for (std::size_t i = 0; i < sparse.variables.size(); ++i) {
        const Tensor& got = sparse.variables[i].value();
        EXPECT_TRUE(bitwise_equal(got.rows(0, 200), dense.variables[i].value().rows(0, 200)))
            << optimizer.name << " " << i;
        const Tensor before = i == 0 ? initial : Tensor::zeros(DType::f32, {kRows, kWidth});
        EXPECT_TRUE(bitwise_equal(got.rows(200, kRows), before.rows(200, kRows))) << optimizer.name << " " << i;
      }
    }
}

// With rows that have no gradient, one that is listed three times, and none at all.
TEST(SparseApply, ThatIsExactHasTheBitsOfADenseGradient) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(45);
  constexpr std::int64_t kRows = 700, kWidth = 37;
  for (const Optimizer& optimizer : optimizers())
    for (DType dtype : {DType::f32, DType::f64})
      for (int threads : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} {} on {} threads", optimizer.name, name(dtype), threads));
        const auto device = test_device(threads);
        const Tensor initial = random_tensor(dtype, {kRows, kWidth}, engine), lr = rate(dtype, 0.0625);
        State sparse(optimizer, initial), dense(optimizer, initial);
        const std::vector<std::vector<std::int64_t>> steps = {{5, 699, 5, 0, 5, 333}, {}, {7, 5}};
        for (std::size_t step = 0; step < steps.size(); ++step) {
          const auto n = std::ssize(steps[step]);
          const Tensor indices = Tensor::of<std::int64_t>({n}, steps[step]),
                       values = random_tensor(dtype, {n, kWidth}, engine);
          const Tensor zeros = Tensor::zeros(dtype, {kRows, kWidth});
          const Tensor grad =
              run_kernel(registry, *device, {"ScatterAddRows", dtype, {indices, values, zeros}, {{"T", dtype}}, 1})[0];
          const auto t = static_cast<std::int64_t>(step) + 1;
          KernelCall call = sparse.call(optimizer, true, lr, t, {indices, values});
          call.attributes.set("exact", true);
          run_kernel(registry, *device, call);
          run_kernel(registry, *device, dense.call(optimizer, false, lr, t, {grad}));
        }
        for (std::size_t i = 0; i < sparse.variables.size(); ++i)
          EXPECT_TRUE(bitwise_equal(sparse.variables[i].value(), dense.variables[i].value())) << "tensor " << i;
      }
}

TEST(SparseApply, OfNoRowsChangesNothing) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  std::mt19937_64 engine(44);
  for (const Optimizer& optimizer : optimizers()) {
    const Tensor initial = random_tensor(DType::f64, {4, 3}, engine);
    State state(optimizer, initial);
    run_kernel(
        registry, *device,
        state.call(optimizer, true, Tensor::scalar(0.1), 1, {Tensor(DType::i64, {0}), Tensor(DType::f64, {0, 3})}));
    EXPECT_TRUE(bitwise_equal(state.variables[0].value(), initial)) << optimizer.name;
  }
}

TEST(Apply, LeavesTensorsThatWereReadBefore) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const Optimizer sgd = optimizers()[0];
  State state(sgd, Tensor::vector<float>({1, 2}));
  const Tensor read = state.variables[0].value();
  run_kernel(registry, *device,
             state.call(sgd, false, Tensor::scalar(1.0f), 1, {read}));  // the gradient is the value itself
  EXPECT_TRUE(bitwise_equal(read, Tensor::vector<float>({1, 2})));
  EXPECT_TRUE(bitwise_equal(state.variables[0].value(), Tensor::vector<float>({0, 0})));
}

TEST(Apply, RefusesWhatDoesNotFitBeforeChangingAnything) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const Tensor initial = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}), lr = Tensor::scalar(0.5f);
  const Optimizer momentum = optimizers()[1], adam = optimizers()[5];
  const auto refused = [&](const Optimizer& optimizer, bool sparse, Code code, const Tensor& rate, std::int64_t t,
                           std::vector<Tensor> gradient) {
    State state(optimizer, initial);
    const std::string message = message_of(
        code, [&] { run_kernel(registry, *device, state.call(optimizer, sparse, rate, t, std::move(gradient))); });
    EXPECT_TRUE(bitwise_equal(state.variables[0].value(), initial));
    EXPECT_TRUE(bitwise_equal(state.variables[1].value(), Tensor::zeros(DType::f32, {3, 2})));
    return message;
  };
  const Code bad = Code::invalid_argument;
  const Tensor ones = Tensor::of<float>({3, 2}, {1, 1, 1, 1, 1, 1});
  EXPECT_EQ(refused(momentum, false, bad, lr, 1, {Tensor::zeros(DType::f32, {2, 3})}),
            "the gradient must be f32[3,2], but is f32[2,3]");
  EXPECT_EQ(refused(momentum, false, bad, Tensor::vector<float>({1, 2}), 1, {ones}),
            "the learning rate must be a single f32, but is f32[2]");
  EXPECT_TRUE(refused(adam, false, bad, lr, 0, {ones}).ends_with("Adam counts updates from 1, but t is 0"));
  const Tensor two_rows = ones.rows(0, 2);
  EXPECT_EQ(refused(momentum, true, Code::out_of_range, lr, 1, {Tensor::vector<std::int64_t>({0, 3}), two_rows}),
            "row 3 at position 1 of the indices is not in [0,3)");
  EXPECT_EQ(refused(momentum, true, Code::out_of_range, lr, 1, {Tensor::vector<std::int64_t>({-1, 2}), two_rows}),
            "row -1 at position 0 of the indices is not in [0,3)");
  EXPECT_EQ(refused(adam, true, bad, lr, 1, {Tensor::vector<std::int64_t>({0}), two_rows}),
            "the gradient values must be f32[1,2], but is f32[2,2]");
  EXPECT_EQ(refused(adam, true, bad, lr, 1, {Tensor::vector<std::int32_t>({0, 1}), two_rows}),
            "the indices must be an i64 vector, but are i32[2]");
}

TEST(Apply, NeedsAnInitializedVariable) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  Variable empty("w", DType::f32, {2});
  KernelCall call{"ApplySGD", DType::f32, {Tensor(), Tensor::scalar(1.0f), Tensor::vector<float>({1, 2})},
                  {},         0,          {&empty}};
  EXPECT_NE(message_of(Code::failed_precondition, [&] { run_kernel(registry, *device, call); }).find("'w'"),
            std::string::npos);
}

// The call Apply<Rule>Many on these states.
KernelCall many_call(const Optimizer& optimizer, std::deque<State>& states, const Tensor& lr, std::int64_t t,
                     const std::vector<Tensor>& gradients) {
  KernelCall call{"Apply" + optimizer.name + "Many", lr.dtype(), {}, attributes_of(optimizer.rule), 0};
  call.attributes.set("N", std::ssize(states));
  for (std::size_t role = 0; role < states.front().variables.size(); ++role)
    for (State& state : states) call.variables.push_back(&state.variables[role]);
  call.inputs.resize(call.variables.size());
  call.inputs.push_back(lr);
  if (rule_kind(optimizer.rule).counts_updates) call.inputs.push_back(Tensor::scalar(t));
  call.inputs.insert(call.inputs.end(), gradients.begin(), gradients.end());
  return call;
}

// More variables than are swept at once, some of them empty, some larger than a part.
TEST(ApplyMany, HasTheBitsOfTheUpdatesOneByOne) {
  const KernelRegistry registry = all_kernels();
  const auto one = test_device(1), three = test_device(3);
  std::mt19937_64 engine(43);
  std::vector<Shape> shapes{{0}, {300, 131}, {}, {3, 0}, {16384}};
  for (std::int64_t i = 1; i < 170; ++i) shapes.push_back({i * i * i % 911});
  for (const Optimizer& optimizer : optimizers())
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor lr = dtype == DType::f32 ? Tensor::scalar(0.1f) : Tensor::scalar(0.1);
      std::deque<State> single, many, threaded;
      for (const Shape& shape : shapes) {
        const Tensor value = random_tensor(dtype, shape, engine);
        for (auto* states : {&single, &many, &threaded}) states->emplace_back(optimizer, value);
      }
      for (std::int64_t t = 1; t <= 2; ++t) {
        std::vector<Tensor> gradients;
        for (const Shape& shape : shapes) gradients.push_back(random_tensor(dtype, shape, engine));
        for (std::size_t i = 0; i < shapes.size(); ++i)
          run_kernel(registry, *one, single[i].call(optimizer, false, lr, t, {gradients[i]}));
        run_kernel(registry, *one, many_call(optimizer, many, lr, t, gradients));
        run_kernel(registry, *three, many_call(optimizer, threaded, lr, t, gradients));
      }
      for (std::size_t i = 0; i < shapes.size(); ++i)
        for (std::size_t role = 0; role < single[i].variables.size(); ++role) {
          const Tensor& wanted = single[i].variables[role].value();
          EXPECT_TRUE(bitwise_equal(many[i].variables[role].value(), wanted)) << optimizer.name << " " << i;
          EXPECT_TRUE(bitwise_equal(threaded[i].variables[role].value(), wanted)) << optimizer.name << " " << i;
        }
    }
}

TEST(ApplyMany, RefusesWhatDoesNotFitBeforeChangingAnything) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const Tensor initial = Tensor::vector<float>({1, 2});
  const Optimizer sgd = optimizers()[0];
  std::deque<State> states;
  for (int i = 0; i < 40; ++i) states.emplace_back(sgd, initial);
  std::vector<Tensor> gradients(40, initial);
  gradients.back() = Tensor::vector<float>({1, 2, 3});
  EXPECT_EQ(
      message_of(Code::invalid_argument,
                 [&] { run_kernel(registry, *device, many_call(sgd, states, Tensor::scalar(1.0f), 1, gradients)); }),
      "variable 'v0': the gradient must be f32[2], but is f32[3]");
  for (State& state : states) EXPECT_TRUE(bitwise_equal(state.variables[0].value(), initial));
}

TEST(Update, CountsSlotsAndChecksThem) {
  const auto device = test_device();
  const std::vector<int> slots{0, 1, 1, 1, 2, 2, 2, 2, 2, 1, 3, 3, 2, 2, 0, 2, 1};
  const auto all = optimizers();
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(rule_kind(all[i].rule).slots, slots[i]) << all[i].name;
  Tensor var = Tensor::zeros(DType::f32, {2}), slot = Tensor::zeros(DType::f32, {3});
  const std::vector<Tensor*> wrong_shape{&var, &slot}, missing{&var};
  const Tensor lr = Tensor::scalar(1.0f), grad = Tensor::zeros(DType::f32, {2});
  message_of(Code::invalid_argument,
             [&] { apply_update(device->parallelism(), MomentumRule{}, wrong_shape, lr, grad); });
  message_of(Code::invalid_argument, [&] { apply_update(device->parallelism(), MomentumRule{}, missing, lr, grad); });
}

}  // namespace
}  // namespace troupe
