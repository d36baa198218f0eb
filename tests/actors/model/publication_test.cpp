#include "troupe/actors/model/publication.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/model/recorded_requests.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/kernels/readers/digits.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

class Publications : public ::testing::Test {
 protected:
  std::int64_t publish(const PublishOptions& options = {}) {
    return publish_version(files_, path_, options,
                           [&](const std::string& path) {
                             files_.make_directory(path);
                             written_ = path;
                           })
        .version;
  }
  Publication now() const { return read_publication(files_, path_).value(); }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.file("models/digits");
  FileSystem& files_ = posix_file_system();
  std::string written_;
};

TEST_F(Publications, GoFromCanaryToStableAndBack) {
  EXPECT_FALSE(read_publication(files_, path_));
  EXPECT_EQ(publish(), 1);  // stable at once
  EXPECT_EQ(written_, path_ + "/1");
  EXPECT_EQ(publish(), 2);
  EXPECT_THAT(labels_of(now()), ElementsAre(Pair("canary", 2), Pair("stable", 1)));
  EXPECT_EQ(promote(files_, path_), 2);
  EXPECT_THAT(labels_of(now()), ElementsAre(Pair("stable", 2)));
  EXPECT_EQ(publish(), 3);
  EXPECT_EQ(rollback(files_, path_), 3);
  EXPECT_THAT(labels_of(now()), ElementsAre(Pair("stable", 2)));
  EXPECT_EQ(rollback(files_, path_), 2);
  EXPECT_THAT(labels_of(now()), ElementsAre(Pair("stable", 1)));
  EXPECT_THAT(now().rejected, ElementsAre(2, 3));
  EXPECT_THAT(error_of([&] { rollback(files_, path_); }).to_string(), HasSubstr("no version before the stable one"));
  EXPECT_THAT(error_of([&] { promote(files_, path_); }).to_string(), HasSubstr("no canary to promote"));
  EXPECT_EQ(publish({.promote = true}), 4);  // above all that there were
  EXPECT_THAT(labels_of(now()), ElementsAre(Pair("stable", 4)));
}

TEST_F(Publications, ACanaryThatNobodyDecidedUponIsRejectedByTheNext) {
  publish();
  publish();
  EXPECT_EQ(publish(), 3);
  EXPECT_THAT(labels_of(now()), ElementsAre(Pair("canary", 3), Pair("stable", 1)));
  EXPECT_THAT(now().rejected, ElementsAre(2));
}

TEST_F(Publications, NumbersAreAboveWhatIsThere) {
  files_.make_directory(directory_.file("models"));
  files_.make_directory(path_);
  directory_.write("models/digits/7.onnx", "");
  files_.make_directory(path_ + "/9.tmp-x");
  files_.make_directory(path_ + "/12a");
  EXPECT_EQ(publish({.suffix = ".onnx"}), 10);
  EXPECT_EQ(written_, path_ + "/10.onnx");
}

TEST_F(Publications, GatesThatDoNotHoldChangeNothing) {
  const auto gate = [](const char* text) { return std::vector<PublishGate>{PublishGate::parse(text)}; };
  const auto said = [&](const char* text, double accuracy) {
    return error_of([&] { publish({.gates = gate(text), .figures = {{"accuracy", accuracy}}}); }).to_string();
  };
  EXPECT_THAT(said("accuracy >= 0.9", 0.89), StartsWith("failed_precondition: 'accuracy >= 0.9' does not hold: "));
  EXPECT_EQ(written_, "");
  EXPECT_FALSE(read_publication(files_, path_));
  EXPECT_EQ(publish({.gates = gate("accuracy>=stable-0.01"), .figures = {{"accuracy", 0.9}}}),
            1);  // none to compare with
  EXPECT_THAT(said("accuracy >= stable - 0.01", 0.88), HasSubstr("accuracy is 0.88, which is 0.89"));
  EXPECT_THAT(said("accuracy >= stable", std::nan("")), HasSubstr("does not hold"));
  EXPECT_THAT(said("loss <= 1", 0.88), HasSubstr("there is no figure loss; there are accuracy"));
  EXPECT_EQ(publish({.gates = gate("accuracy <= stable + 0.05"), .figures = {{"accuracy", 0.95}}}), 2);
  EXPECT_THAT(now().figures.at(2), ElementsAre(Pair("accuracy", 0.95)));
}

TEST_F(Publications, GatesAreConditions) {
  for (const char* wrong : {"", "accuracy", "accuracy > 0.9", ">= 0.9", "accuracy >= ", "accuracy >= x",
                            "accuracy >= stable 0.1", "accuracy >= stable - -1", "accuracy >= inf", "a b >= 1"})
    EXPECT_THAT(error_of([&] { PublishGate::parse(wrong); }).to_string(), HasSubstr("expected a condition")) << wrong;
}

