// The blocks of C++ in README.md and docs, each completed to a program: <pages/NAME.inc> is the block of that name.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <string_view>

#include "tests/actors/training/classifying.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/readers/image_files.hpp"
#include "tests/paths.hpp"
#include "tests/processes/places.hpp"
#include "tests/temporary_directory.hpp"
// As the pages say it: the fragments need no more.
#include <troupe/actors/model/tensorflow_model.hpp>
#include <troupe/actors/serving/model_server.hpp>
#include <troupe/actors/session/group.hpp>
#include <troupe/actors/session/quantization.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/layers/resnet.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

DataSplits few_digits() { return draw_digits({.train = 512, .test = 64}); }

Model small_model() {
  return Model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(10)}, Shape{28, 28, 1}, DType::u8);
}

TEST(Pages, RatesThatChangeClippingAndMicroBatches) {
  Model model = small_model();
  const DataSplits data = few_digits();
#include <pages/schedules.inc>
  EXPECT_LT(model.evaluate(data.test)["loss"], 3);  // log(10) = 2.3 to begin with; the rate has hardly warmed up
}

TEST(Pages, OptimizersWithDecayAndAverages) {
  Model model = small_model();
  const DataSplits data = few_digits();
#include <pages/optimizers.inc>
  model.fit(data, {.epochs = 1, .batch = 32, .quiet = true});
  EXPECT_LT(model.evaluate(data.test)["loss"], 3);
}

TEST(Pages, LayersThatNormaliseAndArePutAroundOthers) {
#include <pages/layers.inc>
  model.compile(testing::classifying(optimizers::SGD{}));
  const DataSplits data = draw_digits({.train = 64, .test = 32});
  model.fit(data, {.epochs = 1, .batch = 32});
  EXPECT_GE(model.evaluate(data.test)["accuracy"], 0);
}

TEST(Pages, LibrariesOfOps) {
  const testing::TemporaryDirectory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::create_symlink(testing::built_library("libcube.so"), directory.file("libcube.so"));
  std::filesystem::current_path(directory.path());
#include <pages/op_library_use.inc>
  std::filesystem::current_path(before);
  EXPECT_TRUE(bitwise_equal(y.value(), Tensor::vector<float>({1, 8, 27})));
  EXPECT_EQ(library_of("Cube")->library.version, "1.0");
}

TEST(Pages, ModelsOfEightBits) {
  Task task({.threads = 1});
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{kUnknown, 3}, "x");
  const Output body = relu(matmul(x, constant(graph, Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})), {.name = "body"}));
  const Output y = matmul(body, constant(graph, Tensor::of<float>({2, 1}, {1, -1})), {.name = "head"});
  const auto frozen = graph.clone();
  const Tensor images = Tensor::of<float>({2, 3}, {0, 1, 0.5f, 1, 0.25f, 0});
  const auto batches = [&, left = 1]() mutable -> std::optional<std::map<std::string, Tensor>> {
    if (left-- == 0) return std::nullopt;
    return std::map<std::string, Tensor>{{"x", images}};
  };
  ::testing::internal::CaptureStdout();
#include <pages/quantization.inc>
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(printed, ::testing::HasSubstr("body"));
  EXPECT_THAT(printed, ::testing::Not(::testing::HasSubstr("head")));
  EXPECT_NEAR(scores.data<float>()[0], -1.5f, 0.05);  // 5.5 - 7
}

TEST(Pages, NetworksOfNamedInputsAndResults) {
  const std::vector<std::string> vocabulary = {"red", "shoe"};
  ::testing::internal::CaptureStdout();
#include <pages/networks.inc>
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), ::testing::HasSubstr("price_head           [?,1]"));
  EXPECT_EQ(serialize(same), serialize(network));
}

// Points [n,3] and sums of them [n,1].
std::pair<Tensor, Tensor> sums(std::int64_t n) {
  Tensor x(DType::f32, Shape{n, 3}), y = Tensor::zeros(DType::f32, Shape{n, 1});
  for (std::int64_t i = 0; i < 3 * n; ++i) {
    x.mutable_data<float>()[i] = static_cast<float>(i * 7919 % 200) / 100 - 1;
    y.mutable_data<float>()[i / 3] += x.data<float>()[i];
  }
  return {x, y};
}

TEST(Pages, Regression) {
  const auto [x, y] = sums(200);
  ::testing::internal::CaptureStdout();
#include <pages/regression.inc>
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), ::testing::StartsWith("f32[200,1] = "));
  EXPECT_GT(model.evaluate(validation)["r2_score"], 0.9);
}

