// Softmax and the cross entropies on the CPU; f32 and f64, and f16 and bf16 with arithmetic in f32.
//
// Rows lie along an axis. Each row is computed independently after subtracting its maximum, with sums in a fixed order:
// bits depend only on the row and its length. A NaN in a row makes the whole row NaN. All functions throw
// invalid_argument for mismatched tensors; outputs must have the stated shape.
#pragma once

#include <limits>

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// out = exp(x) / sum exp(x); out is shaped like x and may be x.
void softmax(Parallelism& parallelism, const Tensor& x, std::int64_t axis, Tensor& out);
// out = x - log(sum exp(x)).
void log_softmax(Parallelism& parallelism, const Tensor& x, std::int64_t axis, Tensor& out);
// From the output y: dx = y * (dy - sum(dy * y)).
void softmax_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& y, std::int64_t axis, Tensor& dx);
// From the output y: dx = dy - exp(y) * sum(dy).
void log_softmax_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& y, std::int64_t axis, Tensor& dx);

struct SparseLabels {
  std::int64_t axis = -1;  // of the classes
  // Labels of this value have loss 0 and backprop 0.
  std::int64_t ignored = std::numeric_limits<std::int64_t>::min();
  double smoothing = 0;  // s: the label's class has probability 1 - s + s / c, each other s / c
};
// logits with c classes along the axis; labels, i32 or i64, and loss of the shape without it. loss = -log
// softmax(logits)[label], backprop = softmax - onehot(label). Throws out_of_range, naming the label and its position,
// for a label outside [0,c).
void sparse_softmax_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels,
                                  const SparseLabels& how, Tensor& loss, Tensor& backprop);
// logits and labels (along the axis a distribution) of one shape, loss without the axis: loss = -sum labels * log
// softmax, backprop = softmax - labels.
void softmax_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels, std::int64_t axis,
                           Tensor& loss, Tensor& backprop);
// Elementwise, any shape: max(x,0) - x*z + log1p(exp(-|x|)), the cross entropy of sigmoid(x) and z.
void sigmoid_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels, Tensor& out);

}  // namespace troupe
