#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/serving/served_models.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/model/recorded_requests.hpp>
#include <troupe/actors/serving/loaded_servable.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kPoll{5};

// "y" [?,2] is "x" [?,2], of at most 4 rows: a step fails with more.
SavedModel four_rows_model() {
  SavedModel out;
  out.graph = std::make_shared<Graph>();
  const Output x = placeholder(*out.graph, DType::f32, {kUnknown, 2}, "x");
  const Output rows = slice(shape_of(x), {0}, {1});
  const Output y = mul(x, gather(constant(*out.graph, Tensor::vector<float>({1, 1, 1, 1, 1})), rows), "y");
  const Shape shape{kUnknown, 2};
  out.signatures["predict"] = {.inputs = {{"x", {"x", DType::f32, shape}}},
                               .outputs = {{"y", {y.name(), DType::f32, shape}}}};
  return out;
}

RecordedRequest recorded(std::int64_t rows, std::int64_t columns = 2) {
  return {.signature = "predict", .inputs = {{"x", Tensor::zeros(DType::f32, {rows, columns})}}};
}

class WarmUps : public ::testing::Test {
 protected:
  WarmUps() {
    std::filesystem::create_directories(directory_.file("m"));
    save_model(posix_file_system(), version_, four_rows_model());
  }
  void record(const std::vector<RecordedRequest>& requests, const std::string& file = "m/recorded_requests.tfrecord") {
    std::string bytes;
    for (const RecordedRequest& request : requests) bytes += record_of(to_record(request));
    make_directories(posix_file_system(), parent_path(directory_.file(file)));
    replace_file(posix_file_system(), directory_.file(file), bytes, "test");
  }
  void load(const std::vector<std::int64_t>& batch_sizes = {}) {
    const auto device = std::make_shared<PrivateDevice>(task_, PrivateDeviceOptions{.threads = 1});
    ServableModel model = FormatLoader(task_.ops()).load("m", {.version = 1, .path = version_});
    std::make_shared<LoadedServable>(task_, ServableId{"m", 1}, std::move(model), device, batch_sizes, shared_)
        ->bytes();
  }
  std::string refused(const std::vector<std::int64_t>& batch_sizes = {}) {
    return error_of([&] { load(batch_sizes); }).message();
  }

  const TemporaryDirectory directory_;
  const std::string version_ = directory_.file("m/1");
  Task task_;
  SharedLoading shared_;
};

TEST_F(WarmUps, RunRecordedRequestsBeforeAVersionIsReady) {
  load();
  record({recorded(1), recorded(4), {.inputs = recorded(2).inputs}});
  load();
  const auto refuses = [&](const RecordedRequest& request, const char* why) {
    record({recorded(1), request});
    EXPECT_THAT(refused(), AllOf(HasSubstr("m/recorded_requests.tfrecord: record 2: "), HasSubstr(why)));
  };
  refuses(recorded(5), "");  // its step fails
  refuses(recorded(1, 3), "x");
  refuses({.signature = "other"}, "has no signature 'other'");
  refuses({.signature = "predict"}, "x");
  RecordedRequest more = recorded(1);
  more.inputs["z"] = Tensor::scalar(1.0f);
  refuses(more, "z");
  replace_file(posix_file_system(), directory_.file("m/recorded_requests.tfrecord"), "no records", "test");
  EXPECT_THAT(refused(), HasSubstr("record at byte 0"));
  record({recorded(1)}, "m/1/assets.extra/tf_serving_warmup_requests");
  load();  // its own come first
  record({recorded(5)}, "m/1/assets.extra/tf_serving_warmup_requests");
  EXPECT_THAT(refused(), HasSubstr("tf_serving_warmup_requests: record 1: "));
}

TEST_F(WarmUps, RunBatchesOfAllowedSizes) {
  record({recorded(3), recorded(0)});
  load({1, 2, 4});
  EXPECT_THAT(refused({1, 2, 5}), HasSubstr("record 1: "));
  record({recorded(0)});
  load({8});
}

TEST_F(WarmUps, EndWithTheServer) {
  record({recorded(1)});
  shared_.ending = true;
  EXPECT_EQ(error_of([&] { load(); }).code(), Code::cancelled);
}

TEST_F(WarmUps, KeepTheReadyVersionIfTheyFail) {
  record({recorded(2)}, "m/1/assets.extra/tf_serving_warmup_requests");
  ModelServer server(task_, {.poll = kPoll, .threads = 1});
  ServedModel model{.name = "m", .path = directory_.file("m"), .batching = BatchQueue::Options{}};
  model.batching->most_rows = 4;
  server.configure({model});
  server.await_ready("m", kPatience);
  EXPECT_THAT(ask(*server.find("m"), rows_of({1, 2})).outputs.at("y").values<float>(), ElementsAre(1, 2));
  record({recorded(5)});
  save_model(posix_file_system(), directory_.file("m/2"), four_rows_model());
  const auto error = [&] {
    for (const auto& status : server.status("m"))
      if (status.id.version == 2) return status.error.message();
    return std::string();
  };
  EXPECT_TRUE(eventually([&] { return error().find("recorded_requests.tfrecord: record 1: ") != std::string::npos; }));
  EXPECT_EQ(server.find("m")->id().version, 1);
}

}  // namespace
}  // namespace troupe::testing
