#include "troupe/actors/model/recorded_requests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/model/proto/prediction_log.pb.h"
#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include <troupe/kernels/readers/tfrecord.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kRequests = "/requests";

RecordedRequest example_request() {
  return {.signature = "predict",
          .inputs = {{"x", Tensor::of<float>({2, 2}, {1, 2, 3, -4.5f})},
                     {"words", Tensor::of<std::string>({2}, {"a", std::string("\0b", 2)})}},
          .outputs = {{"y", Tensor::vector<std::int64_t>({1, -1})}}};
}

void expect_same(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(bitwise_equal(tensor, b.at(name))) << name;
}

class RecordedRequests : public ::testing::Test {
 protected:
  void write(const std::vector<std::string>& records, bool gzip = false) {
    const auto file = files_.create(kRequests);
    TfRecordWriter writer(*file, {.gzip = gzip});
    for (const std::string& record : records) writer.append(record);
    writer.finish();
  }
  std::vector<RecordedRequest> read(const RecordedRequestLimits& limits = {}) {
    return read_recorded_requests(files_, kRequests, limits);
  }
  Error refused(const RecordedRequestLimits& limits = {}) {
    return error_of([&] { read(limits); });
  }

  MemoryFileSystem files_;
};

TEST_F(RecordedRequests, ComeBackInTheOrderInWhichTheyWereWritten) {
  const RecordedRequest first = example_request();
  const RecordedRequest second{.inputs = {{"x", Tensor::scalar(1.0f)}}};
  for (const bool gzip : {false, true}) {
    write({to_record(first), to_record(second)}, gzip);
    const std::vector<RecordedRequest> found = read();
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].signature, "predict");
    expect_same(found[0].inputs, first.inputs);
    expect_same(found[0].outputs, first.outputs);
    EXPECT_EQ(found[1].signature, "");
    expect_same(found[1].inputs, second.inputs);
    EXPECT_TRUE(found[1].outputs.empty());
  }
  write({});
  EXPECT_TRUE(read().empty());
}

// What TensorFlow Serving's prediction_log_pb2 and tf.make_tensor_proto (2.21) write, with fields that are not read.
TEST_F(RecordedRequests, OfTensorflowServingAreRead) {
  const std::string_view hex =
      "0a260a100a0673636f7265732206737461626c65120909000000000000e03f1a05736572766520053286010a700a190a0673636f7265731a"
      "07707265646963742206737461626c6512110a0168120c08131204120208016a02807c12180a05776f726473120f08071204120208024201"
      "614202006212230a0178121e08011208120208021202080222100000803f0000004000004040000090c01a017912120a100a0179120b0809"
      "120412020801520107";
  std::string record;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    record += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  write({record});
  const std::vector<RecordedRequest> found = read();
  ASSERT_EQ(found.size(), 1u);
  RecordedRequest expected = example_request();
  expected.inputs["h"] = Tensor(DType::f16, {1});
  *reinterpret_cast<std::uint16_t*>(expected.inputs["h"].mutable_raw()) = 0x3e00;
  EXPECT_EQ(found[0].signature, "predict");
  expect_same(found[0].inputs, expected.inputs);
  expect_same(found[0].outputs, {{"y", Tensor::vector<std::int64_t>({7})}});
}

TEST_F(RecordedRequests, SayWhichModelComputedThem) {
  const std::string record = to_record(example_request(), {.model = "scores", .version = 3, .sampling_rate = 0.5});
  EXPECT_EQ(record, to_record(example_request(), {.model = "scores", .version = 3, .sampling_rate = 0.5}));
  proto::PredictionLog log;
  ASSERT_TRUE(log.ParseFromString(record));
  EXPECT_EQ(log.log_metadata().sampling_config().sampling_rate(), 0.5);
  for (const proto::RecordedModelSpec& spec :
       {log.log_metadata().model_spec(), log.predict_log().request().model_spec(),
        log.predict_log().response().model_spec()}) {
    EXPECT_EQ(spec.name(), "scores");
    EXPECT_EQ(spec.version().value(), 3);
    EXPECT_EQ(spec.signature_name(), "predict");
  }
}

TEST_F(RecordedRequests, TensorsMaySayTheirLastElementOnceForAllThatFollow) {
  proto::PredictionLog log;
  tensorflow::Tensor& x = (*log.mutable_predict_log()->mutable_request()->mutable_inputs())["x"];
  x.set_dtype(1);
  x.mutable_tensor_shape()->add_dim()->set_size(4);
  x.add_float_val(1);
  x.add_float_val(7);
  write({log.SerializeAsString()});
  EXPECT_THAT(read().at(0).inputs.at("x").values<float>(), ElementsAre(1, 7, 7, 7));
  x.mutable_tensor_shape()->mutable_dim(0)->set_size(1 << 20);
  write({log.SerializeAsString()});
  EXPECT_EQ(read().at(0).inputs.at("x").num_elements(), 1 << 20);
  write({log.SerializeAsString(), log.SerializeAsString()});
  const Error error = refused({.most_bytes = 6 << 20});
  EXPECT_EQ(error.code(), Code::resource_exhausted);
  EXPECT_THAT(error.message(), HasSubstr("/requests: record 2: input 'x'"));
}

