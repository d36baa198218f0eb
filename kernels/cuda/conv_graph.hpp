// The graph of cuDNN's operations that a convolution is. Images and results are NHWC, filters [out, height, width, in].
#pragma once

#include <array>
#include <vector>

#include <troupe/kernels/cuda/conv_plan.hpp>
#include <troupe/kernels/cuda/cudnn.hpp>

namespace troupe {

// Of the tensors that a graph reads and writes, by which they are given memory.
enum class ConvTensor : std::int64_t { image = 1, filter = 2, result = 3, bias = 4 };

// What cuDNN calls a tensor's dimensions, channels before height and width, and how far their neighbours are apart in
// memory.
struct CudnnLayout {
  std::array<std::int64_t, 4> sizes;
  std::array<std::int64_t, 4> strides;
};
CudnnLayout image_layout(std::int64_t images, std::int64_t channels, std::int64_t height, std::int64_t width);

// Operations on finalized tensors, each finalized, the last writing what the graph is for. Needs no GPU.
class ConvOperations {
 public:
  // Throws what cuDNN says against it.
  explicit ConvOperations(const ConvKey& key);
  const std::vector<CudnnDescriptor>& all() const { return operations_; }

 private:
  std::vector<CudnnDescriptor> tensors_;
  std::vector<CudnnDescriptor> operations_;
};

}  // namespace troupe
