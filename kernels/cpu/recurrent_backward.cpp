// Recurrent layers back through the steps, and then the gradients of weights in one product each.
#include <troupe/kernels/cpu/recurrent_steps.hpp>

namespace troupe {
namespace {

using recurrent::StepOrder;
using recurrent::StepPart;
using recurrent::StepParts;

// State and scratch memory of the steps back through one direction. The gradient of a step's state is
//   dy + carry + (gradients of the next step's gates) R,
// where `carry` is what reaches it directly. Rows that do not run pass all on by `carry`.
template <class T>
struct BackwardSteps {
  const RecurrentCell& cell;
  const RecurrentInputs<T>& in;
  const RecurrentOutputs<const T>& out;
  const RecurrentFlows<T>& flows;
  RecurrentSizes s;
  StepOrder order;
  std::int64_t width;      // of all gates
  std::int64_t state;      // elements
  PackedFactor<T> factor;  // R
  StepParts parts;
  ScratchArray<T> before;   // [steps, batch, units]
  ScratchArray<T> dgates;   // [steps, batch, width], before activation
  ScratchArray<T> product;  // [batch, units]
  ScratchArray<T> carry;    // [batch, units]
  ScratchArray<T> dstate;   // [batch, units], of the step

  // `recurrent_gates`: those whose product with R is part of a state's gradient.
  BackwardSteps(Parallelism& parallelism, const RecurrentCell& c, const RecurrentInputs<T>& inputs,
                const RecurrentOutputs<const T>& outputs, const RecurrentFlows<T>& flow, std::int64_t recurrent_gates)
      : cell(c),
        in(inputs),
        out(outputs),
        flows(flow),
        s(c.sizes),
        order{s.steps, c.reverse},
        width(s.gates * s.units),
        state(s.batch * s.units),
        factor(recurrent_gates * s.units, s.units, 1, {inputs.r, s.units, false}),
        parts(parallelism, s.batch, factor, width),
        before(s.steps * state),
        dgates(s.steps * s.batch * width),
        product(state),
        carry(state),
        dstate(state) {
    recurrent::states_before(parallelism, cell, in, out.y, before.data());
    recurrent::copy_or_zero(flows.dlast_h, state, carry.data());
  }

  const T* gates(std::int64_t t, std::int64_t n) const { return out.gates + (t * s.batch + n) * width; }
  const T* extra(std::int64_t t, std::int64_t n) const { return out.extra + (t * s.batch + n) * s.units; }
  const T* state_before(std::int64_t t, std::int64_t n) const { return before.data() + (t * s.batch + n) * s.units; }
  T* dgate(std::int64_t t, std::int64_t n) const { return dgates.data() + (t * s.batch + n) * width; }

