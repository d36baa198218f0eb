// The C API: networks of layers, data sets, training.
#include <fmt/format.h>

#include <optional>
#include <ranges>

#include "apps/c/handles.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/training/mode_text.hpp>
#include <troupe/graph/formats/text_call.hpp>
#include <troupe/graph/layers/layer_text.hpp>
#include <troupe/graph/training/measure_text.hpp>

struct troupe_dataset : troupe::c::Handle<troupe::c::tag_of("ds")> {
  explicit troupe_dataset(std::vector<std::pair<std::string, troupe::Tensor>> parts) : data(std::move(parts)) {}
  troupe::TensorDataset data;
};
struct troupe_figures : troupe::c::Handle<troupe::c::tag_of("fi")> {
  troupe::Figures figures;
};
struct troupe_network : troupe::c::Handle<troupe::c::tag_of("ne")> {
  std::vector<troupe::Symbol> inputs, values;
};
struct troupe_model : troupe::c::Handle<troupe::c::tag_of("mo")> {
  explicit troupe_model(troupe::Model made) : model(std::move(made)) {}
  std::shared_ptr<troupe::Task> task;  // where it was compiled; outlives the model
  troupe::Model model;
  std::atomic<bool> stop = false;
};

namespace troupe::c {
namespace {

// A call with arguments as text, of which all must be known.
template <class Read>
void read_call(const char* what, const TextCall& call, const Read& read) {
  try {
    TextArguments arguments(call);
    read(arguments);
    arguments.end();
  } catch (const Error& error) {
    throw error.within(fmt::format("{} '{}'", what, call.name));
  }
}

void take_count(TextArguments& arguments, const char* name, std::uint32_t& to) {
  std::int64_t value = to;
  arguments.take(name, value);
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max())
    invalid_argument("{} is out of range: {}", name, value);
  to = static_cast<std::uint32_t>(value);
}

CallbackPtr callback_of(const char* text) {
  const TextCall call = parse_call(not_null(text, "options.callbacks"));
  CallbackPtr out;
  read_call("callback", call, [&](TextArguments& given) {
    if (call.name == "early_stopping") {
      callbacks::EarlyStoppingOptions o;
      given.take("figure", o.figure);
      given.take("min_delta", o.min_delta);
      take_count(given, "patience", o.patience);
      take_count(given, "from_epoch", o.from_epoch);
      given.take("keep_best", o.keep_best);
      out = callbacks::early_stopping(o);
    } else if (call.name == "reduce_on_plateau") {
      callbacks::ReduceOnPlateauOptions o;
      given.take("figure", o.figure);
      given.take("factor", o.factor);
      given.take("min_delta", o.min_delta);
      given.take("least", o.least);
      take_count(given, "patience", o.patience);
      take_count(given, "cooldown", o.cooldown);
      out = callbacks::reduce_on_plateau(o);
    } else if (call.name == "stop_on_nan") {
      out = callbacks::stop_on_nan();
    } else if (call.name == "csv_log" || call.name == "json_log") {
      std::string path;
      given.take("path", path);
      if (path.empty()) invalid_argument("the path is missing: {}(path=\"epochs.log\")", call.name);
      out = call.name == "csv_log" ? callbacks::csv_log(path) : callbacks::json_log(path);
    } else {
      fail(Code::not_found, "there are early_stopping, reduce_on_plateau, stop_on_nan, csv_log and json_log");
    }
  });
  return out;
}

std::vector<Metric> metrics_of(const char* const* texts, std::size_t count, const Argument& argument) {
  std::vector<Metric> out;
  for (const char* text : array(texts, count, argument)) out.push_back(parse_metric(not_null(text, argument)));
  return out;
}

OutputTraining output_training(const troupe_output_training* given) {
  const auto o = options_of(not_null(given, "options.outputs"));
  OutputTraining out{.output = text_or_empty(o.output),
                     .target = text_or_empty(o.target),
                     .sample_weights = text_or_empty(o.sample_weights),
                     .metrics = metrics_of(o.metrics, o.num_metrics, "options.outputs.metrics")};
  if (o.loss) out.loss = parse_loss(o.loss);
  if (o.weight != 0) out.weight = o.weight;
  const auto weights = array(o.class_weights, o.num_class_weights, "options.outputs.class_weights");
  out.class_weights.assign(weights.begin(), weights.end());
  return out;
}

ModelOptions model_options(const troupe_compile_options& given) {
  ModelOptions out{.metrics = metrics_of(given.metrics, given.num_metrics, "options.metrics")};
  if (given.optimizer) out.optimizer = parse_optimizer(given.optimizer);
  if (given.loss) out.loss = parse_loss(given.loss);
  for (const troupe_output_training* output : array(given.outputs, given.num_outputs, "options.outputs"))
    out.outputs.push_back(output_training(output));
  if (given.precision != TROUPE_INVALID) out.precision = dtype_of_c(given.precision);
  if (given.clip_global_norm != 0) out.clipping.global_norm = given.clip_global_norm;
  return out;
}

TrainingOptions training_options(const troupe_fit_options& given, troupe_model& model) {
  TrainingOptions out{.mode = given.mode ? parse_mode(given.mode) : LocalMode{},
                      .seed = given.seed,
                      .checkpoint = text_or_empty(given.checkpoint),
                      .checkpoint_every = given.checkpoint_every,
                      .publish = text_or_empty(given.publish),
                      .tensorboard = text_or_empty(given.tensorboard),
                      .quiet = given.quiet,
                      .stop = &model.stop};
  if (given.epochs != 0) out.epochs = given.epochs;
  if (given.batch != 0) out.batch = given.batch;
  if (given.micro_batches != 0) out.micro_batches = given.micro_batches;
  for (const char* callback : array(given.callbacks, given.num_callbacks, "options.callbacks"))
    out.callbacks.push_back(callback_of(callback));
  if (given.on_epoch)
    out.on_epoch = [call = given.on_epoch, argument = given.argument](const EpochLogs& logs) {
      troupe_figures figures;
      figures.figures = logs.figures;
      const troupe_epoch epoch{.size = sizeof epoch,
                               .epoch = logs.epoch,
                               .steps = logs.steps,
                               .seconds = logs.seconds,
                               .examples_per_second = logs.examples_per_second,
                               .figures = &figures};
      call(&epoch, argument);
    };
  return out;
}

troupe_figures* new_figures(Figures figures) {
  auto out = std::make_unique<troupe_figures>();
  out->figures = std::move(figures);
  return out.release();
}

const Symbol& symbol_of(const troupe_network& network, std::int32_t number, const Argument& argument) {
  if (number < 0 || static_cast<std::size_t>(number) >= network.values.size())
    refuse(argument, fmt::format("has {}, but the network has values 0 to {}", number,
                                 static_cast<std::int64_t>(network.values.size()) - 1));
  return network.values[static_cast<std::size_t>(number)];
}

}  // namespace
}  // namespace troupe::c

