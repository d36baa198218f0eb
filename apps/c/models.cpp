// The C API: models that were saved, in the formats of Troupe, TensorFlow and ONNX.
#include <fmt/format.h>

#include "apps/c/handles.hpp"
#include <troupe/actors/model/any_model.hpp>
#include <troupe/actors/model/loaded_model.hpp>
#include <troupe/devices/storage/file_systems.hpp>

namespace troupe::c {

// Its signatures hold it.
struct ModelInUse {
  std::shared_ptr<Task> task;  // null: the model has its own
  std::string format, producer;
  std::vector<std::string> names;  // of signatures
  std::optional<LoadedModel> model;
  std::string usual;  // the signature that is meant without a name; "": there are several
};

}  // namespace troupe::c

struct troupe_loaded_model : troupe::c::Handle<troupe::c::tag_of("lm")> {
  std::shared_ptr<const troupe::c::ModelInUse> model;
};
struct troupe_signature : troupe::c::Handle<troupe::c::tag_of("si")> {
  using Spec = std::pair<std::string, troupe::ModelSignature::TensorSpec>;
  std::shared_ptr<const troupe::c::ModelInUse> model;
  std::optional<troupe::ModelCallable> callable;
  std::vector<Spec> inputs, outputs;  // in the order of their names
};

namespace troupe::c {
namespace {

std::shared_ptr<const ModelInUse> load(const std::string& path, std::shared_ptr<Task> task,
                                       const troupe_load_options& options) {
  LoadModelOptions reading;
  if (options.verify) reading.verify_values = true;
  AnyModel any = read_any_model(file_system_of(path), path, reading);
  auto out = std::make_shared<ModelInUse>();
  out->task = std::move(task);
  out->format = name(any.format);
  out->producer = any.producer;
  for (const auto& [name, unused] : any.signatures) out->names.push_back(name);
  try {
    out->usual = signature_named(any, "");
  } catch (const Error&) {  // asked for when it is needed
  }
  SavedModel saved;
  saved.graph = std::move(any.graph);
  saved.signatures = std::move(any.signatures);
  saved.values = std::move(any.values);
  LoadedModelOptions running{.task = out->task.get()};
  if (options.exact) running.session.inference = std::nullopt;
  out->model.emplace(std::move(saved), running);
  return out;
}

void write_spec(const std::vector<troupe_signature::Spec>& specs, std::int32_t index, troupe_tensor_spec* to) {
  const std::size_t size = not_null(to, "spec")->size;
  if (index < 0 || static_cast<std::size_t>(index) >= specs.size())
    fail(Code::out_of_range, "there is no tensor {}: the signature has {}", index, specs.size());
  const auto& [name, spec] = specs[static_cast<std::size_t>(index)];
  troupe_tensor_spec out{.size = size,
                         .name = name.c_str(),
                         .description = spec.description.c_str(),
                         .dtype = static_cast<troupe_dtype>(spec.dtype),
                         .rank = 0,
                         .dims = {}};
  out.rank = write_shape(spec.shape, out.dims, kMaxRank);
  if (size < sizeof(std::size_t)) refuse("spec", "has no size: set .size = sizeof spec");
  std::memcpy(to, &out, std::min(size, sizeof out));
}

}  // namespace
}  // namespace troupe::c

using namespace troupe::c;  // NOLINT(google-build-using-namespace)

troupe_loaded_model* troupe_loaded_model_new(const char* path, troupe_task* task, const troupe_load_options* options,
                                             troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_loaded_model*>(nullptr), [&] {
    auto out = std::make_unique<troupe_loaded_model>();
    out->model = load(text_of(path, "path"), task ? check(task, "task").task : nullptr, options_of(options));
    return out.release();
  });
}

void troupe_loaded_model_delete(troupe_loaded_model* model) { destroy(model); }

const char* troupe_loaded_model_format(const troupe_loaded_model* model) {
  return guarded(__func__, nullptr, "", [&] { return check(model, "model").model->format.c_str(); });
}

const char* troupe_loaded_model_producer(const troupe_loaded_model* model) {
  return guarded(__func__, nullptr, "", [&] { return check(model, "model").model->producer.c_str(); });
}

int32_t troupe_loaded_model_num_signatures(const troupe_loaded_model* model) {
  return guarded(__func__, nullptr, std::int32_t{0},
                 [&] { return static_cast<std::int32_t>(check(model, "model").model->names.size()); });
}

const char* troupe_loaded_model_signature_name(const troupe_loaded_model* model, int32_t index) {
  return guarded(__func__, nullptr, static_cast<const char*>(nullptr), [&] {
    const auto& names = check(model, "model").model->names;
    return index >= 0 && static_cast<std::size_t>(index) < names.size() ? names[static_cast<std::size_t>(index)].c_str()
                                                                        : nullptr;
  });
}

troupe_signature* troupe_loaded_model_signature(const troupe_loaded_model* model, const char* name,
                                                troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_signature*>(nullptr), [&] {
    const auto& of = check(model, "model").model;
    auto out = std::make_unique<troupe_signature>();
    out->model = of;
    out->callable = of->model->callable(name ? name : of->usual);
    const troupe::ModelSignature& signature = out->callable->signature();
    out->inputs.assign(signature.inputs.begin(), signature.inputs.end());
    out->outputs.assign(signature.outputs.begin(), signature.outputs.end());
    return out.release();
  });
}

void troupe_signature_delete(troupe_signature* signature) { destroy(signature); }

int32_t troupe_signature_num_inputs(const troupe_signature* signature) {
  return guarded(__func__, nullptr, std::int32_t{0},
                 [&] { return static_cast<std::int32_t>(check(signature, "signature").inputs.size()); });
}

int32_t troupe_signature_num_outputs(const troupe_signature* signature) {
  return guarded(__func__, nullptr, std::int32_t{0},
                 [&] { return static_cast<std::int32_t>(check(signature, "signature").outputs.size()); });
}

troupe_code troupe_signature_input(const troupe_signature* signature, int32_t index, troupe_tensor_spec* spec,
                                   troupe_status* status) {
  return guarded(__func__, status, [&] { write_spec(check(signature, "signature").inputs, index, spec); });
}

troupe_code troupe_signature_output(const troupe_signature* signature, int32_t index, troupe_tensor_spec* spec,
                                    troupe_status* status) {
  return guarded(__func__, status, [&] { write_spec(check(signature, "signature").outputs, index, spec); });
}

troupe_code troupe_signature_run(const troupe_signature* signature, const troupe_run_options* options,
                                 troupe_tensor* const* inputs, size_t num_inputs, troupe_tensor** outputs,
                                 size_t num_outputs, troupe_status* status) {
  return guarded(__func__, status, [&] {
    const auto to = cleared(outputs, num_outputs, "outputs");
    const troupe_signature& of = check(signature, "signature");
    if (num_outputs != of.outputs.size())
      troupe::invalid_argument("the signature has {} outputs, but there is room for {}", of.outputs.size(),
                               num_outputs);
    give_tensors((*of.callable)(tensors_of(inputs, num_inputs, "inputs"), run_options(options)), to.data());
  });
}
