// Optimizers of Python: options, and what eager mode keeps of the updates so far.
#pragma once

#include <string>

#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe::python {

struct PyOptimizer {
  // As to_string(Optimizer) writes them.
  explicit PyOptimizer(const std::string& text) : options(parse_optimizer(text)), eager(options) {}

  Optimizer options;
  EagerOptimizer eager;
};

}  // namespace troupe::python
