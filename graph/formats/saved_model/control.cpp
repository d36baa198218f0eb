// Calls of functions of a SavedModel: in place, as branches, and as bodies of loops.
#include <algorithm>

#include "messages/proto/tensorflow.pb.h"
#include <troupe/graph/formats/import.hpp>
#include <troupe/graph/formats/saved_model/importer.hpp>
#include <troupe/graph/known_values.hpp>

namespace troupe {
namespace {

namespace tf = troupe::tensorflow;

// The place among all results of an op: those that are not the first follow it one by one.
int result_index(const tf::NodeDef& node, const TfEndpoint& endpoint) {
  const TfOp* op = find_tensorflow_op(node.op());
  if (!op || endpoint.result.empty() || *op->results == '\0') return endpoint.index;
  int at = 0;
  for (std::string_view names = op->results; !names.empty(); ++at) {
    const std::string_view name = names.substr(0, names.find(','));
    if (name == endpoint.result) return at + endpoint.index;
    names.remove_prefix(std::min(names.size(), name.size() + 1));
  }
  fail(Code::unimplemented, "its result '{}' is not supported", endpoint.result);
}

// "a/b" of "a/b/MatMul": where the node's own ones are.
std::string scope_of(const std::string& name) {
  const std::size_t end = name.rfind('/');
  return end == name.npos ? "" : node_name(name.substr(0, end));
}

std::optional<std::int64_t> known_integer(Output x) {
  const auto found = known_integers(x);
  return found && found->values.size() == 1 ? found->values[0] : std::nullopt;
}

// Whether `next` is `counter` + 1.
bool counts_up(Output counter, Output next) {
  if (next.graph != counter.graph) return false;
  const Node& node = next.source();
  if (node.op->name != "Add" || node.inputs.size() != 2) return false;
  const Endpoint self{counter.node, counter.index};
  const Endpoint step = node.inputs[0] == self ? node.inputs[1] : node.inputs[0];
  return (node.inputs[0] == self || node.inputs[1] == self) && known_integer({next.graph, step.node, step.index}) == 1;
}

// The integer that others are made of by changes of its type.
Output before_casts(Output x) {
  while (x.source().op->name == "Cast") {
    const Endpoint from = x.source().inputs[0];
    const Output before{x.graph, from.node, from.index};
    if (before.dtype() != DType::i32 && before.dtype() != DType::i64) break;
    x = before;
  }
  return x;
}

// The items of a list that a loop has set, as rows. A step fails if they are fewer than the list has.
Output all_rows(Output rows, Output size) {
  if (!rows.shape().has_rank()) return rows;
  const int rank = rows.shape().rank();
  const Output others = constant(
      *rows.graph, Tensor::of<std::int64_t>(Shape{rank - 1}, Integers(static_cast<std::size_t>(rank) - 1, -1)));
  const Output sizes = concat({reshape(rows.graph->brought_in(size), Shape{1}), others}, 0);
  return slice(rows, Integers(static_cast<std::size_t>(rank), 0), sizes);
}

// A list that a loop sets item by item.
struct SetList {
  std::size_t argument = 0;
  std::shared_ptr<TfList> inside{};
  bool last_only = false;
};

}  // namespace

std::string TfImporter::function_of(const tf::NodeDef& node, const char* attribute) {
  const auto found = node.attr().find(attribute);
  if (found == node.attr().end() || !found->second.has_func())
    fail(Code::data_loss, "{}: attribute '{}' names no function", title(node), attribute);
  return found->second.func().name();
}

bool TfImporter::is_call(const tf::NodeDef& node) const {
  static const std::vector<std::string_view> ops = {
      "Case",          "If",          "PartitionedCall", "StatefulPartitionedCall",
      "StatelessCase", "StatelessIf", "StatelessWhile",  "While"};
  return std::ranges::count(ops, node.op()) > 0 || objects_.function(node.op()) != nullptr;
}

TfValues TfImporter::call_function(const std::string& name, const TfValues& arguments, Graph& graph, int depth) {
  if (depth > kMaxTensorflowDepth) invalid_argument("functions are nested more than {} deep", kMaxTensorflowDepth);
  const TfFunction& f = function(name);
  if (std::ssize(arguments) != f.num_arguments())
    fail(Code::data_loss, "function '{}' takes {} arguments, {} are given", name, f.num_arguments(), arguments.size());
  std::map<std::string_view, std::pair<const tf::NodeDef*, TfValues>> made;
  const auto value_of = [&](std::string_view input) {
    const TfEndpoint endpoint = parse_tensorflow_input(input);
    if (const int at = f.argument(endpoint.node); at >= 0) {
      const TfValue& argument = arguments[static_cast<std::size_t>(at)];
      if (!argument.found()) fail(Code::data_loss, "argument '{}' of function '{}' is not given", endpoint.node, name);
      return argument;
    }
    const auto& [source, values] = made.at(endpoint.node);
    const int at = result_index(*source, endpoint);
    if (at >= std::ssize(values) || !values[static_cast<std::size_t>(at)].found())
      fail(Code::unimplemented, "{}: its result {} is not supported", title(*source), at);
    return values[static_cast<std::size_t>(at)];
  };
  for (const tf::NodeDef* node : f.nodes()) {
    if (++nodes_built_ > kFreeTensorflowNodes + kTensorflowNodesPerNode * nodes_of_model_)
      fail(Code::resource_exhausted, "calls of functions would make more than {} nodes", nodes_built_ - 1);
    try {
      TfValues inputs;
      for (const std::string& input : node->input())
        if (!is_control_input(input)) inputs.push_back(value_of(input));
      made[node->name()] = {node, add_node(*node, std::move(inputs), graph, depth)};
    } catch (...) {
      throw current_error().within(title(*node));
    }
  }
  TfValues results;
  for (const std::string& result : f.results()) results.push_back(value_of(result));
  return results;
}

TfValues TfImporter::add_node(const tf::NodeDef& node, TfValues inputs, Graph& graph, int depth) {
  if (is_resource(node)) return {version_1_->value_of(node)};
  if (is_call(node)) return call(node, inputs, graph, depth);
  const std::string scope = graph.current_scope().empty() ? scope_of(node.name()) : "";
  TfNode view(graph, node, std::move(inputs), repeated_bytes_);
  if (scope.empty()) {
    find_tensorflow_op(node.op())->convert(view);
  } else {
    const auto names = graph.scope(scope);
    find_tensorflow_op(node.op())->convert(view);
  }
  return view.take_outputs();
}

TfValues TfImporter::call(const tf::NodeDef& node, const TfValues& inputs, Graph& graph, int depth) {
  if (objects_.function(node.op())) return call_function(node.op(), inputs, graph, depth + 1);
  if (node.op().ends_with("PartitionedCall")) return call_function(function_of(node, "f"), inputs, graph, depth + 1);
  if (node.op().ends_with("While")) return while_loop(node, inputs, graph, depth);
  if (inputs.empty() || !inputs[0].output.valid()) fail(Code::data_loss, "its condition is not a tensor");
  const Output which = as_scalar(graph.brought_in(inputs[0].output));
  const TfValues arguments(inputs.begin() + 1, inputs.end());
  if (node.op().ends_with("If"))
    return branches({function_of(node, "then_branch"), function_of(node, "else_branch")}, which, true, arguments,
                    depth);
  std::vector<std::string> functions;
  if (const auto found = node.attr().find("branches"); found != node.attr().end())
    for (const tf::NameAttrList& f : found->second.list().func()) functions.push_back(f.name());
  if (functions.empty()) fail(Code::data_loss, "it has no branches");
  return branches(functions, which, false, arguments, depth);
}

TfValues TfImporter::branches(const std::vector<std::string>& functions, Output which, bool is_if,
                              const TfValues& inputs, int depth) {
  std::vector<BranchFn> bodies;
  for (const std::string& name : functions)
    bodies.emplace_back([this, name, &inputs, depth](Graph& body, const Outputs&) {
      Outputs out;
      for (const TfValue& value : call_function(name, inputs, body, depth + 1)) {
        if (!value.output.valid()) fail(Code::unimplemented, "branch '{}' returns what is not a tensor", name);
        out.push_back(body.brought_in(value.output));
      }
      return out;
    });
  Outputs results;
  if (!is_if)
    results = switch_case(which, {}, bodies);
  else if (which.dtype() == DType::boolean)
    results = if_else(which, {}, bodies[0], bodies[1]);
  else
    results = if_else(not_equal(which, scalar_like(which, 0)), {}, bodies[0], bodies[1]);
  TfValues out;
  for (const Output& y : results) out.push_back({y, {}, {}});
  return out;
}

Output TfImporter::condition(const std::string& function, const TfValues& values, Graph& graph, int depth) {
  const TfValues found = call_function(function, values, graph, depth + 1);
  if (found.size() != 1 || !found[0].output.valid() || found[0].output.dtype() != DType::boolean)
    fail(Code::unimplemented, "its condition is not a tensor of bool");
  return as_scalar(graph.brought_in(found[0].output));
}

// Reads values that the body passes on unchanged, resources among them, where they are needed. Makes the loop's items
// of lists of which each iteration sets one item.
TfValues TfImporter::while_loop(const tf::NodeDef& node, const TfValues& inputs, Graph& graph, int depth) {
  const std::string body_name = function_of(node, "body"), cond_name = function_of(node, "cond");
  const TfFunction& body = function(body_name);
  if (body.num_arguments() != std::ssize(inputs) || body.results().size() != inputs.size())
    fail(Code::data_loss, "its body takes {} values and returns {}, but the loop has {}", body.num_arguments(),
         body.results().size(), inputs.size());
  std::vector<std::size_t> carried, lists;
  Outputs first;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (body.passed_on(static_cast<int>(i)) == static_cast<int>(i)) continue;
    if (inputs[i].output.valid()) {
      carried.push_back(i);
      first.push_back(graph.brought_in(inputs[i].output));
    } else if (inputs[i].list && inputs[i].list->reserved) {
      lists.push_back(i);
    } else {
      fail(Code::unimplemented, "its body changes value {}, which is no tensor", i);
    }
  }
  std::vector<SetList> set;
  const LoopStepFn step = [&](Output index, const Outputs& values) {
    Graph& inside = *index.graph;
    TfValues arguments = inputs;
    for (std::size_t k = 0; k < carried.size(); ++k) arguments[carried[k]] = {values[k], {}, {}};
    set.clear();
    for (const std::size_t i : lists) {
      set.push_back({i, std::make_shared<TfList>(*inputs[i].list)});
      arguments[i] = {{}, {}, set.back().inside};
    }
    TfValues results = call_function(body_name, arguments, inside, depth + 1);
    LoopStep out;
    for (const std::size_t i : carried) {
      if (!results[i].output.valid()) fail(Code::unimplemented, "its body returns no tensor for value {}", i);
      out.values.push_back(inside.brought_in(results[i].output));
    }
    for (SetList& list : set) {
      const std::shared_ptr<TfList>& after = results[list.argument].list;
      if (!after || after->before != list.inside)
        fail(Code::unimplemented, "its body does not set one item of the list that value {} is", list.argument);
      list.last_only = list.inside->count == 1 && known_integer(after->index) == 0;
      bool in_order = list.last_only;
      for (std::size_t k = 0; k < carried.size() && !in_order; ++k)
        in_order = before_casts(after->index) == values[k] && known_integer(first[k]) == 0 &&
                   counts_up(values[k], out.values[k]);
      if (!in_order)
        fail(Code::unimplemented, "its body sets items of the list that value {} is in another order than 0, 1, ...",
             list.argument);
      out.items.push_back(inside.brought_in(after->item));
      results[list.argument] = {{}, {}, list.inside};
    }
    out.again = condition(cond_name, results, inside, depth);
    return out;
  };
  const Output again = condition(cond_name, inputs, graph, depth);
  LoopOptions options;
  const LoopOutputs made = loop(again, step, first, options);
  TfValues out = inputs;
  for (std::size_t k = 0; k < carried.size(); ++k) out[carried[k]] = {made.values[k], {}, {}};
  for (std::size_t k = 0; k < set.size(); ++k) {
    auto list = std::make_shared<TfList>();
    list->count = set[k].inside->count;
    const Output items = made.lists[k];
    if (set[k].last_only) {
      const Output last =
          list_get(items, constant<std::int64_t>(*items.graph, -1), made.item_types[k], made.item_shapes[k]);
      list->stacked = expand_dims(last, 0);
    } else {
      list->stacked = all_rows(list_stack(items, made.item_types[k], made.item_shapes[k]), set[k].inside->size);
    }
    out[set[k].argument] = {{}, {}, std::move(list)};
  }
  return out;
}

}  // namespace troupe
