// ONNX's control flow: If, Loop and Scan.
#include <algorithm>

#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

using Values = OnnxNode::Values;

// The type of a value that has either.
OnnxType common_type(const OnnxType& a, const OnnxType& b) {
  OnnxType out = a;
  if (out.dtype == DType::invalid) out.dtype = b.dtype;
  if (a.shape != b.shape) out.shape = Shape::unknown_rank();
  return out;
}

OnnxType type_of(Output x) { return {{}, x.dtype(), x.shape()}; }

void if_node(OnnxNode& node) {
  std::vector<OnnxType> types;
  const auto branch = [&](const char* attribute) {
    return [&types, &node, attribute](Graph& body, const Outputs&) {
      const Values made = node.build(attribute, body, {});
      for (std::size_t i = 0; i < made.types.size(); ++i)
        if (i < types.size())
          types[i] = common_type(types[i], made.types[i]);
        else
          types.push_back(made.types[i]);
      return made.outputs;
    };
  };
  const Outputs results = if_else(as_scalar(node.in(0)), {}, branch("then_branch"), branch("else_branch"));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const int at = static_cast<int>(i);
    types[i].is_list() ? node.set(at, results[i], types[i]) : node.set(at, results[i]);
  }
}

// ---- Loop

bool is_optional_of(const OnnxType& type, const OnnxType& item) {
  return type.is_list() && type.lists.front() == OnnxType::List::optional && type.item().lists == item.lists;
}

// The values that a loop carries. One that is optional at first may become one that is not: it stays optional inside.
struct Carried {
  Outputs values;
  std::vector<OnnxType> types;
  std::vector<bool> wrapped;

  // What the body returned for value i, as the loop carries it.
  Output carry(std::size_t i, Output value, const OnnxType& type) {
    if (is_optional_of(types[i], type) && !is_optional_of(type, type)) {
      wrapped[i] = true;
      merge(i, type.list_of(OnnxType::List::optional));
      return list_of(*value.graph, {value});
    }
    merge(i, type);
    return value;
  }
  void set(OnnxNode& node, int index, std::size_t i, Output value) const {
    if (!types[i].is_list()) return node.set(index, value);
    if (!wrapped[i]) return node.set(index, value, types[i]);
    const OnnxType item = types[i].item();
    const Output zero = constant<std::int64_t>(node.graph(), 0);
    if (item.is_list()) return node.set(index, list_get(value, zero, DType::list, Shape{}), item);
    node.set(index, list_get(value, zero, item.dtype, item.shape));
  }

 private:
  void merge(std::size_t i, const OnnxType& type) {
    if (types[i].is_list()) types[i] = common_type(types[i], type);
  }
};

Carried carried_of(const OnnxNode& node, int first, int end) {
  Carried out;
  for (int i = first; i < end; ++i) {
    out.values.push_back(node.in(i));
    out.types.push_back(node.type(i));
    // The body may insert items of other shapes.
    if (out.types.back().is_list()) out.types.back().shape = Shape::unknown_rank();
  }
  out.wrapped.resize(out.values.size(), false);
  return out;
}

std::vector<OnnxType> argument_types(const Carried& carried, const Outputs& values) {
  std::vector<OnnxType> types = carried.types;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!types[i].is_list()) types[i] = type_of(values[i]);
  return types;
}

Output stacked(const LoopOutputs& loop, std::size_t i) {
  if (loop.item_types[i] == DType::list) fail(Code::unimplemented, "scan outputs of sequences are not supported");
  return list_stack(loop.lists[i], loop.item_types[i], loop.item_shapes[i]);
}

