#include "troupe/actors/model/recorded_requests.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <limits>

#include "actors/model/proto/prediction_log.pb.h"
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/graph/formats/saved_model/tensors.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>

namespace troupe {
namespace {

constexpr const char* kWarmUpFile = "assets.extra/tf_serving_warmup_requests";
constexpr const char* kFileOfAllVersions = "recorded_requests.tfrecord";
constexpr std::uint64_t kMostMessageBytes = std::numeric_limits<int>::max();

bool is_named_by_a_number(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  path.remove_prefix(path.rfind('/') + 1);
  if (path.ends_with(".onnx")) path.remove_suffix(5);
  return !path.empty() && std::ranges::all_of(path, [](char c) { return c >= '0' && c <= '9'; });
}

using TensorMap = google::protobuf::Map<std::string, tensorflow::Tensor>;

std::map<std::string, Tensor> recorded_tensors(const TensorMap& from, const char* what, std::uint64_t& repeated_bytes) {
  std::map<std::string, Tensor> out;
  for (const auto& [name, tensor] : from) {
    try {
      out.emplace(name, from_tensorflow_tensor(tensor, repeated_bytes));
    } catch (const Error& error) {
      throw error.within(fmt::format("{} '{}'", what, name));
    }
  }
  return out;
}

void record_tensors(const std::map<std::string, Tensor>& from, TensorMap& to) {
  for (const auto& [name, tensor] : from) to_tensorflow_tensor(tensor, to[name]);
}

std::string_view kind_of(const proto::PredictionLog& log) {
  switch (log.log_type_case()) {
    case proto::PredictionLog::kClassifyLog:
      return "Classify";
    case proto::PredictionLog::kRegressLog:
      return "Regress";
    case proto::PredictionLog::kPredictStreamedLog:
      return "PredictStreamed";
    case proto::PredictionLog::kMultiInferenceLog:
      return "MultiInference";
    case proto::PredictionLog::kSessionRunLog:
      return "SessionRun";
    default:
      return "";
  }
}

}  // namespace

std::string recorded_requests_of(FileSystem& files, const std::string& version_path) {
  if (std::string own = join_path(version_path, kWarmUpFile); files.exists(own)) return own;
  if (!is_named_by_a_number(version_path)) return "";
  std::string shared = join_path(parent_path(version_path), kFileOfAllVersions);
  return files.exists(shared) ? shared : "";
}

RecordedRequest recorded_request_from(std::string_view record, std::uint64_t& repeated_bytes) {
  const google::protobuf::LogSilencer silence;  // bad input is reported to the caller, not to stderr
  proto::PredictionLog log;
  if (record.size() > kMostMessageBytes || !log.ParseFromArray(record.data(), static_cast<int>(record.size())))
    fail(Code::data_loss, "is no PredictionLog of TensorFlow Serving");
  if (const std::string_view kind = kind_of(log); !kind.empty())
    fail(Code::unimplemented, "is a request of {}: keep those of Predict only", kind);
  if (!log.predict_log().has_request()) fail(Code::data_loss, "has no request (PredictionLog.predict_log.request)");
  const proto::PredictLog& predict = log.predict_log();
  return {.signature = predict.request().model_spec().signature_name(),
          .inputs = recorded_tensors(predict.request().inputs(), "input", repeated_bytes),
          .outputs = recorded_tensors(predict.response().outputs(), "output", repeated_bytes)};
}

std::vector<RecordedRequest> read_recorded_requests(FileSystem& files, const std::string& file,
                                                    const RecordedRequestLimits& limits) {
  TfRecordStream records(files, file, {.most_bytes = std::min(limits.most_bytes, kMostMessageBytes)});
  std::vector<RecordedRequest> out;
  std::uint64_t bytes = 0, repeated_bytes = limits.most_bytes;
  for (std::string_view record; records.next(record);) {
    try {
      if (out.size() == limits.most_requests)
        fail(Code::resource_exhausted, "a file may have {} recorded requests: leave out the others",
             limits.most_requests);
      bytes += record.size();
      if (bytes > limits.most_bytes)
        fail(Code::resource_exhausted,
             "recorded requests may have {} bytes together: leave out this one and the others", limits.most_bytes);
      out.push_back(recorded_request_from(record, repeated_bytes));
    } catch (...) {
      throw current_error().within(fmt::format("{}: record {}", shown_path(file), out.size() + 1));
    }
  }
  return out;
}

std::string to_record(const RecordedRequest& request, const RecordedBy& by) {
  proto::PredictionLog log;
  const auto specify = [&](proto::RecordedModelSpec& spec) {
    spec.set_name(by.model);
    spec.mutable_version()->set_value(by.version);
    spec.set_signature_name(request.signature);
  };
  specify(*log.mutable_log_metadata()->mutable_model_spec());
  log.mutable_log_metadata()->mutable_sampling_config()->set_sampling_rate(by.sampling_rate);
  proto::RecordedPredictRequest& asked = *log.mutable_predict_log()->mutable_request();
  specify(*asked.mutable_model_spec());
  record_tensors(request.inputs, *asked.mutable_inputs());
  if (!request.outputs.empty()) {
    proto::RecordedPredictResponse& answer = *log.mutable_predict_log()->mutable_response();
    specify(*answer.mutable_model_spec());
    record_tensors(request.outputs, *answer.mutable_outputs());
  }
  std::string out;
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps by key
    if (log.ByteSizeLong() > kMostMessageBytes || !log.SerializeToCodedStream(&coded))
      fail(Code::resource_exhausted, "a recorded request with its answer exceeds 2 GiB");
  }
  return out;
}

}  // namespace troupe
