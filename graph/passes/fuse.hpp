// What passes that fuse are told.
#pragma once

#include <functional>
#include <string_view>

#include <troupe/graph/passes/groups.hpp>

namespace troupe {

struct FuseOptions {
  // May a node of this op and dtype (OpDef::kernel_type; invalid if it has none) be made? None: yes.
  std::function<bool(std::string_view op, DType dtype)> has_kernel;
  PassNotes* notes = nullptr;

  bool supports(const Graph& graph, std::string_view op, DType dtype) const {
    return graph.ops().find(op) && (!has_kernel || has_kernel(op, dtype));
  }
};

}  // namespace troupe
