// Control flow, and lists of tensors.
#include <troupe/graph/builder/functions.hpp>
#include <troupe/graph/known_values.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

void arg_shape(ShapeContext& c) {
  shapes::bounded(c.attributes(), "index", 0, 1'000'000);
  c.set_output(0, c.attributes().shape("shape"));
}

void if_shape(ShapeContext& c) { shapes::with_rank(c.input(0), 0, "cond"); }

// Outputs: the number of iterations, then what the body returns behind its condition.
void loop_shape(ShapeContext& c) {
  shapes::with_rank(c.input(0), 0, "limit");
  shapes::with_rank(c.input(1), 0, "cond");
  const std::int64_t carried = c.attributes().integer("carried"), scanned = c.attributes().integer("scanned");
  const std::int64_t inputs = c.num_inputs() - 2, outputs = c.num_outputs() - 1;
  if (carried < 0 || scanned < 0 || carried + scanned > inputs || carried > outputs)
    invalid_argument("{} values and {} scanned inputs do not fit {} inputs and {} outputs", carried, scanned, inputs,
                     outputs);
  std::int64_t rows = kUnknown;
  for (std::int64_t i = carried; i < carried + scanned; ++i) {
    const int at = static_cast<int>(i) + 2;
    if (c.input_dtype(at) == DType::list) continue;
    const Shape& xs = shapes::at_least_rank(c.input(at), 1, "xs");
    if (xs.has_rank()) rows = shapes::merge_dim(rows, xs[0], "the numbers of rows of scanned inputs");
  }
  c.set_output(0, Shape{});
  for (int i = 0; i < c.num_outputs(); ++i)
    if (i == 0 || c.attributes().get<std::vector<DType>>("Tout")[static_cast<std::size_t>(i - 1)] == DType::list)
      c.set_output(i, Shape{});
}

void list_scalar(ShapeContext& c) { c.set_output(0, Shape{}); }

void list_stack_shape(ShapeContext& c) {
  const Shape& item = c.attributes().shape("item");
  if (item.has_rank()) c.set_output(0, Shape{kUnknown}.concatenated(item));
}

void list_item_shape(ShapeContext& c) { c.set_output(0, c.attributes().shape("item")); }

// The gradient of a list is a list of the gradients of its items.
void list_stack_gradient(GradientContext& c) { c.set(0, list_unstack(c.grad())); }
void list_unstack_gradient(GradientContext& c) {
  const Shape& x = c.input(0).shape();
  c.set(0, list_stack(c.grad(), c.input(0).dtype(), x.has_rank() ? x.without(0) : Shape::unknown_rank()));
}

// An index from the front, of so many places.
Output from_front(Output index, Output places) {
  const Output zero = constant<std::int64_t>(*index.graph, 0);
  const Output below = less(index, zero);
  return select(below, index + places, index);
}

void list_of_gradient(GradientContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.needs(i)) continue;
    const Output at = constant<std::int64_t>(c.graph(), i);
    c.set(i, list_get(c.grad(), at, c.input(i).dtype(), c.input(i).shape()));
  }
}
void list_get_gradient(GradientContext& c) {
  const Output zeros = zeros_like(c.input(0));
  const Output at = from_front(c.input(1), list_size(zeros));
  c.set(0, list_insert(list_erase(zeros, at), c.grad(), at));
}
// The list with the item has a place more.
void list_insert_gradient(GradientContext& c) {
  const Output g = c.grad();
  const Output at = from_front(c.input(2), list_size(g));
  if (c.needs(1)) c.set(1, list_get(g, at, c.input(1).dtype(), c.input(1).shape()));
  if (c.needs(0)) c.set(0, list_erase(g, at));
}
void list_erase_gradient(GradientContext& c) { c.set(0, add_op("ListEraseGrad", {c.input(0), c.input(1), c.grad()})); }
void list_erase_grad_gradient(GradientContext& c) {
  if (c.needs(2)) c.set(2, list_erase(c.grad(), c.input(1)));
}
void list_concat_gradient(GradientContext& c) {
  c.set(0, add_op("ListConcatGrad", {c.grad(), c.input(0)}, {{"axis", c.attributes().integer("axis")}}));
}
void list_concat_grad_gradient(GradientContext& c) {
  if (c.needs(0)) c.set(0, list_concat(c.grad(), c.attributes().integer("axis"), c.input(0).dtype()));
}
void list_add_gradient(GradientContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.set(i, c.grad());
}

// Inputs: the results ys, the inputs xs of what made them, and what the gradient function reads beside.
void custom_gradient_shape(ShapeContext& c) {
  if (c.attributes().integer("xs") < 0 || c.num_outputs() + c.attributes().integer("xs") > c.num_inputs())
    invalid_argument("{} results and {} inputs do not fit {} tensors", c.num_outputs(), c.attributes().integer("xs"),
                     c.num_inputs());
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(i));
}

