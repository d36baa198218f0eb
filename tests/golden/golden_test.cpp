// Files that earlier versions have written are read by this one: formats may grow, but forget nothing.
#include "tests/golden/golden.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "tests/actors/checkpoint/example.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/loaded_model.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/model/values.hpp>
#include <troupe/actors/session/saver.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/kernels/readers/record_index.hpp>

namespace troupe::golden {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

// What the model "trained" predicts of the first example.
constexpr std::array kTrained = {-0.57124949f, -0.52976602f};

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  std::string at(const std::string& name) const {
    return testing::source_file(fmt::format("tests/golden/{}/{}", GetParam(), name));
  }
  FileSystem& files_ = posix_file_system();
};

// Of layers, with a relu: (3 1 + 4 10 + 1) 2 + 0.5.
TEST_P(Golden, AModelOfLayersRuns) {
  const LoadedModel model = load_model(at("layers"));
  const auto results = model.run(
      "predict", {{"word", Tensor::of<std::string>(Shape{1}, {"two"})}, {"age", Tensor::of<float>({1, 2}, {1, 10})}});
  EXPECT_EQ(results.at("risk").item<float>(), 88.5f);
  EXPECT_EQ(results.at("code").item<std::int64_t>(), 2);
}

TEST_P(Golden, AModelOfAGraphHasAllItsParts) {
  const SavedModel read = read_model(files_, at("graph"), {.verify_values = true});
  const SavedModel want = graph_model();
  EXPECT_EQ(read.signatures, want.signatures);
  EXPECT_EQ(read.compiled, want.compiled);
  EXPECT_EQ(read.metadata, want.metadata);
  EXPECT_EQ(read.assets, want.assets);
  EXPECT_EQ(params_sha256(read.values), params_sha256(want.values));
  const Tensor scores =
      LoadedModel(read).run("predict", {{"examples", Tensor::of<float>({1, 2}, {1, 10})}}).at("scores");
  for (int i = 0; i < 16; ++i) EXPECT_EQ(scores.data<float>()[i], 29 + 2.75f * static_cast<float>(i)) << i;
}

TEST_P(Golden, AModelOfTextsTakesStrings) {
  const Tensor texts = Tensor::of<std::string>(Shape{2}, {"Good film.", "bad good bad"});
  const Tensor labels = load_model(at("text")).run("classify", {{"text", texts}}).at("label");
  EXPECT_THAT(labels.values<std::string>(), ElementsAre("up", "down"));
}

TEST_P(Golden, ATrainedModelPredictsAndGoesOn) {
  const SavedModelInfo info = saved_model_info(files_, at("trained"));
  Model model = Model::load(at("trained"));
  EXPECT_EQ(model.params_sha256(), info.params_sha256);
  const Tensor found = model.predict(training_data().at("x").rows(0, 1).clone());
  EXPECT_NEAR(found.data<float>()[0], kTrained[0], 1e-4);
  EXPECT_NEAR(found.data<float>()[1], kTrained[1], 1e-4);
  model.compile({.optimizer = optimizers::Adam{.learning_rate = 0.01}, .loss = Loss::mean_squared_error});
  const auto data = training_data();
  const TrainingResult result =
      model.fit(TensorDataset({{"x", data.at("x")}, {"targets", data.at("targets")}}), {.epochs = 1, .batch = 8});
  EXPECT_EQ(result.steps, 4u) << "the second epoch follows the first";
}

TEST_P(Golden, CheckpointsAreRestored) {
  Checkpoint job = newest_whole_checkpoint(files_, at("job")).value();
  EXPECT_EQ(testing::Example(3).difference(job), "");
  job.verify();
  const Parameters values = load_values(files_, at("session"));
  EXPECT_EQ(values.at("n").item<std::int64_t>(), 7);
  Graph graph;
  const VariableRef w =
      variable(graph, {.name = "w", .initial_value = constant(graph, Tensor::zeros(DType::f32, {2, 3}))});
  Session session(graph);
  EXPECT_EQ(Saver(session, graph, {.directory = at("session")}).restore(), 12u);
  EXPECT_THAT(session.run(w.read()).values<float>(), ElementsAre(1, 1.5f, 2, 2.5f, 3, 3.5f));
}

TEST_P(Golden, AnIndexFindsItsRecords) {
  const std::string path = at("records.tfrecord");
  const RecordIndex read = read_index(files_, path, tfrecord_format());
  EXPECT_EQ(read.offsets, build_index(files_, path, tfrecord_format()).offsets);
  EXPECT_THAT(read.offsets, ElementsAre(0, 21, 37));
}

TEST_P(Golden, AnOnnxModelComputesTheSame) {
  const OnnxModel model = import_onnx(at("linear.onnx"), {.weights = OnnxImportOptions::Weights::constants});
  Session session(*model.graph);
  const Tensor scores =
      session.run({{model.inputs.at(0).output, Tensor::of<float>({1, 2}, {1, 10})}}, model.outputs.at(0).output);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(scores.data<float>()[i], 29 + 2.75f * static_cast<float>(i)) << i;
}

TEST_P(Golden, FilesOfValuesKeepAllTypes) {
  for (const char* name : {"values.safetensors", "values.npz"})
    EXPECT_EQ(params_sha256(load_values(files_, at(name))), params_sha256(values_of_all_types())) << name;
}

INSTANTIATE_TEST_SUITE_P(Formats, Golden, ::testing::Values("format-1"),
                         [](const auto& info) { return "Format" + info.param.substr(7); });

TEST(GoldenFiles, AreSmall) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(testing::source_file("tests/golden")))
    if (entry.is_regular_file()) bytes += entry.file_size();
  EXPECT_LT(bytes, 100'000u);
}

TEST(GoldenFiles, AnIndexOfALaterVersionIsRefused) {
  const testing::TemporaryDirectory directory;
  FileSystem& files = posix_file_system();
  for (const char* name : {"records.tfrecord", "records.tfrecord.index"})
    std::filesystem::copy_file(testing::source_file(std::string("tests/golden/format-1/") + name),
                               directory.file(name));
  const std::string path = directory.file("records.tfrecord");
  std::fstream(path + ".index", std::ios::in | std::ios::out | std::ios::binary).seekp(8).put(2);
  EXPECT_EQ(
      error_of([&] { read_index(files, path, tfrecord_format()); }).to_string(),
      fmt::format("unimplemented: {}.index: version 2 is of a later Troupe; this one reads up to 1: remove it, and "
                  "it is made again",
                  path));
}

}  // namespace
}  // namespace troupe::golden
