// Partitioning: cuts a placed graph into one graph per device.
//
// A tensor needed on another device leaves through one Send and arrives through one Recv per destination,
// however many consumers it has there. A control edge to another device rides on a tensor that goes there
// from the same node, or else becomes one: a constant whose Send waits for the node. Neither kind of node
// waits for its counterpart's acknowledgement and the cut adds no edge between nodes that were not ordered
// before, so no cut can deadlock.
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
  std::string from;  // devices, complete names
  std::string to;
  std::string tensor;  // "node:1"; "^node" for a control edge
  DType dtype = DType::invalid;
  Shape shape;  // as inferred
};

struct Partitioned {
  std::map<std::string, std::unique_ptr<Graph>> parts;  // by device; each with the functions its nodes use
  std::vector<EdgeInfo> edges;                          // by edge, from 0
};

// The same graph gives the same parts and edge numbers. Throws invalid_argument for a node that is not
// placed, and for the handle of a variable that would have to cross devices.
Partitioned partition(const Graph& placed);

}  // namespace troupe
