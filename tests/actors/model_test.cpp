#include "actors/training/model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/autodiff.hpp"
#include "graph/ops.hpp"
#include "tests/actors/few_digits.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

Model small_model(std::int64_t units = 16) {
  return Model({layers::flatten(), layers::dense(units, Activation::relu), layers::dense(10)}, Shape{28, 28, 1});
}

TEST(Model, FitsEvaluatesPredictsSavesAndLoads) {
  testing::TemporaryDirectory directory;
  Model model = small_model();
  model.compile(optimizers::Adam{.learning_rate = 0.01});
  std::vector<double> losses;
  const TrainingResult result =
      model.fit(testing::few_digits(),
                {.epochs = 3, .batch = 32, .on_epoch = [&](const EpochDone& e) { losses.push_back(e.loss); }});
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_LT(losses[2], losses[0]);
  EXPECT_EQ(result.steps, 30u);
  EXPECT_EQ(result.params_sha256, model.params_sha256());
  EXPECT_DOUBLE_EQ(model.evaluate(testing::few_digits().test).accuracy, result.test_accuracy);

  Batch batch;
  gather_range(testing::few_digits().test, 0, 10, batch);
  const Tensor predicted = model.predict(batch.images);
  EXPECT_EQ(predicted.shape(), (Shape{10, 10}));
  model.save(directory.file("m"));
  Model again = small_model();
  again.load(directory.file("m"));
  EXPECT_TRUE(bitwise_equal(again.predict(batch.images), predicted));

  Model other = small_model(17);
  const Error shape = error_of([&] { other.load(directory.file("m")); });
  EXPECT_EQ(shape.code(), Code::invalid_argument);
  EXPECT_THAT(shape.message(), HasSubstr("dense/kernel"));
  EXPECT_EQ(error_of([&] { other.evaluate(testing::few_digits().test); }).code(), Code::failed_precondition);
}

TEST(Model, TowersOnTwoDevicesGiveTheValuesOfOne) {
  std::vector<std::string> hashes;
  for (int devices : {1, 2}) {
    Task task({.cpu_devices = devices, .threads = 1});
    Model model = small_model();
    model.compile(optimizers::Momentum{}, task);
    hashes.push_back(model.fit(testing::few_digits(), {.epochs = 1, .batch = 32, .slots = 2, .seed = 5}).params_sha256);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(Model, EveryOptimizerMakesTheLossFall) {
  for (const Optimizer& optimizer :
       {Optimizer(optimizers::SGD{.learning_rate = 0.1}), Optimizer(optimizers::Momentum{}),
        Optimizer(optimizers::Adagrad{}), Optimizer(optimizers::RMSProp{}), Optimizer(optimizers::Adam{})}) {
    Model model = small_model();
    model.compile(optimizer);
    std::vector<double> losses;
    model.fit(testing::few_digits(), {.epochs = 2, .on_epoch = [&](const EpochDone& e) { losses.push_back(e.loss); }});
    EXPECT_LT(losses[1], losses[0]) << name(optimizer);
  }
}

TEST(Model, RefusesOptionsThatMakeNoSense) {
  Model model = small_model();
  for (const TrainingOptions& options :
       {TrainingOptions{.epochs = 0}, TrainingOptions{.batch = 0}, TrainingOptions{.batch = -1},
        TrainingOptions{.slots = -1}, TrainingOptions{.slots = 1025}, TrainingOptions{.batch = 321}})
    EXPECT_EQ(error_of([&] { model.fit(testing::few_digits(), options); }).code(), Code::invalid_argument);
  EXPECT_EQ(error_of([&] { model.fit(testing::few_digits(), {.mode = JobMode::sync}); }).code(),
            Code::failed_precondition);
}

// y = 3 x, by an op that only this program has.
class Thrice final : public Layer {
 public:
  Output apply(LayerContext&, Output x) const override { return add_op("Thrice", {x}); }
  std::string kind() const override { return "thrice"; }
};

TEST(Model, LayersMayBeMadeOfOpsOfTheProgramsOwn) {
  auto ops = std::make_shared<OpRegistry>(standard_ops());
  ops->add(Op("Thrice")
               .input("x", DType::f32)
               .output("y", DType::f32)
               .shape([](ShapeContext& c) { c.set_output(0, c.input(0)); })
               .gradient([](GradientContext& c) { c.set(0, add_op("Thrice", {c.grad()})); }));
  TaskOptions options;
  options.ops = ops;
  options.register_kernels = [](KernelRegistry& kernels) {
    kernels.add({.op = "Thrice", .device_type = "CPU", .dtypes = {}, .make = [](const KernelInit&) -> Kernel {
                   return [](KernelContext& context) {
                     Tensor y = context.allocate(DType::f32, context.input(0).shape());
                     std::ranges::transform(context.input(0).values<float>(), y.mutable_values<float>().begin(),
                                            [](float x) { return 3 * x; });
                     context.set_output(0, y);
                   };
                 }});
  };
  Task task(options);
  Model model({layers::flatten(), layers::dense(16, Activation::relu), std::make_shared<Thrice>(), layers::dense(10)},
              Shape{28, 28, 1});
  model.compile(optimizers::Adam{.learning_rate = 0.01}, task);
  EXPECT_THAT(model.summary(), HasSubstr("thrice"));
  std::vector<double> losses;
  const TrainingResult result = model.fit(
      testing::few_digits(), {.epochs = 3, .on_epoch = [&](const EpochDone& e) { losses.push_back(e.loss); }});
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_EQ(model.evaluate(testing::few_digits().test).accuracy, result.test_accuracy);
}

TEST(Model, StopsWhenTold) {
  std::atomic<bool> stop = false;
  Model model = small_model();
  const auto stop_at_third = [&](std::uint32_t, std::uint64_t step, std::uint64_t) { stop = step == 3; };
  EXPECT_EQ(error_of([&] { model.fit(testing::few_digits(), {.on_progress = stop_at_third, .stop = &stop}); }).code(),
            Code::cancelled);
}

}  // namespace
}  // namespace troupe
