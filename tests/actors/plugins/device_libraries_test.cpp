// Devices of a type that a plug-in brings: simulated TPUs (tests/devices/simulated_tpu.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/task_cluster.hpp"
#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/few_digits.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include <troupe/actors/eager/eager.hpp>
#include <troupe/devices/device.hpp>
#include <troupe/graph/gradients/tape.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TaskOptions with_tpus(TaskName name = {"local", 0}) {
  return {.name = std::move(name),
          .threads = 1,
          .gpus = {.count = 0},
          .device_libraries = {testing::built_library("libsimulated_tpu.so")}};
}

TEST(DeviceLibraries, BringDevicesOfTheirType) {
  Task task(with_tpus());
  EXPECT_THAT(default_devices(task.devices(), task.name()),
              ElementsAre("/job:local/task:0/device:TPU:0", "/job:local/task:0/device:TPU:1"));
  EXPECT_EQ(task.accelerators(), "switched off; TPU: simulated TPUs");
  EXPECT_EQ(task.device(1).attributes().type, "TPU");
  EXPECT_TRUE(task.kernels().supports("MatMul", "TPU", DType::f32));
  EXPECT_FALSE(task.kernels().supports("Tanh", "TPU", DType::f32));
}

TEST(DeviceLibraries, AreRefusedWithTheReason) {
  const auto refusal = [](std::vector<std::string> libraries) {
    return error_of([&] { Task({.device_libraries = std::move(libraries)}); }).to_string();
  };
  EXPECT_EQ(refusal({"/no/such/tpu.so"}), "not_found: device library /no/such/tpu.so: no /no/such/tpu.so");
  EXPECT_EQ(refusal({""}), "invalid_argument: device library: the path is empty");
  const std::string ops = testing::built_library("librelu_sigmoid.so"),
                    tpus = testing::built_library("libsimulated_tpu.so");
  EXPECT_EQ(refusal({ops}), "not_found: device library " + ops + ": " + ops + " is not a Troupe device library");
  EXPECT_EQ(refusal({tpus, tpus}),
            "already_exists: device library " + tpus + ": the task has devices of type TPU already");
}

TEST(DeviceLibraries, RunTheNodesThatTheyHaveKernelsFor) {
  Task task(with_tpus());
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2, 2}, "x");
  const Output product = matmul(x, constant(graph, Tensor::of<float>({2, 2}, {1, 2, 3, 4})), {.name = "product"});
  const Output y = tanh(relu(product, "relu"), "y");
  Output other;
  {
    const auto there = graph.on_device("tpu:1");
    other = relu(product, "other");
  }
  Session session(task, graph);
  const std::string plan = session.explain({x}, {y, other});
  EXPECT_THAT(plan, HasSubstr("/job:local/task:0/device:TPU:0"));
  EXPECT_THAT(plan, HasSubstr("/job:local/task:0/device:TPU:1"));
  const std::vector<Tensor> found = session.run({{x, Tensor::of<float>({2, 2}, {1, 0, -1, 0.5f})}}, {y, other});
  EXPECT_TRUE(bitwise_equal(found[1], Tensor::of<float>({2, 2}, {1, 2, 0.5f, 0})));
  Graph plain;
  const Output expected = tanh(constant(plain, found[1]));
  EXPECT_TRUE(bitwise_equal(found[0], Session(plain).run({}, expected)));
}

TEST(DeviceLibraries, ATypeThatIsMisspeltIsRefused) {
  Task task(with_tpus());
  Graph graph;
  const Output x = constant(graph, 1.f);
  Output y;
  {
    const auto there = graph.on_device("TPUU:0");
    y = relu(x, "y");
  }
  EXPECT_THAT(error_of([&] { Session(task, graph, {.optimize = false}).run({}, y); }).message(),
              HasSubstr("Relu 'y': there is no device /device:TPUU:0; available: /job:local/task:0/device:TPU:0"));
}

TEST(DeviceLibraries, ComputeInEagerMode) {
  Task task(with_tpus());
  Eager eager(task, {.device = "TPU:1"});
  const Output x = constant(eager, Tensor::of<float>({1, 2}, {1, -2})),
               w = constant(eager, Tensor::of<float>({2, 1}, {3, 4}));
  GradientTape tape;
  tape.watch(w);
  const Output y = tanh(matmul(relu(x), w));
  EXPECT_EQ(y.value().values<float>()[0], std::tanh(3.f));
  EXPECT_FLOAT_EQ(tape.gradient(y, w).value().values<float>()[0], 1 - std::tanh(3.f) * std::tanh(3.f));
  EXPECT_THAT(error_of([&] {
                const auto there = eager.graph().on_device("TPU:7");
                relu(x);
              }).message(),
              HasSubstr("task /job:local/task:0 has no device /device:TPU:7"));
}

std::string trained(Task& task) {
  Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)},
              Shape{28, 28, 1}, DType::u8);
  model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}), task);
  model.fit(testing::few_digits(), {.epochs = 2, .batch = 32});
  return model.params_sha256();
}

TEST(DeviceLibraries, TrainToTheBitsOfTheCpu) {
  Task tpus(with_tpus()), cpu({.threads = 1, .gpus = {.count = 0}});
  EXPECT_EQ(trained(tpus), trained(cpu));
}

TEST(DeviceLibraries, AreUsedFromOtherTasks) {
  testing::TaskCluster cluster(
      std::vector<TaskOptions>{{.name = {"worker", 0}, .gpus = {.count = 0}}, with_tpus({"worker", 1})});
  Graph graph;
  Output y;
  {
    const auto there = graph.on_device("/job:worker/task:1/device:TPU:0");
    y = relu(constant(graph, Tensor::vector<float>({-1, 2})), "y");
  }
  Session session(cluster[0], graph, {.optimize = false});
  EXPECT_TRUE(bitwise_equal(session.run({}, y), Tensor::vector<float>({0, 2})));
}

}  // namespace
}  // namespace troupe
