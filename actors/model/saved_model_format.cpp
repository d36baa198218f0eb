#include "troupe/actors/model/saved_model_format.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "messages/proto/model.pb.h"
#include <troupe/actors/base/sha256.hpp>
#include <troupe/graph/formats/serialize_proto.hpp>
#include <troupe/graph/layers/network_proto.hpp>

namespace troupe {
namespace {

constexpr std::uint32_t kSavedModelVersion = 1;
constexpr int kInfoFormat = 1;

using nlohmann::ordered_json;
using Texts = std::map<std::string, std::string>;

proto::SavedModel::TensorSpec spec_to_proto(const ModelSignature::TensorSpec& spec) {
  proto::SavedModel::TensorSpec message;
  message.set_tensor(spec.tensor);
  message.set_dtype(static_cast<std::uint32_t>(spec.dtype));
  *message.mutable_shape() = to_proto(AttrValue(spec.shape)).shape();
  message.set_description(spec.description);
  return message;
}

ModelSignature::TensorSpec spec_from_proto(const proto::SavedModel::TensorSpec& message) {
  proto::Attribute shape;
  *shape.mutable_shape() = message.shape();
  const auto dtype = static_cast<DType>(message.dtype());
  if (message.dtype() != 0 && (message.dtype() > 0xff || !is_data(dtype)))
    invalid_argument("there is no dtype {} of data", message.dtype());
  return {message.tensor(), dtype, std::get<Shape>(from_proto(shape)), message.description()};
}

// The tensor of a signature must be in the graph, and be what the signature says.
void check_spec(const SavedModel& model, const std::string& signature, const std::string& name,
                const ModelSignature::TensorSpec& spec) {
  if (!model.graph) return;
  const Endpoint at = model.graph->endpoint(spec.tensor);
  const DType dtype = model.graph->dtype(at);
  if (dtype != spec.dtype || !model.graph->shape(at).compatible_with(spec.shape))
    invalid_argument("signature '{}': '{}' is {}{}, but '{}' of the graph is {}{}", signature, name,
                     troupe::name(spec.dtype), spec.shape.to_string(), spec.tensor, troupe::name(dtype),
                     model.graph->shape(at).to_string());
}

void check_signatures(const SavedModel& model) {
  for (const auto& [name, signature] : model.signatures) {
    for (const auto& [input, spec] : signature.inputs) check_spec(model, name, input, spec);
    for (const auto& [output, spec] : signature.outputs) check_spec(model, name, output, spec);
  }
}

proto::SavedModel model_to_proto(const SavedModel& model) {
  proto::SavedModel message;
  message.set_version(kSavedModelVersion);
  if (model.network) *message.mutable_model() = to_proto(*model.network);
  if (model.graph) *message.mutable_graph() = to_proto(*model.graph);
  for (const auto& [name, signature] : model.signatures) {
    proto::SavedModel::Signature& added = (*message.mutable_signature())[name];
    for (const auto& [input, spec] : signature.inputs) (*added.mutable_input())[input] = spec_to_proto(spec);
    for (const auto& [output, spec] : signature.outputs) (*added.mutable_output())[output] = spec_to_proto(spec);
    added.set_description(signature.description);
  }
  for (const auto& [name, text] : model.compiled) (*message.mutable_compiled())[name] = text;
  for (const auto& [name, text] : model.metadata) (*message.mutable_metadata())[name] = text;
  message.set_position(model.position);
  message.set_settings(model.settings);
  return message;
}

SavedModel model_from_proto(const proto::SavedModel& message, const LoadModelOptions& options) {
  SavedModel model;
  if (message.has_model()) model.network = from_proto(message.model(), options.layers);
  if (message.has_graph()) model.graph = from_proto(message.graph(), options.ops);
  for (const auto& [name, signature] : message.signature()) {
    ModelSignature& added = model.signatures[name];
    for (const auto& [input, spec] : signature.input()) added.inputs[input] = spec_from_proto(spec);
    for (const auto& [output, spec] : signature.output()) added.outputs[output] = spec_from_proto(spec);
    added.description = signature.description();
  }
  model.compiled = Texts(message.compiled().begin(), message.compiled().end());
  model.metadata = Texts(message.metadata().begin(), message.metadata().end());
  model.position = message.position();
  model.settings = message.settings();
  check_signatures(model);
  return model;
}

std::string dumped(const ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

// Of all that metadata.json says, however it is indented.
std::string hash_of(const ordered_json& json) {
  Sha256 hash;
  hash.add_text(dumped(json, -1));
  return hash.hex();
}

}  // namespace

std::string encode_model(const SavedModel& model) {
  check_signatures(model);
  const proto::SavedModel message = model_to_proto(model);
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps by key
    if (message.ByteSizeLong() > 0x7fffffff || !message.SerializeToCodedStream(&coded))
      fail(Code::resource_exhausted, "the model's layers and graph exceed 2 GiB: keep large constants in variables");
  }
  return bytes;
}

SavedModel decode_model(std::string_view bytes, const LoadModelOptions& options) {
  const google::protobuf::LogSilencer silence;  // bad input is reported to the caller, not to stderr
  proto::SavedModel message;
  if (bytes.size() > 0x7fffffff || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(Code::data_loss, "not a model: {} bytes do not parse", bytes.size());
  if (message.version() > kSavedModelVersion)
    fail(Code::unimplemented, "the model has version {}, but this Troupe reads up to {}: load it with a later one",
         message.version(), kSavedModelVersion);
  if (message.version() == 0) fail(Code::data_loss, "not a model: it has no version");
  return model_from_proto(message, options);
}

std::string encode_info(const SavedModelInfo& info) {
  ordered_json files = ordered_json::object();
  for (const auto& [name, file] : info.files) files[name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  ordered_json json = {{"format", kInfoFormat},
                       {"troupe", info.troupe},
                       {"saved", info.saved},
                       {"params_sha256", info.params_sha256},
                       {"files", files}};
  json["sha256"] = hash_of(json);
  return dumped(json, 2) + "\n";
}

SavedModelInfo decode_info(std::string_view text) {
  SavedModelInfo info;
  try {
    ordered_json json = ordered_json::parse(text);
    if (const auto format = json.at("format").get<std::int64_t>(); format > kInfoFormat)
      fail(Code::unimplemented, "format {} is of a later Troupe; this one reads up to {}", format, kInfoFormat);
    const auto hash = json.at("sha256").get<std::string>();
    json.erase("sha256");
    if (hash != hash_of(json)) fail(Code::data_loss, "it is damaged: the hash of what it says differs");
    info.troupe = json.at("troupe").get<std::string>();
    info.saved = json.at("saved").get<std::string>();
    info.params_sha256 = json.at("params_sha256").get<std::string>();
    for (const auto& [name, file] : json.at("files").items()) {
      const std::string_view path = name;
      if (!is_asset_name(path.starts_with(kAssetPrefix) ? path.substr(kAssetPrefix.size()) : path))
        fail(Code::data_loss, "'{}' is no name of a file in a saved model", name);
      info.files[name] = {file.at("bytes").get<std::uint64_t>(), file.at("sha256").get<std::string>()};
    }
  } catch (const nlohmann::json::exception& error) {
    fail(Code::data_loss, "not the metadata of a saved model: {}", error.what());
  }
  return info;
}

bool is_asset_name(std::string_view name) {
  const auto is_wrong = [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." && std::ranges::none_of(name, is_wrong);
}

}  // namespace troupe
