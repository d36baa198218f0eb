#include "tests/fuzz/grpc_messages_fuzz.hpp"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "apps/serve/proto/inference.pb.h"
#include "apps/serve/proto/serving.pb.h"
#include "apps/serve/serving_config.hpp"
#include "apps/serve/tensor_proto.hpp"
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

enum MessageKind : unsigned char { kPredict, kInfer, kReload, kText, kMessageKinds };

// Smaller than kMostRepeatedBytes, for speed.
constexpr std::uint64_t kRepeatedBytes = 1 << 20;
// Memory that a byte of a message may take: an empty string has 2 bytes there, and 32 in memory.
constexpr std::uint64_t kBytesOfByte = 32;

using NamedTensors = std::map<std::string, Tensor>;

[[noreturn]] void broken_promise_of_messages(const char* what, const std::string& why) {
  std::fprintf(stderr, "broken promise of a message of gRPC: %s: %s\n", what, why.c_str());
  std::abort();
}

void check_message_error(const Error& error) {
  for (const Code code : {Code::invalid_argument, Code::resource_exhausted, Code::unimplemented})
    if (error.code() == code) return;
  broken_promise_of_messages("errors are the client's", error.to_string());
}

void check_memory(const NamedTensors& tensors, std::size_t message_bytes) {
  std::uint64_t taken = 0;
  for (const auto& [name, tensor] : tensors) {
    taken += tensor.num_bytes();
    if (tensor.dtype() == DType::string)
      for (const std::string& text : tensor.values<std::string>()) taken += text.size();
  }
  if (taken > kRepeatedBytes + kBytesOfByte * message_bytes)
    broken_promise_of_messages("few bytes take little memory",
                               std::to_string(taken) + " bytes for " + std::to_string(message_bytes));
}

void check_same(const NamedTensors& sent, const NamedTensors& received) {
  if (sent.size() != received.size()) broken_promise_of_messages("responses have all tensors", "some are missing");
  for (const auto& [name, tensor] : sent)
    if (const auto found = received.find(name); found == received.end() || !bitwise_equal(tensor, found->second))
      broken_promise_of_messages("responses carry tensors as they are", name + ": " + tensor.to_string());
}

template <class Message>
Message sent_and_received(const Message& message) {
  Message out;
  if (!out.ParseFromString(message.SerializeAsString()))
    broken_promise_of_messages("what is written can be read", message.ShortDebugString());
  return out;
}

NamedTensors tensors_of_protos(const google::protobuf::Map<std::string, ::tensorflow::TensorProto>& protos,
                               std::uint64_t repeated_bytes) {
  NamedTensors out;
  for (const auto& [name, proto] : protos) out.emplace(name, from_tensor_proto(proto, name, repeated_bytes));
  return out;
}

std::size_t read_predict_message(const std::string& bytes) {
  ::tensorflow::serving::PredictRequest request;
  if (!request.ParseFromString(bytes)) return 0;
  const NamedTensors tensors = tensors_of_protos(request.inputs(), kRepeatedBytes);
  check_memory(tensors, bytes.size());
  ::tensorflow::serving::PredictResponse response;
  for (const auto& [name, tensor] : tensors) to_tensor_proto(tensor, (*response.mutable_outputs())[name]);
  try {
    check_same(tensors, tensors_of_protos(sent_and_received(response).outputs(), 0));
  } catch (const Error& error) {
    broken_promise_of_messages("tensors of a response can be read", error.to_string());
  }
  return tensors.size();
}

std::size_t read_infer_message(const std::string& bytes) {
  ::inference::ModelInferRequest request;
  if (!request.ParseFromString(bytes)) return 0;
  const NamedTensors tensors = from_infer_request(request);
  check_memory(tensors, bytes.size());
  ::inference::ModelInferResponse response;
  for (const auto& [name, tensor] : tensors) add_infer_output(name, tensor, response);
  response = sent_and_received(response);
  ::inference::ModelInferRequest again;
  for (const auto& output : response.outputs()) {
    auto& input = *again.add_inputs();
    input.set_name(output.name());
    input.set_datatype(output.datatype());
    *input.mutable_shape() = output.shape();
  }
  *again.mutable_raw_input_contents() = response.raw_output_contents();
  try {
    check_same(tensors, from_infer_request(again));
  } catch (const Error& error) {
    broken_promise_of_messages("tensors of a response can be read", error.to_string());
  }
  return tensors.size();
}

