#include "troupe/actors/model/any_model.hpp"

#include <algorithm>

#include <troupe/actors/model/tensorflow_model.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/known_values.hpp>
#include <troupe/graph/passes/prune.hpp>

namespace troupe {
namespace {

constexpr const char* kTensorflowModel = "saved_model.pb";
constexpr const char* kServingDefault = "serving_default";
constexpr std::uint64_t kMaxOnnxBytes = (1ull << 31) - 1;

ModelSignature::TensorSpec spec_of(const Output& output) { return {output.name(), output.dtype(), output.shape()}; }

ModelSignature::TensorSpec spec_of(const OnnxValue& value) {
  ModelSignature::TensorSpec out = spec_of(value.output);
  if (const std::string labels = class_labels(value.type); !labels.empty()) out.description = "scores of " + labels;
  return out;
}

// Values that variables begin with: constants of the format, or what is made of them.
Parameters initial_values(Graph& graph) {
  Parameters out;
  std::vector<std::string> names;
  std::vector<Output> computed;
  for (const VariableInfo& variable : variables(graph)) {
    const Endpoint initial = variable.initial_value;
    if (initial.node < 0) fail(Code::internal, "variable '{}' has no initial value", variable.name);
    if (const auto value = known_tensor(graph, initial)) {
      out[variable.name] = *value;
      continue;
    }
    names.push_back(variable.name);
    computed.push_back({&graph, initial.node, initial.index});
  }
  if (names.empty()) return out;
  std::vector<Tensor> values = Session(graph).run(computed);
  for (std::size_t i = 0; i < names.size(); ++i) out[names[i]] = std::move(values[i]);
  return out;
}

// Takes the values of the variables, and leaves out what initialises them.
void keep_what_signatures_need(AnyModel& model, Graph& graph) {
  model.values = initial_values(graph);
  std::vector<Endpoint> needed;
  for (const auto& [name, signature] : model.signatures)
    for (const auto* specs : {&signature.inputs, &signature.outputs})
      for (const auto& [key, spec] : *specs) needed.push_back(graph.endpoint(spec.tensor));
  model.graph = prune(graph, needed, {});
  const std::vector<VariableInfo> kept = variables(*model.graph);
  std::erase_if(model.values, [&](const auto& value) {
    return std::ranges::find(kept, value.first, &VariableInfo::name) == kept.end();
  });
}

AnyModel read_tensorflow(FileSystem& files, const std::string& path) {
  const TensorflowModel read = import_tensorflow(files, path);
  AnyModel out{.format = ModelFormat::tensorflow};
  if (!read.version.empty()) out.producer = "TensorFlow " + read.version;
  for (const auto& [name, signature] : read.signatures) {
    ModelSignature& made = out.signatures[name];
    for (const auto& [key, input] : signature.inputs) made.inputs[key] = spec_of(input);
    for (const auto& [key, output] : signature.outputs) made.outputs[key] = spec_of(output);
  }
  keep_what_signatures_need(out, *read.graph);
  return out;
}

AnyModel read_onnx(FileSystem& files, const std::string& path) {
  OnnxModel read;
  if (&files == &posix_file_system())
    read = import_onnx(path);
  else
    try {
      read = parse_onnx(read_file(files, path, kMaxOnnxBytes));
    } catch (const Error& error) {
      throw error.within(fmt::format("'{}'", path));
    }
  AnyModel out{.format = ModelFormat::onnx};
  out.producer = fmt::format("{}{}opset {}", read.producer, read.producer.empty() ? "" : ", ", read.opset);
  ModelSignature& made = out.signatures[kOnlySignature];
  for (const OnnxValue& input : read.inputs) made.inputs[input.name] = spec_of(input);
  for (const OnnxValue& output : read.outputs) made.outputs[output.name] = spec_of(output);
  keep_what_signatures_need(out, *read.graph);
  return out;
}

AnyModel read_troupe(FileSystem& files, const std::string& path, const LoadModelOptions& options) {
  SavedModel read = read_model(files, path, options);
  if (!read.graph || read.signatures.empty())
    fail(Code::failed_precondition, "the saved model '{}' has no graph with signatures: it can only be trained on",
         path);
  return {.format = ModelFormat::troupe,
          .producer = "Troupe " + saved_model_info(files, path).troupe,
          .graph = std::move(read.graph),
          .signatures = std::move(read.signatures),
          .values = std::move(read.values)};
}

Output output_of(const AnyModel& model, const ModelSignature::TensorSpec& spec) {
  return model.graph->output(spec.tensor);
}

void write_onnx(const std::string& path, const AnyModel& model, const std::string& name) {
  const ModelSignature& signature = model.signatures.at(signature_named(model, name));
  OnnxExport what{.variables = model.values};
  for (const auto& [key, spec] : signature.inputs) what.inputs.push_back({key, output_of(model, spec), {}});
  for (const auto& [key, spec] : signature.outputs) what.outputs.push_back({key, output_of(model, spec), {}});
  export_onnx(path, *model.graph, what);
}

}  // namespace

std::string_view name(ModelFormat format) {
  switch (format) {
    case ModelFormat::troupe:
      return "troupe";
    case ModelFormat::tensorflow:
      return "tensorflow";
    case ModelFormat::onnx:
      return "onnx";
  }
  return "?";
}

ModelFormat format_of_model(FileSystem& files, const std::string& path) {
  if (is_saved_model(files, path)) return ModelFormat::troupe;
  if (files.exists(join_path(path, kTensorflowModel))) return ModelFormat::tensorflow;
  if (!files.exists(path)) fail(Code::not_found, "there is no model '{}'", path);
  bool directory = true;
  try {
    files.list(path);
  } catch (const Error&) {
    directory = false;
  }
  if (directory)
    invalid_argument(
        "'{}' is no model: a directory of Troupe has metadata.json, one of TensorFlow saved_model.pb; models of ONNX "
        "are files",
        path);
  return ModelFormat::onnx;
}

AnyModel read_any_model(FileSystem& files, const std::string& path, const LoadModelOptions& options) {
  switch (format_of_model(files, path)) {
    case ModelFormat::tensorflow:
      return read_tensorflow(files, path);
    case ModelFormat::onnx:
      return read_onnx(files, path);
    default:
      return read_troupe(files, path, options);
  }
}

void write_any_model(FileSystem& files, const std::string& path, ModelFormat format, const AnyModel& model,
                     const std::string& signature) {
  if (format == ModelFormat::troupe)
    return save_model(files, path, {.graph = model.graph, .signatures = model.signatures, .values = model.values});
  if (format == ModelFormat::onnx) {
    if (&files != &posix_file_system()) fail(Code::unimplemented, "models of ONNX are written to this machine only");
    return write_onnx(path, model, signature);
  }
  std::map<std::string, TensorflowSignature> signatures;
  for (const auto& [name, from] : model.signatures) {
    TensorflowSignature& made = signatures[name];
    for (const auto& [key, spec] : from.inputs) made.inputs[key] = output_of(model, spec);
    for (const auto& [key, spec] : from.outputs) made.outputs[key] = output_of(model, spec);
  }
  export_tensorflow(files, path, *model.graph, signatures, model.values);
}

const std::string& signature_named(const AnyModel& model, const std::string& name) {
  const auto found = model.signatures.find(name);
  if (found != model.signatures.end()) return found->first;
  if (name.empty()) {
    if (model.signatures.size() == 1) return model.signatures.begin()->first;
    for (const char* usual : {kOnlySignature, kServingDefault})
      if (const auto it = model.signatures.find(usual); it != model.signatures.end()) return it->first;
  }
  std::string all;
  for (const auto& [known, signature] : model.signatures) all += fmt::format("{}'{}'", all.empty() ? "" : ", ", known);
  if (name.empty()) fail(Code::not_found, "the model has several signatures, of which one must be named: {}", all);
  fail(Code::not_found, "the model has no signature '{}', but {}", name, all);
}

}  // namespace troupe
