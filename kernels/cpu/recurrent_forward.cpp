// Recurrent layers forward: the steps of one direction.
#include <troupe/kernels/cpu/recurrent_steps.hpp>

namespace troupe {
namespace {

using recurrent::StepOrder;
using recurrent::StepPart;
using recurrent::StepParts;

// State and scratch memory of the steps of one direction.
template <class T>
struct ForwardSteps {
  const RecurrentCell& cell;
  const RecurrentInputs<T>& in;
  const RecurrentOutputs<T>& out;
  RecurrentSizes s;
  StepOrder order;
  std::int64_t width;      // of all gates
  PackedFactor<T> factor;  // R'
  StepParts parts;
  ScratchArray<T> bias;     // [width], both added
  ScratchArray<T> product;  // [batch, width]
  ScratchArray<T> states;   // [2, batch, units]: before and after a step

  ForwardSteps(Parallelism& parallelism, const RecurrentCell& c, const RecurrentInputs<T>& inputs,
               const RecurrentOutputs<T>& outputs)
      : cell(c),
        in(inputs),
        out(outputs),
        s(c.sizes),
        order{s.steps, c.reverse},
        width(s.gates * s.units),
        factor(s.units, s.units, s.gates, {inputs.r, s.units, true}, inputs.kept_r),
        parts(parallelism, s.batch, factor, width),
        bias(width),
        product(s.batch * width),
        states(2 * s.batch * s.units) {
    recurrent::copy_or_zero(in.initial_h, s.batch * s.units, states.data());
    recurrent::add_biases(in.bias, width, bias.data());
    recurrent::product<T>(parallelism, s.steps * s.batch, width, s.inputs, {in.x, s.inputs, false},
                          {in.w, s.inputs, true}, out.gates, width);
  }

  T* before(std::int64_t i) const { return states.data() + (i % 2) * s.batch * s.units; }
  T* after(std::int64_t i) const { return before(i + 1); }
  T* gates(std::int64_t t, std::int64_t n) const { return out.gates + (t * s.batch + n) * width; }
  T* extra(std::int64_t t, std::int64_t n) const { return out.extra + (t * s.batch + n) * s.units; }

