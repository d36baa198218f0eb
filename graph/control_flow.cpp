#include "troupe/graph/control_flow.hpp"

#include <string>
#include <vector>

namespace troupe {
namespace {

const Function& function_of(const Graph& graph, const Node& node, const char* attribute) {
  const std::string& name = node.attributes.get<FunctionName>(attribute).value;
  const Function* function = graph.function(name);
  if (!function) fail(Code::not_found, "there is no function '{}'", name);
  return *function;
}

std::vector<DType> types_of(const Graph& graph, const std::vector<Endpoint>& endpoints) {
  std::vector<DType> types;
  for (const Endpoint& e : endpoints) types.push_back(graph.dtype(e));
  return types;
}

std::string text(const std::vector<DType>& types) {
  std::string out;
  for (const DType t : types) out += (out.empty() ? "" : ", ") + std::string(t == DType::invalid ? "any" : name(t));
  return "(" + out + ")";
}

// `invalid` fits anything.
bool fit(const std::vector<DType>& wanted, const std::vector<DType>& found) {
  if (wanted.size() != found.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] != DType::invalid && wanted[i] != found[i]) return false;
  return true;
}

void check(const Function& function, const std::vector<DType>& arguments, const std::vector<DType>& results) {
  const auto takes = types_of(*function.body, function.arguments), returns = types_of(*function.body, function.results);
  if (!fit(arguments, takes) || !fit(results, returns))
    invalid_argument("function '{}' is {} -> {}, but the node needs {} -> {}", function.name, text(takes),
                     text(returns), text(arguments), text(results));
}

std::vector<DType> inputs_from(const Graph& graph, const Node& node, std::size_t first) {
  if (node.inputs.size() < first) invalid_argument("it needs at least {} inputs", first);
  return types_of(graph, {node.inputs.begin() + static_cast<std::ptrdiff_t>(first), node.inputs.end()});
}

void check_loop(const Graph& graph, const Node& node) {
  const auto carried = static_cast<std::size_t>(node.attributes.integer("carried")),
             scanned = static_cast<std::size_t>(node.attributes.integer("scanned"));
  std::vector<DType> arguments = inputs_from(graph, node, 2);
  if (carried + scanned > arguments.size() || carried + 1 > node.output_types.size())
    invalid_argument("it has {} inputs and {} outputs, too few for {} values and {} scanned inputs", node.inputs.size(),
                     node.output_types.size(), carried, scanned);
  std::vector<DType> results(node.output_types.size(), DType::invalid);
  results[0] = DType::boolean;
  for (std::size_t i = 0; i < carried; ++i) results[i + 1] = arguments[i];
  for (std::size_t i = carried; i < carried + scanned; ++i)
    if (arguments[i] == DType::list) arguments[i] = DType::invalid;
  for (std::size_t i = 1; i < node.output_types.size(); ++i)
    if (node.output_types[i] != (i <= carried ? results[i] : DType::list))
      invalid_argument("output {} is {}, not {}", i, name(node.output_types[i]),
                       name(i <= carried ? results[i] : DType::list));
  arguments.insert(arguments.begin(), DType::i64);
  check(function_of(graph, node, "body"), arguments, results);
}

}  // namespace

Shape common_shape(const Shape& a, const Shape& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return Shape::unknown_rank();
  Shape out = a;
  for (int i = 0; i < a.rank(); ++i)
    if (a[i] != b[i]) out.set_dim(i, kUnknown);
  return out;
}

void check_functions(const Graph& graph, const Node& node) {
  if (node.op->role == OpRole::loop) return check_loop(graph, node);
  const std::vector<DType> arguments = inputs_from(graph, node, 1);
  for (const char* attribute : {"then_branch", "else_branch"})
    check(function_of(graph, node, attribute), arguments, node.output_types);
}

void refine_outputs(Graph& graph, const Node& node) {
  if (node.op->role == OpRole::loop) {
    const Function& body = function_of(graph, node, "body");
    for (int i = 0; i < static_cast<int>(node.attributes.integer("carried")); ++i)
      graph.refine_shape(node, i + 1,
                         common_shape(graph.shape(node.inputs[static_cast<std::size_t>(i) + 2]),
                                      body.body->shape(body.results[static_cast<std::size_t>(i) + 1])));
    return;
  }
  const Function &first = function_of(graph, node, "then_branch"), &second = function_of(graph, node, "else_branch");
  for (std::size_t i = 0; i < node.output_types.size(); ++i)
    graph.refine_shape(node, static_cast<int>(i),
                       common_shape(first.body->shape(first.results[i]), second.body->shape(second.results[i])));
}

}  // namespace troupe