TEST(Pages, OutputsThatLearnDifferentThings) {
#include <pages/outputs.inc>
  Tensor ids(DType::i64, Shape{40, 8}), kind(DType::i32, Shape{40});
  Tensor ones(DType::f32, Shape{40, 1});
  std::ranges::fill(ones.mutable_values<float>(), 1);
  for (std::int64_t i = 0; i < 320; ++i) ids.mutable_data<std::int64_t>()[i] = i * 37 % 100;
  for (std::int64_t i = 0; i < 40; ++i) kind.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(i % 3);
  const TensorDataset data(
      {{"words", ids}, {"price", ones}, {"kind", kind}, {"was_sold", ones}, {"importance", ones.reshaped(Shape{40})}});
  const TrainingResult result = model.fit(data, {.epochs = 2, .batch = 8, .quiet = true});
  EXPECT_GT(result["kind_loss"], 0);
  EXPECT_GE(result["sold_auc"], 0);
}

TEST(Pages, CallbacksThatStopAndLog) {
  testing::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
  Model model = small_model();
  model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}));
  const DataSplits data = few_digits();
#include <pages/callbacks.inc>
  EXPECT_TRUE(std::filesystem::exists("epochs.csv"));
  EXPECT_GE(Model::load("model").predict(data.test.images).shape()[1], 10);
}

TEST(Pages, EstimatorsOverColumns) {
  testing::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
  Tensor age(DType::f32, Shape{64}), label(DType::i32, Shape{64}), town(DType::string, Shape{64});
  for (std::int64_t i = 0; i < 64; ++i) {
    age.mutable_data<float>()[i] = static_cast<float>(i) / 64;
    label.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(i / 22);
    town.mutable_data<std::string>()[i] = i % 2 == 0 ? "Ulm" : "Bonn";
  }
  const TensorDataset people({{"age", age}, {"town", town}, {"label", label}});
  ::testing::internal::CaptureStdout();
#include <pages/estimators.inc>
  EXPECT_EQ(::testing::internal::GetCapturedStdout().size(), 5u);
  EXPECT_TRUE(std::filesystem::exists("people/model.pb"));
}

TEST(Pages, ProgramsOfOnesOwn) {
  const auto [x, y] = sums(64);
  const TensorDataset data({{"x", x}, {"y", y}});
  ::testing::internal::CaptureStdout();
#include <pages/programs.inc>
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), ::testing::StartsWith("f32[64,1] = "));
  EXPECT_LT(model.evaluate(data)["scale_loss"], 2);
}

TEST(Pages, DataOfTheirOwn) {
  Model model = small_model();
  model.compile(testing::classifying(optimizers::SGD{}));
#include <pages/own_data.inc>
  EXPECT_EQ(model.evaluate(images)["accuracy"], 1);  // all are labelled 0
}

TEST(Pages, PipelinesOfRecords) {
  testing::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
  ::testing::internal::CaptureStdout();
#include <pages/pipelines.inc>
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              ::testing::HasSubstr("tfrecord points*.tfrecord: x f32[2], sum f32[1]; 400 elements"));
  EXPECT_GT(result["r2_score"], 0.9);
  EXPECT_GT(score, 0.99);
  EXPECT_EQ(sums.shape(), (Shape{380, 1}));  // 19 of 20 columns are below 0.85
  EXPECT_EQ(points.forward_because(), "stage 'filter small' leaves out elements");
}

TEST(Pages, PipelinesOfImages) {
  testing::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
  for (const std::string kind : {"rose", "tulip"}) {
    std::filesystem::create_directories("flowers/" + kind);
    for (unsigned i = 0; i < 16; ++i) {
      std::vector<std::uint8_t> pixels;  // roses are red
      for (unsigned p = 0; p < 30 * 40; ++p) pixels.insert(pixels.end(), {200, 90, static_cast<std::uint8_t>(p + i)});
      if (kind == "tulip")
        for (std::size_t p = 0; p < pixels.size(); p += 3) std::swap(pixels[p], pixels[p + 1]);
      directory.write(fmt::format("flowers/{}/{}.jpg", kind, i), testing::jpeg_file(pixels, 30, 40));
    }
  }
  ::testing::internal::CaptureStdout();
#include <pages/pipelines_images.inc>
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              ::testing::HasSubstr("map normalize image: image f32[24,24,3], label i64[]; 32 elements"));
  EXPECT_EQ(model.evaluate(PipelineSource(flowers))["accuracy"], 1);
}

