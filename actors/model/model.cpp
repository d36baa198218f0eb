#include "troupe/actors/model/model.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include <troupe/actors/model/batch_run.hpp>
#include <troupe/actors/model/inference.hpp>
#include <troupe/actors/model/publication.hpp>
#include <troupe/actors/training/dataset_source.hpp>
#include <troupe/actors/training/job_settings.hpp>
#include <troupe/actors/training/parameter_hash.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/actors/training/training_report.hpp>
#include <troupe/graph/passes/freeze.hpp>
#include <troupe/scheduler/training/job_members.hpp>

namespace troupe {
namespace {

// Continues the previous training if the settings are the same. Otherwise returns the differences.
std::string go_on(const TrainingPlan& plan, TrainingOptions& options) {
  TrainingState& state = plan.state;
  const ModeFields mode = fields_of(options.mode);
  const std::string settings =
      fmt::format("{}mode={}\n",
                  settings_to_keep(job_settings(plan, static_cast<std::uint32_t>(mode.slots),
                                                static_cast<std::uint32_t>(mode.backups), 0, 0)),
                  name(options.mode));
  const std::string before = std::exchange(state.settings, settings);
  if (!state.ended) return "";
  if (before != settings) {
    state.ended.reset();
    return setting_differences(before, settings);
  }
  if (options.epochs > 0) options.epochs += static_cast<int>(state.ended->at.epoch);
  return "";
}

Network with_input(const Sequential& layers, const Shape& shape, DType dtype) {
  NetworkPlan plan = layers.network().plan();
  plan.inputs.at(0).shape = shape;
  plan.inputs.at(0).dtype = dtype;
  return Network(std::move(plan), "sequential");
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + word;
  return out;
}

}  // namespace

class Model::Impl {
 public:
  explicit Impl(Network of) : network(std::move(of)) {}
  Impl(Program of, BatchSchema batches) : own(std::move(of)), schema(std::move(batches)) { compiled = true; }
  explicit Impl(SavedModel saved);

  Task& task() {
    if (given && given_alive.expired())
      fail(Code::failed_precondition, "the model's task has ended: compile the model for another task");
    if (given) return *given;
    if (!owned) owned = std::make_unique<Task>();
    return *owned;
  }

  void compile(const ModelOptions& wanted);
  SavedModel saved(const SavedModel& more);
  // Tells how it went, in `result` and as an event.
  void publish(const TrainingOptions& options, const std::vector<PublishGate>& gates, TrainingResult& result);

  // The program of training and evaluation.
  Program program() const {
    if (own) return own;
    return network_program(
        {.network = *network, .outputs = options.outputs, .train = options.train, .optimizer = options.optimizer});
  }

  // What distinguishes this training from others, for the settings of its job.
  std::string description() {
    const std::string precision =
        fmt::format("precision={}\n", name(options.precision == DType::invalid ? DType::f32 : options.precision));
    if (own) {
      std::string text = precision;
      const TrainingGraph graph = build_training_graph(own, schema, {.ops = &task().ops()});
      for (std::size_t i = 0; i < graph.optimizers.size(); ++i)
        text += fmt::format("optimizer{}={}\n", i == 0 ? "" : std::to_string(i + 1), to_string(graph.optimizers[i]));
      text.pop_back();
      return text;
    }
    std::string losses;
    for (const OutputTraining& o : options.outputs)
      if (o.loss) losses += fmt::format("{}{} {}", losses.empty() ? "" : ", ", o.loss.name(), o.weight);
    return fmt::format("{}optimizer={}\nlosses={}\ntrain={}", precision, to_string(options.optimizer), losses,
                       joined(options.train));
  }

  // Names the only input after the component that it takes; one of any dtype and shape gets those, too.
  void bind(const BatchSchema& batches) {
    if (schema.empty()) schema = batches;
    if (!network) return;
    const std::vector<std::string> names = input_components(*network, options.outputs, batches);
    NetworkPlan plan = network->plan();
    if (plan.inputs.size() != 1) return;
    InputSpec& input = plan.inputs[0];
    const BatchComponent& component = *std::ranges::find(batches, names[0], &BatchComponent::name);
    if (input.name == component.name && input.dtype == component.dtype) return;
    input.name = component.name;
    if (input.dtype == DType::invalid) input.shape = component.shape;
    input.dtype = component.dtype;
    network = Network(std::move(plan), network->layer()->kind());
    inferences.clear();
  }

  void read_state() {
    if (state.read) state.parameters = state.read();
    if (state.parameters.empty() && !without_parameters)
      fail(Code::failed_precondition, "the model has no parameters yet: call fit() or load()");
  }

