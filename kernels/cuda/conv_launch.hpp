// Kernels that convolutions on a GPU use beside cuDNN and cuBLASLt: interface between host and device code. All sizes
// are at least 1; padding may be 0.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// to[j * rows + i] = from[i * columns + j]; elements of 2 or 4 bytes.
cudaError_t launch_transpose(std::size_t element_bytes, const void* from, void* to, std::int64_t rows,
                             std::int64_t columns, cudaStream_t stream);

// Images [images, height, width, channels]: copies the part of `from` that starts at row `top` and column `left`, which
// may be negative, in the size of `to`; zeros outside `from`. Elements of 2 or 4 bytes.
struct ImageWindow {
  std::int64_t images, channels;
  std::int64_t from_height, from_width;
  std::int64_t to_height, to_width;
  std::int64_t top, left;
};
cudaError_t launch_image_window(std::size_t element_bytes, const ImageWindow& window, const void* from, void* to,
                                cudaStream_t stream);

// Sizes of windows over images. The matrix has one row per window: [images * out height * out width, kernel height *
// kernel width * channels].
struct UnfoldSizes {
  std::int64_t images, channels;
  std::int64_t height, width;
  std::int64_t kernel_height, kernel_width;
  std::int64_t stride_height, stride_width;
  std::int64_t before_height, before_width;
  std::int64_t out_height, out_width;
};
// Copies elements of 2, 4 or 8 bytes; writes zeros for the padding.
cudaError_t launch_unfold(std::size_t element_bytes, const UnfoldSizes& sizes, const void* image, void* rows,
                          cudaStream_t stream);
// Sums, for each element of the image, its entries in the matrix, in the order of windows. `rows` is f64 for f64, else
// f32; the sum is rounded once.
cudaError_t launch_fold(DType dtype, const UnfoldSizes& sizes, const void* rows, void* image, cudaStream_t stream);

// Convolutions of up to three dimensions by their definition, for what neither cuDNN nor products do: groups,
// dilations, channels first. Each element written has its own thread, which sums in order. Layouts as in
// kernels/common/conv_geometry.hpp.
struct DirectAxis {
  std::int64_t input, kernel, stride, dilation, output, before;
};
struct DirectSizes {
  std::int64_t batch, group_in, group_out, groups;
  bool channels_first;
  DirectAxis axes[3];  // depth, height, width
};
cudaError_t launch_direct_forward(DType dtype, const DirectSizes& sizes, const void* x, const void* filter, void* y,
                                  cudaStream_t stream);
cudaError_t launch_direct_backward_input(DType dtype, const DirectSizes& sizes, const void* filter, const void* dy,
                                         void* dx, cudaStream_t stream);
cudaError_t launch_direct_backward_filter(DType dtype, const DirectSizes& sizes, const void* x, const void* dy,
                                          void* d_filter, cudaStream_t stream);

}  // namespace troupe
