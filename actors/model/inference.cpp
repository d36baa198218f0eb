#include "troupe/actors/model/inference.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

// Tensors [n_i,...] one after the other.
Tensor joined_rows(const std::string& name, const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts.front();
  std::int64_t rows = 0;
  Shape shape = parts.front().shape();
  for (const Tensor& part : parts) {
    if (part.shape().rank() < 1 || part.shape().rank() != shape.rank() ||
        part.shape().sub(1, shape.rank()) != shape.sub(1, shape.rank()))
      invalid_argument("prediction '{}' has the shapes {} and {} in two batches: their rows cannot be joined", name,
                       parts.front().shape().to_string(), part.shape().to_string());
    rows += part.shape()[0];
  }
  shape.set_dim(0, rows);
  Tensor out(parts.front().dtype(), shape);
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    if (part.num_elements() == 0) continue;
    if (part.dtype() == DType::string)
      std::ranges::copy(part.values<std::string>(), out.mutable_data<std::string>() + at);
    else
      std::memcpy(out.mutable_raw() + static_cast<std::size_t>(at) * size_of(part.dtype()), part.raw(),
                  part.num_bytes());
    at += part.num_elements();
  }
  return out;
}

}  // namespace

Inference::Inference(Task& task, const Program& program, const BatchSchema& schema)
    : task_(task), graph_(build_inference_graph(program, schema, &task.ops())), session_(task, *graph_.graph) {
  Outputs feeds;
  for (const VariableRef& v : graph_.parameters) feeds.push_back(v.read());
  feeds.insert(feeds.end(), graph_.eval_batch.begin(), graph_.eval_batch.end());
  Outputs predictions;
  for (const auto& [name, prediction] : graph_.predictions) predictions.push_back(prediction);
  evaluate_ = session_.callable(feeds, {graph_.eval_figures});
  predict_ = session_.callable(feeds, predictions);
}

void Inference::for_each_batch(const Parameters& values, const BatchSource& source, std::int64_t batch,
                               const Use& use) const {
  const auto reader =
      source.open({.batch = batch, .shuffle = false, .last = LastStep::keep, .memory = task_.pinned_memory()});
  for (std::uint64_t step = 0;; ++step) {
    const auto next = reader->read(0, step, 0);
    if (!next) return;
    std::vector<Tensor> feeds;
    for (const VariableRef& v : graph_.parameters) feeds.push_back(values.at(v.name));
    feeds.insert(feeds.end(), next->components.begin(), next->components.end());
    use(std::move(feeds));
  }
}

NamedSums Inference::evaluate(const Parameters& values, const BatchSource& source, std::int64_t batch) const {
  NamedSums sums;
  for_each_batch(values, source, batch, [&](std::vector<Tensor> feeds) {
    add(sums, graph_.eval_layout.unpack(evaluate_(std::move(feeds))[0]));
  });
  return sums;
}

std::map<std::string, Tensor> Inference::predict(const Parameters& values, const BatchSource& source,
                                                 std::int64_t batch) const {
  std::vector<std::vector<Tensor>> parts(graph_.predictions.size());
  for_each_batch(values, source, batch, [&](std::vector<Tensor> feeds) {
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

void check_values(const std::vector<VariableRef>& variables, const Parameters& values, const std::string& where) {
  for (const VariableRef& v : variables) {
    const auto it = values.find(v.name);
    if (it == values.end()) fail(Code::not_found, "'{}' has no value for '{}'", where, v.name);
    if (it->second.dtype() != v.dtype || !v.shape.compatible_with(it->second.shape()))
      invalid_argument("'{}': '{}' is {}{}, the model expects {}{}", where, v.name, name(it->second.dtype()),
                       it->second.shape().to_string(), name(v.dtype), v.shape.to_string());
  }
  if (values.size() != variables.size())
    invalid_argument("'{}' holds {} variables, the model has {}", where, values.size(), variables.size());
}

}  // namespace troupe
