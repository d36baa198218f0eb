// Builder API for signal processing. Complex numbers are a last dimension of size 2: (real, imaginary); real ones may
// have size 1 there. Definitions are those of ONNX's operators.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct DftOptions {
  std::int64_t axis = 1;  // not the last
  Output length{};        // i64 scalar: x is cut or padded with zeros to it; default: its size
  bool inverse = false;   // with the factor 1 / length
  bool onesided = false;  // the first length / 2 + 1 only: enough for real x; not with `inverse`
  Name name{};
};
// Discrete Fourier transform along an axis: y_k = sum_j x_j exp(-2 pi i j k / n). x [...,1] or [...,2] -> [...,2].
Output dft(Output x, DftOptions options = {});

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
