// Kernels of recurrent layers: checks, dtypes and directions. f16 and bf16 are computed in f32.
#include <algorithm>
#include <memory>
#include <vector>

#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/recurrent.hpp>
#include <troupe/kernels/cpu/widened.hpp>

namespace troupe {
namespace {

enum class CellKind : std::uint8_t { rnn, gru, lstm };

// What a node's attributes say.
struct CellPlan {
  CellKind kind = CellKind::rnn;
  std::vector<RecurrentCell> directions{};
  std::string op{};

  std::int64_t gates() const { return kind == CellKind::rnn ? 1 : kind == CellKind::gru ? 3 : 4; }
  int inputs() const { return kind == CellKind::lstm ? 8 : 6; }
  int results() const { return kind == CellKind::lstm ? 3 : 2; }
  int kept() const { return kind == CellKind::rnn ? 1 : 2; }
};

CellPlan make_plan(CellKind kind, std::string op, const Attributes& a) {
  CellPlan plan{.kind = kind, .op = std::move(op)};
  const std::string& direction = a.string("direction");
  const auto& names = a.get<std::vector<std::string>>("activations");
  const auto &alphas = a.get<std::vector<double>>("alphas"), &betas = a.get<std::vector<double>>("betas");
  const std::size_t count = kind == CellKind::rnn ? 1 : kind == CellKind::gru ? 2 : 3;
  const std::size_t directions = direction == "bidirectional" ? 2 : 1;
  if (names.size() != count * directions || alphas.size() != names.size() || betas.size() != names.size())
    invalid_argument("{}: attributes 'activations', 'alphas' and 'betas' must have {} elements each", plan.op,
                     count * directions);
  for (std::size_t d = 0; d < directions; ++d) {
    RecurrentCell cell{.clip = a.real("clip"), .reverse = d == 1 || direction == "reverse"};
    for (std::size_t i = 0; i < count; ++i)
      cell.activations[i] = {parse_gate_function(names[d * count + i]), alphas[d * count + i], betas[d * count + i]};
    if (kind == CellKind::gru) cell.linear_before_reset = a.boolean("linear_before_reset");
    if (kind == CellKind::lstm) cell.input_forget = a.boolean("input_forget");
    plan.directions.push_back(cell);
  }
  return plan;
}

bool has_elements(const Tensor& t) { return !(t.shape().rank() == 1 && t.shape()[0] == 0); }

// The checked inputs of a call, widened.
struct CellTensors {
  RecurrentSizes sizes;
  Tensor x, w, r, bias, lengths, initial_h, initial_c, peepholes;

  CellTensors(KernelContext& ctx, const CellPlan& plan) {
    const auto directions = static_cast<std::int64_t>(plan.directions.size());
    check_rank(plan.op + ": x", ctx.input(0).shape(), 3);
    check_rank(plan.op + ": r", ctx.input(2).shape(), 3);
    const Shape xs = ctx.input(0).shape();
    sizes = {.steps = xs[0],
             .batch = xs[1],
             .inputs = xs[2],
             .units = ctx.input(2).shape()[2],
             .directions = directions,
             .gates = plan.gates()};
    const std::int64_t width = sizes.gates * sizes.units;
    const Shape state{directions, sizes.batch, sizes.units};
    x = get(ctx, plan, 0, "x", xs);
    w = get(ctx, plan, 1, "w", {directions, width, sizes.inputs});
    r = get(ctx, plan, 2, "r", {directions, width, sizes.units});
    bias = get_optional(ctx, plan, 3, "bias", {directions, 2 * width});
    initial_h = get_optional(ctx, plan, 5, "initial_h", state);
    if (plan.kind == CellKind::lstm) {
      initial_c = get_optional(ctx, plan, 6, "initial_c", state);
      peepholes = get_optional(ctx, plan, 7, "peepholes", {directions, 3 * sizes.units});
    }
    if (!has_elements(ctx.input(4))) return;
    lengths = ctx.input(4);
    check_tensor(plan.op + ": lengths", lengths, DType::i64, Shape{sizes.batch});
    for (const std::int64_t length : lengths.values<std::int64_t>())
      if (length < 0 || length > sizes.steps)
        invalid_argument("{}: a length is {}, but there are {} steps", plan.op, length, sizes.steps);
  }

