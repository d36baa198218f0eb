// Ops that run after their calls have returned: on a CPU that is busy, and on GPUs (simulated ones, whose kernels are
// those of the CPU: results must have its bits).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/actors/eager/eager_testing.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/eager/function.hpp>
#include <troupe/actors/eager/op_results.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/tape.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {
namespace {

using testing::numbers;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A CPU whose stream is busy until release().
class BusyCpu : public ::testing::Test {
 protected:
  BusyCpu() {
    const HostFunction block = [this](std::span<const Tensor>) {
      busy_.set_value();
      released_.get_future().wait();
      return std::vector<Tensor>{Tensor::scalar(1.0f)};
    };
    const Output y = host_call(block, {constant(steps_, 1.0f)}, {DType::f32})[0];
    session_.emplace(task_, steps_);
    step_ = session_->callable({}, {y}).async({});
    busy_.get_future().wait();
  }
  ~BusyCpu() override {
    if (step_.valid()) release();
  }
  void release() {
    released_.set_value();
    step_.get();
  }
  std::string error_of_value(const Output& x) {
    return testing::error_of([&] { (void)x.value(); }).message();
  }

  Task task_{{.threads = 1}};
  Eager eager_{task_};
  Graph& graph_ = eager_.graph();

 private:
  Graph steps_;
  std::promise<void> busy_, released_;
  std::optional<Session> session_;
  std::future<std::vector<Tensor>> step_;
};

TEST_F(BusyCpu, CallsReturnAtOnceAndRunInTheOrderOfTheProgram) {
  const VariableRef v = variable(graph_, {.name = "v", .initial_value = constant(graph_, 1.0)});
  const Output before = v.read();
  const Output sum = v.assign_add(before + 1.0);
  const Output after = v.read() * 10.0;
  EXPECT_EQ(after.shape(), Shape{});
  EXPECT_EQ(after.dtype(), DType::f64);
  release();
  EXPECT_EQ(before.value().item<double>(), 1);
  EXPECT_EQ(sum.value().item<double>(), 3);
  EXPECT_EQ(after.value().item<double>(), 30);
  eager_.wait();
}

TEST_F(BusyCpu, WhatFollowsFromValuesWaits) {
  const Output x = constant(graph_, Tensor::vector<float>({1, 2, 3, 4}));
  const Output rows = cast(constant(graph_, 2), DType::i64);  // not known yet
  auto reshaped = std::async(std::launch::async, [&] { return reshape(x, stack({rows, rows}, 0)).shape(); });
  release();
  EXPECT_EQ(reshaped.get(), Shape({2, 2}));
}

TEST_F(BusyCpu, CallersMayWaitNoMore) {
  struct Interrupted {};
  Eager eager(task_, {.around_waits = [](const std::function<bool(std::chrono::milliseconds)>& wait) {
                if (!wait(std::chrono::milliseconds(1))) throw Interrupted();
              }});
  const Output x = constant(eager.graph(), 2.0);
  const Output y = x + 1.0;
  EXPECT_THROW(y.value(), Interrupted);
  EXPECT_THROW(eager.wait(), Interrupted);
  Output z = x;
  const auto call_many = [&] {
    for (int i = 0; i < OutstandingOps::kMost; ++i) z = z + x;
  };
  EXPECT_THROW(call_many(), Interrupted);
  release();
  while (true) {
    try {
      eager.wait();
      break;
    } catch (const Interrupted&) {
    }
  }
  EXPECT_EQ(y.value().item<double>(), 3);
  EXPECT_EQ(z.value().item<double>(), 2.0 * OutstandingOps::kMost);
}

TEST_F(BusyCpu, ErrorsAreToldByTheirValues) {
  const Output x = constant(graph_, Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Output wrong = gather(x, constant(graph_, std::int64_t{7}));
  const Output behind = wrong + 1.0, other = x + 1.0;
  const std::string line = std::to_string(__LINE__ - 2);
  // What the shapes tell is told at once.
  EXPECT_THAT(testing::error_of([&] { matmul(x, x); }).message(), HasSubstr("MatMul(f32[2,3], f32[2,3])"));
  release();
  EXPECT_THAT(error_of_value(wrong), HasSubstr("Gather(f32[2,3], i64[]) at asynchronous_test.cpp:" + line));
  eager_.wait();  // it has been told, which is that of what is behind it, too
  EXPECT_EQ(error_of_value(behind), error_of_value(wrong));
  EXPECT_EQ(other.value().values<float>()[0], 2);
}

TEST_F(BusyCpu, ErrorsThatNobodyAskedForAreToldByWait) {
  {
    const Output x = constant(graph_, Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
    const Output wrong = gather(x, constant(graph_, std::int64_t{7}));
    const Output behind = wrong + 1.0;
  }
  release();
  EXPECT_THAT(testing::error_of([&] { eager_.wait(); }).message(), HasSubstr("Gather(f32[2,3], i64[])"));
  eager_.wait();
}

// Each output is freed by itself, whether it is there yet or not.
TEST_F(BusyCpu, OutputsThatNobodyHoldsAreFreed) {
  constexpr std::uint64_t kPart = 8000;
  const auto live = [&] { return task_.device().allocator().stats().bytes_in_use; };
  Outputs parts = split(constant(graph_, Tensor::zeros(DType::f64, {1000, 4})), 1, 4);
  parts.pop_back();
  release();
  eager_.wait();
  const std::uint64_t three = live();
  EXPECT_LT(three, 4 * kPart);
  EXPECT_GE(three, 3 * kPart);
  parts.pop_back();
  EXPECT_LE(live(), three - kPart);
  EXPECT_EQ(parts[0].value().num_elements(), 1000);
}

TEST_F(BusyCpu, TapesAndFunctionsTakeValuesThatAreNotThereYet) {
  const VariableRef w = variable(graph_, {.name = "w", .initial_value = constant(graph_, 3.0)});
  TracedFunction square_of(eager_, [](const Outputs& in) -> Outputs { return {square(in[0])}; });
  GradientTape tape;
  const Output y = square(w.read()) * 2.0;
  const Output dw = tape.gradient(y, w.handle);
  auto traced = std::async(std::launch::async, [&] { return square_of({y})[0].value().item<double>(); });
  release();
  EXPECT_EQ(dw.value().item<double>(), 12);
  EXPECT_EQ(traced.get(), 324);
}

TEST(OutstandingOpsTest, CallersWaitWhenThereAreMany) {
  OutstandingOps ops;
  for (int i = 0; i < OutstandingOps::kMost; ++i) EXPECT_TRUE(ops.begin());
  EXPECT_FALSE(ops.begin());
  for (int i = 0; i <= OutstandingOps::kMost; ++i) ops.end(nullptr);
  EXPECT_TRUE(ops.begin());
  ops.end(nullptr);
  ops.wait();
}

TEST(EagerEnd, OpsThatHaveNotRunAreCancelledWithTheirDevice) {
  Output late;
  std::promise<void> busy, released;
  auto task = std::make_unique<Task>(TaskOptions{.threads = 1});
  auto eager = std::make_unique<Eager>(*task);
  Graph& graph = eager->graph();
  const HostFunction block = [&](std::span<const Tensor> x) {
    busy.set_value();
    released.get_future().wait();
    return std::vector<Tensor>{x[0]};
  };
  auto blocked = std::async(std::launch::async,
                            [&] { return host_call(block, {constant(graph, 1.0f)}, {DType::f32})[0].value(); });
  busy.get_future().wait();
  late = constant(graph, 1.0f) + 1.0;
  released.set_value();
  EXPECT_EQ(blocked.get().item<float>(), 1);
  eager = nullptr;  // waits for what was called
  EXPECT_EQ(late.value().item<float>(), 2);
}

class Gpus : public ::testing::Test {
 protected:
  Task task_{{.threads = 1, .gpus = {.count = 2, .plugin = testing::built_library("libsimulated_gpu.so")}}};
  Eager cpu_{task_}, gpu_{task_, {.device = "GPU:0"}};
};

TEST_F(Gpus, ValuesComeToTheHostWhenTheyAreAskedFor) {
  Graph& graph = gpu_.graph();
  const Output x = constant(graph, Tensor::vector<float>({1, 2, 3}));
  const Output y = x * 2.0 + x;
  EXPECT_THAT(y.source().device, HasSubstr("GPU:0"));
  EXPECT_EQ(y.shape(), Shape{3});
  EXPECT_THAT(y.value().values<float>(), ElementsAre(3, 6, 9));
  EXPECT_TRUE(y.value().space().on_host());
  // From one device to another, and back to the CPU.
  Output z;
  {
    const auto device = graph.on_device("GPU:1");
    z = y + 1.0;
  }
  EXPECT_THAT(z.source().device, HasSubstr("GPU:1"));
  {
    const auto device = graph.on_device("CPU:0");
    z = z + 1.0;
  }
  EXPECT_THAT(z.source().device, HasSubstr("CPU:0"));
  EXPECT_THAT(z.value().values<float>(), ElementsAre(5, 8, 11));
  gpu_.wait();
}

TEST_F(Gpus, TrainingHasTheBitsOfTheCpu) {
  const auto train = [](Eager& eager) {
    Graph& graph = eager.graph();
    const Sequential model({layers::dense(5, Activation::relu), layers::dense(2)});
    VariablePool variables;
    eager.set_seed(3);
    LayerContext context{.graph = graph, .training = true, .variables = variables};
    EagerOptimizer optimizer(optimizers::Adam{.learning_rate = 0.1});
    std::vector<Tensor> values;
    for (int i = 0; i < 4; ++i) {
      const Output x = constant(graph, numbers({6, 3}, i)), wanted = constant(graph, numbers({6, 2}, 50 + i));
      if (i == 0) (void)model.apply(context, x);
      values.push_back(
          optimizer.minimize([&] { return mean(square(model.apply(context, x) - wanted)); }, variables.trainable())
              .value());
    }
    for (const VariableRef& v : variables.all()) values.push_back(v.read().value());
    return values;
  };
  const std::vector<Tensor> expected = train(cpu_), found = train(gpu_);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(bitwise_equal(found[i], expected[i])) << i << ": " << found[i].to_string();
}

TEST_F(Gpus, FunctionsRunThere) {
  Graph& graph = gpu_.graph();
  const VariableRef w = variable(graph, {.name = "w", .initial_value = constant(graph, numbers({3, 2}, 1))});
  TracedFunction f(gpu_, [&](const Outputs& in) -> Outputs { return {matmul(in[0], w.read())}; });
  const Output x = constant(graph, numbers({4, 3}, 2));
  EXPECT_TRUE(bitwise_equal(f({x})[0].value(), matmul(x, w.read()).value()));
  EXPECT_THAT(f.explain({x}), HasSubstr("GPU:0"));
  GradientTape tape;
  const Output dw = tape.gradient(sum(square(f({x})[0]), {0, 1}), w.handle);
  GradientTape again;
  EXPECT_TRUE(bitwise_equal(dw.value(), again.gradient(sum(square(matmul(x, w.read())), {0, 1}), w.handle).value()));
}

TEST_F(Gpus, ErrorsNameTheOp) {
  Graph& graph = gpu_.graph();
  const Output x = constant(graph, Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Output wrong = gather(x, constant(graph, std::int64_t{7}));
  const Output behind = wrong + 1.0;
  const std::string text = testing::error_of([&] { (void)wrong.value(); }).message();
  EXPECT_THAT(text, HasSubstr("Gather(f32[2,3], i64[]) at asynchronous_test.cpp"));
  EXPECT_EQ(testing::error_of([&] { (void)behind.value(); }).message(), text);
  gpu_.wait();  // it has been told
}

}  // namespace
}  // namespace troupe