TEST(Pages, PipelinesOfTexts) {
  testing::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
  std::string file = "text,stars\n";
  for (int i = 0; i < 100; ++i)
    file += fmt::format("\"The {} {}, really!\",{}\n", i % 3 == 0 ? "shoe" : "HAT", i % 2 == 0 ? "fits" : "hurts",
                        1 - i % 2);
  directory.write("reviews.csv", file);
  ::testing::internal::CaptureStdout();
#include <pages/pipelines_texts.inc>
  ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(words[0], "the");
  EXPECT_EQ(model.evaluate(PipelineSource(ids))["accuracy"], 1);
}

// Compiled, but run by tests/devices/storage alone, which have servers.
TEST(Pages, FilesElsewhere) {
  const auto by_scheme = [] {
#include <pages/files_elsewhere.inc>
    return rows.describe() + more.describe();
  };
  const auto of_a_store = [] {
#include <pages/files_of_a_store.inc>
    return lines.describe();
  };
  EXPECT_TRUE((std::is_same_v<decltype(by_scheme()), decltype(of_a_store())>));
  EXPECT_EQ(&file_system_of("s3://bucket/train-*.csv"), &file_system_of("s3://bucket/models/digits"));
}

TEST(Pages, SummariesOfProgramsAndLoops) {
  testing::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
#include <pages/summaries.inc>
  const auto text = [&](const std::string& curves) {
    std::string all;
    for (const auto& entry : std::filesystem::directory_iterator(directory.file(curves)))
      all += read_file(posix_file_system(), entry.path(), 1 << 20);
    return all;
  };
  for (const char* tag : {"slope", "errors", "epoch/loss"}) EXPECT_THAT(text("curves/line"), ::testing::HasSubstr(tag));
  for (const char* word : {"square", "Squares of *ten* numbers"})
    EXPECT_THAT(text("curves/squares"), ::testing::HasSubstr(word));
}

TEST(Pages, GraphsGradientsAndSessions) {
  const std::string_view shown =
#include <pages/graph_output.inc>
      ;
  ::testing::internal::CaptureStdout();
#include <pages/graph.inc>
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), shown);
}

TEST(Pages, ModelsAreSavedAndPartsOfThemLoaded) {
  testing::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
  const std::string_view shown =
#include <pages/saving_output.inc>
      ;
  ::testing::internal::CaptureStdout();
  {
#include <pages/saving.inc>
    EXPECT_EQ(to_string(adam), to_string(optimizers::Adam{.learning_rate = 1e-3}));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), shown);
  {
#include <pages/saving_parts.inc>
    EXPECT_EQ(load_values(posix_file_system(), "mine.npz").at("encoder/w").values<float>()[1], 4);
  }
}

TEST(Pages, SessionsAreSavedAndGoOn) {
  testing::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
  for (int run = 0; run < 2; ++run) {
    ::testing::internal::CaptureStdout();
#include <pages/saving_session.inc>
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "500 500\n");
  }
}

TEST(Pages, OpsThatRunWhenTheyAreCalled) {
  const std::string_view shown =
#include <pages/eager_output.inc>
      ;
  ::testing::internal::CaptureStdout();
#include <pages/eager.inc>
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), shown);
}

TEST(Pages, FunctionsThatAreTraced) {
  const std::string_view shown =
#include <pages/eager_function_output.inc>
      ;
  ::testing::internal::CaptureStdout();
#include <pages/eager_function.inc>
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), shown);
}

TEST(Pages, LoopsScansAndJacobians) {
  const std::string_view shown =
#include <pages/control_flow_output.inc>
      ;
  ::testing::internal::CaptureStdout();
#include <pages/control_flow.inc>
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), shown);
}

TEST(Pages, ListsGrowInLoops) {
  const std::string_view shown =
#include <pages/lists_output.inc>
      ;
  ::testing::internal::CaptureStdout();
#include <pages/lists.inc>
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), shown);
}

TEST(Pages, TheFirstNodeThatMakesAnInfinity) {
  ::testing::internal::CaptureStdout();
#include <pages/check_numerics.inc>
  const std::string shown = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(shown.find("Log 'logarithm' makes a number that is not finite"), shown.npos) << shown;
}

TEST(Pages, OnnxModelsGoOutAndComeBack) {
  testing::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
#include <pages/onnx_program.inc>
  EXPECT_EQ(found.values<float>()[0], 0.0f);
  EXPECT_EQ(found.shape(), (Shape{1, 2}));
}

TEST(Pages, ModelsOfTensorFlowTrainOn) {
  const Tensor images = Tensor::of<float>({1, 4}, {1, 2, 3, 4}), classes = Tensor::vector<std::int64_t>({2});
  const auto example = [&] {
#include <pages/tensorflow_program.inc>
  };
  // There is no such model here.
  EXPECT_EQ(testing::error_of(example).code(), Code::not_found);
}