  template <class T>
  RecurrentInputs<T> of(std::int64_t d) const {
    const std::int64_t width = sizes.gates * sizes.units, state = sizes.batch * sizes.units;
    const auto at = [d](const Tensor& t, std::int64_t size) { return t.valid() ? t.data<T>() + d * size : nullptr; };
    return {.x = x.data<T>(),
            .w = at(w, width * sizes.inputs),
            .r = at(r, width * sizes.units),
            .bias = at(bias, 2 * width),
            .lengths = lengths.valid() ? lengths.data<std::int64_t>() : nullptr,
            .initial_h = at(initial_h, state),
            .initial_c = at(initial_c, state),
            .peepholes = at(peepholes, 3 * sizes.units)};
  }
  RecurrentCell cell(const CellPlan& plan, std::int64_t d) const {
    RecurrentCell out = plan.directions[static_cast<std::size_t>(d)];
    out.sizes = sizes;
    return out;
  }

 private:
  static Tensor get(KernelContext& ctx, const CellPlan& plan, int index, const char* name, const Shape& shape) {
    check_tensor(plan.op + ": " + name, ctx.input(index), ctx.input(0).dtype(), shape);
    return widened_tensor(ctx, ctx.input(index));
  }
  static Tensor get_optional(KernelContext& ctx, const CellPlan& plan, int index, const char* name,
                             const Shape& shape) {
    return has_elements(ctx.input(index)) ? get(ctx, plan, index, name, shape) : Tensor();
  }
};

// `kept`: of r; null if that may change.
void forward(KernelContext& ctx, const CellPlan& plan, KeptLayout* kept) {
  const DType dtype = ctx.input(0).dtype(), wide = wide_type(dtype);
  const CellTensors in(ctx, plan);
  const RecurrentSizes& s = in.sizes;
  const std::int64_t state = s.batch * s.units, width = s.gates * s.units;
  Tensor y = ctx.allocate(wide, {s.steps, s.directions, s.batch, s.units});
  Tensor last_h = ctx.allocate(wide, {s.directions, s.batch, s.units}), last_c, extra;
  if (plan.kind == CellKind::lstm) last_c = ctx.allocate(wide, last_h.shape());
  Tensor gates = ctx.allocate(wide, {s.directions, s.steps, s.batch, width});
  if (plan.kept() == 2) extra = ctx.allocate(wide, {s.directions, s.steps, s.batch, s.units});
  if (state > 0)
    dispatch(WideFloatTypes{}, wide, [&]<class T>() {
      const auto at = [](Tensor& t, std::int64_t offset) { return t.valid() ? t.mutable_data<T>() + offset : nullptr; };
      ctx.parallelism().parallel_for(s.directions, 1, [&](std::int64_t d, std::int64_t) {
        const RecurrentOutputs<T> out{.y = at(y, d * state),
                                      .last_h = at(last_h, d * state),
                                      .last_c = at(last_c, d * state),
                                      .gates = at(gates, d * s.steps * s.batch * width),
                                      .extra = at(extra, d * s.steps * state)};
        const auto run = plan.kind == CellKind::rnn   ? rnn_forward<T>
                         : plan.kind == CellKind::gru ? gru_forward<T>
                                                      : lstm_forward<T>;
        RecurrentInputs<T> given = in.of<T>(d);
        given.kept_r = {kept, d};
        run(ctx.parallelism(), in.cell(plan, d), given, out);
      });
    });
  set_narrowed(ctx, 0, std::move(y), dtype);
  set_narrowed(ctx, 1, std::move(last_h), dtype);
  if (last_c.valid()) set_narrowed(ctx, 2, std::move(last_c), dtype);
  ctx.set_output(plan.results(), std::move(gates));
  if (extra.valid()) ctx.set_output(plan.results() + 1, std::move(extra));
}

void backward(KernelContext& ctx, const CellPlan& plan, bool input_gradient) {
  const DType dtype = ctx.input(0).dtype(), wide = wide_type(dtype);
  const CellTensors in(ctx, plan);
  const RecurrentSizes& s = in.sizes;
  const std::int64_t state = s.batch * s.units, width = s.gates * s.units, all = s.steps * s.batch;
  const Shape y_shape{s.steps, s.directions, s.batch, s.units}, states{s.directions, s.batch, s.units};
  int next = plan.inputs();
  const auto take = [&](const char* name, DType type, const Shape& shape, bool optional) {
    const Tensor& t = ctx.input(next++);
    if (optional && !has_elements(t)) return Tensor();
    check_tensor(plan.op + ": " + name, t, type, shape);
    return widened_tensor(ctx, t);
  };
  const Tensor y = take("y", dtype, y_shape, false);
  const Tensor gates = take("gates", wide, {s.directions, s.steps, s.batch, width}, false);
  Tensor extra, dlast_c;
  if (plan.kept() == 2) extra = take("extra", wide, {s.directions, s.steps, s.batch, s.units}, false);
  const Tensor dy = take("dy", dtype, y_shape, true), dlast_h = take("dlast_h", dtype, states, true);
  if (plan.kind == CellKind::lstm) dlast_c = take("dlast_c", dtype, states, true);

  const auto like = [&](const Tensor& t, const Shape& none) {
    return ctx.allocate(wide, t.valid() ? t.shape() : none);
  };
  const Shape none{0};
  Tensor dx = ctx.allocate(wide, input_gradient ? in.x.shape() : none), dw = like(in.w, none), dr = like(in.r, none),
         dbias = like(in.bias, none), dinitial_h = ctx.allocate(wide, states), dinitial_c, dpeepholes;
  if (plan.kind == CellKind::lstm) {
    dinitial_c = ctx.allocate(wide, states);
    dpeepholes = like(in.peepholes, none);
  }
  if (state == 0)
    for (Tensor* t : {&dx, &dw, &dr, &dbias, &dinitial_h, &dinitial_c, &dpeepholes})
      if (t->valid()) std::fill_n(t->mutable_raw(), t->num_bytes(), std::byte{0});
  if (state > 0)
    dispatch(WideFloatTypes{}, wide, [&]<class T>() {
      const auto at = [](const Tensor& t, std::int64_t offset) { return t.valid() ? t.data<T>() + offset : nullptr; };
      const auto to = [](Tensor& t, bool wanted, std::int64_t offset) {
        return wanted ? t.mutable_data<T>() + offset : nullptr;
      };
      for (std::int64_t d = 0; d < s.directions; ++d) {
        const RecurrentOutputs<const T> out{
            .y = at(y, d * state), .gates = at(gates, d * all * width), .extra = at(extra, d * all * s.units)};
        const RecurrentFlows<T> flows{at(dy, d * state), at(dlast_h, d * state), at(dlast_c, d * state)};
        const RecurrentGradients<T> gradients{.dx = to(dx, input_gradient, 0),
                                              .add_to_x = d > 0,
                                              .dw = to(dw, true, d * width * s.inputs),
                                              .dr = to(dr, true, d * width * s.units),
                                              .dbias = to(dbias, in.bias.valid(), d * 2 * width),
                                              .dinitial_h = to(dinitial_h, true, d * state),
                                              .dinitial_c = to(dinitial_c, dinitial_c.valid(), d * state),
                                              .dpeepholes = to(dpeepholes, in.peepholes.valid(), d * 3 * s.units)};
        const auto run = plan.kind == CellKind::rnn   ? rnn_backward<T>
                         : plan.kind == CellKind::gru ? gru_backward<T>
                                                      : lstm_backward<T>;
        run(ctx.parallelism(), in.cell(plan, d), in.of<T>(d), out, flows, gradients);
      }
    });
  if (!in.initial_h.valid()) dinitial_h = ctx.allocate(wide, none);
  if (dinitial_c.valid() && !in.initial_c.valid()) dinitial_c = ctx.allocate(wide, none);
  int index = 0;
  for (Tensor* t : {&dx, &dw, &dr, &dbias, &dinitial_h, &dinitial_c, &dpeepholes})
    if (t->valid()) set_narrowed(ctx, index++, std::move(*t), dtype);
}

void add_cell_kernels(KernelRegistry& registry, CellKind kind, const std::string& op) {
  const std::vector<DType> types{DType::f32, DType::f64, DType::f16, DType::bf16};
  registry.add({op, "CPU", types, [=](const KernelInit& init) -> Kernel {
                  return [plan = make_plan(kind, op, init.attributes), kept = KeptLayout::of(init.constant(2))](
                             KernelContext& ctx) { forward(ctx, plan, kept.get()); };
                }});
  registry.add({op + "Grad", "CPU", types, [=](const KernelInit& init) -> Kernel {
                  return
                      [plan = make_plan(kind, op + "Grad", init.attributes),
                       dx = init.attributes.boolean("input_gradient")](KernelContext& ctx) { backward(ctx, plan, dx); };
                }});
}

}  // namespace

void register_recurrent_kernels(KernelRegistry& registry) {
  add_cell_kernels(registry, CellKind::rnn, "RNN");
  add_cell_kernels(registry, CellKind::gru, "GRU");
  add_cell_kernels(registry, CellKind::lstm, "LSTM");
}

}  // namespace troupe
