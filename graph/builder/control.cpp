#include "troupe/graph/builder/control.hpp"

#include <algorithm>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/functions.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/control_flow.hpp>
#include <troupe/graph/op_runner.hpp>

namespace troupe {
namespace {

// The full name of a node to be added, and its part behind the scope.
struct FullName {
  FullName(Graph& graph, const Name& given, std::string_view op)
      : full(given.empty() ? graph.unique_name(op) : graph.current_scope() + given),
        relative(full.substr(graph.current_scope().size())) {}
  std::string full;
  std::string relative;
};

const Function& existing(const Graph& graph, const std::string& name) {
  const Function* function = graph.function(name);
  if (!function) fail(Code::not_found, "the graph has no function '{}'", name);
  return *function;
}

void check_arguments(const Function& function, const Outputs& inputs) {
  if (function.arguments.size() != inputs.size())
    invalid_argument("branch '{}' takes {} arguments, {} were given", function.name, function.arguments.size(),
                     inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (function.body->dtype(function.arguments[i]) != inputs[i].dtype())
      invalid_argument("branch '{}': argument {} must be {}, not {}", function.name, i,
                       name(function.body->dtype(function.arguments[i])), name(inputs[i].dtype()));
}

std::vector<DType> result_types(const Function& then_branch, const Function& else_branch) {
  if (then_branch.results.size() != else_branch.results.size())
    invalid_argument("the branches return different numbers of results: {} and {}", then_branch.results.size(),
                     else_branch.results.size());
  std::vector<DType> types;
  for (std::size_t i = 0; i < then_branch.results.size(); ++i) {
    types.push_back(then_branch.body->dtype(then_branch.results[i]));
    const DType other = else_branch.body->dtype(else_branch.results[i]);
    if (other != types.back())
      invalid_argument("result {} is {} in one branch and {} in the other", i, name(types.back()), name(other));
  }
  return types;
}

std::string_view name_of(const Output& tensor) { return name(tensor.dtype()); }

void check_tensors(const Outputs& inputs, std::string_view op) {
  for (const Output& input : inputs)
    if (!input.valid()) invalid_argument("{}: an input is not a tensor", op);
}

template <class Build>
Function build_branch(FunctionBuilder& builder, const std::string& name, const Outputs& inputs, const Build& build) {
  Outputs arguments;
  for (const Output& input : inputs) arguments.push_back(builder.argument(input.dtype(), input.shape()));
  try {
    return builder.finish(build(builder.body(), arguments));
  } catch (const Error& error) {
    throw error.within(fmt::format("branch '{}'", name));
  }
}

// ---- loops

struct LoopInputs {
  Output limit{};
  Output cond{};
  Outputs values{};
  Outputs scanned{};
  Attributes attributes{};
};

// Arguments of a body.
struct LoopArguments {
  Output index{};
  Outputs values{};
  Outputs rows{};
};
using BuildBody = std::function<LoopStep(const LoopArguments&)>;

struct LoopBodyBuilt {
  Function function;
  Outputs captures;
  std::vector<DType> item_types;
  std::vector<Shape> item_shapes;
};

void check_step(const LoopStep& made, const Outputs& values) {
  if (made.values.size() != values.size())
    invalid_argument("the body returns {} values, not {}", made.values.size(), values.size());
  check_tensors({made.again}, "the condition");
  check_tensors(made.values, "the body");
  check_tensors(made.items, "the body");
  if (made.again.dtype() != DType::boolean) invalid_argument("the condition is {}, not bool", name_of(made.again));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (made.values[i].dtype() != values[i].dtype())
      invalid_argument("value {} is {} at first, but the body returns {}", i, name_of(values[i]),
                       name_of(made.values[i]));
}

LoopBodyBuilt build_body(Graph& graph, const std::string& name, const LoopInputs& inputs,
                         const std::vector<Shape>& shapes, const BuildBody& build) {
  FunctionBuilder builder(graph, name + "/body");
  LoopArguments arguments{.index = builder.argument(DType::i64, Shape{}), .values = {}, .rows = {}};
  for (std::size_t i = 0; i < inputs.values.size(); ++i)
    arguments.values.push_back(builder.argument(inputs.values[i].dtype(), shapes[i]));
  for (const Output& x : inputs.scanned) {
    const Shape& shape = x.shape();
    if (shape.is_scalar()) invalid_argument("'{}' is a scalar: it has no rows", x.name());
    arguments.rows.push_back(builder.argument(x.dtype(), shape.has_rank() ? shape.without(0) : shape));
  }
  const LoopStep made = build(arguments);
  check_step(made, inputs.values);
  LoopBodyBuilt out;
  for (const Output& item : made.items) {
    out.item_types.push_back(item.dtype());
    out.item_shapes.push_back(item.shape());
  }
  Outputs results{made.again};
  results.insert(results.end(), made.values.begin(), made.values.end());
  results.insert(results.end(), made.items.begin(), made.items.end());
  out.function = builder.finish(results);
  out.captures = builder.captures();
  return out;
}

// A value whose shape the body changes has a shape that is known only as far as the body keeps it: then the body is
// built again, until it keeps all shapes. A body that passes a shape from value to value would be built as often as it
// has values: after kMostRounds nothing is known of any.
constexpr int kMostRounds = 8;

// In eager mode a body runs as often as its condition holds. Checks it as build_body() does.
LoopOutputs run_loop(Graph& graph, const LoopInputs& inputs, bool reverse, const BuildBody& body) {
  const auto holds = [](const Output& cond) { return cond.value().item<bool>(); };
  std::int64_t length = inputs.limit.value().item<std::int64_t>();
  for (const Output& x : inputs.scanned) {
    if (x.shape().is_scalar()) invalid_argument("'{}' is a scalar: it has no rows", x.name());
    if (x.shape()[0] != inputs.scanned[0].shape()[0])
      invalid_argument("scanned tensors have {} and {} rows", inputs.scanned[0].shape()[0], x.shape()[0]);
    length = x.shape()[0];
  }
  LoopOutputs out{.values = inputs.values, .lists = {}, .item_types = {}, .item_shapes = {}};
  std::vector<Outputs> items;
  bool again = holds(inputs.cond);
  for (std::int64_t i = 0; again && (length < 0 || i < length); ++i) {
    LoopArguments arguments{.index = constant(graph, i), .values = out.values, .rows = {}};
    const Output row = reverse ? constant(graph, length - 1 - i) : arguments.index;
    for (const Output& x : inputs.scanned) arguments.rows.push_back(gather(x, row));
    LoopStep made = body(arguments);
    check_step(made, inputs.values);
    again = holds(made.again);
    out.values = std::move(made.values);
    items.resize(made.items.size());
    for (std::size_t k = 0; k < items.size(); ++k) items[k].push_back(std::move(made.items[k]));
  }
  for (Outputs& all : items) {
    out.item_types.push_back(all.front().dtype());
    Shape shape = all.front().shape();
    for (const Output& item : all) shape = common_shape(shape, item.shape());
    out.item_shapes.push_back(shape);
    if (reverse) std::ranges::reverse(all);
    out.lists.push_back(list_of(graph, all));
  }
  if (!items.empty()) return out;
  // A body that has never run tells by its nodes what it would have collected.
  std::vector<Shape> shapes;
  for (const Output& v : inputs.values) shapes.push_back(v.shape());
  const OpRecorder::Pause pause;
  LoopBodyBuilt built = build_body(graph, "Loop", inputs, shapes, body);
  out.item_types = std::move(built.item_types);
  out.item_shapes = std::move(built.item_shapes);
  while (out.lists.size() < out.item_types.size()) out.lists.push_back(list_of(graph, {}));
  return out;
}

LoopOutputs build_loop(Graph& graph, const Name& given, LoopInputs inputs, const BuildBody& build) {
  if (graph.is_eager())
    return run_loop(graph, inputs, inputs.attributes.has("reverse") && inputs.attributes.boolean("reverse"), build);
  const FullName name(graph, given, "Loop");
  std::vector<Shape> shapes;
  for (const Output& v : inputs.values) shapes.push_back(v.shape());
  LoopBodyBuilt body;
  bool kept = false;
  for (int round = 0; !kept; ++round) {
    try {
      body = build_body(graph, name.full, inputs, shapes, build);
    } catch (const Error& error) {
      throw error.within(fmt::format("Loop '{}'", name.full));
    }
    kept = true;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Shape after = common_shape(shapes[i], body.function.body->shape(body.function.results[i + 1]));
      kept = kept && after == shapes[i];
      shapes[i] = round < kMostRounds || inputs.values[i].dtype() == DType::list ? after : Shape::unknown_rank();
    }
  }
  Outputs all{inputs.limit, inputs.cond};
  std::vector<DType> types;
  for (const Output& v : inputs.values) types.push_back(v.dtype());
  types.insert(types.end(), body.item_types.size(), DType::list);
  for (const Outputs& part : {inputs.values, inputs.scanned, body.captures})
    all.insert(all.end(), part.begin(), part.end());
  Attributes attributes = std::move(inputs.attributes);
  attributes.set("Tout", types);
  attributes.set("body", FunctionName{body.function.name});
  attributes.set("carried", static_cast<std::int64_t>(inputs.values.size()));
  attributes.set("scanned", static_cast<std::int64_t>(inputs.scanned.size()));
  graph.add_function(std::move(body.function));
  const Node& node =
      graph.add({.op = "Loop", .name = name.relative, .inputs = all, .attributes = std::move(attributes)});
  for (std::size_t i = 0; i < shapes.size(); ++i) graph.refine_shape(node, static_cast<int>(i) + 1, shapes[i]);
  LoopOutputs out{.values = {}, .lists = {}, .item_types = body.item_types, .item_shapes = body.item_shapes};
  for (std::size_t i = 0; i < types.size(); ++i)
    (i < shapes.size() ? out.values : out.lists).push_back(graph.output(node, static_cast<int>(i) + 1));
  return out;
}

}  // namespace

Outputs if_else(Output cond, const Outputs& inputs, const std::string& then_function, const std::string& else_function,
                Name name) {
  if (!cond.valid()) invalid_argument("If: cond is not a tensor");
  Outputs all = {cond};
  all.insert(all.end(), inputs.begin(), inputs.end());
  Graph& graph = graph_for(all);
  const Function& then_branch = existing(graph, then_function);
  const Function& else_branch = existing(graph, else_function);
  check_arguments(then_branch, inputs);
  check_arguments(else_branch, inputs);
  const Node& node = graph.add({.op = "If",
                                .name = std::move(name),
                                .inputs = all,
                                .attributes = {{"Tout", result_types(then_branch, else_branch)},
                                               {"then_branch", FunctionName{then_function}},
                                               {"else_branch", FunctionName{else_function}}}});
  for (std::size_t i = 0; i < then_branch.results.size(); ++i)
    graph.refine_shape(
        node, static_cast<int>(i),
        common_shape(then_branch.body->shape(then_branch.results[i]), else_branch.body->shape(else_branch.results[i])));
  return outputs_of(graph, node);
}

Outputs if_else(Output cond, const Outputs& inputs, const BranchFn& then_branch, const BranchFn& else_branch,
                Name given) {
  if (!cond.valid()) invalid_argument("If: cond is not a tensor");
  check_tensors(inputs, "If");
  Outputs all = {cond};
  all.insert(all.end(), inputs.begin(), inputs.end());
  Graph& graph = graph_for(all);
  all.erase(all.begin());
  if (graph.is_eager()) {
    Outputs made = (cond.value().item<bool>() ? then_branch : else_branch)(graph, inputs);
    check_tensors(made, "the branch");
    return made;
  }
  const FullName name(graph, given, "If");
  FunctionBuilder on_true(graph, name.full + "/then");
  Function first = build_branch(on_true, name.full + "/then", inputs, then_branch);
  FunctionBuilder on_false(graph, name.full + "/else");
  Function second = build_branch(on_false, name.full + "/else", inputs, else_branch);
  result_types(first, second);  // before anything is added
  // Both take what either has brought in.
  const auto append_missing = [](Function& function, const Outputs& captures, std::size_t at) {
    auto body = std::const_pointer_cast<Graph>(function.body);
    std::vector<Endpoint> arguments;
    for (const Output& c : captures) {
      const Node& arg = body->add(
          {.op = "Arg",
           .name = "arg_of_other_" + std::to_string(at + arguments.size()),
           .attributes = {
               {"T", c.dtype()}, {"index", static_cast<std::int64_t>(at + arguments.size())}, {"shape", c.shape()}}});
      arguments.push_back({arg.id, 0});
    }
    function.arguments.insert(function.arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.begin(),
                              arguments.end());
    for (std::size_t i = at + arguments.size(); i < function.arguments.size(); ++i)
      body->set_attribute(body->node(function.arguments[i].node), "index", static_cast<std::int64_t>(i));
  };
  all.insert(all.end(), on_true.captures().begin(), on_true.captures().end());
  all.insert(all.end(), on_false.captures().begin(), on_false.captures().end());
  append_missing(first, on_false.captures(), first.arguments.size());
  append_missing(second, on_true.captures(), inputs.size());
  graph.add_function(std::move(first));
  graph.add_function(std::move(second));
  return if_else(cond, all, name.full + "/then", name.full + "/else", name.relative);
}

Outputs switch_case(Output index, const Outputs& inputs, const std::vector<BranchFn>& branches, Name name) {
  if (branches.empty()) invalid_argument("switch_case: there are no branches");
  check_tensors({index}, "switch_case: the index");
  check_tensors(inputs, "switch_case");
  // Chooses among branches [first, last]; an index outside means `last`, so that the last one is chosen at the top.
  const std::function<Outputs(Graph&, Output, const Outputs&, std::size_t, std::size_t, Name)> choose =
      [&](Graph& graph, Output at, const Outputs& in, std::size_t first, std::size_t last, Name given) -> Outputs {
    if (first == last) return branches[first](graph, in);
    const std::size_t middle = first + (last - first) / 2;
    Outputs with_index = in;
    with_index.push_back(at);
    const auto half = [&](std::size_t from, std::size_t to) -> BranchFn {
      return [&, from, to](Graph& body, const Outputs& arguments) {
        return choose(body, arguments.back(), {arguments.begin(), arguments.end() - 1}, from, to, {});
      };
    };
    const Output low = less_equal(at, scalar_like(at, static_cast<double>(middle)));
    return if_else(low, with_index, half(first, middle), half(middle + 1, last), std::move(given));
  };
  Outputs all = inputs;
  all.push_back(index);
  const std::size_t last = branches.size() - 1;
  const Output lowest = scalar_like(index, 0), highest = scalar_like(index, static_cast<double>(last));
  const Output valid = select(less(index, lowest), highest, minimum(index, highest));
  return choose(graph_for(all), valid, inputs, 0, last, std::move(name));
}

Outputs call(Graph& graph, const std::string& function, const Outputs& inputs, Name given) {
  const FullName name(graph, given, function);
  return inline_function(graph, existing(graph, function), inputs, name.relative);
}

namespace {

void check_custom_gradients(const Outputs& dxs, const Outputs& xs, std::string_view name) {
  if (dxs.size() != xs.size())
    invalid_argument("custom_gradient '{}': 'backward' returns {} gradients for {} inputs", name, dxs.size(),
                     xs.size());
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (dxs[i].valid() && (dxs[i].dtype() != xs[i].dtype() || !dxs[i].shape().compatible_with(xs[i].shape())))
      invalid_argument("custom_gradient '{}': the gradient of input {} is {}{}, but the input is {}{}", name, i,
                       name_of(dxs[i]), dxs[i].shape().to_string(), name_of(xs[i]), xs[i].shape().to_string());
}

// The ops of `forward` are not recorded: the function is, as one.
Outputs run_custom_gradient(Graph& graph, const CustomGradient& function, const Outputs& xs) {
  Outputs ys;
  {
    const OpRecorder::Pause pause;
    for (const Output& y : function.forward(xs)) ys.push_back(identity(y));  // an x may be a y, too
  }
  if (ys.empty()) invalid_argument("custom_gradient: 'forward' returns nothing");
  OpRecorder::tell_all([&](OpRecorder& recorder) {
    recorder.ran_function(graph, xs, ys, [function, xs, ys](const Outputs& dys) {
      const Outputs dxs = function.backward(xs, ys, dys);
      check_custom_gradients(dxs, xs, "CustomGradient");
      std::vector<Gradient> made;
      for (const Output& dx : dxs) made.push_back({.dense = dx});
      return made;
    });
  });
  return ys;
}

}  // namespace

Outputs custom_gradient(const CustomGradient& function, const Outputs& xs, Name given) {
  if (xs.empty()) invalid_argument("custom_gradient: there are no inputs");
  check_tensors(xs, "custom_gradient");
  Graph& graph = graph_for(xs);
  if (graph.is_eager()) return run_custom_gradient(graph, function, xs);
  const FullName name(graph, given, "CustomGradient");
  const Outputs ys = function.forward(xs);
  if (ys.empty()) invalid_argument("custom_gradient: 'forward' returns nothing");
  check_tensors(ys, "custom_gradient: 'forward'");
  FunctionBuilder builder(graph, name.full + "/backward");
  Outputs arguments[3];  // xs, ys, dys
  for (const auto& [part, like] : {std::pair{0, &xs}, {1, &ys}, {2, &ys}})
    for (const Output& x : *like) arguments[part].push_back(builder.argument(x.dtype(), x.shape()));
  const Outputs dxs = function.backward(arguments[0], arguments[1], arguments[2]);
  check_custom_gradients(dxs, xs, name.full);
  Outputs results;
  std::vector<std::int64_t> flows;  // inputs that get a gradient
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (!dxs[i].valid()) continue;
    flows.push_back(static_cast<std::int64_t>(i));
    results.push_back(dxs[i]);
  }
  Function backward = builder.finish(results);
  Outputs inputs = ys;
  inputs.insert(inputs.end(), xs.begin(), xs.end());
  inputs.insert(inputs.end(), builder.captures().begin(), builder.captures().end());
  std::vector<DType> types;
  for (const Output& y : ys) types.push_back(y.dtype());
  graph.add_function(std::move(backward));
  const Node& node = graph.add({.op = "CustomGradient",
                                .name = name.relative,
                                .inputs = inputs,
                                .attributes = {{"Tout", types},
                                               {"backward", FunctionName{name.full + "/backward"}},
                                               {"xs", static_cast<std::int64_t>(xs.size())},
                                               {"flows", flows}}});
  return outputs_of(graph, node);
}

