// How a model of digits is compiled.
#pragma once

#include <troupe/actors/model/model.hpp>

namespace troupe::testing {

inline ModelOptions classifying(Optimizer optimizer, ModelOptions options = {}) {
  options.optimizer = std::move(optimizer);
  options.loss = Loss::sparse_softmax_cross_entropy;
  options.metrics = {metrics::accuracy()};
  return options;
}

}  // namespace troupe::testing