TEST_F(RecordedRequests, RepeatedStringsCountWithTheirText) {
  proto::PredictionLog log;
  tensorflow::Tensor& x = (*log.mutable_predict_log()->mutable_request()->mutable_inputs())["x"];
  x.set_dtype(7);
  x.mutable_tensor_shape()->add_dim()->set_size(1000);
  x.add_string_val(std::string(1000, 'a'));
  write({log.SerializeAsString()});
  EXPECT_EQ(read({.most_bytes = 2 << 20}).at(0).inputs.at("x").values<std::string>()[999].size(), 1000u);
  EXPECT_EQ(refused({.most_bytes = 1'000'000}).code(), Code::resource_exhausted);
}

TEST_F(RecordedRequests, WhatIsWrongIsRefusedWithFileAndRecord) {
  const std::string good = to_record(example_request());
  const auto refuses = [&](const std::string& record, Code code, const char* why) {
    write({good, record});
    const Error error = refused();
    EXPECT_EQ(error.code(), code) << error.message();
    EXPECT_THAT(error.message(), AllOf(HasSubstr("/requests: record 2: "), HasSubstr(why)));
  };
  refuses("\xff\xff", Code::data_loss, "is no PredictionLog");
  refuses(good.substr(0, good.size() - 1), Code::data_loss, "is no PredictionLog");
  refuses("", Code::data_loss, "has no request");
  proto::PredictionLog log;
  log.mutable_classify_log();
  refuses(log.SerializeAsString(), Code::unimplemented, "a request of Classify: keep those of Predict only");
  log.mutable_predict_streamed_log();
  refuses(log.SerializeAsString(), Code::unimplemented, "PredictStreamed");
  tensorflow::Tensor& x = (*log.mutable_predict_log()->mutable_request()->mutable_inputs())["x"];
  x.set_dtype(8);
  refuses(log.SerializeAsString(), Code::unimplemented, "input 'x': elements of TensorFlow's type 8 (DT_COMPLEX64)");
  x.set_dtype(1);
  x.set_tensor_content("abc");
  refuses(log.SerializeAsString(), Code::data_loss, "input 'x'");

  files_.content(kRequests).back() ^= 1;
  EXPECT_THAT(refused().message(), HasSubstr("record at byte"));
  files_.remove(kRequests);
  EXPECT_EQ(refused().code(), Code::not_found);
}

TEST_F(RecordedRequests, AreBounded) {
  const std::string record = to_record({.inputs = {{"x", Tensor::scalar(1.0f)}}});
  write(std::vector<std::string>(3, record));
  EXPECT_EQ(read({.most_requests = 3, .most_bytes = 3 * record.size()}).size(), 3u);
  EXPECT_THAT(refused({.most_requests = 2}).message(), HasSubstr("record 3: a file may have 2 recorded requests"));
  EXPECT_THAT(refused({.most_bytes = 3 * record.size() - 1}).message(),
              HasSubstr("record 3: recorded requests may have"));
  EXPECT_THAT(refused({.most_bytes = record.size() - 1}).message(), HasSubstr("record at byte 0"));
}

TEST_F(RecordedRequests, OfAVersionLieInItOrBesideAllVersions) {
  const auto found = [&](const std::string& version) { return recorded_requests_of(files_, version); };
  for (const char* directory : {"/m", "/m/1", "/m/1/assets.extra", "/m/2", "/m/latest"})
    files_.make_directory(directory);
  files_.create("/m/3.onnx");
  EXPECT_EQ(found("/m/1"), "");
  const std::string own = "/m/1/assets.extra/tf_serving_warmup_requests", shared = "/m/recorded_requests.tfrecord";
  files_.create(own);
  EXPECT_EQ(found("/m/1"), own);
  EXPECT_EQ(found("/m/2"), "");
  files_.create(shared);
  EXPECT_EQ(found("/m/1"), own);
  EXPECT_EQ(found("/m/2"), shared);
  EXPECT_EQ(found("/m/2/"), shared);
  EXPECT_EQ(found("/m/3.onnx"), shared);
  EXPECT_EQ(found("/m/latest"), "");
}

}  // namespace
}  // namespace troupe::testing
