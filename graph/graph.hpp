// A dataflow graph: nodes joined by data edges (tensors) and control edges (order only). Nodes are never removed;
// passes build new graphs. Not thread-safe while it grows. An eager graph has a runner instead of nodes
// (graph/op_runner.hpp), and is thread-safe.
//
// Nodes are checked as they are added: the op exists, attributes and input dtypes fit, shapes agree. Misuse throws
// Error naming op and node. Graphs read from outside (graph/formats/serialize.hpp) may list nodes in any order;
// execution order depends on edges alone.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <troupe/graph/eager_value.hpp>
#include <troupe/graph/op.hpp>
#include <troupe/messages/attributes.hpp>

namespace troupe {

class Graph;
class OpRunner;

// A symbolic tensor: output `index` of a node. Of an eager graph: a value. Valid for the lifetime of its graph.
struct Output {
  Graph* graph = nullptr;
  int node = -1;
  int index = 0;
  EagerPtr eager{};  // of an eager graph: the value; there is no node

  bool valid() const { return graph != nullptr; }
  DType dtype() const;
  const Shape& shape() const;
  const Node& source() const;
  std::string name() const;  // "node" or "node:1"; of an eager graph the op's
  // In eager mode: the tensor. Throws the error of the op, and failed_precondition for an output of a node.
  const Tensor& value() const;
  bool operator==(const Output&) const = default;
};

// A data edge inside a graph.
struct Endpoint {
  int node = -1;
  int index = 0;
  auto operator<=>(const Endpoint&) const = default;
};

struct Node {
  int id = -1;
  std::string name{};
  const OpDef* op = nullptr;
  Attributes attributes{};
  std::vector<Endpoint> inputs{};
  std::vector<int> controls{};  // nodes that must run before this one
  std::vector<DType> output_types{};
  std::vector<Shape> output_shapes{};
  std::string device{};         // constraint as given; after placement the full name
  std::string colocate_with{};  // name of a node, or ""

  // The dtype that selects the kernel; invalid if the op has none.
  DType kernel_type() const;
};

// Marks a node (boolean attribute) that must run although nothing fetches it: a target of a callable.
inline constexpr std::string_view kTargetAttribute = "_target";

// The name of a node, and the line of the program that asks for it: as a default argument, that of the call.
class Name : public std::string {
 public:
  Name(std::source_location where = std::source_location::current()) : where_(where) {}
  template <class T>
  requires(std::convertible_to<T, std::string> && !std::same_as<std::remove_cvref_t<T>, Name>)
      Name(T&& text, std::source_location where = std::source_location::current())
      : std::string(std::forward<T>(text)), where_(where) {}
  const std::source_location& where() const { return where_; }

 private:
  std::source_location where_;
};

// Arguments of add(). An empty name is derived from the op's.
struct NodeSpec {
  std::string op{};
  Name name{};
  std::vector<Output> inputs{};
  Attributes attributes{};
  std::vector<Output> controls{};  // index is ignored
  std::string device{};
  std::string colocate_with{};
};

// A graph with arguments and results, like a branch of If. Its arguments are the Arg nodes, by their attribute "index".
struct Function {
  std::string name{};
  std::shared_ptr<const Graph> body{};
  std::vector<Endpoint> arguments{};
  std::vector<Endpoint> results{};
};

class Graph {
 public:
  explicit Graph(const OpRegistry& ops = standard_ops()) : ops_(&ops) {}
  // An eager graph. The runner must outlive it.
  explicit Graph(OpRunner& runner, const OpRegistry& ops = standard_ops()) : ops_(&ops), runner_(&runner) {}
  Graph(Graph&&) = delete;  // Outputs point here
  Graph& operator=(Graph&&) = delete;

  const OpRegistry& ops() const { return *ops_; }
  // Expires with the graph: for what points to it and may outlive it.
  std::weak_ptr<const void> life() const { return life_; }
  bool is_eager() const { return runner_ != nullptr; }
  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& node(int id) const { return *nodes_[static_cast<std::size_t>(id)]; }
  const Node* find(std::string_view name) const;
  // Throws not_found.
  const Node& get(std::string_view name) const;
  // "node" or "node:1". Throws invalid_argument, not_found or out_of_range.
  Output output(std::string_view name);
  Endpoint endpoint(std::string_view name) const;
  Output output(const Node& node, int index = 0) { return {this, node.id, index}; }
  DType dtype(Endpoint e) const { return node(e.node).output_types[static_cast<std::size_t>(e.index)]; }
  const Shape& shape(Endpoint e) const { return node(e.node).output_shapes[static_cast<std::size_t>(e.index)]; }

  // Adds a node and returns its outputs; of an eager graph: runs it. Throws like add(), and in eager mode the errors of
  // kernels.
  std::vector<Output> apply(NodeSpec spec);
  // Adds a Const node and returns its output; of an eager graph: a value.
  Output constant(Tensor value, std::string name);
  // Adds a node. Throws already_exists if the given name (prefixed by the scope) is taken, and failed_precondition for
  // an eager graph.
  const Node& add(NodeSpec spec);
  // Adds a copy of `source`, a node of another graph with the same ops, unchanged (name, device, types, shapes) except
  // for inputs and controls, which are of this graph. For passes: nothing is inferred again.
  const Node& add_copy(const Node& source, std::vector<Endpoint> inputs, std::vector<int> controls);

