// All of a task with devices that are not the host: simulated GPUs, which compute with the CPU's kernels
// (tests/devices/simulated_plugin.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/few_digits.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

TaskOptions with_gpus(int gpus, bool recordings = true) {
  return {.threads = 1,
          .gpus = {.count = gpus, .recordings = recordings, .plugin = testing::built_library("libsimulated_gpu.so")}};
}

constexpr int kGpu = 1;  // device of a task with one CPU

struct TrainedModel {
  std::string hash;
  double accuracy = 0;
};

TrainedModel train(Task& task, int slots = 1, double dropped = 0) {
  std::vector<LayerPtr> parts = {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu),
                                 layers::dense(10)};
  if (dropped > 0) parts.insert(parts.begin() + 3, layers::dropout(dropped));
  Model model(Sequential(parts), Shape{28, 28, 1}, DType::u8);
  model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}), task);
  const TrainingResult result =
      model.fit(testing::few_digits(), {.mode = LocalMode{.slots = slots}, .epochs = 2, .batch = 32});
  EXPECT_EQ(result.params_sha256, model.params_sha256());
  return {result.params_sha256, result["val_accuracy"]};
}

TEST(Accelerator, IsFoundAndNamed) {
  Task task(with_gpus(-1));
  EXPECT_EQ(task.accelerators(), "simulated GPUs");
  EXPECT_EQ(default_devices(task.devices(), task.name()),
            (std::vector<std::string>{"/job:local/task:0/device:GPU:0", "/job:local/task:0/device:GPU:1"}));
  EXPECT_EQ(task.device(0).attributes().type, "CPU");
  Task one(with_gpus(1));
  EXPECT_EQ(default_devices(one.devices(), one.name()).size(), 1u);
  Task none(with_gpus(0));
  EXPECT_EQ(none.accelerators(), "switched off");
  EXPECT_EQ(default_devices(none.devices(), none.name()), std::vector<std::string>{"/job:local/task:0/device:CPU:0"});
}

TEST(Accelerator, MoreThanThereAreIsRefused) {
  const Error error = error_of([] { Task task(with_gpus(3)); });
  EXPECT_EQ(error.code(), Code::not_found);
  EXPECT_THAT(error.message(), HasSubstr("3 GPUs requested, 2 found: simulated GPUs"));
}

TEST(Accelerator, AGraphGoesThereWholeAndItsStepsAreDirect) {
  Task task(with_gpus(1));
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{-1}, "x");
  const Output y = mul(add(x, constant(g, Tensor::vector<float>({1, 2, 3}))), constant(g, 2.f));
  Session session(task, g);
  EXPECT_THAT(session.explain({x}, {y}), Not(HasSubstr("CPU:0")));
  const Callable call = session.callable({x}, {y});
  EXPECT_TRUE(call.in_order());
  const Tensor sum = call({Tensor::vector<float>({10, 20, 30})})[0];
  EXPECT_TRUE(sum.space().on_host());
  EXPECT_TRUE(bitwise_equal(sum, Tensor::vector<float>({22, 44, 66})));
  // With a deadline the scheduler has the step: what is fed and fetched goes the same way.
  const Tensor again = call({Tensor::vector<float>({1, 1, 1})}, {.timeout = std::chrono::seconds(60)})[0];
  EXPECT_TRUE(bitwise_equal(again, Tensor::vector<float>({4, 6, 8})));
}

TEST(Accelerator, ManyStepsInFlightKeepTheirValues) {
  Task task(with_gpus(1));
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{1000}, "x");
  const Output y = neg(x);
  Session session(task, g);
  const Callable call = session.callable({x}, {y});
  std::vector<std::future<std::vector<Tensor>>> answers;
  for (int i = 0; i < 200; ++i) {
    Tensor fed(DType::f32, Shape{1000});
    for (float& v : fed.mutable_values<float>()) v = static_cast<float>(i);
    answers.push_back(call.async({fed}));
  }
  for (int i = 0; i < 200; ++i) {
    const Tensor got = answers[static_cast<std::size_t>(i)].get()[0];
    for (const float v : got.values<float>()) ASSERT_EQ(v, static_cast<float>(-i));
  }
}

std::uint64_t pinned_allocations(Task& task) { return task.pinned_memory()->stats().allocations; }

