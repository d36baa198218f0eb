// Recurrent layers: whole sequences in one op (graph/builder/recurrent.hpp has the formulas).
//
// An optional input that is absent is a vector of no elements, and so is its gradient. "U" is the dtype of what is kept
// for the gradient: f32, or f64 if the data is f64.
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

enum class Cell : std::uint8_t { rnn, gru, lstm };

// Positions: inputs x, w, r, bias, lengths, initial_h, of LSTM also initial_c, peepholes; outputs y, last_h, of LSTM
// last_c, then what is kept: gates, of GRU and LSTM also extra. A gradient's inputs are the inputs, y, what is kept,
// and the gradients of y, last_h and last_c.
struct CellShape {
  Cell cell;
  std::int64_t gates() const { return cell == Cell::rnn ? 1 : cell == Cell::gru ? 3 : 4; }
  std::int64_t activations() const { return cell == Cell::rnn ? 1 : cell == Cell::gru ? 2 : 3; }
  int inputs() const { return cell == Cell::lstm ? 8 : 6; }
  int results() const { return cell == Cell::lstm ? 3 : 2; }
  int kept() const { return cell == Cell::rnn ? 1 : 2; }
};

bool is_absent_state(const Shape& shape) { return shape.rank() == 1 && shape[0] == 0; }

struct RecurrentDims {
  std::int64_t steps, batch, inputs, units, directions;
};

void check_activations(const Attributes& a, std::size_t count) {
  const auto& names = a.get<std::vector<std::string>>("activations");
  const std::size_t alphas = a.get<std::vector<double>>("alphas").size(),
                    betas = a.get<std::vector<double>>("betas").size();
  if (names.size() != count || alphas != count || betas != count)
    invalid_argument("attributes 'activations', 'alphas' and 'betas' must have {} elements each, not {}, {} and {}",
                     count, names.size(), alphas, betas);
}

// Merges dimensions of input `index` with those known; kUnknown at a position of `sizes` stands for an unknown one.
void merge_optional(const ShapeContext& c, int index, std::string_view name, Shape expected) {
  const Shape& given = c.input(index);
  if (!given.has_rank() || is_absent_state(given)) return;
  if (!given.compatible_with(expected))
    invalid_argument("'{}' must be {} or have no elements, but is {}", name, expected.to_string(), given.to_string());
}

RecurrentDims recurrent_dims(const ShapeContext& c, CellShape cell) {
  const Attributes& a = c.attributes();
  const std::string& direction = a.string("direction");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    invalid_argument("attribute 'direction' is '{}', not forward, reverse or bidirectional", direction);
  if (!(a.real("clip") >= 0)) invalid_argument("attribute 'clip' is {}, not 0 or more", a.real("clip"));
  if ((c.input_dtype(0) == DType::f64) != (a.dtype("U") == DType::f64))
    invalid_argument("attribute 'U' is {} for inputs of {}", name(a.dtype("U")), name(c.input_dtype(0)));
  const Shape x = shapes::with_rank(c.input(0), 3, "x"), w = shapes::with_rank(c.input(1), 3, "w"),
              r = shapes::with_rank(c.input(2), 3, "r");
  const std::int64_t gates = cell.gates();
  RecurrentDims d{.steps = x[0], .batch = x[1], .inputs = x[2], .units = r[2], .directions = 1};
  d.directions = direction == "bidirectional" ? 2 : 1;
  check_activations(a, static_cast<std::size_t>(d.directions * cell.activations()));
  d.inputs = shapes::merge_dim(d.inputs, w[2], "the last dimensions of 'x' and 'w'");
  for (const Shape* weights : {&w, &r}) {
    shapes::merge_dim(d.directions, (*weights)[0], "the number of directions and the first dimension of 'w' or 'r'");
    const std::int64_t rows = (*weights)[1];
    if (rows == kUnknown) continue;
    if (rows % gates != 0) invalid_argument("dimension 1 of 'w' or 'r' is {}, not {} times the units", rows, gates);
    d.units = shapes::merge_dim(d.units, rows / gates, "the units of 'r' and dimension 1 of 'w' or 'r', per gate,");
  }
  const Shape state{d.directions, d.batch, d.units};
  const auto times = [&](std::int64_t n) { return d.units == kUnknown ? kUnknown : shapes::checked_mul(n, d.units); };
  merge_optional(c, 3, "bias", {d.directions, times(2 * gates)});
  merge_optional(c, 4, "lengths", {d.batch});
  merge_optional(c, 5, "initial_h", state);
  if (cell.cell == Cell::lstm) {
    merge_optional(c, 6, "initial_c", state);
    merge_optional(c, 7, "peepholes", {d.directions, times(3)});
  }
  return d;
}

