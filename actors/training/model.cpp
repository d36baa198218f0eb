#include "troupe/actors/training/model.hpp"

#include <algorithm>
#include <cmath>

#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/job_settings.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/actors/training/training_report.hpp>
#include <troupe/scheduler/training/coordinator.hpp>

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

// Scales examples as fit() does.
Tensor as_fitted(const Tensor& examples, const Shape& input) {
  const Shape wanted = Shape{kUnknown}.concatenated(input);
  if (!examples.valid() || (examples.dtype() != DType::u8 && examples.dtype() != DType::f32) ||
      !wanted.compatible_with(examples.shape()))
    invalid_argument(
        "examples are {}, expected u8{} or f32{}",
        examples.valid() ? fmt::format("{}{}", name(examples.dtype()), examples.shape().to_string()) : "no tensor",
        wanted.to_string(), wanted.to_string());
  if (examples.dtype() == DType::u8) return scaled(examples);
  const auto values = examples.values<float>();
  const auto outside = std::ranges::find_if(values, [](float x) { return !(x >= 0 && x <= 1); });
  if (outside != values.end())
    invalid_argument(
        "examples contain {}, but the model expects values from 0 to 1: pass pixels as u8, or divide them by 255",
        *outside);
  return examples;
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

  // The graph and session of evaluate() and predict(): variables are fed, so that both see `parameters`.
  void prepare() {
    if (state.read) state.parameters = state.read();
    if (state.parameters.empty())
      fail(Code::failed_precondition, "the model has no parameters yet: call fit() or load()");
    task();
    if (session) return;
    graph = build_training_graph(layers, input, Loss::sparse_softmax_cross_entropy, optimizer, {.ops = &task().ops()});
    session = std::make_unique<Session>(task(), *graph.graph);
    Outputs reads;
    for (const VariableRef& v : graph.parameters) reads.push_back(v.read());
    Outputs feeds = reads;
    feeds.push_back(graph.eval_images);
    predict = session->callable(feeds, {graph.predictions});
    feeds.push_back(graph.eval_labels);
    evaluate = session->callable(feeds, {graph.eval_loss_sum, graph.eval_correct});
  }

  std::int64_t classes() {
    const auto summary = layers.summary(Shape{kUnknown}.concatenated(input), task().ops());
    if (summary.empty() || summary.back().output.rank() != 2)
      invalid_argument("a classifier must output one value per class, [?,classes], but this model outputs {}",
                       summary.empty() ? "its input" : summary.back().output.to_string());
    return summary.back().output[1];
  }

  std::vector<Tensor> values() const {
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
  TrainingGraph graph;
  std::unique_ptr<Session> session;
  Callable predict;
  Callable evaluate;
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
  impl_->session = nullptr;
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

TrainingResult Model::fit(const DataSplits& data, const TrainingOptions& given) {
  if (!impl_->compiled)
    fail(Code::failed_precondition, "compile the model before fit(): model.compile(optimizers::Adam{{}})");
  if (impl_->state.read) fail(Code::failed_precondition, "fit() is already running: do not call it from its callbacks");
  const std::int64_t classes = impl_->classes();
  check_dataset(data.train, impl_->input, classes, "data.train");
  if (data.test.images.valid() || data.test.labels.valid())
    check_dataset(data.test, impl_->input, classes, "data.test");
  TrainingOptions options = given;
  const TrainingPlan plan{.layers = impl_->layers,
                          .input = impl_->input,
                          .optimizer = impl_->optimizer,
                          .loss_scaling = impl_->loss_scaling,
                          .clip_norm = impl_->clip_norm,
                          .data = data,
                          .options = options,
                          .state = impl_->state,
                          .task = impl_->task()};
  const std::string differences = go_on(plan, options);
  options = with_reports(options);
  if (!differences.empty())
    tell_warning(options, "begins_anew",
                 fmt::format("the optimizer restarts, but the parameters are kept: {}", differences));
  if (data.test.size() == 0) tell_warning(options, "no_test", "data.test is empty: the test accuracy is unknown");
  return options.mode == JobMode::local       ? train_locally(plan)
         : options.mode == JobMode::allreduce ? train_by_all_reduce(plan)
                                              : train_in_cluster(plan);
}

Evaluation Model::evaluate(const Dataset& test) {
  impl_->prepare();
  check_dataset(test, impl_->input, impl_->classes(), "the data set");
  if (test.size() == 0) invalid_argument("the data set is empty: nothing to evaluate");
  double loss = 0;
  std::int64_t correct = 0;
  Batch batch{.images = {}, .labels = {}, .memory = impl_->task().pinned_memory()};
  for (std::int64_t begin = 0; begin < test.size(); begin += kEvaluationChunk) {
    gather_range(test, begin, std::min(test.size(), begin + kEvaluationChunk), batch);
    std::vector<Tensor> feeds = impl_->values();
    feeds.push_back(batch.images);
    feeds.push_back(batch.labels);
    const auto figures = impl_->evaluate(std::move(feeds));
    loss += figures[0].item<float>();
    correct += figures[1].item<std::int64_t>();
  }
  const auto n = static_cast<double>(test.size());
  return {loss / n, static_cast<double>(correct) / n};
}

Tensor Model::predict(const Tensor& examples) {
  impl_->prepare();
  std::vector<Tensor> feeds = impl_->values();
  feeds.push_back(as_fitted(examples, impl_->input));
  return impl_->predict(std::move(feeds))[0];
}

void Model::save(const std::string& path) {
  impl_->prepare();
  save_parameters(path, impl_->state.parameters);
}

void Model::load(const std::string& path) {
  if (impl_->state.read) fail(Code::failed_precondition, "fit() is running: load the model before or after it");
  Parameters loaded = load_parameters(path);
  const TrainingGraph expected = build_training_graph(impl_->layers, impl_->input, Loss::sparse_softmax_cross_entropy,
                                                      impl_->optimizer, {.ops = &impl_->task().ops()});
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
  impl_->prepare();
  return troupe::params_sha256(impl_->state.parameters);
}

std::string Model::summary() const {
  return impl_->layers.dump(Shape{kUnknown}.concatenated(impl_->input),
                            impl_->given ? impl_->given->ops() : standard_ops());
}

}  // namespace troupe
