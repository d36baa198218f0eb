#include "troupe/graph/formats/import.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <queue>
#include <set>
#include <unordered_map>

#include <troupe/graph/control_flow.hpp>
#include <troupe/graph/rewrite.hpp>

namespace troupe {
namespace {

using Nodes = std::vector<ImportedNode>;

// The error in flight, converted for readers of data: op definitions and shape functions fail in many ways, data in
// three. Names the node, unless Graph::add has done so.
Error import_error(const ImportedNode& node) {
  const Error error = current_error();
  const bool kept = error.code() == Code::not_found || error.code() == Code::data_loss;
  const Error checked(kept ? error.code() : Code::invalid_argument, error.message());
  const bool named = error.message().starts_with(fmt::format("{} '{}': ", node.op, node.name));
  const Error at_node = named ? checked : checked.within(fmt::format("node '{}'", node.name));
  return node.where.empty() ? at_node : at_node.within(node.where);
}

// Reads the nodes of a graph, or of a function body whose functions are already attached.
class NodeReader {
 public:
  NodeReader(const Nodes& nodes, Graph& graph) : nodes_(nodes), graph_(graph) {}

  void read() {
    index_names();
    resolve();
    for (int at : order()) {
      try {
        add(node(at), resolved_[static_cast<std::size_t>(at)]);
      } catch (...) {
        throw import_error(node(at));
      }
    }
  }

  Endpoint result(const std::string& text) const {
    const Endpoint at = reference(text);
    const Node& found = graph_.get(node(at.node).name);
    check_index(found, at.index);
    return {found.id, at.index};
  }

 private:
  const ImportedNode& node(int at) const { return nodes_[static_cast<std::size_t>(at)]; }

  // Of one node; numbers are positions in the list.
  struct Edges {
    std::vector<Endpoint> inputs;
    std::vector<int> controls;
  };

  static void check_index(const Node& node, int index) {
    if (static_cast<std::size_t>(index) >= node.output_types.size())
      invalid_argument("there is no output '{}:{}': the node has {}", node.name, index, node.output_types.size());
  }

  void index_names() {
    for (const ImportedNode& n : nodes_)
      if (!by_name_.emplace(n.name, static_cast<int>(&n - nodes_.data())).second) {
        const Error twice(Code::invalid_argument, fmt::format("two nodes are named '{}'", n.name));
        throw n.where.empty() ? twice : twice.within(n.where);
      }
  }

  int place(std::string_view name) const {
    const auto it = by_name_.find(name);
    if (it == by_name_.end()) fail(Code::not_found, "there is no node '{}'", name);
    return it->second;
  }

  Endpoint reference(std::string_view text) const {
    const auto colon = text.find(':');
    int index = 0;
    if (colon != std::string_view::npos) {
      const auto digits = text.substr(colon + 1);
      const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
      if (code != std::errc{} || end != digits.data() + digits.size() || index < 0)
        invalid_argument("'{}' does not name an output: expected NODE or NODE:INDEX", text);
    }
    return {place(text.substr(0, colon)), index};
  }

  void resolve() {
    resolved_.resize(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Edges& edges = resolved_[i];
      try {
        for (const std::string& input : nodes_[i].inputs) edges.inputs.push_back(reference(input));
        for (const std::string& control : nodes_[i].controls) edges.controls.push_back(place(control));
        if (!nodes_[i].colocate_with.empty()) place(nodes_[i].colocate_with);
      } catch (...) {
        throw import_error(nodes_[i]);
      }
    }
  }

