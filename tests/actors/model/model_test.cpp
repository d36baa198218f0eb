#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/few_digits.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/training/dataset_source.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

Model small_model(std::int64_t units = 16) {
  return Model(
      {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(units, Activation::relu), layers::dense(10)},
      Shape{28, 28, 1}, DType::u8);
}

Model compiled_model(const Optimizer& optimizer = optimizers::Adam{.learning_rate = 0.01}) {
  Model model = small_model();
  model.compile(testing::classifying(optimizer));
  return model;
}

TEST(Model, FitsEvaluatesPredictsSavesAndLoads) {
  testing::TemporaryDirectory directory;
  Model model = small_model();
  model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}));
  std::vector<double> losses;
  const TrainingResult result =
      model.fit(testing::few_digits(),
                {.epochs = 3, .batch = 32, .on_epoch = [&](const EpochLogs& e) { losses.push_back(e["loss"]); }});
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_LT(losses[2], losses[0]);
  EXPECT_EQ(result.steps, 30u);
  EXPECT_EQ(result.params_sha256, model.params_sha256());
  EXPECT_DOUBLE_EQ(model.evaluate(testing::few_digits().test)["accuracy"], result["val_accuracy"]);

  const Tensor images = testing::few_digits().test.images.rows(0, 10).clone();
  const Tensor predicted = model.predict(images);
  EXPECT_EQ(predicted.shape(), (Shape{10, 10}));
  model.save(directory.file("m"));
  Model again = Model::load(directory.file("m"));
  EXPECT_TRUE(bitwise_equal(again.predict(images), predicted));

  Model other = small_model(17);
  const Error shape = error_of([&] { other.load_values(directory.file("m")); });
  EXPECT_EQ(shape.code(), Code::invalid_argument);
  EXPECT_THAT(shape.message(), HasSubstr("dense/kernel"));
  EXPECT_EQ(error_of([&] { other.evaluate(testing::few_digits().test); }).code(), Code::failed_precondition);
}

TEST(Model, TowersOnTwoDevicesGiveTheValuesOfOne) {
  std::vector<std::string> hashes;
  for (int devices : {1, 2}) {
    Task task({.cpu_devices = devices, .threads = 1});
    Model model = small_model();
    model.compile(testing::classifying(optimizers::Momentum{}), task);
    hashes.push_back(
        model.fit(testing::few_digits(), {.mode = LocalMode{.slots = 2}, .epochs = 1, .batch = 32, .seed = 5})
            .params_sha256);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(Model, EveryOptimizerMakesTheLossFall) {
  for (const Optimizer& optimizer :
       {Optimizer(optimizers::SGD{.learning_rate = 0.1}), Optimizer(optimizers::Momentum{}),
        Optimizer(optimizers::Adagrad{}), Optimizer(optimizers::RMSProp{}), Optimizer(optimizers::Adam{})}) {
    Model model = small_model();
    model.compile(testing::classifying(optimizer));
    std::vector<double> losses;
    model.fit(testing::few_digits(),
              {.epochs = 2, .on_epoch = [&](const EpochLogs& e) { losses.push_back(e["loss"]); }});
    EXPECT_LT(losses[1], losses[0]) << name(optimizer);
  }
}

TEST(Model, RefusesOptionsThatMakeNoSense) {
  Model model = compiled_model();
  for (const TrainingOptions& options :
       {TrainingOptions{.epochs = 0}, TrainingOptions{.batch = 0}, TrainingOptions{.batch = -1},
        TrainingOptions{.mode = LocalMode{.slots = 0}}, TrainingOptions{.mode = LocalMode{.slots = 1025}},
        TrainingOptions{.batch = 321}})
    EXPECT_EQ(error_of([&] { model.fit(testing::few_digits(), options); }).code(), Code::invalid_argument)
        << "epochs " << options.epochs << ", batch " << options.batch << ", slots "
        << std::get<LocalMode>(options.mode).slots;
  EXPECT_EQ(error_of([&] { model.fit(testing::few_digits(), {.mode = SyncMode{}}); }).code(),
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
  Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu),
               std::make_shared<Thrice>(), layers::dense(10)},
              Shape{28, 28, 1}, DType::u8);
  model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}), task);
  EXPECT_THAT(model.summary(), HasSubstr("thrice"));
  std::vector<double> losses;
  const TrainingResult result = model.fit(
      testing::few_digits(), {.epochs = 3, .on_epoch = [&](const EpochLogs& e) { losses.push_back(e["loss"]); }});
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_EQ(model.evaluate(testing::few_digits().test)["accuracy"], result["val_accuracy"]);
}