TEST_F(Publications, AFileThatIsDamagedIsNamed) {
  publish();
  for (const char* text : {"{", "[]", R"({"stable": -1})", R"({"stable": "x"})", R"({"figures": {"x": {}}})"}) {
    std::ofstream(path_ + "/publication.json") << text;
    const Error error = error_of([&] { now(); });
    EXPECT_EQ(error.code(), Code::data_loss) << text;
    EXPECT_THAT(error.message(), HasSubstr(path_ + "/publication.json: ")) << text;
    EXPECT_EQ(error_of([&] { publish(); }).code(), Code::data_loss) << text;
  }
}

// y = x factor + (0, offset), x [?,2].
SavedModel scaled(float factor, float offset) {
  SavedModel out;
  out.graph = std::make_shared<Graph>();
  const Output x = placeholder(*out.graph, DType::f32, {kUnknown, 2}, "x");
  const Output y = add(mul(x, constant(*out.graph, Tensor::scalar(factor))),
                       constant(*out.graph, Tensor::vector<float>({0, offset})), "y");
  out.signatures["predict"] = {.inputs = {{"x", {"x", DType::f32, x.shape()}}},
                               .outputs = {{"y", {y.name(), DType::f32, y.shape()}}}};
  return out;
}

TEST_F(Publications, AreComparedOnRecordedRequests) {
  const auto publish_model = [&](const SavedModel& model, double most_changed = 1) {
    return publish_version(files_, path_, {.model = &model, .most_changed = most_changed},
                           [&](const std::string& path) { save_model(files_, path, model); });
  };
  EXPECT_EQ(publish_model(scaled(1, 0)).change.requests, 0u);  // none to compare with
  std::string records;
  for (const std::vector<float>& x : {std::vector<float>{1, 2, 2, 1}, {3, 1}, {0, 9}}) {
    const RecordedRequest request{
        .inputs = {{"x", Tensor::of<float>({static_cast<std::int64_t>(x.size()) / 2, 2}, x)}}};
    records += record_of(to_record(request));
  }
  directory_.write("models/digits/recorded_requests.tfrecord", records);
  const AnswerChange same = publish_model(scaled(2, 0)).change;
  EXPECT_EQ(same.requests, 3u);
  EXPECT_EQ(same.rows, 4u);
  EXPECT_EQ(same.changed, 0u);
  const AnswerChange other = publish_model(scaled(1, 1.5)).change;  // (2, 1) becomes (2, 2.5)
  EXPECT_EQ(other.changed, 1u);
  EXPECT_THAT(error_of([&] { publish_model(scaled(1, 1.5), 0.2); }).to_string(),
              HasSubstr("25.0 % of the answers to recorded requests change (1 of 4 rows), more than 20.0 %"));
  EXPECT_THAT(error_of([&] { publish_model(scaled(std::numeric_limits<float>::infinity(), 0)); }).to_string(),
              StartsWith("failed_precondition: recorded request 1: output 'y' has numbers that are not finite"));
  EXPECT_EQ(now().canary, 3);
}

TEST_F(Publications, TrainingPublishesWhatItTrained) {
  const DataSplits data = draw_digits({.train = 256, .test = 64});
  Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(10)}, Shape{28, 28, 1}, DType::u8);
  model.compile({.loss = Loss::sparse_softmax_cross_entropy, .metrics = {metrics::accuracy()}});
  TrainingOptions options{.epochs = 1, .publish = path_};
  options.quiet = true;
  TrainingResult result = model.fit(data, options);
  EXPECT_EQ(result.published, 1) << result.not_published.message();
  EXPECT_EQ(now().figures.at(1).at("val_accuracy"), result["val_accuracy"]);
  Model served = Model::load(path_ + "/1");

  std::vector<std::string> told;
  options.on_event = [&](const JobEvent& event) {
    if (event.kind.ends_with("published")) told.push_back(event.kind + ": " + event.text);
  };
  options.epochs = 1;
  options.publish_gates = {"val_accuracy >= 1.5"};
  result = model.fit(data, options);
  EXPECT_EQ(result.published, 0);
  EXPECT_EQ(result.not_published.code(), Code::failed_precondition);
  EXPECT_THAT(told, ElementsAre(StartsWith("not_published: the model is not published: 'val_accuracy >= 1.5'")));
  options.publish_gates.clear();
  EXPECT_EQ(model.fit(data, options).published, 2);
  options.publish_gates = {"val_accuracy"};
  EXPECT_THAT(error_of([&] { model.fit(data, options); }).to_string(), HasSubstr("expected a condition"));
}

}  // namespace
}  // namespace troupe::testing
