#include "troupe/actors/model/loaded_model.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include <troupe/actors/model/batch_run.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/passes/freeze.hpp>
#include <troupe/graph/training/network_program.hpp>
#include <troupe/graph/training/towers.hpp>
#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {
namespace {

using Specs = std::map<std::string, ModelSignature::TensorSpec>;
using Signatures = std::map<std::string, ModelSignature>;

std::string spec_text(const std::string& name, const ModelSignature::TensorSpec& spec) {
  return fmt::format("'{}' {}{}", name, troupe::name(spec.dtype), spec.shape.to_string());
}

// "'examples' f32[?,2], 'weights' f32[?]"
std::string specs_list(const Specs& specs) {
  std::string out;
  for (const auto& [name, spec] : specs) out += fmt::format("{}{}", out.empty() ? "" : ", ", spec_text(name, spec));
  return out.empty() ? "none" : out;
}

ModelSignature::TensorSpec spec_of(const Output& x, std::string description) {
  return {.tensor = x.name(), .dtype = x.dtype(), .shape = x.shape(), .description = std::move(description)};
}

// The inputs of a network as batches of one component each.
BatchSchema inputs_of(const Network& network) {
  BatchSchema out;
  for (const InputSpec& input : network.plan().inputs) {
    if (input.dtype == DType::invalid)
      fail(Code::failed_precondition,
           "the layers of the model do not know the dtype and shape of their input '{}': save them with an InputSpec "
           "that has both, or with a graph",
           input.name);
    out.push_back({.name = input.name, .dtype = input.dtype, .shape = input.shape});
  }
  return out;
}

// Replaces names of the network's inputs and results by tensors of its graph.
void bind_specs(Specs& specs, const std::map<std::string, Output>& tensors, const std::string& signature) {
  for (auto& [name, spec] : specs) {
    const auto found = tensors.find(spec.tensor);
    if (found == tensors.end())
      fail(Code::not_found, "signature '{}': '{}' is '{}', which is no input or result of the model's layers",
           signature, name, spec.tensor);
    spec = spec_of(found->second, std::move(spec.description));
  }
}

// Makes the graph of the layers, and signatures that name its tensors.
void build_graph(SavedModel& model, const OpRegistry& ops) {
  const BatchSchema schema = inputs_of(*model.network);
  TrainingGraph built = build_inference_graph(network_predictions(*model.network), schema, &ops);
  std::map<std::string, Output> inputs;
  for (std::size_t i = 0; i < schema.size(); ++i) inputs.emplace(schema[i].name, built.eval_batch[i]);
  if (model.signatures.empty()) {
    ModelSignature& all = model.signatures["predict"];
    for (const auto& [name, unused] : inputs) all.inputs[name].tensor = name;
    for (const auto& [name, unused] : built.predictions) all.outputs[name].tensor = name;
  }
  for (auto& [name, signature] : model.signatures) {
    bind_specs(signature.inputs, inputs, name);
    bind_specs(signature.outputs, built.predictions, name);
  }
  model.graph = std::move(built.graph);
}

// Sets the variables of a session by nodes added to its graph, which has not been copied yet.
class VariableValues {
 public:
  VariableValues(Graph& graph, const Parameters& values) {
    for (const VariableInfo& v : variables(graph)) {
      const auto value = values.find(v.name);
      if (value == values.end()) continue;
      const Output given = placeholder(graph, v.dtype, v.shape, graph.unique_name("loaded_value"));
      feeds_.emplace_back(given, value->second);
      targets_.push_back(find_variable(graph, v.name).assign(given));
    }
  }
  void set(Session& session) const {
    if (!targets_.empty()) session.run(feeds_, {}, targets_);
  }

 private:
  Feeds feeds_;
  Outputs targets_;
};

}  // namespace

struct ModelCallable::State {
  State(std::string of, const ModelSignature& means, Session& on)
      : name(std::move(of)), signature(means), session(on) {}

  void check_input(const Specs::value_type& input, const Tensor& given) const {
    const auto& [key, spec] = input;
    if (given.valid() && given.dtype() == spec.dtype && spec.shape.compatible_with(given.shape())) return;
    invalid_argument("signature '{}': input {} was given {}{}", name, spec_text(key, spec), troupe::name(given.dtype()),
                     given.shape().to_string());
  }

  const std::string name;
  const ModelSignature& signature;
  Session& session;
  Outputs feeds, fetches;
  mutable std::once_flag compiled;
  mutable Callable call;
};

std::vector<Tensor> ModelCallable::ordered(std::map<std::string, Tensor> inputs) const {
  const Specs& specs = signature().inputs;
  for (const auto& [name, unused] : inputs)
    if (!specs.contains(name))
      invalid_argument("signature '{}' has no input '{}'; it takes {}", state_->name, name, specs_list(specs));
  std::vector<Tensor> out;
  for (const auto& [name, spec] : specs) {
    const auto given = inputs.find(name);
    if (given == inputs.end())
      invalid_argument("signature '{}' was not given its input {}", state_->name, spec_text(name, spec));
    out.push_back(std::move(given->second));
  }
  return out;
}

void ModelCallable::check(const std::vector<Tensor>& inputs) const {
  const State& at = *state_;
  const Specs& specs = at.signature.inputs;
  if (inputs.size() != specs.size())
    invalid_argument("signature '{}' takes {} inputs, not {}: {}", at.name, specs.size(), inputs.size(),
                     specs_list(specs));
  std::size_t i = 0;
  for (const Specs::value_type& input : specs) at.check_input(input, inputs[i++]);
}