using namespace troupe::c;  // NOLINT(google-build-using-namespace)

troupe_dataset* troupe_dataset_new(const char* const* names, troupe_tensor* const* tensors, size_t count,
                                   troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_dataset*>(nullptr), [&] {
    const auto called = array(names, count, "names");
    std::vector<troupe::Tensor> values = tensors_of(tensors, count, "tensors");
    std::vector<std::pair<std::string, troupe::Tensor>> parts;
    for (std::size_t i = 0; i < count; ++i) parts.emplace_back(text_of(called[i], "names"), std::move(values[i]));
    return new troupe_dataset(std::move(parts));
  });
}

void troupe_dataset_delete(troupe_dataset* dataset) { destroy(dataset); }

int32_t troupe_figures_count(const troupe_figures* figures) {
  return guarded(__func__, nullptr, std::int32_t{0},
                 [&] { return static_cast<std::int32_t>(check(figures, "figures").figures.size()); });
}

const char* troupe_figures_name(const troupe_figures* figures, int32_t index) {
  return guarded(__func__, nullptr, static_cast<const char*>(nullptr), [&] {
    const auto& all = check(figures, "figures").figures;
    return index >= 0 && static_cast<std::size_t>(index) < all.size()
               ? all[static_cast<std::size_t>(index)].first.c_str()
               : nullptr;
  });
}

