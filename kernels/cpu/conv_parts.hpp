// Convolutions of a few images on the calling thread: what conv.cpp splits its work into. Memory is aligned to 64 bytes
// or lies at an offset from such an address that is fixed by the sizes, of which none is 0.
#pragma once

#include <cstdint>

#include <troupe/kernels/cpu/window.hpp>
#include <troupe/messages/dtype.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

struct ConvGeometry {
  std::int64_t batch = 0;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  WindowAxis rows;
  WindowAxis columns;

  bool operator==(const ConvGeometry&) const = default;
  std::int64_t image_size() const { return rows.input * columns.input * in_channels; }
  std::int64_t result_size() const { return rows.output * columns.output * out_channels; }
  std::int64_t patch_size() const { return rows.kernel * columns.kernel * in_channels; }
  std::int64_t filter_size() const { return patch_size() * out_channels; }
  Shape result_shape() const { return {batch, rows.output, columns.output, out_channels}; }
  // The result, or both gradients, are of no elements or of empty sums.
  bool empty() const { return batch == 0 || image_cost() == 0; }
  // Multiply-adds for one image, in any of the three directions.
  std::int64_t image_cost() const { return result_size() * patch_size(); }
};

// f32, and bf16 where onednn::has_bf16(); by oneDNN. The gradient of a filter is float: a sum of parts is
// rounded once.
void conv_forward(const ConvGeometry& g, const float* x, const float* filter, float* y);
void conv_backward_input(const ConvGeometry& g, const float* filter, const float* dy, float* dx);
void conv_backward_filter(const ConvGeometry& g, const float* x, const float* dy, float* d_filter);
void conv_forward(const ConvGeometry& g, const BFloat16* x, const BFloat16* filter, BFloat16* y);
void conv_backward_input(const ConvGeometry& g, const BFloat16* filter, const BFloat16* dy, BFloat16* dx);
void conv_backward_filter(const ConvGeometry& g, const BFloat16* x, const BFloat16* dy, float* d_filter);

// f64, by matrix products of unfolded images.
void conv_forward(const ConvGeometry& g, const double* x, const double* filter, double* y);
void conv_backward_input(const ConvGeometry& g, const double* filter, const double* dy, double* dx);
void conv_backward_filter(const ConvGeometry& g, const double* x, const double* dy, double* d_filter);

}  // namespace troupe
