#include "apps/serve/rest_documents.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/serve/inference_json.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/messages/tensorflow_types.hpp>

namespace troupe {
namespace {

using nlohmann::json;

// ModelVersionStatus.State of tensorflow_serving/apis/get_model_status.proto.
const char* state_name(ServableState state) {
  switch (state) {
    case ServableState::fresh:
      return "START";
    case ServableState::loading:
      return "LOADING";
    case ServableState::ready:
      return "AVAILABLE";
    case ServableState::quiescing:
    case ServableState::unloading:
      return "UNLOADING";
    case ServableState::unloaded:
    case ServableState::error:
      return "END";
  }
  return "UNKNOWN";
}

std::string error_code_name(Code code) {
  std::string out(name(code));
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return out;
}

std::string_view tensorflow_name(DType dtype) {
  const auto found = std::ranges::find(kTensorflowTypes, dtype, &TensorflowType::dtype);
  return dtype == DType::invalid || found == kTensorflowTypes.end() ? "DT_INVALID" : found->name;
}

json tensor_infos(const std::map<std::string, ModelSignature::TensorSpec>& specs) {
  json out = json::object();
  for (const auto& [name, spec] : specs) {
    json dims = json::array();
    for (const std::int64_t dim : spec.shape.dims()) dims.push_back({{"size", std::to_string(dim)}, {"name", ""}});
    out[name] = {{"name", spec.tensor},
                 {"dtype", tensorflow_name(spec.dtype)},
                 {"tensor_shape", {{"dim", std::move(dims)}, {"unknown_rank", !spec.shape.has_rank()}}}};
  }
  return out;
}

json inference_tensors(const std::map<std::string, ModelSignature::TensorSpec>& specs) {
  json out = json::array();
  for (const auto& [name, spec] : specs) {
    const auto dims = spec.shape.dims();
    out.push_back({{"name", name},
                   {"datatype", inference_datatype(spec.dtype)},
                   {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}});
  }
  return out;
}

}  // namespace

std::string model_status_json(std::span<const ServableManager::Status> versions) {
  json all = json::array();
  for (const ServableManager::Status& one : versions)
    all.push_back(
        {{"version", std::to_string(one.id.version)},
         {"state", state_name(one.state)},
         {"status", {{"error_code", error_code_name(one.error.code())}, {"error_message", one.error.message()}}}});
  return json_text({{"model_version_status", std::move(all)}});
}

std::string model_metadata_json(const Servable& servable) {
  json signatures = json::object();
  for (const auto& [name, signature] : servable.signatures())
    signatures[name] = {{"inputs", tensor_infos(signature.inputs)},
                        {"outputs", tensor_infos(signature.outputs)},
                        {"method_name", "tensorflow/serving/predict"}};
  const std::string version = std::to_string(servable.id().version);
  return json_text({{"model_spec", {{"name", servable.id().model}, {"signature_name", ""}, {"version", version}}},
                    {"metadata", {{"signature_def", {{"signature_def", std::move(signatures)}}}}}});
}

std::string inference_metadata_json(const Servable& servable, std::span<const ServableManager::Status> versions) {
  const ModelSignature& signature = servable.signatures().at(servable.signature_named(""));
  json ready = json::array();
  for (const ServableManager::Status& one : versions)
    if (one.state == ServableState::ready) ready.push_back(std::to_string(one.id.version));
  return json_text({{"name", servable.id().model},
                    {"versions", std::move(ready)},
                    {"platform", "troupe"},
                    {"inputs", inference_tensors(signature.inputs)},
                    {"outputs", inference_tensors(signature.outputs)}});
}

std::string inference_server_json() {
  return json_text({{"name", "troupe"}, {"version", TROUPE_VERSION}, {"extensions", {"binary_tensor_data"}}});
}

}  // namespace troupe
