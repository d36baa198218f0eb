// Results of batches as results of all examples.
#pragma once

#include <string>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

// Tensors [n_i,...] one after the other: [n,...]. At least one. Throws invalid_argument, naming the prediction, if
// other dimensions than the first differ.
Tensor joined_rows(const std::string& name, const std::vector<Tensor>& parts);

}  // namespace troupe
