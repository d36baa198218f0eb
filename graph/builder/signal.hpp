// Builder API for signal processing. Complex numbers are a last dimension of size 2: (real, imaginary); real ones may
// have size 1 there. Definitions are those of ONNX's operators.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct DftOptions {
  std::int64_t axis = 1;  // not the last
  // i64 scalar: x is cut or padded with zeros to it; default: its size, or 2 (size - 1) if inverse and one-sided.
  Output length{};
  bool inverse = false;   // with the factor 1 / length
  bool onesided = false;  // the first length / 2 + 1 only, which are enough for real x
  Name name{};
};
// Discrete Fourier transform along an axis: y_k = sum_j x_j exp(-2 pi i j k / n). x [...,1] or [...,2] -> [...,2]. Both
// inverse and one-sided, from the first length / 2 + 1 numbers of a symmetric spectrum [...,2]: real ones [...,1].
Output dft(Output x, DftOptions options = {});

// Transforms of real numbers, which have no last dimension of size 1 here; axes are those of the real tensor.
struct RealDftOptions {
  std::int64_t axis = -1;
  Output length{};  // as above
  Name name{};
};
// x [...,n] -> [...,length / 2 + 1,2], and back.
Output rfft(Output x, RealDftOptions options = {});
Output irfft(Output y, RealDftOptions options = {});

// Over several axes, one after the other, which count without the last dimension of complex numbers.
struct DftAxesOptions {
  Integers axes{-2, -1};
  bool inverse = false;
  Name name{};
};
Output fftn(Output x, DftAxesOptions options = {});  // x [...,2] -> [...,2]
// Of real numbers: one-sided along the last of the axes. `length`: of the result along it.
Output rfftn(Output x, const Integers& axes = {-2, -1}, Name name = {});
Output irfftn(Output y, const Integers& axes = {-2, -1}, Output length = {}, Name name = {});

struct StftOptions {
  Output window{};        // [frame_length]; default: ones
  Output frame_length{};  // i64 scalar; default: the window's size
  bool onesided = true;
  Name name{};
};
// Short-time transform of x [batch,n,1 or 2] -> [batch,frames,bins,2], with frames = 1 + (n - frame_length) /
// frame_step. Frames that would reach past the end are left out.
Output stft(Output x, Output frame_step, StftOptions options = {});

// Windows of `size` elements (an integer scalar); periodic: of a period of that size, otherwise symmetric.
Output hann_window(Output size, bool periodic = true, DType dtype = DType::f32, Name name = {});
Output hamming_window(Output size, bool periodic = true, DType dtype = DType::f32, Name name = {});
Output blackman_window(Output size, bool periodic = true, DType dtype = DType::f32, Name name = {});

// Weights that turn a spectrum [...,dft_length / 2 + 1] into `bins` mel-frequency bands: [dft_length / 2 + 1,bins]. All
// arguments are scalars: i64, i64, i64 (Hz), f32 (Hz), f32 (Hz).
Output mel_weight_matrix(Output bins, Output dft_length, Output sample_rate, Output lower_edge, Output upper_edge,
                         DType dtype = DType::f32, Name name = {});

}  // namespace troupe
