#include "actors/training/model.hpp"

#include <cmath>

#include "actors/session/session.hpp"
#include "actors/training/training_plan.hpp"

namespace troupe {

class Model::Impl {
 public:
  Impl(Sequential model, Shape shape) : layers(std::move(model)), input(shape) {}

  Task& task() {
    if (given) return *given;
    if (!owned) owned = std::make_unique<Task>();
    return *owned;
  }

  // The graph and session of evaluate() and predict(): variables are fed, so that both see `parameters`.
  void prepare() {
    if (parameters.empty()) fail(Code::failed_precondition, "the model has no values yet: fit it, or load them");
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

  std::vector<Tensor> values() const {
    std::vector<Tensor> out;
    for (const VariableRef& v : graph.parameters) out.push_back(parameters.at(v.name));
    return out;
  }

  Sequential layers;
  Shape input;
  Optimizer optimizer = optimizers::Adam{};
  std::optional<LossScaling> loss_scaling;
  double clip_norm = 0;
  Task* given = nullptr;
  std::unique_ptr<Task> owned;
  Parameters parameters;
  TrainingGraph graph;
  std::unique_ptr<Session> session;
  Callable predict;
  Callable evaluate;
};

Model::Model(Sequential layers, Shape input) : impl_(std::make_unique<Impl>(std::move(layers), input)) {}
Model::~Model() = default;

void Model::compile(Optimizer optimizer, const ModelOptions& options) {
  if (options.precision != DType::f32 && options.precision != DType::bf16 && options.precision != DType::f16)
    invalid_argument("a model computes in f32, bf16 or f16, not in {}", name(options.precision));
  if (!(std::isfinite(options.clip_norm) && options.clip_norm >= 0))
    invalid_argument("gradients are clipped to a norm above 0, or not (0), not to {}", options.clip_norm);
  impl_->session = nullptr;
  impl_->clip_norm = options.clip_norm;
  impl_->optimizer = std::move(optimizer);
  impl_->layers.set_compute(options.precision == DType::f32 ? DType::invalid : options.precision);
  impl_->loss_scaling.reset();
  if (options.precision == DType::f16) impl_->loss_scaling = options.loss_scaling;
}

void Model::compile(Optimizer optimizer, Task& task, const ModelOptions& options) {
  compile(std::move(optimizer), options);
  impl_->given = &task;
}

TrainingResult Model::fit(const DataSplits& data, const TrainingOptions& options) {
  const TrainingPlan plan{.layers = impl_->layers,
                          .input = impl_->input,
                          .optimizer = impl_->optimizer,
                          .loss_scaling = impl_->loss_scaling,
                          .clip_norm = impl_->clip_norm,
                          .data = data,
                          .options = options,
                          .start = impl_->parameters,
                          .task = impl_->task()};
  Trained trained = options.mode == JobMode::local       ? train_locally(plan)
                    : options.mode == JobMode::allreduce ? train_by_all_reduce(plan)
                                                         : train_in_cluster(plan);
  if (!trained.parameters.empty()) impl_->parameters = std::move(trained.parameters);
  return trained.result;
}

Evaluation Model::evaluate(const Dataset& test) {
  impl_->prepare();
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
  const auto n = static_cast<double>(std::max<std::int64_t>(test.size(), 1));
  return {loss / n, static_cast<double>(correct) / n};
}

Tensor Model::predict(const Tensor& examples) {
  impl_->prepare();
  std::vector<Tensor> feeds = impl_->values();
  feeds.push_back(examples);
  return impl_->predict(std::move(feeds))[0];
}

void Model::save(const std::string& path) {
  impl_->prepare();
  save_parameters(path, impl_->parameters);
}

void Model::load(const std::string& path) {
  Parameters loaded = load_parameters(path);
  const TrainingGraph expected = build_training_graph(impl_->layers, impl_->input, Loss::sparse_softmax_cross_entropy,
                                                      impl_->optimizer, {.ops = &impl_->task().ops()});
  for (const VariableRef& v : expected.parameters) {
    const auto it = loaded.find(v.name);
    if (it == loaded.end()) fail(Code::not_found, "'{}' has no value for '{}'", path, v.name);
    if (it->second.dtype() != v.dtype || !v.shape.compatible_with(it->second.shape()))
      invalid_argument("'{}': '{}' is {}{}, the model wants {}{}", path, v.name, name(it->second.dtype()),
                       it->second.shape().to_string(), name(v.dtype), v.shape.to_string());
  }
  if (loaded.size() != expected.parameters.size())
    invalid_argument("'{}' holds {} variables, the model has {}", path, loaded.size(), expected.parameters.size());
  impl_->parameters = std::move(loaded);
}

std::string Model::params_sha256() {
  impl_->prepare();
  return troupe::params_sha256(impl_->parameters);
}

std::string Model::summary() const {
  return impl_->layers.dump(Shape{kUnknown}.concatenated(impl_->input),
                            impl_->given ? impl_->given->ops() : standard_ops());
}

}  // namespace troupe
