#include "troupe/actors/eager/resource_steps.hpp"

#include <optional>
#include <utility>

#include <troupe/actors/eager/traced_call.hpp>
#include <troupe/graph/builder/core.hpp>

namespace troupe {
namespace {

// Of calls that differ in values and shapes only.
std::string kind_of(const NodeSpec& call) {
  std::string kind = call.op;
  for (const auto& [name, value] : call.attributes.all()) kind += fmt::format(" {}={}", name, to_string(value));
  for (std::size_t i = 1; i < call.inputs.size(); ++i) kind += fmt::format(" {}", name(call.inputs[i].dtype()));
  return kind;
}

}  // namespace

struct ResourceSteps::Step {
  Step(Eager& eager, const Node& resource, const std::shared_ptr<Variable>& value, const NodeSpec& of)
      : graph(eager.graph().ops()) {
    const auto there = graph.on_device(resource.device);
    NodeSpec call = of;
    call.inputs = {
        graph.output(graph.add({.op = resource.op->name, .name = resource.name, .attributes = resource.attributes}))};
    Outputs feeds;
    for (std::size_t i = 1; i < of.inputs.size(); ++i) {
      feeds.push_back(placeholder(graph, of.inputs[i].dtype(), Shape::unknown_rank(), fmt::format("input_{}", i)));
      call.inputs.push_back(feeds.back());
    }
    if (!call.name.empty()) call.name = graph.unique_name(call.name);
    const Node& node = graph.add(std::move(call));
    Outputs results;
    for (int i = 0; i < static_cast<int>(node.output_types.size()); ++i) results.push_back(graph.output(node, i));
    auto source_of_results = std::make_shared<Node>(node);
    source_of_results->controls.clear();
    made_by = std::move(source_of_results);
    auto variables = std::make_shared<VariableStore>();
    variables->share(resource.name, value);
    session.emplace(eager.task(), graph, SessionOptions{.variables = std::move(variables)});
    runner.emplace(eager, *session, session->callable(feeds, results, {{&graph, node.id, 0}}), true);
  }

  Graph graph;
  std::shared_ptr<const Node> made_by;
  std::optional<Session> session;
  std::optional<StepRunner> runner;
};

ResourceSteps::ResourceSteps(Eager& eager, std::shared_ptr<const Node> source, std::shared_ptr<Variable> resource)
    : eager_(eager), source_(std::move(source)), resource_(std::move(resource)) {}
ResourceSteps::~ResourceSteps() = default;

std::vector<Output> ResourceSteps::run(const NodeSpec& call) {
  const std::shared_ptr<Step> step = step_for(call);
  std::vector<Tensor> feeds;
  for (std::size_t i = 1; i < call.inputs.size(); ++i) feeds.push_back(call.inputs[i].value());
  std::vector<Tensor> values = (*step->runner)(std::move(feeds), {});
  std::vector<Output> out;
  for (std::size_t i = 0; i < values.size(); ++i)
    out.push_back(
        {&eager_.graph(), -1, static_cast<int>(i), EagerPtr(new HostTensor(std::move(values[i]), step->made_by))});
  return out;
}

std::shared_ptr<ResourceSteps::Step> ResourceSteps::step_for(const NodeSpec& call) {
  const std::string kind = kind_of(call);
  const std::lock_guard lock(mutex_);
  if (ended_) fail(Code::failed_precondition, "'{}' belongs to an eager mode that has ended", source_->name);
  std::shared_ptr<Step>& step = steps_[kind];
  if (!step) step = std::make_shared<Step>(eager_, *source_, resource_, call);
  return step;
}

void ResourceSteps::end() {
  std::map<std::string, std::shared_ptr<Step>> ended;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    ended.swap(steps_);
  }
  for (const auto& [kind, step] : ended) step->session->close();
}

}  // namespace troupe