  // The state times the gates [first, last) of R', for the units of a part.
  void multiply(const StepPart& p, const T* state, std::int64_t first, std::int64_t last) const {
    for (std::int64_t gate = first; gate < last; ++gate)
      factor.multiply(p.row_end - p.row, state + p.row * s.units, s.units, gate, p.panel, p.panel_end,
                      product.data() + p.row * width + gate * s.units, width);
  }
  // Completes and activates gate `gate` of a row.
  void finish_gate(const StepPart& p, std::int64_t t, std::int64_t n, std::int64_t gate, GateActivation f) const {
    const std::int64_t at = gate * s.units + p.unit;
    recurrent::add_both(product.data() + n * width + at, bias.data() + at, p.width(), gates(t, n) + at);
    activate(f, cell.clip, gates(t, n) + at, p.width());
  }
  // Rows that do not run keep their state, and have gates and y of 0.
  bool skip(const StepPart& p, std::int64_t i, std::int64_t t, std::int64_t n) const {
    if (recurrent::runs(in.lengths, n, t)) return false;
    for (std::int64_t gate = 0; gate < s.gates; ++gate)
      std::fill_n(gates(t, n) + gate * s.units + p.unit, p.width(), T{0});
    std::copy_n(before(i) + n * s.units + p.unit, p.width(), after(i) + n * s.units + p.unit);
    std::fill_n(y(t, n) + p.unit, p.width(), T{0});
    return true;
  }
  T* y(std::int64_t t, std::int64_t n) const { return out.y + (t * s.directions * s.batch + n) * s.units; }
  void give(const StepPart& p, std::int64_t i, std::int64_t t, std::int64_t n) const {
    std::copy_n(after(i) + n * s.units + p.unit, p.width(), y(t, n) + p.unit);
  }
  void end() const { std::copy_n(before(s.steps), s.batch * s.units, out.last_h); }
};

// The update of the state of a GRU: h = (1 - z) candidate + z before.
template <class T>
void mix(const T* __restrict z, const T* __restrict candidate, const T* __restrict before, std::int64_t count,
         T* __restrict after) {
  for (std::int64_t j = 0; j < count; ++j) after[j] = (1 - z[j]) * candidate[j] + z[j] * before[j];
}

template <class T>
void gru_reset_first(const ForwardSteps<T>& f, std::int64_t i) {
  const RecurrentSizes& s = f.s;
  const std::int64_t t = f.order.at(i);
  f.parts.run(f.factor, [&](const StepPart& p) {
    f.multiply(p, f.before(i), 0, 2);
    for (std::int64_t n = p.row; n < p.row_end; ++n) {
      T* reset = f.extra(t, n) + p.unit;
      std::fill_n(reset, p.width(), T{0});
      if (f.skip(p, i, t, n)) continue;
      for (std::int64_t gate = 0; gate < 2; ++gate) f.finish_gate(p, t, n, gate, f.cell.activations[0]);
      recurrent::add_product(f.gates(t, n) + s.units + p.unit, f.before(i) + n * s.units + p.unit, p.width(), reset);
    }
  });
  f.parts.run(f.factor, [&](const StepPart& p) {
    f.multiply(p, f.extra(t, 0), 2, 3);
    for (std::int64_t n = p.row; n < p.row_end; ++n) {
      if (!recurrent::runs(f.in.lengths, n, t)) continue;
      f.finish_gate(p, t, n, 2, f.cell.activations[1]);
      const T* gates = f.gates(t, n) + p.unit;
      mix(gates, gates + 2 * s.units, f.before(i) + n * s.units + p.unit, p.width(), f.after(i) + n * s.units + p.unit);
      f.give(p, i, t, n);
    }
  });
}

template <class T>
void gru_reset_after(const ForwardSteps<T>& f, std::int64_t i) {
  const RecurrentSizes& s = f.s;
  const std::int64_t t = f.order.at(i), h = 2 * s.units;
  f.parts.run(f.factor, [&](const StepPart& p) {
    f.multiply(p, f.before(i), 0, 3);
    for (std::int64_t n = p.row; n < p.row_end; ++n) {
      T* linear = f.extra(t, n) + p.unit;
      std::fill_n(linear, p.width(), T{0});
      if (f.skip(p, i, t, n)) continue;
      for (std::int64_t gate = 0; gate < 2; ++gate) f.finish_gate(p, t, n, gate, f.cell.activations[0]);
      T* gates = f.gates(t, n) + p.unit;
      std::copy_n(f.product.data() + n * f.width + h + p.unit, p.width(), linear);
      if (f.in.bias) {
        recurrent::add(f.in.bias + f.width + h + p.unit, p.width(), linear);
        recurrent::add(f.in.bias + h + p.unit, p.width(), gates + h);
      }
      recurrent::add_product(gates + s.units, linear, p.width(), gates + h);
      activate(f.cell.activations[1], f.cell.clip, gates + h, p.width());
      mix(gates, gates + h, f.before(i) + n * s.units + p.unit, p.width(), f.after(i) + n * s.units + p.unit);
      f.give(p, i, t, n);
    }
  });
}

// One row of an LSTM, with the units of a part: gates i, o, f, c.
template <class T>
void lstm_row(const ForwardSteps<T>& f, const StepPart& p, std::int64_t t, std::int64_t n, const T* __restrict c_before,
              T* __restrict c, T* __restrict h) {
  const std::int64_t units = f.s.units, count = p.width();
  const auto& [gate, candidate, output] = f.cell.activations;
  T* __restrict in = f.gates(t, n) + p.unit;
  T* __restrict out = in + units;
  T* __restrict forget = in + 2 * units;
  T* __restrict fresh = in + 3 * units;
  const T* peep = f.in.peepholes ? f.in.peepholes + p.unit : nullptr;
  if (peep) recurrent::add_product(peep, c_before, count, in);
  f.finish_gate(p, t, n, 0, gate);
  if (f.cell.input_forget) {
    for (std::int64_t j = 0; j < count; ++j) forget[j] = 1 - in[j];
  } else {
    if (peep) recurrent::add_product(peep + 2 * units, c_before, count, forget);
    f.finish_gate(p, t, n, 2, gate);
  }
  f.finish_gate(p, t, n, 3, candidate);
  for (std::int64_t j = 0; j < count; ++j) c[j] = forget[j] * c_before[j] + in[j] * fresh[j];
  if (peep) recurrent::add_product(peep + units, static_cast<const T*>(c), count, out);
  f.finish_gate(p, t, n, 1, gate);
  std::copy_n(c, count, h);
  activate(output, 0, h, count);
  for (std::int64_t j = 0; j < count; ++j) h[j] *= out[j];
}

}  // namespace

template <class T>
void rnn_forward(Parallelism& parallelism, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                 const RecurrentOutputs<T>& out) {
  const ForwardSteps<T> f(parallelism, cell, in, out);
  for (std::int64_t i = 0; i < f.s.steps; ++i) {
    const std::int64_t t = f.order.at(i);
    f.parts.run(f.factor, [&](const StepPart& p) {
      f.multiply(p, f.before(i), 0, 1);
      for (std::int64_t n = p.row; n < p.row_end; ++n) {
        if (f.skip(p, i, t, n)) continue;
        f.finish_gate(p, t, n, 0, cell.activations[0]);
        std::copy_n(f.gates(t, n) + p.unit, p.width(), f.after(i) + n * f.s.units + p.unit);
        f.give(p, i, t, n);
      }
    });
  }
  f.end();
}

template <class T>
void gru_forward(Parallelism& parallelism, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                 const RecurrentOutputs<T>& out) {
  const ForwardSteps<T> f(parallelism, cell, in, out);
  for (std::int64_t i = 0; i < f.s.steps; ++i) cell.linear_before_reset ? gru_reset_after(f, i) : gru_reset_first(f, i);
  f.end();
}

template <class T>
void lstm_forward(Parallelism& parallelism, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                  const RecurrentOutputs<T>& out) {
  const ForwardSteps<T> f(parallelism, cell, in, out);
  const std::int64_t units = f.s.units, state = f.s.batch * units;
  const ScratchArray<T> first_c(state);
  recurrent::copy_or_zero(in.initial_c, state, first_c.data());
  for (std::int64_t i = 0; i < f.s.steps; ++i) {
    const std::int64_t t = f.order.at(i);
    const T* c_before = i == 0 ? first_c.data() : f.extra(f.order.at(i - 1), 0);
    f.parts.run(f.factor, [&](const StepPart& p) {
      f.multiply(p, f.before(i), 0, 4);
      for (std::int64_t n = p.row; n < p.row_end; ++n) {
        const std::int64_t at = n * units + p.unit;
        if (f.skip(p, i, t, n)) {
          std::copy_n(c_before + at, p.width(), f.extra(t, 0) + at);
          continue;
        }
        lstm_row(f, p, t, n, c_before + at, f.extra(t, 0) + at, f.after(i) + at);
        f.give(p, i, t, n);
      }
    });
  }
  std::copy_n(f.s.steps == 0 ? first_c.data() : f.extra(f.order.at(f.s.steps - 1), 0), state, out.last_c);
  f.end();
}

template void rnn_forward(Parallelism&, const RecurrentCell&, const RecurrentInputs<float>&,
                          const RecurrentOutputs<float>&);
template void rnn_forward(Parallelism&, const RecurrentCell&, const RecurrentInputs<double>&,
                          const RecurrentOutputs<double>&);
template void gru_forward(Parallelism&, const RecurrentCell&, const RecurrentInputs<float>&,
                          const RecurrentOutputs<float>&);
template void gru_forward(Parallelism&, const RecurrentCell&, const RecurrentInputs<double>&,
                          const RecurrentOutputs<double>&);
template void lstm_forward(Parallelism&, const RecurrentCell&, const RecurrentInputs<float>&,
                           const RecurrentOutputs<float>&);
template void lstm_forward(Parallelism&, const RecurrentCell&, const RecurrentInputs<double>&,
                           const RecurrentOutputs<double>&);

}  // namespace troupe