TEST(Model, StopsWhenTold) {
  std::atomic<bool> stop = false;
  Model model = compiled_model();
  const auto stop_at_third = [&](const StepProgress& at) {
    if (at.step >= 3) stop = true;
  };
  EXPECT_EQ(error_of([&] { model.fit(testing::few_digits(), {.on_progress = stop_at_third, .stop = &stop}); }).code(),
            Code::cancelled);
  EXPECT_GT(model.evaluate(testing::few_digits().test)["loss"], 0) << "a stopped model keeps what it has";
}

TEST(Model, ChecksItsDataOnceAndNamesTheField) {
  const DataSplits& digits = testing::few_digits();
  const auto said_of = [&](const DataSplits& data) {
    Model model = compiled_model();
    const Error error = error_of([&] { model.fit(data, {.epochs = 1, .batch = 16}); });
    EXPECT_EQ(error.code(), Code::invalid_argument) << error.message();
    return error.message();
  };
  const Tensor few = digits.train.labels.rows(0, 32).clone();
  EXPECT_EQ(said_of({{digits.train.images, few}, digits.test}),
            "data.train has 320 images but 32 labels; each image needs one label");
  EXPECT_EQ(said_of({{digits.train.images.rows(0, 32).clone(), digits.train.labels}, digits.test}),
            "data.train has 32 images but 320 labels; each image needs one label");
  EXPECT_EQ(said_of({digits.train, {digits.test.images, few}}),
            "data.test has 100 images but 32 labels; each image needs one label");
  EXPECT_EQ(said_of({{Tensor(DType::f32, {320, 28, 28, 1}), digits.train.labels}, digits.test}),
            "data.train.images is f32[320,28,28,1], but the model takes u8[?,28,28,1]");
  EXPECT_EQ(said_of({{digits.train.images.reshaped({320, 784}), digits.train.labels}, digits.test}),
            "data.train.images is u8[320,784], but the model takes u8[?,28,28,1]");
  EXPECT_EQ(said_of({{digits.train.images, Tensor::zeros(DType::i64, {320})}, digits.test}),
            "data.train.labels is i64[320], expected i32[n], the class of each image");
  EXPECT_EQ(said_of({{}, digits.test}), "data.train.images is no tensor, but the model takes u8[?,28,28,1]");
  Tensor wrong = digits.train.labels.clone();
  wrong.mutable_data<std::int32_t>()[17] = 10;
  EXPECT_EQ(said_of({{digits.train.images, wrong}, digits.test}),
            "data.train.labels: example 17 has class 10, but the model's classes are 0 to 9");

  Model model = compiled_model();
  model.fit(digits, {.epochs = 1});
  EXPECT_EQ(error_of([&] {
              model.evaluate({digits.test.images, few});
            }).message(),
            "the data set has 100 images but 32 labels; each image needs one label");
  EXPECT_EQ(error_of([&] { model.evaluate(Dataset{}); }).code(), Code::invalid_argument);
}

TEST(Model, MayOutliveItsTaskButNotComputeThen) {
  Model model = small_model();
  {
    Task task({.threads = 1});
    model.compile(testing::classifying(optimizers::Adam{}), task);
    model.fit(testing::few_digits(), {.epochs = 1, .quiet = true});
    EXPECT_GT(model.evaluate(testing::few_digits().test)["loss"], 0);
  }
  EXPECT_THAT(error_of([&] { model.evaluate(testing::few_digits().test); }).message(),
              HasSubstr("the model's task has ended"));
}

TEST(Model, FindsTheComponentsOfABatchByTheirNames) {
  const DataSplits& digits = testing::few_digits();
  Model model = compiled_model();
  const TensorDataset swapped({{"labels", digits.test.labels}, {"images", digits.test.images}});
  model.fit(source_of(digits.train), source_of(digits.test), {.epochs = 1});
  EXPECT_EQ(model.evaluate(swapped).figures, model.evaluate(digits.test).figures);
}

TEST(Model, PredictsFromWhatItWasFitTo) {
  const DataSplits& digits = testing::few_digits();
  Model model = compiled_model();
  model.fit(digits, {.epochs = 1});
  const Tensor predicted = model.predict(digits.test.images);
  EXPECT_EQ(predicted.shape(), (Shape{100, 10}));
  const TensorDataset source({{"images", digits.test.images}});
  const auto by_name = model.predict(source, 33);  // batches of another size, the last one smaller
  ASSERT_EQ(by_name.size(), 1u);
  const Tensor& again = by_name.begin()->second;
  ASSERT_EQ(again.shape(), predicted.shape());
  for (std::int64_t i = 0; i < 1000; ++i)  // a batch of another size may add up in another order
    EXPECT_NEAR(again.data<float>()[i], predicted.data<float>()[i], 1e-5) << i;
  EXPECT_EQ(error_of([&] {
              model.predict(Tensor(DType::f32, {28, 28}));
            }).message(),
            "input 'images' takes u8[28,28,1] of each example, but component 'images' is f32[28]");
}