Outputs while_loop(const LoopCondition& cond, const LoopBody& body, const Outputs& values, LoopOptions options) {
  if (values.empty()) invalid_argument("while_loop: there are no values");
  check_tensors(values, "while_loop");
  Graph& graph = graph_for(values);
  LoopInputs inputs{.limit = options.limit.valid() ? options.limit : constant<std::int64_t>(graph, -1),
                    .cond = cond(values),
                    .values = values,
                    .scanned = {},
                    .attributes = {{"recompute", options.recompute}}};
  check_tensors({inputs.cond}, "while_loop: the condition");
  return build_loop(graph, options.name, std::move(inputs),
                    [&](const LoopArguments& arguments) {
                      LoopStep out{.again = {}, .values = body(arguments.values), .items = {}};
                      check_tensors(out.values, "while_loop: the body");
                      out.again = cond(out.values);
                      return out;
                    })
      .values;
}

Outputs for_loop(Output count, const CountedBody& body, const Outputs& values, LoopOptions options) {
  check_tensors({count}, "for_loop");
  check_tensors(values, "for_loop");
  Outputs all{count};
  all.insert(all.end(), values.begin(), values.end());
  Graph& graph = graph_for(all);
  const Output yes = constant(graph, true);
  const Output limit = maximum(count, scalar_like(count, 0));
  LoopInputs inputs{.limit = options.limit.valid() ? minimum(limit, options.limit) : limit,
                    .cond = yes,
                    .values = values,
                    .scanned = {},
                    .attributes = {{"recompute", options.recompute}}};
  return build_loop(graph, options.name, std::move(inputs),
                    [&](const LoopArguments& arguments) {
                      return LoopStep{.again = yes, .values = body(arguments.index, arguments.values), .items = {}};
                    })
      .values;
}

