// Graphs as parsed from a format, not yet trusted: the formats parse, importing checks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

inline constexpr int kMaxFunctionDepth = 16;                 // nesting of functions that name functions
inline constexpr std::int64_t kMaxGraphOutputs = 1'000'000;  // of one graph: a node can claim many in a few bytes

struct ImportedOutput {
  DType dtype = DType::invalid;
  Shape shape;  // refines the inferred one
};

struct ImportedNode {
  std::string op;
  std::string name;
  std::vector<std::string> inputs;  // "node" or "node:1"
  std::vector<std::string> controls;
  Attributes attributes;
  std::string device;
  std::string colocate_with;
  std::optional<std::vector<ImportedOutput>> outputs;  // none: inferred
  std::string where;                                   // "line 3": prefixes the node's errors
};

// Its arguments are the Arg nodes, ordered by their attribute "index".
struct ImportedFunction {
  std::string name;
  std::vector<ImportedNode> nodes;
  std::vector<std::string> results;
};

// Nodes may come in any order. Functions form one flat list.
struct ImportedGraph {
  std::vector<ImportedNode> nodes;
  std::vector<ImportedFunction> functions;
};

// Another format's name with characters that names of our nodes may have: "a/b:0" becomes "a/b_0".
std::string node_name(std::string_view foreign);

// Builds the graph. Nodes keep the given order, except that sources precede their consumers. The graph and each
// function body receive the functions that their own nodes name; the graph also receives those that nothing names.
// Throws, naming the node, data_loss or not_found (unknown op, node or function), otherwise invalid_argument.
std::unique_ptr<Graph> import_graph(const ImportedGraph& imported, const OpRegistry& ops = standard_ops());

}  // namespace troupe