  // `all`: gradients of gates by row, [steps, batch, width].
  void multiply(const StepPart& p, const T* all, std::int64_t t) const {
    factor.multiply(p.row_end - p.row, all + (t * s.batch + p.row) * width, width, 0, p.panel, p.panel_end,
                    product.data() + p.row * s.units, s.units);
  }
  // Sets `dstate` for a part of step i; `all` as above.
  void receive(const StepPart& p, const T* all, std::int64_t i) const {
    const std::int64_t t = order.at(i);
    if (i + 1 < s.steps) multiply(p, all, order.at(i + 1));
    for (std::int64_t n = p.row; n < p.row_end; ++n) {
      const std::int64_t at = n * s.units + p.unit;
      T* d = dstate.data() + at;
      std::copy_n(carry.data() + at, p.width(), d);
      if (i + 1 < s.steps) recurrent::add(product.data() + at, p.width(), d);
      if (flows.dy && recurrent::runs(in.lengths, n, t))
        recurrent::add(flows.dy + (t * s.directions * s.batch + n) * s.units + p.unit, p.width(), d);
    }
  }
  bool skip(const StepPart& p, std::int64_t t, std::int64_t n, T* all) const {
    if (recurrent::runs(in.lengths, n, t)) return false;
    for (std::int64_t gate = 0; gate < s.gates; ++gate)
      std::fill_n(all + (t * s.batch + n) * width + gate * s.units + p.unit, p.width(), T{0});
    const std::int64_t at = n * s.units + p.unit;
    std::copy_n(dstate.data() + at, p.width(), carry.data() + at);
    return true;
  }
  // The gradient of the initial state.
  void end(const T* all, T* dinitial_h) const {
    parts.run(factor, [&](const StepPart& p) {
      if (s.steps > 0) multiply(p, all, order.at(0));
      for (std::int64_t n = p.row; n < p.row_end; ++n) {
        const std::int64_t at = n * s.units + p.unit;
        std::copy_n(carry.data() + at, p.width(), dinitial_h + at);
        if (s.steps > 0) recurrent::add(product.data() + at, p.width(), dinitial_h + at);
      }
    });
  }
};

// dR of gates [first, last) = their gradients' product with what R was multiplied by.
template <class T>
void state_weights(Parallelism& parallelism, const BackwardSteps<T>& b, const T* dgates, std::int64_t first,
                   std::int64_t last, const T* factor, T* dr) {
  const std::int64_t units = b.s.units;
  recurrent::product<T>(parallelism, (last - first) * units, units, b.s.steps * b.s.batch,
                        {dgates + first * units, b.width, true}, {factor, units, false}, dr + first * units * units,
                        units);
}

template <class T>
void same_state_bias(const BackwardSteps<T>& b, const RecurrentGradients<T>& g) {
  if (g.dbias) std::copy_n(g.dbias, b.width, g.dbias + b.width);
}

// Of h = (1 - z) candidate + z before: the gradients of z and the candidate before activation, and what reaches the
// state before directly.
template <class T>
void unmix(const BackwardSteps<T>& b, const StepPart& p, std::int64_t t, std::int64_t n, T* dgates) {
  const std::int64_t at = n * b.s.units + p.unit, count = p.width();
  const T* __restrict d = b.dstate.data() + at;
  const T* __restrict z = b.gates(t, n) + p.unit;
  const T* __restrict candidate = z + 2 * b.s.units;
  const T* __restrict before = b.state_before(t, n) + p.unit;
  T* __restrict dz = dgates + (t * b.s.batch + n) * b.width + p.unit;
  T* __restrict dcandidate = dz + 2 * b.s.units;
  T* __restrict carry = b.carry.data() + at;
  for (std::int64_t j = 0; j < count; ++j) {
    dz[j] = d[j] * (before[j] - candidate[j]);
    dcandidate[j] = d[j] * (1 - z[j]);
    carry[j] = d[j] * z[j];
  }
  multiply_slope(b.cell.activations[0], b.cell.clip, z, dz, count);
  multiply_slope(b.cell.activations[1], b.cell.clip, candidate, dcandidate, count);
}

// candidate = g(... + (r before) R_h'): the product with R_h comes between the gradients of the candidate and of r.
template <class T>
void gru_reset_first(Parallelism& parallelism, const BackwardSteps<T>& b, const RecurrentGradients<T>& g) {
  const std::int64_t units = b.s.units;
  const PackedFactor<T> candidate_factor(units, units, 1, {b.in.r + 2 * units * units, units, false});
  T* const dgates = b.dgates.data();
  for (std::int64_t i = b.s.steps - 1; i >= 0; --i) {
    const std::int64_t t = b.order.at(i);
    b.parts.run(b.factor, [&](const StepPart& p) {
      b.receive(p, dgates, i);
      for (std::int64_t n = p.row; n < p.row_end; ++n)
        if (!b.skip(p, t, n, dgates)) unmix(b, p, t, n, dgates);
    });
    b.parts.run(b.factor, [&](const StepPart& p) {
      candidate_factor.multiply(p.row_end - p.row, b.dgate(t, p.row) + 2 * units, b.width, 0, p.panel, p.panel_end,
                                b.product.data() + p.row * units, units);
      for (std::int64_t n = p.row; n < p.row_end; ++n) {
        if (!recurrent::runs(b.in.lengths, n, t)) continue;
        const std::int64_t at = n * units + p.unit;
        const T* __restrict flow = b.product.data() + at;
        const T* __restrict reset = b.gates(t, n) + units + p.unit;
        const T* __restrict before = b.state_before(t, n) + p.unit;
        T* __restrict dreset = b.dgate(t, n) + units + p.unit;
        T* __restrict carry = b.carry.data() + at;
        for (std::int64_t j = 0; j < p.width(); ++j) {
          dreset[j] = flow[j] * before[j];
          carry[j] += flow[j] * reset[j];
        }
        multiply_slope(b.cell.activations[0], b.cell.clip, reset, dreset, p.width());
      }
    });
  }
  b.end(dgates, g.dinitial_h);
  recurrent::input_gradients(parallelism, b.cell, b.in, static_cast<const T*>(dgates), g);
  same_state_bias(b, g);
  state_weights<T>(parallelism, b, dgates, 0, 2, b.before.data(), g.dr);
  state_weights<T>(parallelism, b, dgates, 2, 3, b.out.extra, g.dr);
}

// candidate = g(... + r linear), linear = before R_h' + bias: `dstates` has the gradients of z, r and linear.
template <class T>
void gru_reset_after(Parallelism& parallelism, const BackwardSteps<T>& b, const RecurrentGradients<T>& g) {
  const std::int64_t units = b.s.units, rows = b.s.steps * b.s.batch;
  const ScratchArray<T> dstates(rows * b.width);
  T* const dgates = b.dgates.data();
  for (std::int64_t i = b.s.steps - 1; i >= 0; --i) {
    const std::int64_t t = b.order.at(i);
    b.parts.run(b.factor, [&](const StepPart& p) {
      b.receive(p, dstates.data(), i);
      for (std::int64_t n = p.row; n < p.row_end; ++n) {
        if (b.skip(p, t, n, dgates)) {
          b.skip(p, t, n, dstates.data());
          continue;
        }
        unmix(b, p, t, n, dgates);
        const std::int64_t count = p.width();
        const T* __restrict linear = b.extra(t, n) + p.unit;
        const T* __restrict reset = b.gates(t, n) + units + p.unit;
        T* __restrict dz = b.dgate(t, n) + p.unit;
        T* __restrict dreset = dz + units;
        const T* __restrict dcandidate = dz + 2 * units;
        T* __restrict to = dstates.data() + (t * b.s.batch + n) * b.width + p.unit;
        for (std::int64_t j = 0; j < count; ++j) {
          dreset[j] = dcandidate[j] * linear[j];
          to[2 * units + j] = dcandidate[j] * reset[j];
        }
        multiply_slope(b.cell.activations[0], b.cell.clip, reset, dreset, count);
        std::copy_n(dz, count, to);
        std::copy_n(dreset, count, to + units);
      }
    });
  }
  b.end(dstates.data(), g.dinitial_h);
  recurrent::input_gradients(parallelism, b.cell, b.in, static_cast<const T*>(dgates), g);
  if (g.dbias)
    recurrent::sum_rows<T>(parallelism, rows, b.width, g.dbias + b.width,
                           [&](std::int64_t i, std::int64_t begin, std::int64_t end, T* sums) {
                             recurrent::add(dstates.data() + i * b.width + begin, end - begin, sums);
                           });
  state_weights<T>(parallelism, b, dstates.data(), 0, 3, b.before.data(), g.dr);
}

// One row of an LSTM, with the units of a part. dc: in, of the state after the step; out, of the one before.
template <class T>
void lstm_row(const BackwardSteps<T>& b, const StepPart& p, std::int64_t t, std::int64_t n,
              const T* __restrict c_before, T* __restrict dc, T* __restrict room) {
  const std::int64_t units = b.s.units, count = p.width();
  const auto& [gate, candidate, output] = b.cell.activations;
  const double clip = b.cell.clip;
  const T* __restrict in = b.gates(t, n) + p.unit;
  const T* __restrict out = in + units;
  const T* __restrict forget = in + 2 * units;
  const T* __restrict fresh = in + 3 * units;
  const T* __restrict c = b.extra(t, n) + p.unit;
  const T* __restrict d = b.dstate.data() + n * units + p.unit;
  T* __restrict din = b.dgate(t, n) + p.unit;
  T* __restrict dout = din + units;
  T* __restrict dforget = din + 2 * units;
  T* __restrict dfresh = din + 3 * units;
  const T* peep = b.in.peepholes ? b.in.peepholes + p.unit : nullptr;

  T* __restrict shown = room;           // the activated c
  T* __restrict dshown = room + count;  // then the gradient of c through it
  std::copy_n(c, count, shown);
  activate(output, 0, shown, count);
  for (std::int64_t j = 0; j < count; ++j) {
    dout[j] = d[j] * shown[j];
    dshown[j] = d[j] * out[j];
  }
  multiply_slope(gate, clip, out, dout, count);
  multiply_slope(output, 0, static_cast<const T*>(shown), dshown, count);
  recurrent::add(static_cast<const T*>(dshown), count, dc);
  if (peep) recurrent::add_product(peep + units, static_cast<const T*>(dout), count, dc);
  for (std::int64_t j = 0; j < count; ++j) {
    din[j] = dc[j] * fresh[j];
    dforget[j] = dc[j] * c_before[j];
    dfresh[j] = dc[j] * in[j];
    dc[j] *= forget[j];
  }
  if (b.cell.input_forget) {
    for (std::int64_t j = 0; j < count; ++j) din[j] -= dforget[j], dforget[j] = 0;
  } else {
    multiply_slope(gate, clip, forget, dforget, count);
  }
  multiply_slope(gate, clip, in, din, count);
  multiply_slope(candidate, clip, fresh, dfresh, count);
  if (!peep) return;
  recurrent::add_product(peep, static_cast<const T*>(din), count, dc);
  recurrent::add_product(peep + 2 * units, static_cast<const T*>(dforget), count, dc);
}

}  // namespace

template <class T>
void rnn_backward(Parallelism& parallelism, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                  const RecurrentOutputs<const T>& out, const RecurrentFlows<T>& flows,
                  const RecurrentGradients<T>& g) {
  const BackwardSteps<T> b(parallelism, cell, in, out, flows, 1);
  T* const dgates = b.dgates.data();
  for (std::int64_t i = b.s.steps - 1; i >= 0; --i) {
    const std::int64_t t = b.order.at(i);
    b.parts.run(b.factor, [&](const StepPart& p) {
      b.receive(p, dgates, i);
      for (std::int64_t n = p.row; n < p.row_end; ++n) {
        if (b.skip(p, t, n, dgates)) continue;
        const std::int64_t at = n * b.s.units + p.unit;
        std::copy_n(b.dstate.data() + at, p.width(), b.dgate(t, n) + p.unit);
        std::fill_n(b.carry.data() + at, p.width(), T{0});
        multiply_slope(cell.activations[0], cell.clip, b.gates(t, n) + p.unit, b.dgate(t, n) + p.unit, p.width());
      }
    });
  }
  b.end(dgates, g.dinitial_h);
  recurrent::input_gradients(parallelism, cell, in, static_cast<const T*>(dgates), g);
  same_state_bias(b, g);
  state_weights<T>(parallelism, b, dgates, 0, 1, b.before.data(), g.dr);
}

template <class T>
void gru_backward(Parallelism& parallelism, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                  const RecurrentOutputs<const T>& out, const RecurrentFlows<T>& flows,
                  const RecurrentGradients<T>& g) {
  const BackwardSteps<T> b(parallelism, cell, in, out, flows, cell.linear_before_reset ? 3 : 2);
  cell.linear_before_reset ? gru_reset_after(parallelism, b, g) : gru_reset_first(parallelism, b, g);
}

template <class T>
void lstm_backward(Parallelism& parallelism, const RecurrentCell& cell, const RecurrentInputs<T>& in,
                   const RecurrentOutputs<const T>& out, const RecurrentFlows<T>& flows,
                   const RecurrentGradients<T>& g) {
  const BackwardSteps<T> b(parallelism, cell, in, out, flows, 4);
  const std::int64_t units = b.s.units;
  const ScratchArray<T> first_c(b.state);
  recurrent::copy_or_zero(in.initial_c, b.state, first_c.data());
  recurrent::copy_or_zero(flows.dlast_c, b.state, g.dinitial_c);
  T* const dgates = b.dgates.data();
  const auto c_before = [&](std::int64_t i) { return i == 0 ? first_c.data() : b.extra(b.order.at(i - 1), 0); };
  for (std::int64_t i = b.s.steps - 1; i >= 0; --i) {
    const std::int64_t t = b.order.at(i);
    b.parts.run(b.factor, [&](const StepPart& p) {
      b.receive(p, dgates, i);
      const ScratchArray<T> room(2 * p.width());
      for (std::int64_t n = p.row; n < p.row_end; ++n) {
        if (b.skip(p, t, n, dgates)) continue;
        const std::int64_t at = n * units + p.unit;
        std::fill_n(b.carry.data() + at, p.width(), T{0});
        lstm_row(b, p, t, n, c_before(i) + at, g.dinitial_c + at, room.data());
      }
    });
  }
  b.end(dgates, g.dinitial_h);
  recurrent::input_gradients(parallelism, cell, in, static_cast<const T*>(dgates), g);
  same_state_bias(b, g);
  state_weights<T>(parallelism, b, dgates, 0, 4, b.before.data(), g.dr);
  if (!g.dpeepholes) return;
  // Gates i and f saw the state c before the step, o the one after it. (dgates are 0 where a row did not run.)
  for (std::int64_t k = 0; k < 3; ++k)
    recurrent::sum_rows<T>(parallelism, b.s.steps * b.s.batch, units, g.dpeepholes + k * units,
                           [&](std::int64_t row, std::int64_t begin, std::int64_t end, T* sums) {
                             const std::int64_t t = row / b.s.batch, n = row % b.s.batch;
                             const std::int64_t i = b.order.at(t);
                             const T* c = k == 1 ? b.extra(t, n) : c_before(i) + n * units;
                             recurrent::add_product(b.dgate(t, n) + k * units + begin, c + begin, end - begin, sums);
                           });
}

#define TROUPE_RECURRENT_BACKWARD(name, T)                                                                            \
  template void name(Parallelism&, const RecurrentCell&, const RecurrentInputs<T>&, const RecurrentOutputs<const T>&, \
                     const RecurrentFlows<T>&, const RecurrentGradients<T>&)
TROUPE_RECURRENT_BACKWARD(rnn_backward, float);
TROUPE_RECURRENT_BACKWARD(rnn_backward, double);
TROUPE_RECURRENT_BACKWARD(gru_backward, float);
TROUPE_RECURRENT_BACKWARD(gru_backward, double);
TROUPE_RECURRENT_BACKWARD(lstm_backward, float);
TROUPE_RECURRENT_BACKWARD(lstm_backward, double);
#undef TROUPE_RECURRENT_BACKWARD

}  // namespace troupe