void loop_node(OnnxNode& node) {
  Graph& graph = node.graph();
  const bool has_cond = node.has(1);
  const Output cond = has_cond ? as_scalar(node.in(1)) : constant(graph, true);
  Carried carried = carried_of(node, 2, node.num_inputs());
  const std::size_t count = carried.values.size();
  if (node.num_arguments("body") != static_cast<int>(count) + 2 ||
      node.num_results("body") < static_cast<int>(count) + 1)
    invalid_argument("the body has {} inputs and {} outputs, which do not fit {} values", node.num_arguments("body"),
                     node.num_results("body"), count);
  LoopOptions options;
  // A trip count below 0 is none at all.
  if (node.has(0)) {
    options.limit = as_scalar(node.in(0));
    const auto known = node.known(0);
    if (!known || known->values<std::int64_t>()[0] < 0)
      options.limit = maximum(options.limit, constant<std::int64_t>(graph, 0));
  }
  const LoopStepFn step = [&](Output i, const Outputs& values) {
    Graph& body = *i.graph;
    Values arguments{{i, constant(body, true)}, argument_types(carried, values)};
    arguments.types.insert(arguments.types.begin(), {type_of(arguments.outputs[0]), type_of(arguments.outputs[1])});
    arguments.outputs.insert(arguments.outputs.end(), values.begin(), values.end());
    const Values made = node.build("body", body, arguments);
    LoopStep out{.again = has_cond ? as_scalar(made.outputs[0]) : arguments.outputs[1], .values = {}, .items = {}};
    for (std::size_t v = 0; v < count; ++v)
      out.values.push_back(carried.carry(v, made.outputs[v + 1], made.types[v + 1]));
    out.items.assign(made.outputs.begin() + 1 + static_cast<std::ptrdiff_t>(count), made.outputs.end());
    return out;
  };
  const LoopOutputs loop_outputs = loop(cond, step, carried.values, options);
  for (std::size_t i = 0; i < count; ++i) carried.set(node, static_cast<int>(i), i, loop_outputs.values[i]);
  for (std::size_t i = 0; i < loop_outputs.lists.size(); ++i)
    if (node.wants(static_cast<int>(count + i))) node.set(static_cast<int>(count + i), stacked(loop_outputs, i));
}

// ---- Scan

std::int64_t rank_of(Output x) {
  if (!x.shape().has_rank()) fail(Code::unimplemented, "scanning along another axis than 0 needs known ranks");
  return x.shape().rank();
}

