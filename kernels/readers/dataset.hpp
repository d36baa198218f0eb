// Labelled images in host memory. Pixels stay bytes (MNIST: 47 MB instead of 188) and become floats as
// batches are gathered, which costs less than a percent of a training step.
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

// Throws invalid_argument, naming the field (`name` is "data.train"), unless images are u8 [n, example...], and labels
// i32 [n] of 0 to `classes` - 1.
void check_dataset(const Dataset& dataset, const Shape& example, std::int64_t classes, std::string_view name);

// f32, pixel / 255, of u8 images.
Tensor scaled(const Tensor& images);

struct Batch {
  Tensor images{};              // f32 [b, height, width, channels], pixel / 255: in [0, 1]
  Tensor labels{};              // i32 [b]
  Allocator* memory = nullptr;  // where they are put, on the host; null: anywhere
};

// Examples `indices` of the dataset, in this order. The memory of `batch` is written again if it has the
// right shape and nobody else holds it; else new tensors are made. Throws out_of_range for an index outside
// the dataset.
void gather(const Dataset& dataset, std::span<const std::int64_t> indices, Batch& batch);

// Examples [begin, end). Throws out_of_range.
void gather_range(const Dataset& dataset, std::int64_t begin, std::int64_t end, Batch& batch);

}  // namespace troupe