TEST(Pages, ModelsAreWrittenForTensorFlow) {
  testing::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
#include <pages/tensorflow_written.inc>
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "scaled/variables/variables.index"));
}

TEST(Pages, TheClusterFileIsOne) {
  const std::string_view text =
#include <pages/cluster_file.inc>
      ;
  const ClusterSpec cluster = ClusterSpec::parse(text, "docs/reference/cluster-file.md");
  EXPECT_EQ(cluster.count("ps"), 1);
  EXPECT_EQ(cluster.count("worker"), 2);
}

// A cluster of these tasks at free ports of this machine, as a file in the current folder, which is the test's own.
class PagesCluster : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::current_path(directory.path()); }
  void TearDown() override { std::filesystem::current_path(before); }

  void write(const std::string& file, const std::vector<TaskName>& tasks) {
    ClusterSpec spec{"pages", testing::kStrongToken, {}};
    const std::vector<int> ports = testing::free_ports(static_cast<int>(tasks.size()));
    for (std::size_t i = 0; i < tasks.size(); ++i)
      spec.tasks[tasks[i]] = {"127.0.0.1", static_cast<std::uint16_t>(ports[i])};
    directory.write(file, spec.to_json());
  }
  static std::unique_ptr<Task> join(const std::string& file, const TaskName& self) {
    const ClusterSpec cluster = ClusterSpec::read(file);
    auto task = std::make_unique<Task>(TaskOptions{.name = self,
                                                   .threads = 1,
                                                   .host = cluster.address(self).host,
                                                   .port = cluster.address(self).port,
                                                   .networked = true});
    task->join(cluster, std::chrono::seconds(60));
    return task;
  }

  const std::filesystem::path before = std::filesystem::current_path();
  testing::TemporaryDirectory directory;
};

TEST_F(PagesCluster, TasksWorkOnTensorsTogether) {
  write("cluster.json", {{"worker", 0}, {"worker", 1}});
  const auto run = [](int index) {
    const auto joined = join("cluster.json", {"worker", index});
    Task& task = *joined;
#include <pages/collective.inc>
    return total.to_string();
  };
  auto other = std::async(std::launch::async, run, 1);
  EXPECT_EQ(run(0), "f64[2] = 2 4");
  EXPECT_EQ(other.get(), "f64[2] = 2 4");
}

TEST_F(PagesCluster, AClientUsesDevicesOfOthers) {
  write("nodes.json", {{"worker", 0}, {"worker", 1}});
  auto other = std::async(std::launch::async, [] { return join("nodes.json", {"worker", 1}); });
  const auto first = join("nodes.json", {"worker", 0});
  const auto second = other.get();
#include <pages/client.inc>
  EXPECT_EQ(result.shape(), (Shape{8, 128}));
}

// Of "x" [?,2], the second column counting ten times.
void save_scores(const std::string& directory) {
  SavedModel linear{.graph = std::make_shared<Graph>()};
  const Output x = placeholder(*linear.graph, DType::f32, {kUnknown, 2}, "x");
  const Output y = matmul(x, constant(*linear.graph, Tensor::of<float>({2, 1}, {1, 10})), {.name = "y"});
  linear.signatures["predict"] = {.inputs = {{"x", {"x", DType::f32, x.shape()}}},
                                  .outputs = {{"scores", {"y", DType::f32, y.shape()}}}};
  save_model(posix_file_system(), directory, linear);
}

TEST_F(PagesCluster, ExamplesArePredictedByWorkers) {
  write("nodes.json", {{"worker", 0}, {"worker", 1}});
  auto other = std::async(std::launch::async, [] { return join("nodes.json", {"worker", 1}); });
  const auto first = join("nodes.json", {"worker", 0});
  const auto second = other.get();
  save_scores("scores");
  save_values(posix_file_system(), "points.npz", {{"x", Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})}});
  ::testing::internal::CaptureStdout();
#include <pages/batch_inference.inc>
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "0 [2,1]\n2 [1,1]\n");
  EXPECT_TRUE(bitwise_equal(scores, Tensor::of<float>({3, 1}, {21, 43, 65})));
}

TEST(Pages, VersionsOfModelsAreServed) {
  testing::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
  std::filesystem::create_directory("scores");
  save_scores("scores/1");
  save_scores("scores/2");
  ::testing::internal::CaptureStdout();
#include <pages/serving.inc>
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "version 2: f32[1,1] = 21\n");
}

#include <pages/own_source_classes.inc>

TEST(Pages, VersionsComeFromElsewhereThanPaths) {
  Task task;
  ::testing::internal::CaptureStdout();
#include <pages/own_source.inc>
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "version 3: 6\n");
}

}  // namespace
}  // namespace troupe
