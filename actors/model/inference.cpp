#include "troupe/actors/model/inference.hpp"

#include <algorithm>
#include <set>

#include <troupe/actors/model/joined_rows.hpp>

namespace troupe {
namespace {

// Numbers of the nodes that some outputs are made of.
std::set<int> nodes_behind(const Outputs& outputs) {
  std::set<int> out;
  std::vector<int> open;
  for (const Output& x : outputs) open.push_back(x.node);
  while (!open.empty()) {
    const int id = open.back();
    open.pop_back();
    if (!out.insert(id).second) continue;
    const Node& node = outputs.front().graph->node(id);
    for (const Endpoint& input : node.inputs) open.push_back(input.node);
    open.insert(open.end(), node.controls.begin(), node.controls.end());
  }
  return out;
}

TrainingGraph predicting_graph(const Graph& graph, const ModelSignature& signature, const BatchSchema& schema) {
  TrainingGraph out{.graph = graph.clone()};
  const auto output = [&](const std::string& name) {
    const Endpoint at = out.graph->endpoint(name);
    return out.graph->output(out.graph->node(at.node), at.index);
  };
  out.eval_batch.resize(schema.size());
  for (const auto& [name, spec] : signature.inputs) {
    const auto component = std::ranges::find(schema, name, &BatchComponent::name);
    if (component == schema.end())
      fail(Code::not_found, "input '{}' of the model has no component in batches of {}", name, to_string(schema));
    out.eval_batch[static_cast<std::size_t>(component - schema.begin())] = output(spec.tensor);
  }
  for (const auto& [name, spec] : signature.outputs) out.predictions[name] = output(spec.tensor);
  for (const VariableInfo& v : variables(*out.graph)) out.parameters.push_back(find_variable(*out.graph, v.name));
  return out;
}

}  // namespace

Inference::Inference(Task& task, const Program& program, const BatchSchema& schema)
    : task_(task), graph_(build_inference_graph(program, schema, &task.ops())), session_(task, *graph_.graph) {
  make_callables();
}

Inference::Inference(Task& task, const Graph& graph, const ModelSignature& signature, const BatchSchema& schema)
    : task_(task), graph_(predicting_graph(graph, signature, schema)), session_(task, *graph_.graph) {
  make_callables();
}

void Inference::make_callables() {
  Outputs variables, predictions;
  for (const VariableRef& v : graph_.parameters) variables.push_back(v.read());
  for (const auto& [name, prediction] : graph_.predictions) predictions.push_back(prediction);
  const std::set<int> needed = nodes_behind(predictions);
  Outputs inputs = variables;
  for (std::size_t i = 0; i < graph_.eval_batch.size(); ++i) {
    if (!graph_.eval_batch[i].valid() || !needed.contains(graph_.eval_batch[i].node)) continue;
    inputs.push_back(graph_.eval_batch[i]);
    fed_.push_back(i);
  }
  if (!predictions.empty()) predict_ = session_.callable(inputs, predictions);
  if (!graph_.eval_figures.valid()) return;
  Outputs all = variables;
  all.insert(all.end(), graph_.eval_batch.begin(), graph_.eval_batch.end());
  evaluate_ = session_.callable(all, {graph_.eval_figures});
}

ModelSignature Inference::signature(const BatchSchema& schema) const {
  ModelSignature out;
  const auto spec = [](const Output& x) {
    return ModelSignature::TensorSpec{.tensor = x.name(), .dtype = x.dtype(), .shape = x.shape()};
  };
  for (const std::size_t i : fed_) out.inputs.emplace(schema.at(i).name, spec(graph_.eval_batch[i]));
  for (const auto& [name, prediction] : graph_.predictions) out.outputs.emplace(name, spec(prediction));
  return out;
}

void Inference::for_each_batch(const Parameters& values, const BatchSource& source, std::int64_t batch,
                               const std::atomic<bool>* stop, const Use& use) const {
  for (const VariableRef& v : graph_.parameters)
    if (!values.contains(v.name))
      fail(Code::not_found,
           "the model has no value for '{}': after a job in a cluster, tables on demand or above 64 MiB stay on its ps "
           "tasks; load_values() reads those of a checkpoint",
           v.name);
  check_values(graph_.parameters, values, "the model", true);
  std::vector<Tensor> fed;
  for (const VariableRef& v : graph_.parameters) fed.push_back(values.at(v.name));
  const auto reader =
      source.open({.batch = batch, .shuffle = false, .last = LastStep::keep, .memory = task_.pinned_memory()});
  for (std::uint64_t step = 0;; ++step) {
    if (stop && *stop) fail(Code::cancelled, "ended after {} batches", step);
    const auto next = reader->read(0, step, 0);
    if (!next) return;
    use(fed, *next);
  }
}

NamedSums Inference::evaluate(const Parameters& values, const BatchSource& source, std::int64_t batch,
                              const std::atomic<bool>* stop) const {
  NamedSums sums;
  for_each_batch(values, source, batch, stop, [&](std::vector<Tensor> feeds, const Batch& examples) {
    feeds.insert(feeds.end(), examples.components.begin(), examples.components.end());
    add(sums, graph_.eval_layout.unpack(evaluate_(std::move(feeds))[0]));
  });
  return sums;
}

std::map<std::string, Tensor> Inference::predict(const Parameters& values, const BatchSource& source,
                                                 std::int64_t batch, const std::atomic<bool>* stop) const {
  std::vector<std::vector<Tensor>> parts(graph_.predictions.size());
  for_each_batch(values, source, batch, stop, [&](std::vector<Tensor> feeds, const Batch& examples) {
    for (const std::size_t i : fed_) feeds.push_back(examples.components[i]);
    std::vector<Tensor> results = predict_(std::move(feeds));
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].push_back(std::move(results[i]));
  });
  std::map<std::string, Tensor> out;
  std::size_t i = 0;
  for (const auto& [name, prediction] : graph_.predictions) {
    if (parts[i].empty()) invalid_argument("the source has no examples to predict from");
    out.emplace(name, joined_rows(name, parts[i++]));
  }
  return out;
}

void check_values(const std::vector<VariableRef>& variables, const Parameters& values, const std::string& where,
                  bool all) {
  std::size_t known = 0;
  for (const VariableRef& v : variables) {
    const auto it = values.find(v.name);
    if (it == values.end() && all) fail(Code::not_found, "'{}' has no value for '{}'", where, v.name);
    if (it == values.end()) continue;
    ++known;
    if (it->second.dtype() != v.dtype || !v.shape.compatible_with(it->second.shape()))
      invalid_argument("'{}': '{}' is {}{}, the model expects {}{}", where, v.name, name(it->second.dtype()),
                       it->second.shape().to_string(), name(v.dtype), v.shape.to_string());
  }
  if (known == values.size()) return;
  for (const auto& [name, value] : values)
    if (std::ranges::find(variables, name, &VariableRef::name) == variables.end())
      fail(Code::not_found, "the model has no variable '{}', of which '{}' has a value", name, where);
}

}  // namespace troupe
