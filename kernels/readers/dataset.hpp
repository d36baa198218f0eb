// Labelled images in host memory. Pixels are bytes (MNIST: 47 MB instead of 188); programs convert those of a batch.
#pragma once

#include <cstdint>
#include <string_view>

#include <troupe/messages/tensor.hpp>

namespace troupe {

struct Dataset {
  Tensor images{};  // u8 [n, height, width, channels]
  Tensor labels{};  // i32 [n]
  std::int64_t size() const { return labels.valid() ? labels.num_elements() : 0; }
};

struct DataSplits {
  Dataset train{};
  Dataset test{};
};

// Throws invalid_argument, naming the field (`name` is "data.train"), unless images are u8 [n, example...] and labels
// are i32 [n] with values 0 to `classes` - 1.
void check_dataset(const Dataset& dataset, const Shape& example, std::int64_t classes, std::string_view name);

}  // namespace troupe