LoopOutputs loop(Output cond, const LoopStepFn& step, const Outputs& values, LoopOptions options) {
  check_tensors({cond}, "loop");
  check_tensors(values, "loop");
  Outputs all{cond, options.limit};
  all.insert(all.end(), values.begin(), values.end());
  Graph& graph = graph_for(all);
  LoopInputs inputs{.limit = options.limit.valid() ? options.limit : constant<std::int64_t>(graph, -1),
                    .cond = cond,
                    .values = values,
                    .scanned = {},
                    .attributes = {{"recompute", options.recompute}}};
  return build_loop(graph, options.name, std::move(inputs),
                    [&](const LoopArguments& arguments) { return step(arguments.index, arguments.values); });
}

Scanned scan(const ScanStep& step, const Outputs& init, const Outputs& xs, ScanOptions options) {
  if (xs.empty()) invalid_argument("scan: there is nothing to scan; use for_loop");
  check_tensors(init, "scan");
  check_tensors(xs, "scan");
  Outputs all = init;
  all.insert(all.end(), xs.begin(), xs.end());
  Graph& graph = graph_for(all);
  const Output yes = constant(graph, true);
  LoopInputs inputs{.limit = constant<std::int64_t>(graph, -1),
                    .cond = yes,
                    .values = init,
                    .scanned = xs,
                    .attributes = {{"reverse", options.reverse}, {"recompute", options.recompute}}};
  const LoopOutputs loop = build_loop(graph, options.name, std::move(inputs), [&](const LoopArguments& arguments) {
    Scanned made = step(arguments.values, arguments.rows);
    return LoopStep{.again = yes, .values = std::move(made.state), .items = std::move(made.ys)};
  });
  Scanned result{.state = loop.values, .ys = {}};
  const std::int64_t length = xs.front().shape().has_rank() ? xs.front().shape()[0] : kUnknown;
  for (std::size_t i = 0; i < loop.lists.size(); ++i) {
    const Output y = list_stack(loop.lists[i], loop.item_types[i], loop.item_shapes[i]);
    if (loop.item_shapes[i].has_rank())
      graph.refine_shape(y.source(), 0, Shape{length}.concatenated(loop.item_shapes[i]));
    result.ys.push_back(y);
  }
  return result;
}