  // While the body of a function is built (graph/builder/functions.hpp): the graph around it, whose tensors nodes of
  // the body may read; `bring_in` makes one an argument of the function. Null ends that.
  using BringIn = std::function<Output(const Output&)>;
  void set_around(Graph* around, BringIn bring_in);
  Graph* around() { return around_; }
  const Graph* around() const { return around_; }
  // Whether it is `outer`, or `outer` is around it.
  bool is_within(const Graph& outer) const;
  // `output` in this graph: brought in if it is of a graph around it. Throws invalid_argument for any other.
  Output brought_in(const Output& output);

  // `after` runs after `before`. May close a cycle, which topological_order() reports. Eager graphs run in the order of
  // the program, and ignore it.
  void add_control_edge(const Node& before, const Node& after);
  void set_device(const Node& node, std::string device) { mutable_node(node.id).device = std::move(device); }
  void set_colocation(const Node& node, std::string with) { mutable_node(node.id).colocate_with = std::move(with); }
  void set_attribute(const Node& node, std::string name, AttrValue value) {
    mutable_node(node.id).attributes.set(std::move(name), std::move(value));
  }
  void set_input(const Node& node, int index, Endpoint source);
  // Changes attributes of a node, and infers its outputs again. Throws invalid_argument if those that it has change
  // their dtypes or are lost; more may be added.
  void change_attributes(const Node& node, const Attributes& changes);
  // Narrows the known shape of an output. Throws invalid_argument on a contradiction. Ignored by an eager graph.
  void refine_shape(const Node& node, int index, const Shape& shape);

  // Node ids in an order where every edge leads forward; among ready nodes, lowest id first. Iterative. Throws
  // invalid_argument naming the nodes of a cycle.
  std::vector<int> topological_order() const;

  // A full copy with the same node ids.
  std::unique_ptr<Graph> clone() const;

  void add_function(Function function);
  void replace_function(Function function);  // adds it if there is none of its name
  const Function* function(std::string_view name) const;
  const std::map<std::string, Function, std::less<>>& functions() const { return functions_; }

  // Defaults for nodes added during the lifetime of the returned object (see ScopedDefaults).
  class ScopedDefaults;
  [[nodiscard]] ScopedDefaults scope(std::string_view name);         // prefixes names: "name/"
  [[nodiscard]] ScopedDefaults on_device(std::string_view device);   // inner fields override outer ones
  [[nodiscard]] ScopedDefaults after(std::vector<Output> controls);  // adds control edges

  [[nodiscard]] ScopedDefaults without_defaults();  // no scope, device or control edges
  // Has the defaults that eager graphs have on this thread, instead of its own: for a function that is traced.
  void share_eager_defaults() { shares_defaults_ = true; }

  // An unused name in the current scope. In eager mode, where no node has a name, the one given.
  std::string unique_name(std::string_view base);
  const std::string& current_scope() const { return defaults().scope; }
  const std::string& current_device() const { return defaults().device; }

  // The graph as text that parse_text() reads (grammar in graph/formats/text.hpp): one line per node, then the
  // functions. Larger tensors show only `max_values` elements, which is not enough to read them back.
  std::string dump(std::int64_t max_values = 8) const;

 private:
  struct Defaults {
    std::string scope{};
    std::string device{};
    std::vector<int> controls{};
  };
  Node& mutable_node(int id);
  // Of an eager graph: those of this thread.
  Defaults& defaults() { return runner_ || shares_defaults_ ? eager_defaults() : defaults_; }
  const Defaults& defaults() const { return runner_ || shares_defaults_ ? eager_defaults() : defaults_; }
  static Defaults& eager_defaults();
  const Node& insert(std::unique_ptr<Node> node);
  bool can_bring_in(const Output& output) const;

  const OpRegistry* ops_;
  OpRunner* runner_ = nullptr;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string_view, int> by_name_;  // the nodes' own names, which never change
  std::unordered_map<std::string, int> name_counters_;
  std::map<std::string, Function, std::less<>> functions_;
  Defaults defaults_;
  Graph* around_ = nullptr;
  BringIn bring_in_;
  bool shares_defaults_ = false;
  const std::shared_ptr<const void> life_ = std::make_shared<char>();
};

// Restores the graph's defaults on destruction.
class Graph::ScopedDefaults {
 public:
  ScopedDefaults(Graph& graph, Defaults inner) : graph_(graph), outer_(std::move(graph.defaults())) {
    graph.defaults() = std::move(inner);
  }
  ScopedDefaults(const ScopedDefaults&) = delete;
  ScopedDefaults& operator=(const ScopedDefaults&) = delete;
  ~ScopedDefaults() { graph_.defaults() = std::move(outer_); }

 private:
  Graph& graph_;
  Defaults outer_;
};

}  // namespace troupe
