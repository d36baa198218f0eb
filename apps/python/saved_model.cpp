// Saved models of all formats in Python: read, run by signature, written, converted.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "apps/python/bindings.hpp"
#include "apps/python/device_libraries.hpp"
#include "apps/python/dtypes.hpp"
#include "apps/python/fork.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/actors/model/any_model.hpp>
#include <troupe/actors/model/loaded_model.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using released = nb::call_guard<nb::gil_scoped_release>;

// By name: tensor of the graph, dtype, shape.
using Specs = std::map<std::string, std::tuple<std::string, std::string, Dims>>;
// By name: inputs and outputs.
using Signatures = std::map<std::string, std::pair<Specs, Specs>>;

Specs specs_of(const std::map<std::string, ModelSignature::TensorSpec>& specs) {
  Specs out;
  for (const auto& [key, s] : specs) out[key] = {s.tensor, std::string(long_name(s.dtype)), dims_of_shape(s.shape)};
  return out;
}

Signatures signatures_of(const std::map<std::string, ModelSignature>& signatures) {
  Signatures out;
  for (const auto& [key, s] : signatures) out[key] = {specs_of(s.inputs), specs_of(s.outputs)};
  return out;
}

ModelFormat format_named(const std::string& text) {
  for (const ModelFormat format : {ModelFormat::troupe, ModelFormat::tensorflow, ModelFormat::onnx})
    if (name(format) == text) return format;
  invalid_argument("'{}' is no format of models: use troupe, tensorflow or onnx", text);
}

class PySavedModel {
 public:
  PySavedModel(const std::string& path, int threads, bool inference) {
    check_not_forked();
    const nb::gil_scoped_release unlocked;
    FileSystem& files = file_system_of(path);
    SavedModel model;
    format_ = format_of_model(files, path);
    if (format_ == ModelFormat::troupe) {
      model = read_model(files, path);
    } else {
      AnyModel any = read_any_model(files, path);
      producer_ = any.producer;
      model.graph = std::move(any.graph);
      model.signatures = std::move(any.signatures);
      model.values = std::move(any.values);
    }
    task_ = std::make_unique<Task>(own_task_options(threads));
    LoadedModelOptions options{.task = task_.get()};
    if (!inference) options.session.inference = std::nullopt;
    model_ = std::make_unique<LoadedModel>(std::move(model), options);
  }
  PySavedModel(PySavedModel&&) = delete;
  ~PySavedModel() {
    const nb::gil_scoped_release unlocked;
    if (is_forked()) {
      (void)model_.release();
      (void)task_.release();
    }
    model_.reset();
    task_.reset();
  }

  std::string format() const { return std::string(name(format_)); }
  const std::string& producer() const { return producer_; }
  Signatures signatures() const { return signatures_of(model_->signatures()); }
  nb::dict assets() const {
    nb::dict out;
    for (const auto& [name, content] : model_->assets())
      out[nb::cast(name)] = nb::bytes(content.data(), content.size());
    return out;
  }
  std::map<std::string, std::string> metadata() const { return model_->metadata(); }
  std::map<std::string, Tensor> run(const std::string& signature, const std::map<std::string, Tensor>& inputs) const {
    check_not_forked();
    return model_->run(signature, inputs);
  }
  std::map<std::string, Tensor> predict(const std::string& signature, const PyBatchSource& source,
                                        std::int64_t batch) const {
    check_not_forked();
    return model_->predict(signature, *source.source, {.batch = batch});
  }

 private:
  ModelFormat format_ = ModelFormat::troupe;
  std::string producer_{};
  std::unique_ptr<Task> task_;
  std::unique_ptr<LoadedModel> model_;
};

std::map<std::string, ModelSignature::TensorSpec> specs_of(const Specs& specs) {
  std::map<std::string, ModelSignature::TensorSpec> out;
  for (const auto& [key, spec] : specs) {
    const auto& [tensor, dtype, dims] = spec;
    out[key] = {.tensor = tensor, .dtype = dtype_named(dtype), .shape = shape_of_dims(dims)};
  }
  return out;
}

// `values`: of the graph's variables. `assets`, `metadata`: of a model in our own format.
void save(const std::string& path, const PyGraph& graph, const Signatures& signatures,
          const std::map<std::string, Tensor>& values, const std::string& format,
          const std::map<std::string, nb::bytes>& assets, const std::map<std::string, std::string>& metadata) {
  AnyModel model{.format = format_named(format), .graph = graph.graph, .values = {values.begin(), values.end()}};
  for (const auto& [key, s] : signatures)
    model.signatures[key] = {.inputs = specs_of(s.first), .outputs = specs_of(s.second)};
  if (model.format != ModelFormat::troupe && !(assets.empty() && metadata.empty()))
    invalid_argument("only models of the format troupe have assets and metadata, not those of {}", format);
  SavedModel saved{.graph = model.graph, .signatures = model.signatures, .values = model.values, .metadata = metadata};
  for (const auto& [key, content] : assets) saved.assets[key] = std::string(content.c_str(), content.size());
  const nb::gil_scoped_release unlocked;
  FileSystem& files = file_system_of(path);
  if (model.format == ModelFormat::troupe)
    save_model(files, path, saved);
  else
    write_any_model(files, path, model.format, model);
}

void convert(const std::string& from, const std::string& to, const std::string& format, const std::string& signature) {
  write_any_model(file_system_of(to), to, format_named(format), read_any_model(file_system_of(from), from), signature);
}

}  // namespace

void bind_saved_model(nb::module_& m) {
  nb::class_<PySavedModel>(m, "SavedModel")
      .def(nb::init<const std::string&, int, bool>(), "path"_a, "threads"_a, "inference"_a)
      .def_prop_ro("format", &PySavedModel::format)
      .def_prop_ro("producer", &PySavedModel::producer)
      .def_prop_ro("signatures", &PySavedModel::signatures)
      .def_prop_ro("assets", &PySavedModel::assets)
      .def_prop_ro("metadata", &PySavedModel::metadata)
      .def("run", &PySavedModel::run, "signature"_a, "inputs"_a, released())
      .def("predict", &PySavedModel::predict, "signature"_a, "source"_a, "batch"_a, released());
  m.def("save_saved_model", &save, "path"_a, "graph"_a, "signatures"_a, "values"_a, "format"_a, "assets"_a,
        "metadata"_a);
  m.def("convert_saved_model", &convert, "source"_a, "target"_a, "format"_a, "signature"_a, released());
}

}  // namespace troupe::python
