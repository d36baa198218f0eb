// Builder API for recurrent layers: one op per layer for whole sequences. Formulas and weights are those of ONNX.
//
// x [steps, batch, inputs]; w [directions, gates * units, inputs] and r [directions, gates * units, units] multiply x
// and the state from the left, transposed: a row is what one gate of one unit reads. Gates are in the order that each
// function gives. (Keras: w' with gates i, f, c, o or z, r, h in its columns. PyTorch: w with gates i, f, c, o or r, z,
// h.) Directions are forward and reverse; a reverse one reads each sequence from its end.
#pragma once

#include <string>
#include <vector>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

enum class Direction : std::uint8_t { forward, reverse, bidirectional };

// relu, tanh, sigmoid, affine (alpha x + beta), leaky_relu, thresholded_relu (x if x > alpha, else 0), scaled_tanh
// (alpha tanh(beta x)), hard_sigmoid (alpha x + beta in [0, 1]), elu, softsign or softplus.
struct RecurrentActivation {
  std::string name{};
  double alpha = 0;
  double beta = 0;
};

// Fields of all three: absent outputs and empty lists mean the default.
//   batch_major   x, y and states begin with the batch: x [batch, steps, inputs], y [batch, steps, directions, units],
//                 states [batch, directions, units]
//   bias          [directions, 2 * gates * units]: of w, then of r; both are added
//   lengths       integers [batch]: the steps of each sequence, up to the dimension. y is 0 after them.
//   initial_h     [directions, batch, units]; default: zeros
//   activations   f, g, h of the formulas; one set for all directions, or one per direction
//   clip          bounds what gates activate to [-clip, clip] (not c, as in onnxruntime); 0: no bounds
struct RnnOptions {
  Direction direction = Direction::forward;
  bool batch_major = false;
  Output bias{};
  Output lengths{};
  Output initial_h{};
  std::vector<RecurrentActivation> activations{};
  double clip = 0;
  Name name{};
};
struct RnnOutputs {
  Output y{};       // [steps, directions, batch, units]: the state after each step
  Output last_h{};  // [directions, batch, units]: the state at the end of each sequence
};
// h' = f(x w' + h r'); f = tanh.
RnnOutputs rnn(Output x, Output w, Output r, RnnOptions options = {});

struct GruOptions {
  Direction direction = Direction::forward;
  bool batch_major = false;
  bool linear_before_reset = false;  // Keras: reset_after; true for PyTorch's
  Output bias{};
  Output lengths{};
  Output initial_h{};
  std::vector<RecurrentActivation> activations{};
  double clip = 0;
  Name name{};
};
// Gates z, r, h (Cho et al. 2014), f = sigmoid, g = tanh:
//   z = f(x wz' + h rz')   r = f(x wr' + h rr')
//   c = g(x wh' + (r h) rh')   or, linear_before_reset: g(x wh' + r (h rh' + its bias))
//   h' = (1 - z) c + z h
RnnOutputs gru(Output x, Output w, Output r, GruOptions options = {});

struct LstmOptions {
  Direction direction = Direction::forward;
  bool batch_major = false;
  bool input_forget = false;  // the forget gate is 1 - i
  Output bias{};
  Output lengths{};
  Output initial_h{};
  Output initial_c{};  // [directions, batch, units]; default: zeros
  Output peepholes{};  // [directions, 3 * units], gates i, o, f; default: none
  std::vector<RecurrentActivation> activations{};
  double clip = 0;
  Name name{};
};
struct LstmOutputs {
  Output y{};
  Output last_h{};
  Output last_c{};
};
// Gates i, o, f, c (Hochreiter & Schmidhuber 1997; Gers & Schmidhuber 2000), f = sigmoid, g = h = tanh:
//   i = f(x wi' + h ri' + pi c)   f = f(x wf' + h rf' + pf c)   g = g(x wc' + h rc')
//   c' = f c + i g   o = f(x wo' + h ro' + po c')   h' = o h(c')
LstmOutputs lstm(Output x, Output w, Output r, LstmOptions options = {});

}  // namespace troupe