TEST(Accelerator, WhatIsFedFromPinnedMemoryIsNotCopiedOnTheHost) {
  Task task(with_gpus(1));
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{3}, "x");
  Session session(task, g);
  const Output y = neg(x);
  session.extend(g);
  Tensor pinned = task.pinned_memory()->tensor(DType::f32, Shape{3});
  EXPECT_EQ(pinned.space().kind, MemorySpace::Kind::pinned);
  std::ranges::copy(std::array{1.f, 2.f, 3.f}, pinned.mutable_data<float>());
  std::uint64_t before = pinned_allocations(task);
  EXPECT_TRUE(bitwise_equal(session.run({{x, pinned}}, y), Tensor::vector<float>({-1, -2, -3})));
  EXPECT_EQ(pinned_allocations(task) - before, 1u);  // what is fetched
  before = pinned_allocations(task);
  EXPECT_TRUE(
      bitwise_equal(session.run({{x, Tensor::vector<float>({4, 5, 6})}}, y), Tensor::vector<float>({-4, -5, -6})));
  EXPECT_EQ(pinned_allocations(task) - before, 2u);
  Task none(with_gpus(0));
  EXPECT_EQ(none.pinned_memory(), nullptr);
}

// One task computes on its GPU, the other on its CPU, and the first needs or has what the second has or needs: the
// bytes are in no other memory of the host than what the GPU's copies go straight from and to.
TEST(Accelerator, TensorsGoFromAndToOtherTasksThroughPinnedMemory) {
  const std::string gpu = "/job:worker/task:0/device:GPU:0", other = "/job:ps/task:0/device:CPU:0";
  for (const auto& [from, to] : {std::pair(other, gpu), std::pair(gpu, other)}) {
    testing::JobTasks tasks(1, 1, {},
                            {GpuOptions{.count = 1, .plugin = testing::built_library("libsimulated_gpu.so")}});
    Graph g;
    Output sent, used;
    {
      const auto scope = g.on_device(from);
      sent = random_uniform(g, Shape{1 << 20}, 0, 1);
    }
    {
      const auto scope = g.on_device(to);
      used = neg(sent);
    }
    Session session(tasks[1], g);
    session.run_targets({used});  // uploads the shape, a constant
    const auto of_cpu = [&] { return tasks[1].device(0).allocator().stats().allocations; };
    const std::uint64_t cpu = of_cpu(), pinned = pinned_allocations(tasks[1]);
    session.run_targets({used});
    EXPECT_EQ(of_cpu(), cpu) << from;
    EXPECT_EQ(pinned_allocations(tasks[1]) - pinned, 1u) << from;
  }
}

TEST(Accelerator, PartsOfAGraphOnBothExchangeTensors) {
  Task task(with_gpus(2));
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{-1}, "x");
  Output a, b;
  {
    auto scope = g.on_device("GPU:0");
    a = mul(x, x);
  }
  {
    auto scope = g.on_device("GPU:1");
    b = add(a, x);
  }
  Output c;
  {
    auto scope = g.on_device("CPU:0");
    c = neg(b);
  }
  Session session(task, g);
  const Tensor fed = Tensor::vector<float>({1, 2, 3});
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(::testing::Message() << "step " << i);
    const std::uint64_t before = pinned_allocations(task);
    const auto out = session.run({{x, fed}}, {a, b, c});
    EXPECT_EQ(pinned_allocations(task) - before,
              2u);  // x on its way to GPU:0, and `a` as it is fetched: not on its way to GPU:1
    EXPECT_TRUE(bitwise_equal(out[0], Tensor::vector<float>({1, 4, 9})));
    EXPECT_TRUE(bitwise_equal(out[1], Tensor::vector<float>({2, 6, 12})));
    EXPECT_TRUE(bitwise_equal(out[2], Tensor::vector<float>({-2, -6, -12})));
  }
}

TEST(Accelerator, ErrorsOfKernelsNameTheDevice) {
  Task task(with_gpus(1));
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{-1}, "x"), y = placeholder(g, DType::f32, Shape{-1}, "y");
  Session session(task, g);
  const Output sum = add(x, y, "sum");
  session.extend(g);
  const Error error = error_of([&] {
    session.run({{x, Tensor::vector<float>({1, 2})}, {y, Tensor::vector<float>({1, 2, 3})}}, sum);
  });
  EXPECT_THAT(error.message(), HasSubstr("device:GPU:0"));
  EXPECT_THAT(error.message(), HasSubstr("'sum'"));
  // The next step is not touched by it.
  EXPECT_TRUE(bitwise_equal(session.run({{x, Tensor::vector<float>({1})}, {y, Tensor::vector<float>({2})}}, sum),
                            Tensor::vector<float>({3})));
}

