// Convolutions of a few images on the calling thread: the parts that conv.cpp splits its work into. Memory is aligned
// to 64 bytes or at an offset from such an address that the sizes determine; no size is 0.
#pragma once

#include <cstddef>

#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/kernels/cpu/kept_layout.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Output channels [begin, begin + those of the geometry) of a filter with `of`, channels last, one group.
struct FilterSlice {
  std::int64_t begin = 0, of = 0;  // of: 0 for a whole filter

  bool whole() const { return of == 0; }
};

// f32, and bf16 where onednn::has_bf16(); by oneDNN. A filter gradient is float, so that a sum over parts is rounded
// once. `kept` may be null.
void conv_forward(const ConvGeometry& g, const float* x, const float* filter, float* y, KeptLayout* kept);
// What is done where sums are made; gives other bits than passes of their own.
struct ConvEnding {
  const float* bias = nullptr;
  bool add = false;   // to what y has
  bool relu = false;  // max(., 0), 0 for NaN
};
// The same with an ending that has a bias, or by a slice of the filter, which begins at `filter`. Returns false, and
// has done nothing, if oneDNN has no primitive for it.
bool conv_forward(const ConvGeometry& g, const float* x, const float* filter, const FilterSlice& slice,
                  const ConvEnding& ending, float* y, KeptLayout* kept);
void conv_backward_input(const ConvGeometry& g, const float* filter, const float* dy, float* dx);
void conv_backward_filter(const ConvGeometry& g, const float* x, const float* dy, float* d_filter);
void conv_forward(const ConvGeometry& g, const BFloat16* x, const BFloat16* filter, BFloat16* y, KeptLayout* kept);
void conv_backward_input(const ConvGeometry& g, const BFloat16* filter, const BFloat16* dy, BFloat16* dx);
void conv_backward_filter(const ConvGeometry& g, const BFloat16* x, const BFloat16* dy, float* d_filter);

// f64, which keeps no filter.
void conv_forward(const ConvGeometry& g, const double* x, const double* filter, double* y, KeptLayout* kept);
void conv_backward_input(const ConvGeometry& g, const double* filter, const double* dy, double* dx);
void conv_backward_filter(const ConvGeometry& g, const double* x, const double* dy, double* d_filter);

// By matrix products of unfolded images: f64, and float where oneDNN has no primitive.
template <class T>
void unfolded_forward(const ConvGeometry& g, const T* x, const T* filter, T* y);
template <class T>
void unfolded_backward_input(const ConvGeometry& g, const T* filter, const T* dy, T* dx);
template <class T>
void unfolded_backward_filter(const ConvGeometry& g, const T* x, const T* dy, T* d_filter);

}  // namespace troupe
