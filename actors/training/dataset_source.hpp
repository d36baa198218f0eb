// Data sets of labelled images as sources of batches.
#pragma once

#include <troupe/kernels/readers/dataset.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe {

// With the components "images" and "labels". Throws invalid_argument for an empty one.
inline TensorDataset source_of(const Dataset& data) {
  return TensorDataset({{"images", data.images}, {"labels", data.labels}});
}

}  // namespace troupe