const Callable& ModelCallable::compiled_for(const std::vector<Tensor>& inputs) const {
  check(inputs);
  const State& at = *state_;
  std::call_once(at.compiled, [&] { at.call = at.session.callable(at.feeds, at.fetches); });
  return at.call;
}

std::vector<Tensor> ModelCallable::operator()(std::vector<Tensor> inputs, const RunOptions& options) const {
  return compiled_for(inputs)(std::move(inputs), options);
}

StepId ModelCallable::start(std::vector<Tensor> inputs, const RunOptions& options,
                            std::function<void(StepResult)> done) const {
  return compiled_for(inputs).start(std::move(inputs), options, std::move(done));
}

StepId ModelCallable::start_here(std::vector<Tensor> inputs, const RunOptions& options,
                                 std::function<void(StepResult)> done) const {
  return compiled_for(inputs).start_here(std::move(inputs), options, std::move(done));
}

void ModelCallable::cancel(StepId step) const { state_->session.cancel(step); }

TraceStep ModelCallable::traced(StepId step) const { return TraceStep::of(state_->call.session(), step, step.value); }

const ModelSignature& ModelCallable::signature() const { return state_->signature; }

struct LoadedModel::State {
  State(SavedModel given, const LoadedModelOptions& options)
      : own(options.task ? nullptr : std::make_unique<Task>()),
        task(options.task ? *options.task : *own),
        frozen(options.freeze),
        running(options.session) {
    if (!given.graph && !given.network)
      fail(Code::failed_precondition, "the saved model has neither layers nor a graph: there is nothing to run");
    if (!given.graph) build_graph(given, options.task ? options.task->ops() : options.reading.ops);
    if (given.signatures.empty())
      fail(Code::failed_precondition, "the graph of the saved model has no signatures: nothing says how to run it");
    assets = std::move(given.assets);
    metadata = std::move(given.metadata);
    signatures = std::move(given.signatures);
    graph = options.freeze ? freeze(*given.graph, given.values) : given.graph->clone();
    const VariableValues values(*graph, options.freeze ? Parameters{} : given.values);
    session.emplace(task, *graph, running);
    values.set(*session);
    for (const auto& [name, signature] : signatures) add_callable(name, signature);
  }

  void add_callable(const std::string& name, const ModelSignature& signature) {
    const auto tensors = [&](const Specs& specs) {
      Outputs out;
      for (const auto& [unused, spec] : specs) out.push_back(graph->output(spec.tensor));
      return out;
    };
    ModelCallable::State& made = callables.try_emplace(name, name, signature, *session).first->second;
    made.feeds = tensors(signature.inputs);
    made.fetches = tensors(signature.outputs);
  }

  // Throws not_found, naming the signatures there are.
  const ModelSignature& find(const std::string& signature) const {
    const auto found = signatures.find(signature);
    if (found != signatures.end()) return found->second;
    std::string names;
    for (const auto& [name, unused] : signatures) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
    fail(Code::not_found, "the model has no signature '{}'; it has {}", signature, names);
  }
  BatchFunction batch_function(const std::string& signature) const {
    if (!frozen)
      fail(Code::failed_precondition,
           "a model that is not frozen has its variables in one session: freeze it to "
           "predict on all devices of a cluster");
    return {.name = signature, .graph = *graph, .signature = find(signature), .session = running};
  }

  const std::unique_ptr<Task> own;  // null: a given one
  Task& task;
  const bool frozen;
  const SessionOptions running;
  std::map<std::string, std::string> assets, metadata;
  Signatures signatures;
  std::unique_ptr<Graph> graph;  // of the callables' tensors
  std::optional<Session> session;
  std::map<std::string, ModelCallable::State> callables;
};

LoadedModel::LoadedModel(SavedModel model, const LoadedModelOptions& options)
    : state_(std::make_shared<State>(std::move(model), options)) {}

const std::map<std::string, ModelSignature>& LoadedModel::signatures() const { return state_->signatures; }
const std::map<std::string, std::string>& LoadedModel::assets() const { return state_->assets; }
const std::map<std::string, std::string>& LoadedModel::metadata() const { return state_->metadata; }

ModelCallable LoadedModel::callable(const std::string& signature) const {
  static_cast<void>(state_->find(signature));
  ModelCallable out;
  out.state_ = std::shared_ptr<const ModelCallable::State>(state_, &state_->callables.at(signature));
  return out;
}

std::map<std::string, Tensor> LoadedModel::predict(const std::string& signature, const BatchSource& source,
                                                   const BatchInferenceOptions& options) const {
  return predict_all(state_->task, state_->batch_function(signature), source, options);
}

BatchInferenceProgress LoadedModel::predict(const std::string& signature, const BatchSource& source,
                                            const BatchInferenceOptions& options, const TakePredictions& take) const {
  return run_batches(state_->task, state_->batch_function(signature), source, options, take);
}

std::map<std::string, Tensor> LoadedModel::run(const std::string& signature,
                                               const std::map<std::string, Tensor>& inputs,
                                               const RunOptions& options) const {
  const ModelCallable call = callable(signature);
  std::vector<Tensor> results = call(call.ordered(inputs), options);
  std::map<std::string, Tensor> out;
  std::size_t i = 0;
  for (const auto& [name, unused] : call.signature().outputs) out.emplace(name, std::move(results[i++]));
  return out;
}

LoadedModel load_model(const std::string& directory, const LoadedModelOptions& options) {
  return LoadedModel(read_model(file_system_of(directory), directory, options.reading), options);
}

}  // namespace troupe
