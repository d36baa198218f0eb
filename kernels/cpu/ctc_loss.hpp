// Connectionist temporal classification on the CPU (Graves et al., "Connectionist Temporal Classification", 2006):
// minus the logarithm of the probability that frames of class probabilities, with repetitions merged and blanks
// removed, read as the labels.
//
// Sums over paths are kept as logarithms in f64. With a = probability of the frames up to t that end at place s, b =
// that of the frames after t from there on:
//   d loss / d logit[t,k] = softmax[t,k] - sum of a b / p over the places s of class k
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

struct CtcInputs {
  const Tensor& logits;         // [t,n,c], f32 or f64
  const Tensor& labels;         // [n,s], i32 or i64: classes other than the blank
  const Tensor& logit_lengths;  // [n]: frames of each example; like labels
  const Tensor& label_lengths;  // [n]
  std::int64_t blank = 0;
};
// loss is [n], backprop [t,n,c]; frames beyond an example's have backprop 0. Labels that no path reads, since there are
// too few frames, have loss infinity and backprop 0. Throws invalid_argument for mismatched tensors, out_of_range for
// labels and lengths out of range.
void ctc_loss(Parallelism& parallelism, const CtcInputs& in, Tensor& loss, Tensor& backprop);

}  // namespace troupe
