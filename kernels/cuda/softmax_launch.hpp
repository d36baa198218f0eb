// Softmax and the cross entropies on a GPU: interface between host and device code. f32, f64, and f16 and bf16, whose
// results are those of f32, rounded.
//
// A row is read once, into registers, if it has up to 16384 elements (rows whose width is no multiple of 4: 4096; f64:
// 1024); a longer row is read twice. Bits depend only on the row and its length.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

struct SoftmaxRows {
  DType dtype = DType::invalid;
  std::int64_t count = 0;  // number of rows; at least 1
  std::int64_t width = 0;  // at least 1
};

// out = softmax(x) or log softmax(x). out may be x.
cudaError_t launch_softmax(SoftmaxRows rows, bool logarithm, const void* x, void* out, cudaStream_t stream);
// Computes dx from the output y of either.
cudaError_t launch_softmax_grad(SoftmaxRows rows, bool logarithm, const void* dy, const void* y, void* dx,
                                cudaStream_t stream);
// Labels of i32, or i64 if `wide`. Those that are `ignored` have loss 0 and backprop 0. With `smoothing` s, the label's
// class has probability 1 - s + s / width, each other s / width.
struct SoftmaxLabels {
  const void* labels = nullptr;
  bool wide = false;
  std::int64_t ignored = 0;
  double smoothing = 0;
};
// backprop = softmax - onehot(label), loss = -log softmax[label]. An invalid label is a fault; its row gets NaN as loss
// and backprop.
cudaError_t launch_sparse_cross_entropy(SoftmaxRows rows, const void* logits, const SoftmaxLabels& labels,
                                        CudaFaultSite fault, void* loss, void* backprop, cudaStream_t stream);
// backprop = softmax - labels, loss = -sum labels log softmax.
cudaError_t launch_cross_entropy(SoftmaxRows rows, const void* logits, const void* labels, void* loss, void* backprop,
                                 cudaStream_t stream);
// Elementwise over `count` elements: max(x, 0) - x z + log1p(exp(-|x|)).
cudaError_t launch_sigmoid_cross_entropy(DType dtype, std::int64_t count, const void* logits, const void* labels,
                                         void* out, cudaStream_t stream);

}  // namespace troupe