double troupe_figures_get(const troupe_figures* figures, const char* name, troupe_status* status) {
  return guarded(__func__, status, std::numeric_limits<double>::quiet_NaN(),
                 [&] { return troupe::find_figure(check(figures, "figures").figures, text_of(name, "name")); });
}

void troupe_figures_delete(troupe_figures* figures) { destroy(figures); }

char* troupe_layer_signature(const char* kind, troupe_status* status) {
  return guarded(__func__, status, static_cast<char*>(nullptr), [&] {
    if (kind) return new_text(troupe::layer_signature(kind));
    return new_text(fmt::format("{}", fmt::join(troupe::layer_kinds(), "\n")));
  });
}

troupe_network* troupe_network_new(troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_network*>(nullptr), [] { return new troupe_network; });
}

void troupe_network_delete(troupe_network* network) { destroy(network); }

int32_t troupe_network_input(troupe_network* network, const char* name, troupe_dtype dtype, const int64_t* dims,
                             int32_t rank, troupe_status* status) {
  return guarded(__func__, status, std::int32_t{-1}, [&] {
    troupe_network& to = check(network, "network");
    to.inputs.push_back(troupe::input(text_of(name, "name"), shape_of(dims, rank), dtype_of_c(dtype)));
    to.values.push_back(to.inputs.back());
    return static_cast<std::int32_t>(to.values.size()) - 1;
  });
}

int32_t troupe_network_layer(troupe_network* network, const char* layer, const int32_t* inputs, size_t num_inputs,
                             troupe_status* status) {
  return guarded(__func__, status, std::int32_t{-1}, [&] {
    troupe_network& to = check(network, "network");
    troupe::Symbols xs;
    for (const std::int32_t number : array(inputs, num_inputs, "inputs")) xs.push_back(symbol_of(to, number, "inputs"));
    const troupe::Symbols made = troupe::parse_layer(text_of(layer, "layer")).call(xs);
    to.values.insert(to.values.end(), made.begin(), made.end());
    return static_cast<std::int32_t>(to.values.size() - made.size());
  });
}

troupe_model* troupe_model_new(const troupe_network* network, const int32_t* results, const char* const* names,
                               size_t count, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_model*>(nullptr), [&] {
    const troupe_network& from = check(network, "network");
    const auto numbers = array(results, count, "results");
    if (!names) {
      troupe::Symbols symbols;
      for (const std::int32_t number : numbers) symbols.push_back(symbol_of(from, number, "results"));
      return new troupe_model(troupe::Model(troupe::Network(from.inputs, symbols)));
    }
    std::vector<troupe::Network::NamedSymbol> named;
    for (std::size_t i = 0; i < count; ++i)
      named.emplace_back(text_of(names[i], "names"), symbol_of(from, numbers[i], "results"));
    return new troupe_model(troupe::Model(troupe::Network(from.inputs, named)));
  });
}

troupe_model* troupe_model_sequential(const char* const* layers, size_t count, troupe_dtype dtype, const int64_t* dims,
                                      int32_t rank, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_model*>(nullptr), [&] {
    troupe::Sequential all;
    for (const char* layer : array(layers, count, "layers")) all.add(troupe::parse_layer(text_of(layer, "layers")));
    return new troupe_model(troupe::Model(all, shape_of(dims, rank), dtype_of_c(dtype)));
  });
}

troupe_model* troupe_model_load(const char* directory, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_model*>(nullptr),
                 [&] { return new troupe_model(troupe::Model::load(text_of(directory, "directory"))); });
}

troupe_code troupe_model_save(troupe_model* model, const char* directory, troupe_status* status) {
  return guarded(__func__, status, [&] { check(model, "model").model.save(text_of(directory, "directory")); });
}

