#include "troupe/graph/builder/functions.hpp"

#include <utility>

namespace troupe {
namespace {

thread_local Graph* being_built = nullptr;

bool is_around(const Graph* outer, const Graph* inner) {
  while (inner && inner != outer) inner = inner->around();
  return inner != nullptr;
}

}  // namespace

FunctionBuilder::FunctionBuilder(Graph& outer, std::string name)
    : outer_(outer),
      built_before_(being_built),
      body_(std::make_shared<Graph>(outer.ops())),
      scope_(body_->scope(name)),
      function_{.name = std::move(name)} {
  body_->set_around(&outer, [this](const Output& output) { return bring_in(output); });
  being_built = body_.get();
}

FunctionBuilder::~FunctionBuilder() {
  if (being_built == body_.get()) being_built = built_before_;
  body_->set_around(nullptr, nullptr);
}

Output FunctionBuilder::argument(DType dtype, const Shape& shape) { return add_argument(dtype, shape); }

Output FunctionBuilder::add_argument(DType dtype, const Shape& shape) {
  const auto index = std::ssize(function_.arguments);
  const Node& arg = body_->add({.op = "Arg",
                                .name = "arg_" + std::to_string(index),
                                .attributes = {{"T", dtype}, {"index", std::int64_t{index}}, {"shape", shape}}});
  function_.arguments.push_back({arg.id, 0});
  return body_->output(arg);
}

Output FunctionBuilder::bring_in(const Output& outer) {
  const auto [at, fresh] = brought_in_.try_emplace({outer.node, outer.index});
  if (!fresh) return at->second;
  const Node& source = outer.source();
  if (source.op->role == OpRole::constant) return at->second = constant(*body_, source.attributes.tensor("value"));
  captures_.push_back(outer);
  return at->second = add_argument(outer.dtype(), outer.shape());
}

Function FunctionBuilder::finish(const Outputs& results) {
  for (const Output& given : results) {
    const Output result = body_->brought_in(given);
    function_.results.push_back({result.node, result.index});
  }
  body_->set_around(nullptr, nullptr);
  being_built = built_before_;
  function_.body = body_;
  return std::move(function_);
}

Graph& graph_for(const Outputs& inputs) {
  Graph* graph = inputs.front().graph;
  for (const Output& input : inputs)
    if (input.valid() && input.graph != graph && is_around(graph, input.graph)) graph = input.graph;
  return being_built && is_around(graph, being_built) ? *being_built : *graph;
}

}  // namespace troupe
