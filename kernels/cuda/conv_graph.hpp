// The cuDNN operation graph of a convolution. Images and results are as in our memory, filters
// [out, height, width, in] or, with channels first, [out, in, height, width]. Groups follow from the filter's channels.
#pragma once

#include <array>
#include <vector>

#include <troupe/kernels/cuda/conv_plan.hpp>
#include <troupe/kernels/cuda/cudnn.hpp>

namespace troupe {

// Ids of the tensors that a graph reads and writes, used to bind their memory.
enum class ConvTensor : std::int64_t { image = 1, filter = 2, result = 3, bias = 4 };

// Dimensions and strides of a tensor in cuDNN's order: channels before height and width.
struct CudnnLayout {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};
using ConvSizes = std::array<std::int64_t, kMaxSpatial>;  // depth, height, width
CudnnLayout image_layout(const ConvGeometry& g, std::int64_t images, std::int64_t channels, ConvSizes sizes);

// Finalized operations on finalized tensors; the last one writes the result. Needs no GPU.
class ConvOperations {
 public:
  // Throws cuDNN's error if it rejects the graph.
  explicit ConvOperations(const ConvKey& key);
  const std::vector<CudnnDescriptor>& all() const { return operations_; }

 private:
  std::vector<CudnnDescriptor> tensors_;
  std::vector<CudnnDescriptor> operations_;
};

}  // namespace troupe