  // Positions in an order where sources come first; among ready nodes, the first in the list.
  std::vector<int> order() const {
    std::vector<int> missing(resolved_.size(), 0);
    std::vector<std::vector<int>> consumers(resolved_.size());
    const auto depend = [&](int source, std::size_t consumer) {
      consumers[static_cast<std::size_t>(source)].push_back(static_cast<int>(consumer));
      ++missing[consumer];
    };
    for (std::size_t i = 0; i < resolved_.size(); ++i) {
      for (const Endpoint& e : resolved_[i].inputs) depend(e.node, i);
      for (int c : resolved_[i].controls) depend(c, i);
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (std::size_t i = 0; i < missing.size(); ++i)
      if (missing[i] == 0) ready.push(static_cast<int>(i));
    std::vector<int> out;
    while (!ready.empty()) {
      const int at = ready.top();
      ready.pop();
      out.push_back(at);
      for (int c : consumers[static_cast<std::size_t>(at)])
        if (--missing[static_cast<std::size_t>(c)] == 0) ready.push(c);
    }
    if (out.size() != resolved_.size()) report_cycle(missing);
    return out;
  }

  // Every node that still misses a source has such a node among its sources: walking back ends in a cycle.
  [[noreturn]] void report_cycle(const std::vector<int>& missing) const {
    const auto stuck = [&](int at) { return missing[static_cast<std::size_t>(at)] > 0; };
    int at = static_cast<int>(std::ranges::find_if(missing, [](int m) { return m > 0; }) - missing.begin());
    std::vector<int> path;
    std::vector<bool> seen(missing.size(), false);
    while (!seen[static_cast<std::size_t>(at)]) {
      seen[static_cast<std::size_t>(at)] = true;
      path.push_back(at);
      const Edges& edges = resolved_[static_cast<std::size_t>(at)];
      const auto input = std::ranges::find_if(edges.inputs, stuck, &Endpoint::node);
      at = input != edges.inputs.end() ? input->node : *std::ranges::find_if(edges.controls, stuck);
    }
    const auto first = std::ranges::find(path, at);
    std::string names = node(at).name;
    for (auto it = path.end(); it != first && path.end() - it < 20;) names += " -> " + node(*--it).name;
    invalid_argument("the graph has a cycle: {}{}", names, path.end() - first > 20 ? " -> ..." : "");
  }

  void add(const ImportedNode& imported, const Edges& edges) {
    if (imported.name.empty()) invalid_argument("a node of op '{}' has no name", imported.op);
    NodeSpec spec{.op = imported.op,
                  .name = imported.name,
                  .attributes = imported.attributes,
                  .device = imported.device,
                  .colocate_with = imported.colocate_with};
    for (const Endpoint& e : edges.inputs) {
      const Node& source = graph_.get(node(e.node).name);
      check_index(source, e.index);
      spec.inputs.push_back(graph_.output(source, e.index));
    }
    for (int c : edges.controls) spec.controls.push_back(graph_.output(graph_.get(node(c).name)));
    const Node& added = graph_.add(std::move(spec));
    if (added.op->is_control_flow()) {
      check_functions(graph_, added);
      refine_outputs(graph_, added);
    }
    if (imported.outputs) refine(added, *imported.outputs);
    outputs_ += static_cast<std::int64_t>(added.output_types.size());
    if (outputs_ > kMaxGraphOutputs) invalid_argument("the graph has more than {} outputs", kMaxGraphOutputs);
  }

  void refine(const Node& added, const std::vector<ImportedOutput>& outputs) {
    if (outputs.size() != added.output_types.size())
      invalid_argument("it has {} outputs, not {}", added.output_types.size(), outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].dtype != added.output_types[i])
        invalid_argument("output {} is {}, not {}", i, name(added.output_types[i]), name(outputs[i].dtype));
      graph_.refine_shape(added, static_cast<int>(i), outputs[i].shape);
    }
  }

  const Nodes& nodes_;
  Graph& graph_;
  std::unordered_map<std::string_view, int> by_name_;
  std::vector<Edges> resolved_;
  std::int64_t outputs_ = 0;
};

// Reads the functions of a graph, those named by others first.
class FunctionReader {
 public:
  FunctionReader(const ImportedGraph& imported, const OpRegistry& ops) : imported_(imported), ops_(ops) {
    for (const ImportedFunction& f : imported_.functions) {
      if (f.name.empty()) invalid_argument("a function has no name");
      if (!by_name_.emplace(f.name, &f).second) invalid_argument("two functions are named '{}'", f.name);
    }
  }

  void read_all() {
    for (const ImportedFunction& f : imported_.functions) read(f.name, 0);
  }