void troupe_model_delete(troupe_model* model) { destroy(model); }

char* troupe_model_summary(const troupe_model* model, troupe_status* status) {
  return guarded(__func__, status, static_cast<char*>(nullptr),
                 [&] { return new_text(check(model, "model").model.summary()); });
}

troupe_code troupe_model_compile(troupe_model* model, const troupe_compile_options* options, troupe_status* status) {
  return guarded(__func__, status, [&] {
    troupe_model& of = check(model, "model");
    const auto given = options_of(options);
    const troupe::ModelOptions made = model_options(given);
    if (!given.task) {
      of.model.compile(made);
    } else {
      const auto task = check(given.task, "options.task").task;
      of.model.compile(made, *task);
      of.task = task;
    }
  });
}

troupe_figures* troupe_model_fit(troupe_model* model, const troupe_dataset* train, const troupe_dataset* validation,
                                 const troupe_fit_options* options, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_figures*>(nullptr), [&] {
    troupe_model& of = check(model, "model");
    const troupe::TensorDataset& data = check(train, "train").data;
    const troupe::TensorDataset* const test = validation ? &check(validation, "validation").data : nullptr;
    const troupe::TrainingOptions how = training_options(options_of(options), of);
    const auto ended = std::shared_ptr<void>(nullptr, [&](void*) { of.stop = false; });
    return new_figures((test ? of.model.fit(data, *test, how) : of.model.fit(data, how)).figures);
  });
}

void troupe_model_stop(troupe_model* model) {
  if (model && model->is_whole()) model->stop = true;
}

troupe_figures* troupe_model_evaluate(troupe_model* model, const troupe_dataset* data, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_figures*>(nullptr),
                 [&] { return new_figures(check(model, "model").model.evaluate(check(data, "data").data).figures); });
}

troupe_tensor* troupe_model_predict(troupe_model* model, const troupe_tensor* examples, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_tensor*>(nullptr), [&] {
    troupe_tensor* out = nullptr;
    give_tensors({check(model, "model").model.predict(check(examples, "examples").tensor)}, &out);
    return out;
  });
}

troupe_code troupe_model_predict_outputs(troupe_model* model, const troupe_dataset* data, const char* const* names,
                                         troupe_tensor** results, size_t count, troupe_status* status) {
  return guarded(__func__, status, [&] {
    const auto to = cleared(results, count, "results");
    const auto wanted = array(names, count, "names");
    auto found = check(model, "model").model.predict(check(data, "data").data);
    std::vector<troupe::Tensor> out;
    for (const char* name : wanted) {
      const auto result = found.find(text_of(name, "names"));
      if (result == found.end())
        troupe::fail(troupe::Code::not_found, "the model has no output '{}'; it has {}", name,
                     fmt::join(std::views::keys(found), ", "));
      out.push_back(result->second);
    }
    give_tensors(std::move(out), to.data());
  });
}

troupe_tensor* troupe_model_parameter(troupe_model* model, const char* name, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_tensor*>(nullptr), [&] {
    const troupe::Parameters all = check(model, "model").model.parameters();
    const auto found = all.find(text_of(name, "name"));
    if (found == all.end()) troupe::fail(troupe::Code::not_found, "the model has no parameter '{}'", name);
    troupe_tensor* out = nullptr;
    give_tensors({found->second}, &out);
    return out;
  });
}

char* troupe_model_parameter_names(troupe_model* model, troupe_status* status) {
  return guarded(__func__, status, static_cast<char*>(nullptr), [&] {
    std::string names;
    for (const auto& [name, unused] : check(model, "model").model.parameters())
      names += (names.empty() ? "" : "\n") + name;
    return new_text(names);
  });
}

char* troupe_model_params_sha256(troupe_model* model, troupe_status* status) {
  return guarded(__func__, status, static_cast<char*>(nullptr),
                 [&] { return new_text(check(model, "model").model.params_sha256()); });
}
