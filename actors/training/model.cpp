#include "troupe/actors/training/model.hpp"

#include <algorithm>
#include <cmath>

#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/dataset_source.hpp>
#include <troupe/actors/training/job_settings.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/actors/training/training_report.hpp>
#include <troupe/graph/training/classifier.hpp>
#include <troupe/scheduler/training/job_members.hpp>

namespace troupe {
namespace {

// Continues the previous training if the settings are the same. Otherwise returns the differences.
std::string go_on(const TrainingPlan& plan, TrainingOptions& options) {
  TrainingState& state = plan.state;
  const std::string settings =
      fmt::format("{}mode={}\n",
                  settings_to_keep(job_settings(plan, static_cast<std::uint32_t>(options.slots),
                                                static_cast<std::uint32_t>(options.backups), 0, 0)),
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

// Examples for predict(): u8 as in a data set, or f32 as fit() makes them of u8.
void check_examples(const Tensor& examples, const Shape& input) {
  const Shape wanted = Shape{kUnknown}.concatenated(input);
  if (!examples.valid() || (examples.dtype() != DType::u8 && examples.dtype() != DType::f32) ||
      !wanted.compatible_with(examples.shape()))
    invalid_argument(
        "examples are {}, expected u8{} or f32{}",
        examples.valid() ? fmt::format("{}{}", name(examples.dtype()), examples.shape().to_string()) : "no tensor",
        wanted.to_string(), wanted.to_string());
  if (examples.dtype() == DType::u8) return;
  const auto values = examples.values<float>();
  const auto outside = std::ranges::find_if(values, [](float x) { return !(x >= 0 && x <= 1); });
  if (outside != values.end())
    invalid_argument(
        "examples contain {}, but the model expects values from 0 to 1: pass pixels as u8, or divide them by 255",
        *outside);
}

}  // namespace

class Model::Impl {
 public:
  Impl(Sequential model, Shape shape) : layers(std::move(model)), input(shape) {}

  Task& task() {
    if (given && given_alive.expired())
      fail(Code::failed_precondition, "the model's task has ended: compile the model for another task");
    if (given) return *given;
    if (!owned) owned = std::make_unique<Task>();
    return *owned;
  }

  Program program() const { return classifier(layers, optimizer); }
  std::string description() const {
    const DType precision = layers.compute() == DType::invalid ? DType::f32 : layers.compute();
    return fmt::format("precision={}\noptimizer={}", name(precision), describe(optimizer));
  }

  void read_state() {
    if (state.read) state.parameters = state.read();
    if (state.parameters.empty())
      fail(Code::failed_precondition, "the model has no parameters yet: call fit() or load()");
  }

  // The graphs and sessions of evaluate() and predict(), by the form of their batches: variables are fed, so that both
  // see `parameters`.
  struct Inference {
    TrainingGraph graph;
    std::unique_ptr<Session> session;
    Callable predict, evaluate;
  };
  Inference& inference(const BatchSchema& schema) {
    read_state();
    Inference& made = inferences[to_string(schema)];
    if (made.session) return made;
    made.graph = build_training_graph(program(), schema, {.ops = &task().ops()});
    made.session = std::make_unique<Session>(task(), *made.graph.graph);
    Outputs feeds;
    for (const VariableRef& v : made.graph.parameters) feeds.push_back(v.read());
    Outputs images = feeds;
    for (std::size_t i = 0; i < schema.size(); ++i)
      if (schema[i].name == "images") images.push_back(made.graph.eval_batch[i]);
    made.predict = made.session->callable(images, {made.graph.predictions.at("probabilities")});
    feeds.insert(feeds.end(), made.graph.eval_batch.begin(), made.graph.eval_batch.end());
    made.evaluate = made.session->callable(feeds, {made.graph.eval_figures});
    return made;
  }

  std::int64_t classes() {
    const auto summary = layers.summary(Shape{kUnknown}.concatenated(input), task().ops());
    if (summary.empty() || summary.back().output.rank() != 2)
      invalid_argument("a classifier must output one value per class, [?,classes], but this model outputs {}",
                       summary.empty() ? "its input" : summary.back().output.to_string());
    return summary.back().output[1];
  }

  std::vector<Tensor> values(const TrainingGraph& graph) const {
    std::vector<Tensor> out;
    for (const VariableRef& v : graph.parameters) out.push_back(state.parameters.at(v.name));
    return out;
  }

  Sequential layers;
  Shape input;
  Optimizer optimizer = optimizers::Adam{};
  std::optional<LossScaling> loss_scaling;
  double clip_norm = 0;
  Task* given = nullptr;
  std::weak_ptr<const void> given_alive;
  std::unique_ptr<Task> owned;
  bool compiled = false;
  TrainingState state;
  std::map<std::string, Inference> inferences;  // by schema
};

Model::Model(Sequential layers, Shape input) : impl_(std::make_unique<Impl>(std::move(layers), input)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

void Model::compile(Optimizer optimizer, const ModelOptions& options) {
  if (options.precision != DType::f32 && options.precision != DType::bf16 && options.precision != DType::f16)
    invalid_argument("precision must be f32, bf16 or f16, not {}", name(options.precision));
  if (!(std::isfinite(options.clip_norm) && options.clip_norm >= 0))
    invalid_argument("clip_norm must be finite and at least 0 (0: no clipping), not {}", options.clip_norm);
  impl_->inferences.clear();
  impl_->compiled = true;
  impl_->state.ended.reset();
  impl_->clip_norm = options.clip_norm;
  impl_->optimizer = std::move(optimizer);
  impl_->layers.set_compute(options.precision == DType::f32 ? DType::invalid : options.precision);
  impl_->loss_scaling.reset();
  if (options.precision == DType::f16) impl_->loss_scaling = options.loss_scaling;
}

void Model::compile(Optimizer optimizer, Task& task, const ModelOptions& options) {
  compile(std::move(optimizer), options);
  impl_->given = &task;
  impl_->given_alive = task.alive();
}

TrainingResult Model::fit(const BatchSource& train, const BatchSource* evaluation, const TrainingOptions& given) {
  if (!impl_->compiled)
    fail(Code::failed_precondition, "compile the model before fit(): model.compile(optimizers::Adam{{}})");
  if (impl_->state.read) fail(Code::failed_precondition, "fit() is already running: do not call it from its callbacks");
  impl_->classes();
  TrainingOptions options = given;
  const Program program = impl_->program();
  const TrainingPlan plan{.program = program,
                          .description = impl_->description(),
                          .train = train,
                          .evaluation = evaluation,
                          .loss_scaling = impl_->loss_scaling,
                          .clip_norm = impl_->clip_norm,
                          .options = options,
                          .state = impl_->state,
                          .task = impl_->task()};
  const std::string differences = go_on(plan, options);
  options = with_reports(options);
  if (!differences.empty())
    tell_warning(options, "begins_anew",
                 fmt::format("the optimizer restarts, but the parameters are kept: {}", differences));
  if (!evaluation) tell_warning(options, "no_test", "there is no evaluation data: the test accuracy is unknown");
  return options.mode == JobMode::local       ? train_locally(plan)
         : options.mode == JobMode::allreduce ? train_by_all_reduce(plan)
                                              : train_in_cluster(plan);
}

TrainingResult Model::fit(const DataSplits& data, const TrainingOptions& options) {
  if (!impl_->compiled)
    fail(Code::failed_precondition, "compile the model before fit(): model.compile(optimizers::Adam{{}})");
  const std::int64_t classes = impl_->classes();
  check_dataset(data.train, impl_->input, classes, "data.train");
  if (data.train.size() == 0) invalid_argument("data.train is empty");
  if (data.test.images.valid() || data.test.labels.valid())
    check_dataset(data.test, impl_->input, classes, "data.test");
  const TensorDataset train = source_of(data.train);
  if (data.test.size() == 0) return fit(train, nullptr, options);
  const TensorDataset test = source_of(data.test);
  return fit(train, &test, options);
}

Evaluation Model::evaluate(const BatchSource& test) {
  Impl::Inference& inference = impl_->inference(test.schema());
  const auto reader = test.open({.batch = TrainingOptions{}.evaluation_batch,
                                 .shuffle = false,
                                 .last = LastStep::keep,
                                 .memory = impl_->task().pinned_memory()});
  NamedSums sums;
  for (std::uint64_t step = 0;; ++step) {
    const auto batch = reader->read(0, step, 0);
    if (!batch) return {figures_of(sums, inference.graph.results)};
    std::vector<Tensor> feeds = impl_->values(inference.graph);
    feeds.insert(feeds.end(), batch->components.begin(), batch->components.end());
    add(sums, inference.graph.eval_layout.unpack(inference.evaluate(std::move(feeds))[0]));
  }
}

Evaluation Model::evaluate(const Dataset& test) {
  impl_->read_state();
  check_dataset(test, impl_->input, impl_->classes(), "the data set");
  if (test.size() == 0) invalid_argument("the data set is empty: nothing to evaluate");
  return evaluate(source_of(test));
}

Tensor Model::predict(const Tensor& examples) {
  impl_->read_state();
  check_examples(examples, impl_->input);
  Impl::Inference& inference = impl_->inference(classifier_schema(impl_->input, examples.dtype()));
  std::vector<Tensor> feeds = impl_->values(inference.graph);
  feeds.push_back(examples);
  return inference.predict(std::move(feeds))[0];
}

void Model::save(const std::string& path) {
  impl_->read_state();
  save_parameters(path, impl_->state.parameters);
}

void Model::load(const std::string& path) {
  if (impl_->state.read) fail(Code::failed_precondition, "fit() is running: load the model before or after it");
  Parameters loaded = load_parameters(path);
  const TrainingGraph expected =
      build_training_graph(impl_->program(), classifier_schema(impl_->input), {.ops = &impl_->task().ops()});
  for (const VariableRef& v : expected.parameters) {
    const auto it = loaded.find(v.name);
    if (it == loaded.end()) fail(Code::not_found, "'{}' has no value for '{}'", path, v.name);
    if (it->second.dtype() != v.dtype || !v.shape.compatible_with(it->second.shape()))
      invalid_argument("'{}': '{}' is {}{}, the model expects {}{}", path, v.name, name(it->second.dtype()),
                       it->second.shape().to_string(), name(v.dtype), v.shape.to_string());
  }
  if (loaded.size() != expected.parameters.size())
    invalid_argument("'{}' holds {} variables, the model has {}", path, loaded.size(), expected.parameters.size());
  impl_->state = {.parameters = std::move(loaded), .read = {}, .ended = {}, .settings = {}};
}

std::string Model::params_sha256() {
  impl_->read_state();
  return troupe::params_sha256(impl_->state.parameters);
}

std::string Model::summary() const {
  return impl_->layers.dump(Shape{kUnknown}.concatenated(impl_->input),
                            impl_->given ? impl_->given->ops() : standard_ops());
}

}  // namespace troupe
