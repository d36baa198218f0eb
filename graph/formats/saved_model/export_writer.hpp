// Writes a graph as nodes of TensorFlow: those of a model of version 1, and those of bodies of functions.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/graph/formats/saved_model/saved_model.hpp>

namespace troupe::tensorflow {
class AttrValue;
class FunctionDef;
class GraphDef;
class NodeDef;
}  // namespace troupe::tensorflow

namespace troupe {

// A result of a node: "node", or "node:1" of one that has several.
using TfName = std::string;
using TfNames = std::vector<TfName>;

inline constexpr DType kTfVariant = DType::list;  // stands for TensorFlow's variants, like its lists

// ---- signatures of ops: export_types.cpp

struct TfSignature {
  std::string_view op, inputs, outputs;
};
struct TfArgument {
  std::string_view name{};  // of a result
  std::string_view type{};  // of the attribute, or the fixed type
  std::string_view count{};
  DType fixed = DType::invalid;
  bool types = false;  // a list of types
};
// Throws internal for an op that is not in the table.
const TfSignature& tensorflow_signature(std::string_view op);
std::vector<TfArgument> arguments_of(std::string_view signature);

// A name with characters that names of TensorFlow may have.
std::string tensorflow_name(std::string_view name);
void to_tensorflow_attr(const AttrValue& value, tensorflow::AttrValue& out);

// ---- what all graphs of a model share

struct TfTable {
  std::string handle{};  // the node
  Tensor keys{}, values{};
};

// The nodes that are a variable's handle and its value.
struct TfVariable {
  std::string handle{}, read{};
};

struct TfExportState {
  const TensorflowExport& what;
  tensorflow::GraphDef& out;
  std::set<std::string> names{};                                                          // of nodes and functions
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> unsupported{};  // op: nodes and reasons
  std::map<std::string, TfVariable> variables{};                                          // by name
  std::vector<TfTable> tables{};

  std::string unique_name(std::string_view wanted);
};

// ---- one graph

class TfGraphWriter {
 public:
  // All must outlive it. `root`: the model's graph, which has its variables and Placeholders.
  TfGraphWriter(TfExportState& state, const Graph& graph, bool root);
  ~TfGraphWriter();

  const Graph& graph() const { return graph_; }
  TfExportState& state() const { return state_; }

  // `e` is what this name stands for: an input of the graph.
  void bind(Endpoint e, const TfName& name) { bind(e, name, graph_.dtype(e)); }
  void bind(Endpoint e, const TfName& name, DType dtype);
  // Adds the nodes that these need.
  void write(const std::vector<Endpoint>& outputs);
  // The name of a value; constants and variables are added here.
  TfName value(Endpoint e);
  bool is_bound(Endpoint e) const { return values_.contains(e); }
  bool is_wanted(Endpoint e) const { return wanted_.contains(e); }

  // Adds a node; types and counts follow from the inputs. `name`: "" is one below that of the node that is written.
  TfNames add(const std::string& op, const TfNames& inputs, const Attributes& attributes, const std::string& name = "");
  // Returns the name of the node, which has a number behind it if another has the wanted one.
  std::string add_node(const std::string& op, const TfNames& inputs, const Attributes& attributes,
                       const std::string& name);
  TfName constant(const Tensor& value, const std::string& name = "");
  void add_control(const std::string& node, const std::vector<std::string>& inputs);  // "^other"
  DType dtype(const TfName& value) const;
  // The value of a result of our node. The node that makes it gets our node's name.
  void set(Endpoint e, TfName name);

  bool is_root() const { return root_; }
  // An argument of a body, which has no node of this name.
  TfName argument(const TfName& name, DType dtype) {
    state_.names.insert(name);
    dtypes_[name] = dtype;
    return name;
  }

  // The nodes so far as a body of this name; `arguments` are names without nodes, with types.
  void add_function(const std::string& name, const TfNames& arguments, const TfNames& results);

  const std::vector<tensorflow::NodeDef>& nodes() const { return nodes_; }

 private:
  TfName variable(const Node& read);
  void write_node(const Node& node);
  std::string function_input(const TfName& value, const std::map<std::string, const tensorflow::NodeDef*>& nodes) const;

  TfExportState& state_;
  const Graph& graph_;
  bool root_;
  std::vector<tensorflow::NodeDef> nodes_;
  std::map<Endpoint, TfName> values_;
  std::set<Endpoint> wanted_;
  std::map<TfName, DType> dtypes_;
  std::map<int, std::string> reserved_;           // names of nodes that are still to be written
  std::map<std::string, std::string> renamed_{};  // nodes of the node that is written
  std::size_t first_ = 0;                         // of these
  std::string prefix_ = "troupe";
};

// A number as a constant.
TfName scalar_in(TfGraphWriter& writer, DType dtype, double value);

}  // namespace troupe