void custom_gradient_gradient(GradientContext& c) {
  const std::string& name = c.attributes().get<FunctionName>("backward").value;
  const Function* backward = c.graph().function(name);
  if (!backward) fail(Code::not_found, "the graph has no function '{}'", name);
  const int ys = c.num_outputs(), xs = static_cast<int>(c.attributes().integer("xs"));
  Outputs inputs;
  for (int i = ys; i < ys + xs; ++i) inputs.push_back(c.input(i));
  for (int i = 0; i < ys; ++i) inputs.push_back(c.output(i));
  for (int i = 0; i < ys; ++i) inputs.push_back(c.grad(i));
  for (int i = ys + xs; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  const Outputs found = inline_function(c.graph(), *backward, inputs, "backward");
  const Integers& flows = c.attributes().integers("flows");
  if (flows.size() != found.size())
    invalid_argument("function '{}' returns {} gradients, not {}", name, found.size(), flows.size());
  for (std::size_t i = 0; i < found.size(); ++i) c.set(ys + static_cast<int>(flows[i]), found[i]);
}

}  // namespace

void register_control_ops(OpRegistry& ops) {
  ops.add(Op("Arg")
              .output("out", "T")
              .type("T")
              .attr("index", AttrType::integer)
              .attr("shape", Shape::unknown_rank())
              .shape(arg_shape)
              .role(OpRole::argument));
  ops.add(Op("If")
              .input("cond", DType::boolean)
              .input_types("inputs", "Tin")
              .output_types("outputs", "Tout")
              .attr("then_branch", AttrType::function)
              .attr("else_branch", AttrType::function)
              .shape(if_shape)
              .gradient(if_gradient)
              .role(OpRole::branch)
              .stateful());  // its functions may be stateful
  // Runs body(i, values, rows of the scanned inputs, other inputs) -> (cond, values, items) while cond, at most `limit`
  // times (-1: no limit) and once for each row of the scanned inputs, which are tensors or lists. `cond` is that of the
  // first iteration. Inputs: values, scanned inputs, others. Outputs: the number of iterations, the last values, and
  // lists of the items of all iterations. With `reverse` i counts down, and so do rows and items.
  ops.add(Op("Loop")
              .input("limit", DType::i64)
              .input("cond", DType::boolean)
              .input_types("inputs", "Tin")
              .output("count", DType::i64)
              .output_types("outputs", "Tout")
              .attr("body", AttrType::function)
              .attr("carried", AttrType::integer)
              .attr("scanned", std::int64_t{0})
              .attr("reverse", false)
              .attr("recompute", false)
              .shape(loop_shape)
              .gradient(loop_gradient)
              .role(OpRole::loop)
              .stateful());
  ops.add(Op("CustomGradient")
              .input_types("inputs", "Tin")
              .output_types("ys", "Tout")
              .attr("backward", AttrType::function)
              .attr("xs", AttrType::integer)
              .attr("flows", AttrType::integers)
              .shape(custom_gradient_shape)
              .gradient(custom_gradient_gradient));
  ops.add(Op("ListOf")
              .input_list("items", "T", "N")
              .output("list", DType::list)
              .type("T")
              .shape(list_scalar)
              .gradient(list_of_gradient));
  ops.add(Op("ListEmpty").output("list", DType::list).shape(list_scalar).no_gradient());
  ops.add(Op("ListSize").input("list", DType::list).output("size", DType::i64).shape(list_scalar).no_gradient());
  ops.add(Op("ListGet")
              .input("list", DType::list)
              .input("index", DType::i64)
              .output("item", "T")
              .type("T")
              .attr("item", Shape::unknown_rank())
              .shape(list_item_shape)
              .gradient(list_get_gradient));
  ops.add(Op("ListInsert")
              .input("list", DType::list)
              .input("item", "T")
              .input("index", DType::i64)
              .output("list", DType::list)
              .type("T")
              .shape(list_scalar)
              .gradient(list_insert_gradient));
  ops.add(Op("ListErase")
              .input("list", DType::list)
              .input("index", DType::i64)
              .output("list", DType::list)
              .shape(list_scalar)
              .gradient(list_erase_gradient));
  ops.add(Op("ListEraseGrad")  // the gradients with zeros for the item that was erased
              .input("list", DType::list)
              .input("index", DType::i64)
              .input("dlist", DType::list)
              .output("out", DType::list)
              .shape(list_scalar)
              .gradient(list_erase_grad_gradient));
  ops.add(Op("ListStack")
              .input("list", DType::list)
              .output("y", "T")
              .type("T")
              .attr("item", Shape::unknown_rank())
              .shape(list_stack_shape)
              .gradient(list_stack_gradient));
  ops.add(Op("ListConcat")
              .input("list", DType::list)
              .output("y", "T")
              .type("T")
              .attr("axis", AttrType::integer)
              .gradient(list_concat_gradient));
  ops.add(Op("ListConcatGrad")  // cut like the items of the list
              .input("dy", "T")
              .input("list", DType::list)
              .output("dlist", DType::list)
              .type("T")
              .attr("axis", AttrType::integer)
              .shape(list_scalar)
              .gradient(list_concat_grad_gradient));
  ops.add(Op("ListUnstack")
              .input("x", "T")
              .output("list", DType::list)
              .type("T")
              .shape(list_scalar)
              .gradient(list_unstack_gradient));
  ops.add(Op("ListAdd")
              .input_list("lists", DType::list, "N")
              .output("sum", DType::list)
              .shape(list_scalar)
              .gradient(list_add_gradient));
}

}  // namespace troupe
