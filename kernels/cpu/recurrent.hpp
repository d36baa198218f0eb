// Recurrent layers over whole sequences, on raw row-major memory: one direction of one layer per call. Formulas are
// those of graph/builder/recurrent.hpp.
//
// x W' of all steps is one product; a step multiplies only the state. A step is cut into parts of rows and units, each
// of which computes its gates and then the new state of its units: one barrier per step. The parts follow from the
// sizes, so the bits do not depend on threads.
#pragma once

#include <array>
#include <cstdint>

#include <troupe/devices/device.hpp>
#include <troupe/kernels/cpu/kept_layout.hpp>
#include <troupe/kernels/cpu/recurrent_activation.hpp>

namespace troupe {

struct RecurrentSizes {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t inputs = 0;
  std::int64_t units = 0;
  std::int64_t directions = 1;
  std::int64_t gates = 1;  // RNN: 1, GRU: 3, LSTM: 4
};

struct RecurrentCell {
  RecurrentSizes sizes{};
  std::array<GateActivation, 3> activations{};  // f, g, h
  double clip = 0;
  bool reverse = false;
  bool linear_before_reset = false;  // GRU
  bool input_forget = false;         // LSTM
};

// Strides of y and dy are those of [steps, directions, batch, units]; everything else is one direction's. Null: absent.
template <class T>
struct RecurrentInputs {
  const T* x = nullptr;                   // [steps, batch, inputs]
  const T* w = nullptr;                   // [gates * units, inputs]
  const T* r = nullptr;                   // [gates * units, units]
  KeptPart kept_r{};                      // of an r that is the same in every run; used forward
  const T* bias = nullptr;                // [2 * gates * units], or null
  const std::int64_t* lengths = nullptr;  // [batch], in [0, steps], or null
  const T* initial_h = nullptr;           // [batch, units], or null
  const T* initial_c = nullptr;           // LSTM: [batch, units], or null
  const T* peepholes = nullptr;           // LSTM: [3 * units] for gates i, o, f, or null
};

template <class T>
struct RecurrentOutputs {
  T* y = nullptr;       // [steps, directions, batch, units], of this direction
  T* last_h = nullptr;  // [batch, units]
  T* last_c = nullptr;  // LSTM: [batch, units]
  T* gates = nullptr;   // [steps, batch, gates * units], activated
  T* extra = nullptr;   // [steps, batch, units]. LSTM: c. GRU: linear_before_reset: h R_h' + its bias, else r h
};

template <class T>
struct RecurrentFlows {
  const T* dy = nullptr;       // or null
  const T* dlast_h = nullptr;  // or null
  const T* dlast_c = nullptr;  // or null
};

template <class T>
struct RecurrentGradients {
  T* dx = nullptr;  // null: not wanted; added to if `add_to_x`
  bool add_to_x = false;
  T* dw = nullptr;
  T* dr = nullptr;
  T* dbias = nullptr;       // or null
  T* dinitial_h = nullptr;  // [batch, units]
  T* dinitial_c = nullptr;  // LSTM
  T* dpeepholes = nullptr;  // or null
};

template <class T>
void rnn_forward(Parallelism& p, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                 const RecurrentOutputs<T>& out);
template <class T>
void gru_forward(Parallelism& p, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                 const RecurrentOutputs<T>& out);
template <class T>
void lstm_forward(Parallelism& p, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                  const RecurrentOutputs<T>& out);

// `out`: of the forward call.
template <class T>
void rnn_backward(Parallelism& p, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                  const RecurrentOutputs<const T>& out, const RecurrentFlows<T>& flows,
                  const RecurrentGradients<T>& gradients);
template <class T>
void gru_backward(Parallelism& p, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                  const RecurrentOutputs<const T>& out, const RecurrentFlows<T>& flows,
                  const RecurrentGradients<T>& gradients);
template <class T>
void lstm_backward(Parallelism& p, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                   const RecurrentOutputs<const T>& out, const RecurrentFlows<T>& flows,
                   const RecurrentGradients<T>& gradients);

}  // namespace troupe
