// Recurrent layers: one op for a whole sequence (graph/builder/recurrent.hpp has the formulas).
#pragma once

#include <troupe/graph/layers/activations.hpp>
#include <troupe/graph/layers/network.hpp>

// Each function throws invalid_argument for options that no input fits.
namespace troupe::layers {

struct RecurrentOptions {
  bool return_sequences = false;  // the state h after each step instead of the last
  bool return_state = false;      // further outputs: the last h, of lstm also the last c
  bool go_backwards = false;      // from the last step to the first; sequences are in the order of computation,
  bool keep_order = false;        // or in that of the steps
  // Further inputs, in this order: integers [n], the steps of each sequence, after which states stay and sequences are
  // 0; the first h [n, units], of lstm also c.
  bool takes_lengths = false;
  bool takes_state = false;
  // none, relu, tanh, sigmoid, leaky_relu, elu, softsign, softplus or hard_sigmoid.
  Activation activation = Activation::tanh;
  Activation recurrent_activation = Activation::sigmoid;  // of gates
  bool reset_after = true;  // of gru: the reset gate multiplies the product of h, with a bias of its own
  bool use_bias = true;
  WeightOptions kernel{};            // initialized by glorot_uniform()
  WeightOptions recurrent_kernel{};  // by orthogonal()
  WeightOptions bias{};              // zeros, of lstm's forget gate ones
  DType compute = DType::invalid;
};
// [n, steps, in] -> [n, units] or, with return_sequences, [n, steps, units]. Rows of kernel [gates units, in] and
// recurrent_kernel [gates units, units] are what one gate of one unit reads; bias is [gates units], of gru with
// reset_after twice that: of the kernel, then of the recurrent kernel. Gates: of gru z, r, h; of lstm i, o, f, c.
LayerPtr simple_rnn(std::int64_t units, RecurrentOptions options = {});
LayerPtr gru(std::int64_t units, RecurrentOptions options = {});
LayerPtr lstm(std::int64_t units, RecurrentOptions options = {});

enum class Merge { concat, sum, multiply, average, none };
// A recurrent layer and another one of its kind that goes backwards, whose first outputs are merged (none: both are
// outputs); states of both follow. Initial states are those of both. Variables are below "forward/" and "backward/".
LayerPtr bidirectional(LayerPtr layer, Merge merge = Merge::concat);

// bool [n, steps], true first in each row -> i64 [n]: lengths for a mask such as an embedding's.
LayerPtr lengths_of_mask();

}  // namespace troupe::layers