TEST(Accelerator, StepsOnAGpuThatIsLostFailAndNothingHangs) {
  Task task(with_gpus(1));
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{2, 1}, "x");
  Session session(task, g);
  const Output before = add(x, x, "before"), last = transpose(before, {}, "lose_the_gpu"),
               after = add(last, last, "after");
  session.extend(g);
  const Tensor fed = Tensor(DType::f32, Shape{2, 1}, Tensor::vector<float>({1, 2}).buffer());
  EXPECT_TRUE(bitwise_equal(session.run({{x, fed}}, before),
                            Tensor(DType::f32, Shape{2, 1}, Tensor::vector<float>({2, 4}).buffer())));
  for (const Output& fetch : {after, before, after})
    EXPECT_THAT(error_of([&] {
                  session.run({{x, fed}}, fetch);
                }).message(),
                AllOf(HasSubstr("/job:local/task:0/device:GPU:0 is lost: cudaSimulated: an illegal memory access"),
                      HasSubstr("CUDA_LAUNCH_BLOCKING=1")))
        << fetch.name();
}

TEST(Accelerator, TrainsToTheBitsOfTheCpu) {
  Task cpu({.threads = 1, .gpus = {.count = 0}}), gpu(with_gpus(1));
  const TrainedModel expected = train(cpu), got = train(gpu);
  EXPECT_EQ(got.hash, expected.hash);
  EXPECT_EQ(got.accuracy, expected.accuracy);
}

TEST(Accelerator, TowersOnTwoGpusTrainToTheBitsOfOneCpu) {
  Task cpu({.threads = 1, .gpus = {.count = 0}}), gpus(with_gpus(2));
  EXPECT_EQ(train(gpus, 2).hash, train(cpu, 2).hash);
  for (int gpu : {kGpu, kGpu + 1}) EXPECT_GT(gpus.device(gpu).recording_stats().launches, 0u) << "GPU " << gpu;
}

// ---- recordings ----------------------------------------------------------------------------------------------------

TEST(AcceleratorRecordings, TrainingThatIsReplayedHasTheBitsOfTheCpu) {
  Task cpu({.threads = 1, .gpus = {.count = 0}}), gpu(with_gpus(1)), plain(with_gpus(1, false));
  const std::string expected = train(cpu, 1, 0.4).hash;
  EXPECT_EQ(train(gpu, 1, 0.4).hash, expected);
  EXPECT_EQ(train(plain, 1, 0.4).hash, expected);
  const RecordingStats stats = gpu.device(kGpu).recording_stats();
  EXPECT_GE(stats.launches, 14u) << stats.recordings << " recordings";  // of 20 steps
  EXPECT_EQ(stats.refusals, 0u) << stats.last_refusal;
  EXPECT_EQ(plain.device(kGpu).recording_stats().launches, 0u);
}

Output chain(Output x, int length) {
  for (int i = 0; i < length; ++i) x = neg(x);
  return x;
}

TEST(AcceleratorRecordings, StepsInFlightAndOtherShapesKeepTheirValues) {
  Task task(with_gpus(1));
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{-1}, "x");
  const Output y = chain(x, 5);
  Session session(task, g, {.optimize = false});
  const Callable call = session.callable({x}, {y});
  std::vector<std::future<std::vector<Tensor>>> answers;
  const auto fed = [](int i) {
    Tensor t(DType::f32, Shape{i % 10 == 7 ? 50 : 1000});
    for (float& v : t.mutable_values<float>()) v = static_cast<float>(i);
    return t;
  };
  for (int i = 0; i < 100; ++i) answers.push_back(call.async({fed(i)}));
  for (int i = 0; i < 100; ++i) {
    const Tensor got = answers[static_cast<std::size_t>(i)].get()[0];
    ASSERT_EQ(got.num_elements(), fed(i).num_elements()) << "step " << i;
    for (const float v : got.values<float>()) ASSERT_EQ(v, static_cast<float>(-i));
  }
  EXPECT_EQ(task.device(kGpu).recording_stats().launches, 88u);  // all but two, and ten of another shape
}

// ---- faults --------------------------------------------------------------------------------------------------------

