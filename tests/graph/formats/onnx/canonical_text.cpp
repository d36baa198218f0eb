#include "tests/graph/formats/onnx/canonical_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::testing {
namespace {

// What follows from inputs, or is only for gradients.
constexpr std::string_view kLeftOut[] = {"Tin", "recompute"};

// Writes one graph: of the model, or a body. Nodes are numbered in the order in which outputs need them.
class Writer {
 public:
  // `prefix`: of its numbers.
  Writer(const Graph& graph, const std::map<std::string, Tensor>& variables, std::string indent, std::string prefix)
      : graph_(graph), variables_(variables), indent_(std::move(indent)), prefix_(std::move(prefix)) {}

  void bind(Endpoint e, std::string name) { names_[e] = std::move(name); }
  void write(const std::vector<Endpoint>& outputs) {
    std::string list;
    for (const Endpoint& e : outputs) list += " " + name(e);
    text_ += indent_ + "return" + list + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string name(Endpoint e) {
    if (const auto known = names_.find(e); known != names_.end()) return known->second;
    const Node& node = graph_.node(e.node);
    if (node.op->role == OpRole::constant) return names_[e] = value(node.attributes.tensor("value"));
    if (node.op->name == "ReadVariable") return names_[e] = value(variables_.at(graph_.node(node.inputs[0].node).name));
    add(node);
    return names_.at(e);
  }

  static std::string value(const Tensor& t) {
    if (t.num_elements() <= 4 || t.dtype() == DType::string) return t.to_string();
    std::uint64_t hash = 14695981039346656037u;
    for (std::size_t i = 0; i < t.num_bytes(); ++i)
      hash = (hash ^ static_cast<std::uint64_t>(t.raw()[i])) * 1099511628211u;
    return fmt::format("{}{}#{:x}", troupe::name(t.dtype()), t.shape().to_string(), hash);
  }

  static std::string text_of(const AttrValue& v) {
    if (const auto* real = std::get_if<double>(&v)) return fmt::format("{}", static_cast<float>(*real));
    return to_string(v);
  }

  void add(const Node& node) {
    std::string line = node.op->name + "(", bodies;
    std::vector<std::string> inputs;
    for (const Endpoint& input : node.inputs) inputs.push_back(name(input));
    // Where bodies are, their further inputs are what they read: they have those names inside.
    const bool branch = node.op->role == OpRole::branch, loop = node.op->role == OpRole::loop;
    std::size_t shown = inputs.size();
    if (branch) shown = 1;
    if (loop)
      shown = static_cast<std::size_t>(2 + node.attributes.integer("carried") + node.attributes.integer("scanned"));
    for (std::size_t i = 0; i < shown; ++i) line += (i > 0 ? ", " : "") + inputs[i];
    line += ")";
    const std::string number = fmt::format("{}{}", prefix_, ++count_);
    for (const auto& [key, v] : node.attributes.all()) {
      if (const auto* function = std::get_if<FunctionName>(&v)) {
        bodies += indent_ + "  " + key + ":\n" + body(*graph_.function(function->value), node, number, inputs);
      } else if (!key.starts_with('_') && !std::ranges::count(kLeftOut, key)) {
        line += fmt::format(" {}={}", key, text_of(v));
      }
    }
    text_ += fmt::format("{}%{} = {}\n{}", indent_, number, line, bodies);
    for (int i = 0; i < static_cast<int>(node.output_types.size()); ++i)
      names_[{node.id, i}] = i == 0 ? fmt::format("%{}", number) : fmt::format("%{}:{}", number, i);
  }

  // Arguments of a loop: the iteration, values, rows; then, as of a branch, what it reads.
  std::string body(const Function& f, const Node& node, const std::string& number,
                   const std::vector<std::string>& inputs) {
    Writer inside(*f.body, variables_, indent_ + "    ", number + "/");
    const bool loop = node.op->role == OpRole::loop;
    const std::size_t own =
        loop ? static_cast<std::size_t>(1 + node.attributes.integer("carried") + node.attributes.integer("scanned"))
             : 0;
    for (std::size_t i = 0; i < f.arguments.size(); ++i)
      inside.bind(f.arguments[i], i < own ? fmt::format("%{}.{}", number, i) : inputs.at(i + 1));
    inside.write(f.results);
    return inside.text();
  }

  const Graph& graph_;
  const std::map<std::string, Tensor>& variables_;
  std::string indent_, prefix_, text_{};
  std::map<Endpoint, std::string> names_{};
  int count_ = 0;
};

}  // namespace

std::string canonical_text(const Graph& graph, const std::vector<OnnxValue>& inputs,
                           const std::vector<OnnxValue>& outputs, const std::map<std::string, Tensor>& variables) {
  Writer writer(graph, variables, "", "");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    writer.bind({inputs[i].output.node, inputs[i].output.index}, fmt::format("input{}", i));
  std::vector<Endpoint> results;
  for (const OnnxValue& output : outputs) results.push_back({output.output.node, output.output.index});
  writer.write(results);
  return writer.text();
}

}  // namespace troupe::testing