  // Made when first used. `of`: program() or network_predictions().
  const Inference& inference(const std::string& kind, const Program& of, const BatchSchema& batches) {
    std::unique_ptr<Inference>& made = inferences[fmt::format("{}\n{}", kind, to_string(batches))];
    if (!made) made = std::make_unique<Inference>(task(), of, batches);
    return *made;
  }
  const Inference& evaluation(const BatchSchema& batches) {
    require_compiled("evaluate()");
    return inference("evaluate", program(), batches);
  }
  const Inference& prediction(const BatchSchema& batches) {
    if (loaded) {
      std::unique_ptr<Inference>& made = inferences[to_string(batches)];
      if (!made) made = std::make_unique<Inference>(task(), *loaded, signature, batches);
      return *made;
    }
    return own ? evaluation(batches) : inference("predict", network_predictions(*network), batches);
  }

  void require_compiled(const char* what) const {
    if (!compiled)
      fail(Code::failed_precondition,
           "compile the model before {}: model.compile({{.optimizer = optimizers::Adam{{}}, .loss = "
           "Loss::mean_squared_error}})",
           what);
  }

  const InputSpec& only_input() const {
    if (!network || network->plan().inputs.size() != 1)
      invalid_argument("the model has not one input: give it a BatchSource with a component for each");
    return network->plan().inputs[0];
  }

  // The schema of batches that predict() takes, for a model that has seen none.
  BatchSchema input_schema() const {
    if (!network) return schema;
    BatchSchema out;
    for (const InputSpec& input : network->plan().inputs) {
      if (input.dtype == DType::invalid)
        fail(Code::failed_precondition, "the model does not know the dtype and shape of its input yet: call fit()");
      out.push_back({.name = input.name, .dtype = input.dtype, .shape = input.shape});
    }
    return out;
  }

  // Of an output [n,classes].
  std::int64_t classes() {
    const auto summary = network->summary(task().ops());
    if (network->plan().results.size() != 1 || summary.empty() || summary.back().output.rank() != 2)
      invalid_argument("a classifier must output one value per class, [?,classes], but this model outputs {}",
                       summary.empty() ? "its input" : summary.back().output.to_string());
    return summary.back().output[1];
  }

