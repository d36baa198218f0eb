// Graphs as readers of a format find them, before anything is believed: the formats parse, importing checks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

inline constexpr int kMaxFunctionDepth = 16;                 // functions whose nodes name functions
inline constexpr std::int64_t kMaxGraphOutputs = 1'000'000;  // of one graph: a node may ask for many in few bytes

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
  std::string where;                                   // "line 3": stands before the node's errors
};

// Its arguments are the Arg nodes, by their attribute "index".
struct ImportedFunction {
  std::string name;
  std::vector<ImportedNode> nodes;
  std::vector<std::string> results;
};

// Nodes may come in any order. Functions form one list.
struct ImportedGraph {
  std::vector<ImportedNode> nodes;
  std::vector<ImportedFunction> functions;
};

// The graph. Its nodes are in the given order, but behind what they need. It and each function body get the functions
// that their own nodes name, and the graph also those that nothing names. Throws, naming the node, data_loss or
// not_found (an op, node or function that does not exist), else invalid_argument.
std::unique_ptr<Graph> import_graph(const ImportedGraph& imported, const OpRegistry& ops = standard_ops());

}  // namespace troupe
