#include "graph/op.hpp"

namespace troupe {

const OpRegistry& standard_ops() {
  static const OpRegistry registry = [] {
    OpRegistry r;
    return r;
  }();
  return registry;
}

}  // namespace troupe
