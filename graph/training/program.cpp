#include "troupe/graph/training/program.hpp"

namespace troupe {

Tensor mean_of_sums(const Tensor& sums) {
  const auto values = sums.values<double>();
  if (values.size() != 2) invalid_argument("the mean of a figure needs 2 sums, not {}", values.size());
  return Tensor::scalar(values[1] == 0 ? 0.0 : values[0] / values[1]);
}

Output ProgramContext::operator[](std::string_view component) const {
  if (const auto found = batch.find(component); found != batch.end()) return found->second;
  std::string names;
  for (const auto& [name, output] : batch) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
  fail(Code::not_found, "the batch has no component '{}'; it has {}", component, names);
}

VariableRef ProgramContext::variable(const std::string& name, const WeightSpec& spec, const Initializer& initializer) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos) return variables.get(graph, name, spec, {.initializer = initializer});
  const auto scope = graph.scope(name.substr(0, slash));
  return variables.get(graph, name, spec, {.initializer = initializer});
}

NamedSums FigureLayout::unpack(const Tensor& sums) const {
  const auto values = sums.values<double>();
  NamedSums out;
  std::size_t at = 0;
  for (const auto& [name, shape] : figures_) {
    const auto count = static_cast<std::size_t>(shape.num_elements());
    if (at + count > values.size()) break;
    out.push_back(
        {name,
         {values.begin() + static_cast<std::ptrdiff_t>(at), values.begin() + static_cast<std::ptrdiff_t>(at + count)}});
    at += count;
  }
  if (at != values.size() || out.size() != figures_.size())
    fail(Code::internal, "figures of {} values do not fit their layout", values.size());
  return out;
}

}  // namespace troupe
