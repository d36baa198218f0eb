// Options of passes that fuse.
#pragma once

#include <functional>
#include <string_view>

#include <troupe/graph/passes/groups.hpp>

namespace troupe {

struct FuseOptions {
  // Whether a node with this op and dtype (OpDef::kernel_type; invalid if it has none) may be created. Not set: always.
  std::function<bool(std::string_view op, DType dtype)> has_kernel;
  PassNotes* notes = nullptr;

  bool supports(const Graph& graph, std::string_view op, DType dtype) const {
    return graph.ops().find(op) && (!has_kernel || has_kernel(op, dtype));
  }
};

}  // namespace troupe
