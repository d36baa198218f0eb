// oneDNN called directly, on one thread: the primitive is made once, a call runs it and waits. The given memory must
// outlive the returned function.
#pragma once

#include <cstdint>
#include <functional>

namespace troupe::bench {

// c = a b: a [m,k], b [k,n], c [m,n], plain row-major, of floats or, if `bf16`, of bfloat16.
std::function<void()> onednn_matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool bf16, const void* a,
                                    const void* b, void* c);

// The same for `batch` products of floats, one after another. `own_layout`: b is reordered to oneDNN's preferred layout
// in every call. Throws unimplemented if oneDNN has no primitive for it.
std::function<void()> onednn_batch_matmul(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k,
                                          bool own_layout, const float* a, const float* b, float* c);

// Square images and filters, stride 1.
struct ConvShape {
  std::int64_t batch = 0, size = 0, in = 0, out = 0, kernel = 3;
  std::int64_t padding = 0;  // on each side
  std::int64_t groups = 1, dilation = 1;

  std::int64_t result_size() const { return size + 2 * padding - (kernel - 1) * dilation; }
};

enum class ConvDirection { forward, backward_input, backward_filter };

// Layouts for oneDNN. Those that are not plain are reordered from or to NHWC and HWIO in every call.
enum class ConvLayout {
  plain,       // NHWC and HWIO
  own_filter,  // NHWC; the filter in oneDNN's preferred layout
  own,         // all in oneDNN's preferred layouts
};

// Writes the image, filter or result that the direction computes. Throws unimplemented if oneDNN has no primitive for
// this layout.
std::function<void()> onednn_conv(ConvDirection direction, ConvLayout layout, const ConvShape& shape, float* image,
                                  float* filter, float* result);

}  // namespace troupe::bench