TEST(Model, IsCompiledBeforeItIsFitAndEndsInLogits) {
  Model fresh = small_model();
  EXPECT_THAT(error_of([&] { fresh.fit(testing::few_digits(), {}); }).message(), HasSubstr("compile the model"));
  Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(10, Activation::softmax)},
              Shape{28, 28, 1}, DType::u8);
  model.compile(testing::classifying(optimizers::Adam{}));
  const Error softmax = error_of([&] { model.fit(testing::few_digits(), {}); });
  EXPECT_EQ(softmax.code(), Code::invalid_argument);
  EXPECT_THAT(softmax.message(), HasSubstr("remove the softmax of the last layer"));
}

std::vector<std::string> kinds_told(Model& model, const DataSplits& data, TrainingOptions options) {
  std::vector<std::string> kinds;
  options.on_event = [&](const JobEvent& event) { kinds.push_back(event.kind); };
  model.fit(data, options);
  return kinds;
}

TEST(Model, WarnsOfWhatIsOfNoUse) {
  const DataSplits& digits = testing::few_digits();
  Model diverges = compiled_model(optimizers::SGD{.learning_rate = 1e30});
  EXPECT_THAT(kinds_told(diverges, digits, {.epochs = 2}), ::testing::ElementsAre("not_finite"));
  Model untested = compiled_model();
  EXPECT_THAT(kinds_told(untested, {digits.train, {}}, {.epochs = 1}), ::testing::ElementsAre("no_test"));
}

TEST(Model, TellsEpochsAndEventsByItself) {
  Model model = compiled_model();
  ::testing::internal::CaptureStderr();
  model.fit({testing::few_digits().train, {}}, {.epochs = 2});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("troupe: there is no evaluation data"));
  EXPECT_THAT(said, HasSubstr("troupe: Epoch 1/2: loss "));
  EXPECT_THAT(said, HasSubstr("troupe: Epoch 2/2: loss "));
  ::testing::internal::CaptureStderr();
  model.fit({testing::few_digits().train, {}}, {.epochs = 1, .quiet = true});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Model, CallbacksSeeTheParametersOfTheMoment) {
  testing::TemporaryDirectory directory;
  const DataSplits& digits = testing::few_digits();
  Model model = compiled_model();
  std::atomic<bool> stop = false;
  std::vector<double> seen, told;
  const auto after_epoch = [&](const EpochLogs& epoch) {
    told.push_back(epoch["val_accuracy"]);
    seen.push_back(model.evaluate(digits.test)["accuracy"]);
    model.save(directory.file("m"));
    stop = epoch.epoch == 1;
    EXPECT_EQ(error_of([&] { model.load_values(directory.file("m")); }).code(), Code::failed_precondition);
    EXPECT_EQ(error_of([&] { model.fit(digits, {}); }).code(), Code::failed_precondition);
  };
  EXPECT_EQ(error_of([&] { model.fit(digits, {.epochs = 9, .on_epoch = after_epoch, .stop = &stop}); }).code(),
            Code::cancelled);
  EXPECT_EQ(seen, told);
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_EQ(model.evaluate(digits.test)["accuracy"], told.back());
  Model saved = Model::load(directory.file("m"));
  EXPECT_EQ(saved.params_sha256(), model.params_sha256());
}

TEST(Model, FittingTwiceIsFittingLonger) {
  const DataSplits& digits = testing::few_digits();
  const TrainingOptions half{.epochs = 2, .batch = 16, .seed = 3, .quiet = true};
  for (const Optimizer& optimizer : {Optimizer(optimizers::Momentum{}), Optimizer(optimizers::Adam{})}) {
    SCOPED_TRACE(name(optimizer));
    Model once = compiled_model(optimizer), twice = compiled_model(optimizer);
    TrainingOptions whole = half;
    whole.epochs = 4;
    const TrainingResult wanted = once.fit(digits, whole);
    twice.fit(digits, half);
    std::vector<std::uint32_t> epochs;
    TrainingOptions rest = half;
    rest.on_epoch = [&](const EpochLogs& e) { epochs.push_back(e.epoch); };
    const TrainingResult result = twice.fit(digits, rest);
    EXPECT_EQ(result.params_sha256, wanted.params_sha256);
    EXPECT_EQ(result.steps, wanted.steps);
    EXPECT_THAT(epochs, ::testing::ElementsAre(2, 3));

    // Stopped at any step, too.
    Model stopped = compiled_model(optimizer);
    std::atomic<bool> stop = false;
    TrainingOptions first = whole;
    first.stop = &stop;
    first.on_progress = [&](const StepProgress& at) {
      if (at.epoch == 1 && at.step >= 7) stop = true;
    };
    EXPECT_EQ(error_of([&] { stopped.fit(digits, first); }).code(), Code::cancelled);
    rest.epochs = 3;  // the second, and two more
    EXPECT_EQ(stopped.fit(digits, rest).params_sha256, wanted.params_sha256);

    twice.compile(testing::classifying(optimizer));  // the optimizer begins anew
    EXPECT_NE(twice.fit(digits, half).params_sha256, once.fit(digits, half).params_sha256);
  }
}