// ---- lists

Output list_of(Graph& graph, const Outputs& items, Name name) {
  if (!items.empty()) return add_op("ListOf", items, {}, std::move(name));
  return graph.apply({.op = "ListEmpty", .name = std::move(name)})[0];
}
Output list_size(Output list, Name name) { return add_op("ListSize", {std::move(list)}, {}, std::move(name)); }
Output list_get(Output list, Output index, DType dtype, Shape item, Name name) {
  return add_op("ListGet", {std::move(list), std::move(index)}, {{"T", dtype}, {"item", std::move(item)}},
                std::move(name));
}
Output list_insert(Output list, Output item, Output index, Name name) {
  const Output at = index.valid() ? index : list_size(list);
  return add_op("ListInsert", {list, item, at}, {}, std::move(name));
}
Output list_erase(Output list, Output index, Name name) {
  if (!index.valid()) index = constant<std::int64_t>(*list.graph, -1);
  return add_op("ListErase", {list, index}, {}, std::move(name));
}
Output list_stack(Output list, DType dtype, Shape item, Name name) {
  return add_op("ListStack", {std::move(list)}, {{"T", dtype}, {"item", item}}, std::move(name));
}
Output list_concat(Output list, std::int64_t axis, DType dtype, Name name) {
  return add_op("ListConcat", {std::move(list)}, {{"T", dtype}, {"axis", axis}}, std::move(name));
}
Output list_unstack(Output x, Name name) { return add_op("ListUnstack", {std::move(x)}, {}, std::move(name)); }

}  // namespace troupe
