// Partitioning: cuts a placed graph into one graph per device.
//
// A tensor needed on another device leaves through one Send and arrives through one Recv per destination, regardless of
// the number of consumers there. A control edge to another device uses a tensor that the same node already sends there,
// or else becomes one: a constant whose Send waits for the node. Neither kind of node waits for an acknowledgement from
// its counterpart, and the cut adds no edge between nodes that were not ordered before, so no cut can deadlock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe {

// A tensor that crosses devices.
struct EdgeInfo {
  EdgeId edge;       // attribute "edge" of its Send and Recv
  std::string from;  // devices, full names
  std::string to;
  std::string tensor;  // "node:1"; "^node" for a control edge
  DType dtype = DType::invalid;
  Shape shape;  // as inferred
};

struct Partitioned {
  std::map<std::string, std::unique_ptr<Graph>> parts;  // by device; each with the functions its nodes use
  std::vector<EdgeInfo> edges;                          // by edge, from 0
};

// Equal graphs give the same parts and edge numbers. Throws invalid_argument for a node that is not placed, and for a
// variable handle that would have to cross devices.
Partitioned partition(const Graph& placed);

}  // namespace troupe
