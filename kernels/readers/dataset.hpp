// Labelled images in host memory. Pixels stay bytes (MNIST: 47 MB instead of 188) and are converted to floats as
// batches are gathered, which takes less than 1 % of a training step.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <troupe/devices/allocator.hpp>

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

// u8 images as f32, pixel / 255.
Tensor scaled(const Tensor& images);

struct Batch {
  Tensor images{};              // f32 [b, height, width, channels], pixel / 255: in [0, 1]
  Tensor labels{};              // i32 [b]
  Allocator* memory = nullptr;  // where to allocate both, on the host; null: anywhere
};

// Gathers the examples at `indices`, in that order. Reuses the memory of `batch` if it has the right shape and no other
// owner; allocates new tensors otherwise. Throws out_of_range for an index outside the dataset.
void gather(const Dataset& dataset, std::span<const std::int64_t> indices, Batch& batch);

// Gathers examples [begin, end). Throws out_of_range.
void gather_range(const Dataset& dataset, std::int64_t begin, std::int64_t end, Batch& batch);

}  // namespace troupe