std::size_t read_reload_message(const std::string& bytes) {
  ::tensorflow::serving::ReloadConfigRequest request;
  return request.ParseFromString(bytes) ? models_of(request.config()).size() : 0;
}

std::size_t read_message(unsigned char kind, const std::string& bytes) {
  switch (kind % kMessageKinds) {
    case kPredict:
      return read_predict_message(bytes);
    case kInfer:
      return read_infer_message(bytes);
    case kReload:
      return read_reload_message(bytes);
    default:
      return parse_serving_config(bytes, "models.txt").size();
  }
}

template <class Message>
std::string message_seed(MessageKind kind, const std::string& text) {
  Message message;
  if (!google::protobuf::TextFormat::ParseFromString(text, &message))
    broken_promise_of_messages("seeds are messages", text);
  return static_cast<char>(kind) + message.SerializeAsString();
}

}  // namespace

std::size_t read_grpc_message_of_stranger(std::string_view input) {
  if (input.empty()) return 0;
  const google::protobuf::LogSilencer silence;  // of strings that are not UTF-8
  try {
    return read_message(static_cast<unsigned char>(input[0]), std::string(input.substr(1)));
  } catch (const Error& error) {
    check_message_error(error);
    return 0;
  }
}

std::vector<std::string> grpc_message_seeds() {
  using Predict = ::tensorflow::serving::PredictRequest;
  using Infer = ::inference::ModelInferRequest;
  const std::string models =
      R"(model_config_list { config { name: "m" base_path: "d" model_platform: "tensorflow" model_version_policy {)"
      R"( specific { versions: 2 versions: 3 } } version_labels { key: "old" value: 2 } }
        config { name: "n" base_path: "e" model_version_policy { latest { num_versions: 2 } } } })";
  return {
      message_seed<Predict>(kPredict, R"(model_spec { name: "m" version { value: 3 } signature_name: "s" }
        inputs { key: "x" value { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } tensor_content: "abcdefgh" } }
        inputs { key: "y" value { dtype: DT_INT8 tensor_shape { dim { size: 9 } } int_val: -1 int_val: 2 } }
        output_filter: "z")"),
      message_seed<Predict>(kPredict, R"(
        inputs { key: "s" value { dtype: DT_STRING tensor_shape { dim { size: 3 } } string_val: "a" string_val: "" } }
        inputs { key: "b" value { dtype: DT_BOOL tensor_shape {} bool_val: true } }
        inputs { key: "h" value { dtype: DT_HALF tensor_shape { dim { size: 70 } dim { size: 2 } } half_val: 7 } })"),
      message_seed<Infer>(kInfer, R"(model_name: "m" id: "1"
        inputs { name: "a" datatype: "FP32" shape: 2 shape: 1 contents { fp32_contents: 1 fp32_contents: -0.5 } }
        inputs { name: "b" datatype: "BYTES" shape: 1 contents { bytes_contents: "text" } }
        inputs { name: "c" datatype: "UINT8" shape: 2 contents { uint_contents: 1 uint_contents: 255 } })"),
      message_seed<Infer>(kInfer, R"(inputs { name: "a" datatype: "INT64" shape: 1 }
        inputs { name: "b" datatype: "BYTES" shape: 2 } inputs { name: "c" datatype: "BOOL" shape: 2 shape: 1 }
        raw_input_contents: "12345678" raw_input_contents: "\002\000\000\000ab\000\000\000\000"
        raw_input_contents: "\001\000")"),
      message_seed<::tensorflow::serving::ReloadConfigRequest>(kReload, "config { " + models + " }"),
      static_cast<char>(kText) + models,
  };
}

}  // namespace troupe