ShapeFn cell_forward_shape(CellShape cell) {
  return [cell](ShapeContext& c) {
    const RecurrentDims d = recurrent_dims(c, cell);
    c.set_output(0, {d.steps, d.directions, d.batch, d.units});
    for (int i = 1; i < cell.results(); ++i) c.set_output(i, {d.directions, d.batch, d.units});
    const std::int64_t width = d.units == kUnknown ? kUnknown : shapes::checked_mul(cell.gates(), d.units);
    c.set_output(cell.results(), {d.directions, d.steps, d.batch, width});
    if (cell.kept() == 2) c.set_output(cell.results() + 1, {d.directions, d.steps, d.batch, d.units});
  };
}

ShapeFn cell_backward_shape(CellShape cell) {
  return [cell](ShapeContext& c) {
    const RecurrentDims d = recurrent_dims(c, cell);
    c.set_output(0, c.attributes().boolean("input_gradient") ? Shape{d.steps, d.batch, d.inputs} : Shape{0});
    c.set_output(1, c.input(1));
    c.set_output(2, c.input(2));
    c.set_output(3, c.input(3));
    for (int i = 5; i < cell.inputs(); ++i) c.set_output(i - 1, c.input(i));
  };
}

// The slope of these is found from the activated value, which needs another sign for another alpha.
void check_differentiable(const Attributes& a) {
  const auto& names = a.get<std::vector<std::string>>("activations");
  for (std::size_t i = 0; i < names.size(); ++i)
    if ((names[i] == "leaky_relu" || names[i] == "elu") && a.get<std::vector<double>>("alphas")[i] < 0)
      fail(Code::unimplemented, "activation {} with a negative alpha is not differentiated", names[i]);
}

GradientFn recurrent_gradient(CellShape cell, std::string op) {
  return [cell, op](GradientContext& c) {
    check_differentiable(c.attributes());
    for (int i = cell.results(); i < c.num_outputs(); ++i)
      if (c.has_grad(i))
        fail(Code::unimplemented, "what it keeps for its gradient (output {}) is not differentiated", i);
    Outputs inputs;
    for (int i = 0; i < cell.inputs(); ++i) inputs.push_back(c.input(i));
    inputs.push_back(c.output(0));
    for (int i = 0; i < cell.kept(); ++i) inputs.push_back(c.output(cell.results() + i));
    for (int i = 0; i < cell.results(); ++i)
      inputs.push_back(c.has_grad(i) ? c.grad(i) : constant(c.graph(), Tensor(c.attributes().dtype("T"), Shape{0})));
    Attributes attributes = c.attributes();
    attributes.set("input_gradient", c.needs(0));
    const Outputs found = add_outputs(op, inputs, attributes);
    for (int i = c.needs(0) ? 0 : 1; i < 4; ++i) c.set(i, found[static_cast<std::size_t>(i)]);
    for (int i = 5; i < cell.inputs(); ++i) c.set(i, found[static_cast<std::size_t>(i - 1)]);
  };
}

Op cell_inputs(std::string name, CellShape cell) {
  Op op(std::move(name));
  op.input("x", "T").input("w", "T").input("r", "T").input("bias", "T").input("lengths", DType::i64);
  op.input("initial_h", "T");
  if (cell.cell == Cell::lstm) op.input("initial_c", "T").input("peepholes", "T");
  return op;
}

Op cell_attributes(Op op, CellShape cell) {
  op.type("T", kFloatTypes).type("U", kWideFloatTypes, DType::f32);
  op.attr("direction", std::string("forward"));
  op.attr("activations", AttrType::strings).attr("alphas", AttrType::reals).attr("betas", AttrType::reals);
  op.attr("clip", 0.0);
  if (cell.cell == Cell::gru) op.attr("linear_before_reset", false);
  if (cell.cell == Cell::lstm) op.attr("input_forget", false);
  return op;
}

void add_cell(OpRegistry& ops, const std::string& name, CellShape cell) {
  Op forward = cell_inputs(name, cell).output("y", "T").output("last_h", "T");
  if (cell.cell == Cell::lstm) forward.output("last_c", "T");
  forward.output("gates", "U");
  if (cell.kept() == 2) forward.output("extra", "U");
  ops.add(
      cell_attributes(forward, cell).shape(cell_forward_shape(cell)).gradient(recurrent_gradient(cell, name + "Grad")));

  Op backward = cell_inputs(name + "Grad", cell).input("y", "T").input("gates", "U");
  if (cell.kept() == 2) backward.input("extra", "U");
  backward.input("dy", "T").input("dlast_h", "T");
  if (cell.cell == Cell::lstm) backward.input("dlast_c", "T");
  backward.output("dx", "T").output("dw", "T").output("dr", "T").output("dbias", "T").output("dinitial_h", "T");
  if (cell.cell == Cell::lstm) backward.output("dinitial_c", "T").output("dpeepholes", "T");
  ops.add(cell_attributes(backward, cell).attr("input_gradient", true).shape(cell_backward_shape(cell)));
}

}  // namespace

void register_recurrent_ops(OpRegistry& ops) {
  add_cell(ops, "RNN", {Cell::rnn});
  add_cell(ops, "GRU", {Cell::gru});
  add_cell(ops, "LSTM", {Cell::lstm});
}

}  // namespace troupe
