#include "troupe/actors/serving/replica_state.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <troupe/actors/http/json_text.hpp>

namespace troupe {
namespace {

using nlohmann::json;

json json_of(const Error& error) { return {{"code", static_cast<int>(error.code())}, {"message", error.message()}}; }

Error error_of(const json& value) {
  const int code = value.at("code").get<int>();
  if (code < 0 || code > static_cast<int>(Code::unauthenticated)) fail(Code::data_loss, "error code {}", code);
  return {static_cast<Code>(code), value.at("message").get<std::string>()};
}

json json_of(const std::map<std::string, ModelSignature::TensorSpec>& specs) {
  json out = json::object();
  for (const auto& [name, spec] : specs) {
    const auto dims = spec.shape.dims();
    out[name] = {{"tensor", spec.tensor}, {"dtype", std::string(troupe::name(spec.dtype))}};
    if (spec.shape.has_rank()) out[name]["shape"] = std::vector<std::int64_t>(dims.begin(), dims.end());
  }
  return out;
}

std::map<std::string, ModelSignature::TensorSpec> specs_of(const json& value) {
  std::map<std::string, ModelSignature::TensorSpec> out;
  for (const auto& [name, spec] : value.items()) {
    ModelSignature::TensorSpec& made = out[name];
    made.tensor = spec.at("tensor").get<std::string>();
    const auto dtype = parse_dtype(spec.at("dtype").get<std::string>());
    if (!dtype) fail(Code::data_loss, "the state of a replica: input or output '{}' has no dtype", name);
    made.dtype = *dtype;
    made.shape =
        spec.contains("shape") ? Shape(spec.at("shape").get<std::vector<std::int64_t>>()) : Shape::unknown_rank();
  }
  return out;
}

}  // namespace

ReplicaState state_of(const ModelServer& server) {
  ReplicaState out;
  for (const ServedModel& served : server.models()) {
    ReplicaState::Model& model = out.models[served.name];
    model.labels = server.labels(served.name);
    try {
      static_cast<void>(server.find(served.name));
    } catch (const Error& why) {
      model.why = why;
    }
    for (const ServableManager::Status& status : server.status()) {
      if (status.id.model != served.name) continue;
      ReplicaState::Version& version = model.versions.emplace_back(ReplicaState::Version{status, {}});
      if (status.state != ServableState::ready) continue;
      try {
        version.signatures = server.find(served.name, {.version = status.id.version})->signatures();
      } catch (const Error&) {  // it has gone since
        version.status.state = ServableState::quiescing;
      }
    }
  }
  return out;
}

std::string to_json(const ReplicaState& state) {
  json out = json::object();
  for (const auto& [name, model] : state.models) {
    json versions = json::array();
    for (const ReplicaState::Version& version : model.versions) {
      const ServableManager::Status& status = version.status;
      json signatures = json::object();
      for (const auto& [key, signature] : version.signatures)
        signatures[key] = {{"inputs", json_of(signature.inputs)}, {"outputs", json_of(signature.outputs)}};
      versions.push_back({{"version", status.id.version},
                          {"state", static_cast<int>(status.state)},
                          {"bytes", status.bytes},
                          {"error", json_of(status.error)},
                          {"signatures", std::move(signatures)}});
    }
    out[name] = {{"labels", model.labels}, {"why", json_of(model.why)}, {"versions", std::move(versions)}};
  }
  return json_text(out);
}

ReplicaState parse_replica_state(std::string_view text) try {
  ReplicaState out;
  const json all = json::parse(text);
  for (const auto& [name, value] : all.items()) {
    ReplicaState::Model& model = out.models[name];
    model.labels = value.at("labels").get<std::map<std::string, std::int64_t>>();
    model.why = error_of(value.at("why"));
    for (const json& each : value.at("versions")) {
      ReplicaState::Version& version = model.versions.emplace_back();
      version.status.id = {name, each.at("version").get<std::int64_t>()};
      const int state = each.at("state").get<int>();
      if (state < 0 || state > static_cast<int>(ServableState::error)) fail(Code::data_loss, "state {}", state);
      version.status.state = static_cast<ServableState>(state);
      version.status.bytes = each.at("bytes").get<std::size_t>();
      version.status.error = error_of(each.at("error"));
      const json& signatures = each.at("signatures");
      for (const auto& [key, signature] : signatures.items())
        version.signatures[key] = {.inputs = specs_of(signature.at("inputs")),
                                   .outputs = specs_of(signature.at("outputs"))};
    }
  }
  return out;
} catch (const nlohmann::json::exception& error) {
  fail(Code::data_loss, "the state of a replica: {}", error.what());
}

}  // namespace troupe