  // Gives `graph` the functions its nodes name.
  void attach(const Nodes& nodes, Graph& graph) {
    for (const std::string& name : named_by(nodes))
      if (!graph.function(name)) graph.add_function(done_.at(name));
  }
  // ... and those that no node names.
  void attach_unused(Graph& graph) {
    for (const auto& [name, function] : done_)
      if (!used_.contains(name) && !graph.function(name)) graph.add_function(function);
  }

  // Function names in the attributes of nodes; each function must exist.
  std::vector<std::string> named_by(const Nodes& nodes) {
    std::vector<std::string> names;
    for (const ImportedNode& node : nodes)
      for (const auto& [key, value] : node.attributes.all()) {
        const auto* called = std::get_if<FunctionName>(&value);
        if (!called) continue;
        if (!by_name_.contains(called->value)) {
          const Error none(Code::not_found,
                           fmt::format("node '{}': there is no function '{}'", node.name, called->value));
          throw node.where.empty() ? none : none.within(node.where);
        }
        names.push_back(called->value);
      }
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

 private:
  // Returns the nesting depth of the function, itself included. Recursion ends at the limit, and so do cycles.
  int read(const std::string& name, int outer) {
    if (const auto it = depth_.find(name); it != depth_.end()) return it->second;
    if (outer >= kMaxFunctionDepth) too_deep(name);
    const ImportedFunction& imported = *by_name_.at(name);
    int depth = 1;
    for (const std::string& inner : named_by(imported.nodes)) {
      used_.insert(inner);
      depth = std::max(depth, 1 + read(inner, outer + 1));
    }
    if (depth > kMaxFunctionDepth) too_deep(name);
    try {
      done_.emplace(name, build(imported));
    } catch (const Error& error) {
      throw error.within(fmt::format("function '{}'", name));
    }
    depth_.emplace(name, depth);
    return depth;
  }

  [[noreturn]] static void too_deep(const std::string& name) {
    invalid_argument("function '{}': functions are nested deeper than {}, or in a cycle", name, kMaxFunctionDepth);
  }

  Function build(const ImportedFunction& imported) {
    auto body = std::make_shared<Graph>(ops_);
    attach(imported.nodes, *body);
    NodeReader reader(imported.nodes, *body);
    reader.read();
    Function function{.name = imported.name, .body = body};
    for (const std::string& result : imported.results) function.results.push_back(reader.result(result));
    function.arguments = arguments_of(*body);
    return function;
  }

  static std::vector<Endpoint> arguments_of(const Graph& body) {
    std::map<std::int64_t, int> by_index;
    for (int id = 0; id < body.size(); ++id) {
      const Node& node = body.node(id);
      if (node.op->role == OpRole::argument && !by_index.emplace(node.attributes.integer("index"), id).second)
        invalid_argument("node '{}': argument {} appears twice", node.name, node.attributes.integer("index"));
    }
    std::vector<Endpoint> arguments;
    for (const auto& [index, id] : by_index) {
      if (index != static_cast<std::int64_t>(arguments.size()))
        invalid_argument("node '{}': argument {} exists, but argument {} does not", body.node(id).name, index,
                         arguments.size());
      arguments.push_back({id, 0});
    }
    return arguments;
  }

  const ImportedGraph& imported_;
  const OpRegistry& ops_;
  std::map<std::string, const ImportedFunction*, std::less<>> by_name_;
  std::map<std::string, Function, std::less<>> done_;
  std::map<std::string, int, std::less<>> depth_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace

std::string node_name(std::string_view foreign) {
  std::string out;
  for (const char c : foreign) {
    const bool allowed = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' || c == '-';
    out += allowed ? c : '_';
  }
  while (!out.empty() && out.back() == '/') out.pop_back();
  if (out.empty() || out.front() == '/' || out.front() == '-') out.insert(0, "x");
  return out;
}

std::unique_ptr<Graph> import_graph(const ImportedGraph& imported, const OpRegistry& ops) {
  FunctionReader functions(imported, ops);
  functions.named_by(imported.nodes);
  functions.read_all();
  auto graph = std::make_unique<Graph>(ops);
  functions.attach(imported.nodes, *graph);
  functions.attach_unused(*graph);
  NodeReader(imported.nodes, *graph).read();
  return graph;
}

}  // namespace troupe
