#include "troupe/graph/optimizers/weight_averages.hpp"

#include <troupe/graph/formats/text_call.hpp>
#include <troupe/messages/overloaded.hpp>

namespace troupe {
namespace {

// Attribute of the Variable node of an average: the variable that it is of.
constexpr const char* kAverageOf = "_average_of";

}  // namespace

Schedule part_of_weights(const WeightAverage& average) {
  const Overloaded cases{
      [](const averages::Exponential& a) -> Schedule {
        return schedules::Piecewise{.rates = {1, 1 - a.momentum}, .from = {2}};
      },
      [](const averages::Stochastic& a) -> Schedule { return schedules::Mean{.start = a.from, .every = a.every}; },
  };
  return std::visit(cases, average);
}

std::string problem(const WeightAverage& average) {
  const Overloaded cases{
      [](const averages::Exponential& a) {
        return a.momentum >= 0 && a.momentum < 1
                   ? std::string()
                   : fmt::format("average: momentum must be in [0, 1), not {}", a.momentum);
      },
      [](const averages::Stochastic& a) {
        if (a.from < 0) return fmt::format("average: from must be 0 or more, not {}", a.from);
        return a.every >= 1 ? std::string() : fmt::format("average: every must be 1 or more, not {}", a.every);
      },
  };
  return std::visit(cases, average);
}

TextValue to_text(const WeightAverage& average) {
  const Overloaded cases{
      [](const averages::Exponential& a) {
        return TextCall{"exponential", {{"momentum", a.momentum}}};
      },
      [](const averages::Stochastic& a) {
        return TextCall{"stochastic", {{"from", a.from}, {"every", a.every}}};
      },
  };
  return std::visit(cases, average);
}

WeightAverage weight_average_of(const TextValue& text) {
  const auto* const call = std::get_if<std::shared_ptr<const TextCall>>(&text.held);
  if (!call || ((*call)->name != "exponential" && (*call)->name != "stochastic"))
    invalid_argument("an average must be exponential or stochastic, not {}", to_string(text));
  TextArguments arguments(**call);
  averages::Exponential exponential;
  averages::Stochastic stochastic;
  if ((*call)->name == "exponential") {
    arguments.take("momentum", exponential.momentum);
    arguments.end();
    return exponential;
  }
  arguments.take("from", stochastic.from);
  arguments.take("every", stochastic.every);
  arguments.end();
  return stochastic;
}

VariableRef average_variable(const VariableRef& of) {
  Graph& graph = *of.handle.graph;
  const std::string name = graph.unique_name(of.name + "/average").substr(graph.current_scope().size());
  const VariableRef out = variable(graph, {.name = name,
                                           .initial_value = graph.is_eager() ? of.read() : of.initial_value,
                                           .shape = of.shape,
                                           .dtype = of.dtype,
                                           .trainable = false,
                                           .device = of.handle.source().device});
  if (!graph.is_eager()) graph.set_attribute(out.handle.source(), kAverageOf, of.name);
  return out;
}

std::vector<AveragedVariable> weight_averages(Graph& graph) {
  std::vector<AveragedVariable> out;
  for (const VariableInfo& info : variables(graph)) {
    const Node& node = graph.node(info.handle.node);
    if (!node.attributes.has(kAverageOf)) continue;
    const std::string of = node.attributes.string(kAverageOf);
    out.push_back({.variable = find_variable(graph, of), .average = find_variable(graph, info.name)});
  }
  return out;
}

}  // namespace troupe
