// What training must come to, bit by bit: a plain loop over kernels, without graph, session, shards or
// actors.
#pragma once

#include <cstdint>
#include <functional>

#include <troupe/actors/training/parameters.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/kernels/readers/dataset.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe::testing {

struct OracleOptions {
  int slots = 1;
  int batch = 32;
  int epochs = 2;
  std::uint64_t seed = 0;
  // Of the update before which there were so many.
  std::function<double(std::int64_t)> learning_rate = [](std::int64_t) { return 1e-3; };
  int micro_batches = 1;         // a slot's batch is computed in so many equal parts
  double clip_norm = 0;          // of each slot's gradients; 0: any
  bool all_reduce = false;       // gradients are averaged as ranks do it
  DType precision = DType::f32;  // of products, biases and the hidden layer: f32, bf16, f16
};

// The values of the model `mlp` of troupe-mnist (784-128 relu-10, mean softmax cross-entropy, Adam) after
// local or synchronous training on `train`:
//   * kernels begin Glorot-uniform, drawn for (seed, node name) in step 0 and slot 0; biases begin at zero;
//   * slot s of step t of an epoch sees examples [(t N + s) B, (t N + s + 1) B) of the epoch's permutation;
//   * those of micro-batches, of B / K examples each, are ((g0 + g1) + ...) / K;
//   * a slot's gradients are clipped: times min(1, clip_norm / norm), of which the squares of a gradient are summed by
//     the kernel, the sums in double from dense/kernel on;
//   * a step applies ((g0 + g1) + ...) / N;
//   * by all-reduce, slot s is computed by rank s. The gradients of a step lie in one tensor in the order in which
//     backprop makes them, the last layer's first, bias before kernel; it has N parts of as many elements each, a
//     multiple of 16 (but for the end). Part p of the mean is ((g_p + g_{p+1}) + ... + g_{p-1}) / N, ranks modulo N;
//   * in f16 the loss is scaled by 2^16, which must not overflow: no step is skipped here.
Parameters trained_by_hand(const Dataset& train, const OracleOptions& options);

// Any model of dense gradients without random ops, by all-reduce. The gradients of each slot come from a session of one
// slot, one after the other, and their means go into it; what ranks do to them is replayed by hand:
//   * the gradients lie one behind the other as backprop makes them, the last layer's first, bias before kernel; a
//     bucket ends with the gradient that makes it 512 KiB or more;
//   * each bucket is averaged around the ring as said above.
Parameters trained_by_replay(const Sequential& layers, const Dataset& train, const OracleOptions& options);

}  // namespace troupe::testing