TEST(Model, GoesOnAfterItWasSavedAndLoaded) {
  testing::TemporaryDirectory directory;
  const TrainingOptions options{.epochs = 1, .batch = 16, .quiet = true};
  Model model = compiled_model();
  model.fit(testing::few_digits(), options);
  model.save(directory.file("m"), {.assets = {{"names.txt", "zero one"}}, .metadata = {{"author", "me"}}});
  model.fit(testing::few_digits(), options);
  Model loaded = Model::load(directory.file("m"));
  EXPECT_EQ(error_of([&] { loaded.fit(testing::few_digits(), options); }).code(), Code::failed_precondition);
  loaded.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}));
  EXPECT_EQ(loaded.fit(testing::few_digits(), options).params_sha256, model.params_sha256());
  EXPECT_EQ(read_model(posix_file_system(), directory.file("m")).assets.at("names.txt"), "zero one");
  // Another optimizer begins anew.
  Model other = Model::load(directory.file("m"));
  other.compile(testing::classifying(optimizers::SGD{}));
  EXPECT_THAT(kinds_told(other, testing::few_digits(), options), ::testing::ElementsAre("begins_anew"));
}

TEST(Model, TakesPartsOfAnother) {
  testing::TemporaryDirectory directory;
  Model trained = compiled_model();
  trained.fit(testing::few_digits(), {.epochs = 1, .quiet = true});
  const std::string file = directory.file("values.safetensors");
  save_values(posix_file_system(), file, trained.parameters());
  Model other = compiled_model(optimizers::SGD{.learning_rate = 0});
  other.load_values(file, {.only = {"dense/*"}});
  EXPECT_EQ(error_of([&] { other.predict(testing::few_digits().test.images); }).code(), Code::not_found);
  other.fit(testing::few_digits(), {.epochs = 1, .seed = 5, .quiet = true});
  const Parameters values = other.parameters(), taken = trained.parameters();
  for (const auto& [name, value] : values)
    EXPECT_EQ(bitwise_equal(value, taken.at(name)), name.starts_with("dense/")) << name;
  EXPECT_THAT(error_of([&] {
                other.load_values(file, {.prefixes = {{"dense/", "dance/"}}});
              }).message(),
              HasSubstr("the model has no variable 'dance/"));
}

TEST(Model, TakesValuesAndItsOptimizerGoesOn) {
  Model model = compiled_model(), other = compiled_model();
  const TrainingOptions options{.epochs = 1, .batch = 32, .quiet = true};
  model.fit(testing::few_digits(), options);
  const Parameters after_one = model.parameters();
  model.fit(testing::few_digits(), options);
  const std::string once = model.params_sha256();

  other.set_parameters(after_one);  // of a model without parameters
  EXPECT_EQ(other.params_sha256(), params_sha256(after_one));
  other.fit(testing::few_digits(), options);
  EXPECT_NE(other.params_sha256(), once);  // its optimizer begins

  Model same = compiled_model();
  same.fit(testing::few_digits(), options);
  Parameters changed = after_one;
  for (auto& [name, value] : changed) value = Tensor::zeros(value.dtype(), value.shape());
  same.set_parameters(changed);
  same.set_parameters(after_one);
  same.fit(testing::few_digits(), options);
  EXPECT_EQ(same.params_sha256(), once);

  const Parameters others{{"nothing", Tensor::scalar(1.0F)}};
  EXPECT_THAT(error_of([&] { same.set_parameters(others); }).message(), HasSubstr("the model has no such variable"));
  Model fresh = compiled_model();
  EXPECT_THAT(error_of([&] { fresh.set_parameters({}); }).message(), HasSubstr("set_parameters()"));
}

TEST(Model, OtherOptionsBeginTheOptimizerAnewAndSaySo) {
  Model model = compiled_model();
  model.fit(testing::few_digits(), {.epochs = 1, .batch = 16, .quiet = true});
  std::vector<std::string> told;
  const TrainingOptions other{.epochs = 1, .batch = 32, .on_event = [&](const JobEvent& e) { told.push_back(e.text); }};
  EXPECT_EQ(model.fit(testing::few_digits(), other).steps, 10u);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], HasSubstr("the optimizer restarts"));
  EXPECT_THAT(told[0], HasSubstr("batch"));
}

}  // namespace
}  // namespace troupe