std::int64_t checked_axis(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) invalid_argument("axis {} is outside of rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

// Moves an axis to the front, or the first axis to another place.
Output axis_to_front(Output x, std::int64_t axis) {
  if (axis == 0) return x;
  const std::int64_t rank = rank_of(x);
  Integers perm{checked_axis(axis, rank)};
  for (std::int64_t d = 0; d < rank; ++d)
    if (d != perm[0]) perm.push_back(d);
  return transpose(x, perm);
}
Output front_to_axis(Output x, std::int64_t axis) {
  if (axis == 0) return x;
  const std::int64_t rank = rank_of(x);
  axis = checked_axis(axis, rank);
  Integers perm;
  for (std::int64_t d = 1; d < rank; ++d) perm.push_back(d);
  perm.insert(perm.begin() + axis, 0);
  return transpose(x, perm);
}

Output rows_reversed(Output x) {
  const Output last = gather(shape_of(x), constant<std::int64_t>(*x.graph, 0)) - 1.0;
  const Output end = constant<std::int64_t>(*x.graph, -1);
  return gather(x, range(last, end, end));
}

// A step of Scan as scan() takes it. `states`: how many of the body's inputs and outputs are states.
ScanStep scan_step(OnnxNode& node, std::size_t states) {
  return [&node, states](const Outputs& state, const Outputs& rows) {
    Values arguments;
    for (const Outputs& part : {state, rows})
      for (const Output& x : part) {
        arguments.outputs.push_back(x);
        arguments.types.push_back(type_of(x));
      }
    const Values made = node.build("body", *rows[0].graph, arguments);
    const auto middle = made.outputs.begin() + static_cast<std::ptrdiff_t>(states);
    return Scanned{{made.outputs.begin(), middle}, {middle, made.outputs.end()}};
  };
}

Integers flags(const OnnxNode& node, std::string_view name, std::size_t count) {
  Integers out = node.integers(name, Integers(count, 0));
  if (out.size() != count) invalid_argument("attribute '{}' has {} elements, not {}", name, out.size(), count);
  return out;
}

bool all_of(const Integers& flags) {
  return !flags.empty() && std::ranges::all_of(flags, [](std::int64_t f) { return f != 0; });
}

// Opset 8: all have a batch dimension in front of that of time.
void scan8_node(OnnxNode& node, std::size_t scanned) {
  const std::size_t states = static_cast<std::size_t>(node.num_inputs()) - 1 - scanned;
  const Integers directions = flags(node, "directions", scanned);
  const bool has_lengths = node.has(0), reverse = all_of(directions);
  if (has_lengths && std::ranges::count(directions, 0) != std::ssize(directions))
    fail(Code::unimplemented, "sequence lengths of reversed scans are not supported");
  Outputs batches;
  for (int i = 1; i < node.num_inputs(); ++i) batches.push_back(node.in(i));
  if (has_lengths) batches.push_back(node.in(0));
  const ScanStep step = scan_step(node, states);
  const ScanStep one_batch = [&](const Outputs&, const Outputs& rows) {
    const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(states);
    Outputs xs(middle, middle + static_cast<std::ptrdiff_t>(scanned));
    for (std::size_t i = 0; i < scanned; ++i)
      if (directions[i] != 0 && !reverse) xs[i] = rows_reversed(xs[i]);
    Outputs init(rows.begin(), middle);
    if (!has_lengths) {
      Scanned made = scan(step, init, xs, {.reverse = reverse, .recompute = false, .name = {}});
      for (Output& y : made.ys)
        if (reverse) y = rows_reversed(y);
      made.state.insert(made.state.end(), made.ys.begin(), made.ys.end());
      return Scanned{{}, made.state};
    }
    // Behind the end of a sequence the states stay; what is scanned there does not matter.
    const Output length = as_scalar(rows.back());
    init.push_back(constant<std::int64_t>(*length.graph, 0));
    Scanned made = scan(
        [&](const Outputs& state, const Outputs& row) {
          const Outputs own(state.begin(), state.end() - 1);
          Scanned next = step(own, row);
          const Output inside = less(state.back(), cast(length, DType::i64));
          for (std::size_t i = 0; i < next.state.size(); ++i)
            next.state[i] = if_else(
                inside, {}, [&](Graph&, const Outputs&) { return Outputs{next.state[i]}; },
                [&](Graph&, const Outputs&) { return Outputs{own[i]}; })[0];
          next.state.push_back(state.back() + 1.0);
          return next;
        },
        init, xs);
    made.state.back() = made.ys.empty() ? made.state.back() : made.ys[0];
    if (made.ys.empty())
      made.state.pop_back();
    else
      made.state.insert(made.state.end(), made.ys.begin() + 1, made.ys.end());
    return Scanned{{}, made.state};
  };
  const Scanned made = scan(one_batch, {}, batches);
  for (std::size_t i = 0; i < made.ys.size(); ++i) node.set(static_cast<int>(i), made.ys[i]);
}

void scan_node(OnnxNode& node) {
  const std::int64_t given = node.integer("num_scan_inputs");
  const int before = node.opset() < 9 ? 1 : 0;
  if (given < 1 || given > node.num_inputs() - before)
    invalid_argument("num_scan_inputs is {}, but there are {} inputs", given, node.num_inputs() - before);
  const auto scanned = static_cast<std::size_t>(given);
  if (node.opset() < 9) return scan8_node(node, scanned);
  const std::size_t states = static_cast<std::size_t>(node.num_inputs()) - scanned;
  if (node.num_results("body") < static_cast<int>(states))
    invalid_argument("the body has {} outputs, fewer than the {} states", node.num_results("body"), states);
  const std::size_t ys = static_cast<std::size_t>(node.num_results("body")) - states;
  const Integers directions = flags(node, "scan_input_directions", scanned),
                 axes = flags(node, "scan_input_axes", scanned),
                 out_directions = flags(node, "scan_output_directions", ys),
                 out_axes = flags(node, "scan_output_axes", ys);
  const bool reverse = all_of(directions);
  Outputs init, xs;
  for (std::size_t i = 0; i < states; ++i) init.push_back(node.in(static_cast<int>(i)));
  for (std::size_t i = 0; i < scanned; ++i) {
    const Output x = axis_to_front(node.in(static_cast<int>(states + i)), axes[i]);
    xs.push_back(directions[i] != 0 && !reverse ? rows_reversed(x) : x);
  }
  const Scanned made = scan(scan_step(node, states), init, xs, {.reverse = reverse, .recompute = false, .name = {}});
  for (std::size_t i = 0; i < states; ++i) node.set(static_cast<int>(i), made.state[i]);
  for (std::size_t i = 0; i < ys; ++i) {
    const bool turned = (out_directions[i] != 0) != reverse;  // a reversed scan keeps the order of its inputs
    node.set(static_cast<int>(states + i), front_to_axis(turned ? rows_reversed(made.ys[i]) : made.ys[i], out_axes[i]));
  }
}

constexpr OnnxOp kControlOps[] = {
    {"If", if_node},
    {"Loop", loop_node},
    {"Scan", scan_node},
};

}  // namespace

std::span<const OnnxOp> onnx_control_ops() { return kControlOps; }

}  // namespace troupe