// Bad data in steps that run one by one and in replays, with all steps in flight.
TEST(AcceleratorFaults, FailTheStepThatHadThemAndNoOther) {
  Task task(with_gpus(1));
  Graph g;
  const Output rows = placeholder(g, DType::i64, Shape{2}, "rows");
  const Output table = constant(g, Tensor::vector<float>({0, 10, 20, 30}));
  const Output y = chain(gather(table, rows, {.name = "look"}), 4);
  Session session(task, g, {.optimize = false});
  const Callable call = session.callable({rows}, {y});
  std::vector<std::future<std::vector<Tensor>>> answers;
  const auto bad = [](int i) { return i % 7 == 1; };
  for (int i = 0; i < 40; ++i) answers.push_back(call.async({Tensor::vector<std::int64_t>({i % 4, bad(i) ? 12 : 1})}));
  for (int i = 0; i < 40; ++i) {
    auto& answer = answers[static_cast<std::size_t>(i)];
    if (bad(i)) {
      const Error error = error_of([&] { answer.get(); });
      EXPECT_EQ(error.message(),
                "Gather 'look' on /job:local/task:0/device:GPU:0: Gather: index 12 (element 1) is not in [0, 4)")
          << i;
      EXPECT_EQ(error.code(), Code::invalid_argument) << i;
    } else {
      EXPECT_TRUE(bitwise_equal(answer.get()[0], Tensor::vector<float>({static_cast<float>(i % 4) * 10, 10}))) << i;
    }
  }
  EXPECT_EQ(task.device(kGpu).recording_stats().launches, 38u);
}

// With the scheduler between, and somebody who waits for what would leave.
TEST(AcceleratorFaults, WhatIsMadeOfBadDataGoesToNoOtherDevice) {
  Task task(with_gpus(2));
  Graph g;
  const Output rows = placeholder(g, DType::i64, Shape{1}, "rows");
  Output y, z, w;
  {
    auto scope = g.on_device("GPU:0");
    y = gather(constant(g, Tensor::vector<float>({1, 2})), rows, {.name = "look"});
  }
  {
    auto scope = g.on_device("CPU:0");
    z = neg(y);
  }
  {
    auto scope = g.on_device("GPU:1");
    w = neg(y);
  }
  Session session(task, g);
  for (int i = 0; i < 10; ++i) {
    for (const Output& consumer : {z, w}) {
      SCOPED_TRACE(::testing::Message() << "round " << i << ", " << consumer.name());
      const Error error = error_of([&] { session.run({{rows, Tensor::vector<std::int64_t>({5})}}, consumer); });
      EXPECT_THAT(
          error.message(),
          HasSubstr("Gather 'look' on /job:local/task:0/device:GPU:0: Gather: index 5 (element 0) is not in [0, 2)"));
      EXPECT_TRUE(bitwise_equal(session.run({{rows, Tensor::vector<std::int64_t>({1})}}, consumer),
                                Tensor::vector<float>({-2})));
    }
  }
}

// As on a CPU, where the step ends before it comes to the update.
TEST(AcceleratorFaults, AStepWithBadDataUpdatesNoVariable) {
  Task task(with_gpus(1)), cpu({.threads = 1, .gpus = {.count = 0}});
  const auto run = [](Task& on) {
    Graph g;
    const Output x = placeholder(g, DType::f32, Shape{2, 3}, "x"),
                 labels = placeholder(g, DType::i64, Shape{2}, "labels");
    const VariableRef w =
        variable(g, {.name = "w", .initial_value = constant(g, Tensor::zeros(DType::f32, Shape{3, 4}))});
    const Output loss = mean(sparse_softmax_cross_entropy(matmul(x, w.read()), labels, {.name = "loss"}));
    const Output step = minimize(loss, optimizers::Adam{.learning_rate = 0.1}), value = w.read(),
                 initialize = initializer(g);
    Session session(on, g);
    session.run_targets({initialize});
    const Tensor data = Tensor::of<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6});
    std::vector<std::string> errors;
    for (std::int64_t i = 0; i < 20; ++i)
      errors.push_back(error_of([&] {
                         session.run({{x, data}, {labels, Tensor::vector<std::int64_t>({1, i % 3 == 2 ? 4 : i % 4})}},
                                     {loss}, {step});
                       }).message());
    return std::pair(errors, session.run({}, value));
  };
  const auto [errors, got] = run(task);
  const auto [expected_errors, expected] = run(cpu);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (i % 3 == 2) {
      EXPECT_THAT(errors[i], HasSubstr("device:GPU:0: SparseSoftmaxCrossEntropy: label 4 in row 1 of the batch is out "
                                       "of range: there are 4 classes, 0 to 3"))
          << i;
      EXPECT_THAT(expected_errors[i], HasSubstr("device:CPU:0: SparseSoftmaxCrossEntropy: label 4 in row 1 of the "
                                                "batch is out of range: there are 4 classes, 0 to 3"))
          << i;
    } else {
      EXPECT_EQ(errors[i], "") << i;
    }
  }
  EXPECT_TRUE(bitwise_equal(got, expected));
  EXPECT_GT(task.device(kGpu).recording_stats().launches, 10u);
}

}  // namespace
}  // namespace troupe
