// Softmax and the cross entropies on the CPU; f32 and f64.
//
// Rows lie along the last axis. Each row is computed independently after subtracting its maximum, with sums in a fixed
// order: bits depend only on the row and its length. A NaN in a row makes the whole row NaN. All functions throw
// invalid_argument for mismatched tensors; outputs must have the stated shape.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// out = exp(x) / sum exp(x); out is shaped like x and may be x.
void softmax(Parallelism& parallelism, const Tensor& x, Tensor& out);
// out = x - log(sum exp(x)).
void log_softmax(Parallelism& parallelism, const Tensor& x, Tensor& out);
// From the output y: dx = y * (dy - sum(dy * y)).
void softmax_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& y, Tensor& dx);
// From the output y: dx = dy - exp(y) * sum(dy).
void log_softmax_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& y, Tensor& dx);

// logits [n,c], labels i32 or i64 [n] -> loss [n] = -log softmax(logits)[label], backprop [n,c] = softmax -
// onehot(label). Throws out_of_range, naming the label and its position, for a label outside [0,c).
void sparse_softmax_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels, Tensor& loss,
                                  Tensor& backprop);
// logits and labels (each row a distribution) [n,c] -> loss [n] = -sum labels * log softmax, backprop [n,c] = softmax -
// labels.
void softmax_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels, Tensor& loss,
                           Tensor& backprop);
// Elementwise, any shape: max(x,0) - x*z + log1p(exp(-|x|)), the cross entropy of sigmoid(x) and z.
void sigmoid_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels, Tensor& out);

}  // namespace troupe
