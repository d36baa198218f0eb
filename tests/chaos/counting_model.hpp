// A model that counts: of each example it has been trained on, element `id` of its two variables grows by one.
// Gradients are minus one there and zero elsewhere, whatever the values and the loss: with SGD at rate 1 the variables
// say exactly how often each example was applied on each shard.
//
//   images ──▶ CountExamples(a, b) ──▶ logits (zeros)   takes `after` ms: gradients have left by then
//     └──▶ gradient of a ──▶ Push                       takes `before` ms
//                └──▶ gradient of b ──▶ Push            takes `between` ms
#pragma once

#include <functional>
#include <memory>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/kernels/readers/dataset.hpp>

namespace troupe::chaos {

struct StepTime {
  double before = 0, between = 0, after = 0;  // milliseconds, slept
};

std::shared_ptr<const OpRegistry> counting_ops();
std::function<void(KernelRegistry&)> counting_kernels(StepTime time);
Sequential counting_model(std::int64_t examples);
inline const Shape kCountedShape{1, 2, 1};            // of an example: its number in two bytes
DataSplits numbered_examples(std::int64_t examples);  // at most 65536

}  // namespace troupe::chaos