  std::optional<Network> network;  // none: a program of its own, or a loaded one
  Program own;
  std::shared_ptr<const Graph> loaded;  // of a loaded program, which only predicts
  ModelSignature signature;             // of `loaded`
  BatchSchema schema;                   // of training; empty: not known yet
  ModelOptions options;
  std::optional<LossScaling> loss_scaling;
  Task* given = nullptr;
  std::weak_ptr<const void> given_alive;
  std::unique_ptr<Task> owned;
  bool compiled = false;
  bool without_parameters = false;  // it needs none
  bool continues = false;           // a loaded state goes on when it is compiled
  TrainingState state;
  std::map<std::string, std::unique_ptr<Inference>> inferences;  // by use and schema
};

void Model::Impl::compile(const ModelOptions& wanted) {
  if (wanted.precision != DType::f32 && wanted.precision != DType::bf16 && wanted.precision != DType::f16)
    invalid_argument("precision must be f32, bf16 or f16, not {}", name(wanted.precision));
  if (const std::string problem = wanted.clipping.problem(); !problem.empty())
    invalid_argument("clipping: {}", problem);
  const bool of_network = wanted.loss || !wanted.metrics.empty() || !wanted.outputs.empty();
  if (own && (of_network || wanted.precision != DType::f32))
    invalid_argument("a program has losses, metrics and precisions of its own: compile() takes none for it");
  if (!wanted.outputs.empty() && (wanted.loss || !wanted.metrics.empty()))
    invalid_argument("ModelOptions: loss and metrics are short for outputs: set one or the other");
  options = wanted;
  if (options.outputs.empty()) options.outputs = {{.loss = wanted.loss, .metrics = wanted.metrics}};
  inferences.clear();
  compiled = true;
  if (!std::exchange(continues, false)) state.ended.reset();
  if (network) network->set_compute(options.precision == DType::f32 ? DType::invalid : options.precision);
  loss_scaling.reset();
  if (options.precision == DType::f16) loss_scaling = options.loss_scaling;
}

// The name of the only signature that a model is saved with.
constexpr const char* kPredict = "predict";

Model::Impl::Impl(SavedModel saved) : network(std::move(saved.network)) {
  if (!network) {
    const auto found = saved.signatures.find(kPredict);
    if (!saved.graph || found == saved.signatures.end())
      fail(Code::failed_precondition, "the saved model has neither layers nor a graph with the signature '{}'",
           kPredict);
    loaded = saved.graph;
    signature = found->second;
    for (const auto& [name, spec] : signature.inputs)
      schema.push_back({.name = name, .dtype = spec.dtype, .shape = spec.shape.sub(1, spec.shape.rank())});
  }
  state.parameters = std::move(saved.values);
  if (saved.position.empty() || saved.optimizer.empty()) return;
  state.ended = {.at = JobState::parse(saved.position), .variables = std::move(saved.optimizer), .shard = nullptr};
  for (const auto& [name, value] : state.parameters) state.ended->variables.emplace(name, value);
  state.settings = std::move(saved.settings);
  continues = true;
}

SavedModel Model::Impl::saved(const SavedModel& more) {
  SavedModel out = more;
  const BatchSchema batches = input_schema();
  const Inference& predicts = prediction(batches);
  out.network = network;
  out.graph = predicts.graph().clone();
  out.signatures.emplace(kPredict, predicts.signature(batches));
  out.values = state.parameters;
  if (network && compiled) out.compiled["optimizer"] = to_string(options.optimizer);
  if (!state.ended || state.read || state.ended->variables.empty()) return out;
  for (const auto& [name, value] : state.ended->variables)
    if (!out.values.contains(name)) out.optimizer.emplace(name, value);
  out.position = state.ended->at.to_string();
  out.settings = state.settings;
  return out;
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Network network) : impl_(std::make_unique<Impl>(std::move(network))) {}
Model::Model(Sequential layers, const Shape& input, DType dtype) : Model(with_input(layers, input, dtype)) {}
Model::Model(Program program, BatchSchema schema)
    : impl_(std::make_unique<Impl>(std::move(program), std::move(schema))) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

void Model::compile(const ModelOptions& options) { impl_->compile(options); }

void Model::compile(const ModelOptions& options, Task& task) {
  impl_->compile(options);
  impl_->given = &task;
  impl_->given_alive = task.alive();
}

namespace {

// The published version with these parameters.
std::optional<std::int64_t> published_with(FileSystem& files, const std::string& directory, const std::string& sha256) {
  const auto publication = read_publication(files, directory);
  if (!publication) return std::nullopt;
  for (const auto& [label, version] : labels_of(*publication)) {
    const std::string path = join_path(directory, std::to_string(version));
    if (is_saved_model(files, path) && saved_model_info(files, path).params_sha256 == sha256) return version;
  }
  return std::nullopt;
}

}  // namespace

void Model::Impl::publish(const TrainingOptions& options, const std::vector<PublishGate>& gates,
                          TrainingResult& result) {
  FileSystem& files = file_system_of(options.publish);
  try {
    if (const auto same = published_with(files, options.publish, result.params_sha256)) {
      result.published = *same;
      return tell_warning(options, "published",
                          fmt::format("{} has these parameters already, as version {}", options.publish, *same));
    }
    read_state();
    const SavedModel model = saved({});
    PublishOptions publishing{.gates = gates, .model = &model};
    publishing.figures.insert(result.figures.begin(), result.figures.end());
    result.published = publish_version(files, options.publish, publishing, [&](const std::string& path) {
                         save_model(files, path, model);
                       }).version;
    tell_warning(options, "published", fmt::format("the model is version {} of {}", result.published, options.publish));
  } catch (...) {  // the training is not lost for it
    result.not_published = current_error();
    tell_warning(options, "not_published",
                 fmt::format("the model is not published: {}", result.not_published.message()));
  }
}

TrainingResult Model::fit(const BatchSource& train, const BatchSource* evaluation, const TrainingOptions& given) {
  impl_->require_compiled("fit()");
  if (impl_->state.read) fail(Code::failed_precondition, "fit() is already running: do not call it from its callbacks");
  impl_->bind(train.schema());
  TrainingOptions options = given;
  const Program program = impl_->program();
  const TrainingPlan plan{.program = program,
                          .description = impl_->description(),
                          .train = train,
                          .evaluation = evaluation,
                          .loss_scaling = impl_->loss_scaling,
                          .clipping = impl_->options.clipping,
                          .options = options,
                          .state = impl_->state,
                          .task = impl_->task()};
  const std::string differences = go_on(plan, options);
  options = with_reports(options);
  if (!differences.empty())
    tell_warning(options, "begins_anew",
                 fmt::format("the optimizer restarts, but the parameters are kept: {}", differences));
  if (!evaluation) tell_warning(options, "no_test", "there is no evaluation data: the figures of new data are unknown");
  std::vector<PublishGate> gates;  // checked before a long training
  for (const std::string& gate : options.publish_gates) gates.push_back(PublishGate::parse(gate));
  if (!options.publish.empty()) make_directories(file_system_of(options.publish), options.publish);
  TrainingResult result = troupe::train(plan);
  if (!options.publish.empty() && result.chief) impl_->publish(options, gates, result);
  return result;
}

TrainingResult Model::fit(const DataSplits& data, const TrainingOptions& options) {
  impl_->require_compiled("fit()");
  const Shape input = impl_->only_input().shape;
  const std::int64_t classes = impl_->classes();
  check_dataset(data.train, input, classes, "data.train");
  if (data.train.size() == 0) invalid_argument("data.train is empty");
  if (data.test.images.valid() || data.test.labels.valid()) check_dataset(data.test, input, classes, "data.test");
  const TensorDataset train = source_of(data.train);
  if (data.test.size() == 0) return fit(train, nullptr, options);
  const TensorDataset test = source_of(data.test);
  return fit(train, &test, options);
}

Evaluation Model::evaluate(const BatchSource& test, std::int64_t batch, const std::atomic<bool>* stop) {
  impl_->read_state();
  const Inference& inference = impl_->evaluation(test.schema());
  const NamedSums sums = inference.evaluate(impl_->state.parameters, test, batch, stop);
  return {figures_of(sums, inference.results()), tensors_of(sums, inference.results())};
}

Evaluation Model::evaluate(const Dataset& test) {
  impl_->read_state();
  check_dataset(test, impl_->only_input().shape, impl_->classes(), "the data set");
  if (test.size() == 0) invalid_argument("the data set is empty: nothing to evaluate");
  return evaluate(source_of(test));
}

std::map<std::string, Tensor> Model::predict(const BatchSource& source, std::int64_t batch,
                                             const std::atomic<bool>* stop) {
  impl_->read_state();
  return impl_->prediction(source.schema()).predict(impl_->state.parameters, source, batch, stop);
}

std::map<std::string, Tensor> Model::predict(const BatchSource& source, const BatchInferenceOptions& options) {
  impl_->read_state();
  const Inference& inference = impl_->prediction(source.schema());
  const ModelSignature signature = inference.signature(source.schema());
  const std::unique_ptr<Graph> frozen = freeze(inference.graph(), impl_->state.parameters);
  return predict_all(impl_->task(), {.name = kPredict, .graph = *frozen, .signature = signature}, source, options);
}

Tensor Model::predict(const Tensor& examples) {
  impl_->read_state();
  const InputSpec& input = impl_->only_input();
  auto predictions = predict(TensorDataset({{input.name, examples}}), TrainingOptions{}.evaluation_batch);
  if (predictions.size() != 1) invalid_argument("the model has several outputs: give predict() a BatchSource");
  return std::move(predictions.begin()->second);
}

void Model::save(const std::string& directory, const SavedModel& more) {
  impl_->read_state();
  save_model(file_system_of(directory), directory, impl_->saved(more));
}

Model Model::load(const std::string& directory, const LoadModelOptions& options) {
  return Model(std::make_unique<Impl>(read_model(file_system_of(directory), directory, options)));
}

void Model::load_values(const std::string& path, const ValueChoice& choice) {
  if (impl_->state.read) fail(Code::failed_precondition, "fit() is running: load values before or after it");
  const Parameters loaded = troupe::load_values(file_system_of(path), path, choice);
  check_values(impl_->prediction(impl_->input_schema()).variables(), loaded, path, false);
  for (const auto& [name, value] : loaded) {
    impl_->state.parameters[name] = value;
    std::erase(impl_->state.on_shards, name);
  }
  impl_->state.ended.reset();
}

Parameters Model::parameters() {
  impl_->read_state();
  return impl_->state.parameters;
}

void Model::set_parameters(const Parameters& values) {
  TrainingState& state = impl_->state;
  if (state.read) fail(Code::failed_precondition, "fit() is running: set values before or after it");
  if (state.parameters.empty()) {
    check_values(impl_->prediction(impl_->input_schema()).variables(), values, "set_parameters()", true);
    state.parameters = values;
    impl_->without_parameters = values.empty();
  } else {
    replace_values(state.parameters, values, "set_parameters()");
  }
  if (!state.ended) return;
  for (const auto& [name, value] : values)
    if (const auto known = state.ended->variables.find(name); known != state.ended->variables.end())
      known->second = value;
}

std::string Model::params_sha256() {
  const TrainingState& state = impl_->state;
  if (!state.on_shards.empty())
    fail(Code::failed_precondition,
         "the model's tables {} stay on the parameter servers: TrainingResult::params_sha256 is the hash with them",
         fmt::join(state.on_shards, ", "));
  impl_->read_state();
  return troupe::params_sha256(state.parameters, state.draws);
}

std::string Model::summary() const {
  if (!impl_->network) fail(Code::failed_precondition, "a program has no layers to list");
  return impl_->network->dump(impl_->given ? impl_->given->ops() : standard_ops());
}

}  // namespace troupe
