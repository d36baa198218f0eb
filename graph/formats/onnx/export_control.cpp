// Branches, loops and lists, as ONNX's If, Loop and sequences.
#include <algorithm>
#include <limits>
#include <set>

#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/export_graph.hpp>
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>
#include <troupe/graph/known_values.hpp>

namespace troupe {
namespace {

const Function& function_of(const OnnxExportNode& node, const char* attribute) {
  const std::string& name = node.attributes().get<FunctionName>(attribute).value;
  const Function* found = node.graph().function(name);
  if (!found) fail(Code::not_found, "there is no function '{}'", name);
  return *found;
}

void add_value(onnx::ValueInfo& info, const OnnxName& name, const OnnxType& type) {
  info.set_name(name);
  to_onnx_type(type, *info.mutable_type());
}

// Makes results the outputs of the body, each the output of a node of its own.
void write_outputs(OnnxGraphWriter& body, const std::vector<Endpoint>& results) {
  if (!body.state().unsupported.empty()) return;
  OnnxNames names;
  for (const Endpoint& e : results) names.push_back(body.plain(e));
  std::set<std::string> made;
  for (const onnx::Node& node : body.out().node()) made.insert(node.output().begin(), node.output().end());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (made.erase(names[i]) == 0) names[i] = body.add("Identity", {names[i]}, 1, {}, nullptr)[0];
    add_value(*body.out().add_output(), names[i], body.type(results[i]));
  }
}

void add_graph(onnx::Node& node, const std::string& name, onnx::Graph&& graph) {
  onnx::Attribute& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::Attribute::GRAPH);
  *attribute.mutable_g() = std::move(graph);
}

void write_if_op(OnnxExportNode& node) {
  onnx::Graph branches[2];
  const char* const names[] = {"then_branch", "else_branch"};
  for (int b = 0; b < 2; ++b) {
    const Function& function = function_of(node, names[b]);
    branches[b].set_name(fmt::format("{}/{}", node.node().name, b == 0 ? "then" : "else"));
    OnnxGraphWriter body(node.writer().state(), *function.body, branches[b], &node.writer());
    for (std::size_t i = 0; i < function.arguments.size(); ++i)
      body.bind_outer(function.arguments[i], node.endpoint(static_cast<int>(i) + 1));
    body.write(function.results);
    write_outputs(body, function.results);
  }
  onnx::Node* made = nullptr;
  const OnnxNames outputs = node.add_many("If", {node.in(0)}, node.num_outputs(), {}, &made);
  node.writer().name_node(node.node(), *made);
  for (int b = 0; b < 2; ++b) add_graph(*made, names[b], std::move(branches[b]));
  for (int i = 0; i < node.num_outputs(); ++i) node.set(i, outputs[static_cast<std::size_t>(i)]);
}

// ---- loops

struct LoopParts {
  const Function& body;
  int carried, scanned;
  bool reverse;
  OnnxName limit{};  // "": none
};

OnnxName rows_of(const OnnxExportNode& node, int input) {
  if (node.dtype(input) == DType::list) return node.add("SequenceLength", {node.in(input)});
  return node.add("Gather", {node.add("Shape", {node.in(input)}), node.integer(0)}, {{"axis", std::int64_t{0}}});
}

// The value that a loop's body returns to go on, or that it begins with, is true and nothing else.
bool is_true(const Graph& graph, Endpoint e) {
  const Node& node = graph.node(e.node);
  return node.op->role == OpRole::constant && node.attributes.tensor("value").item<bool>();
}
bool always_goes_on(const OnnxExportNode& node, const Function& body) {
  return is_true(node.graph(), node.endpoint(1)) && is_true(*body.body, body.results[0]);
}

// x, if input 0 is max(x, 0): a loop of ONNX does not run for a number below 0 either.
std::optional<Endpoint> limit_from_zero(const OnnxExportNode& node) {
  const Node& source = node.graph().node(node.endpoint(0).node);
  if (source.op->name != "Maximum" || node.writer().is_given(node.endpoint(0))) return std::nullopt;
  const auto other = known_tensor(node.graph(), source.inputs[1]);
  if (!other || other->num_elements() != 1 || other->values<std::int64_t>()[0] != 0) return std::nullopt;
  return source.inputs[0];
}

// The most iterations: of the limit, which is none if it is below 0, and of the rows of scanned inputs.
OnnxName limit_of(const OnnxExportNode& node, const LoopParts& parts) {
  OnnxNames limits;
  for (int i = 0; i < parts.scanned; ++i) limits.push_back(rows_of(node, 2 + parts.carried + i));
  const auto known = node.known(0);
  if (known) {
    if (known->item<std::int64_t>() >= 0) limits.push_back(node.in(0));
  } else if (const auto positive = limit_from_zero(node)) {
    limits.push_back(node.writer().plain(*positive));
  } else {
    const OnnxName below = node.add("Less", {node.in(0), node.integer(0)});
    limits.push_back(node.add("Where", {below, node.integer(std::numeric_limits<std::int64_t>::max()), node.in(0)}));
  }
  if (limits.empty()) return "";
  return limits.size() == 1 ? limits[0] : node.add("Min", limits);
}

// Binds the values of the graph around that the body reads.
void bind_captures(const OnnxExportNode& node, const LoopParts& parts, OnnxGraphWriter& body) {
  const std::vector<Endpoint>& arguments = parts.body.arguments;
  for (auto i = static_cast<std::size_t>(1 + parts.carried + parts.scanned); i < arguments.size(); ++i)
    body.bind_outer(arguments[i], node.endpoint(static_cast<int>(i) + 1));
}

OnnxName add_argument(const OnnxExportNode& node, OnnxGraphWriter& body, const char* name, const OnnxType& type) {
  const OnnxName made = body.state().unique_name(fmt::format("{}/{}", node.node().name, name));
  add_value(*body.out().add_input(), made, type);
  return made;
}
OnnxType own_type(const OnnxGraphWriter& body, Endpoint e) {
  return {{}, body.graph().dtype(e), body.graph().shape(e)};
}

// Binds the arguments of the body: iteration, condition (which ours does not have), values; rows are read from outside.
// Returns the name of the condition.
OnnxName bind_arguments(const OnnxExportNode& node, const LoopParts& parts, OnnxGraphWriter& body) {
  const auto argument = [&](int i) { return parts.body.arguments.at(static_cast<std::size_t>(i)); };
  const OnnxType whole{{}, DType::i64, Shape{}}, truth{{}, DType::boolean, Shape{}};
  OnnxName iteration = add_argument(node, body, "i", whole);
  const OnnxName cond = add_argument(node, body, "cond", truth);
  if (parts.reverse) {
    const OnnxName last = body.add("Sub", {parts.limit, node.integer(1)}, 1, {}, nullptr)[0];
    iteration = body.add("Sub", {last, iteration}, 1, {}, nullptr)[0];
  }
  body.bind(argument(0), iteration, whole);
  for (int i = 0; i < parts.carried; ++i) {
    const Endpoint e = argument(i + 1);
    const bool list = body.graph().dtype(e) == DType::list;
    const OnnxType type = list ? node.writer().type({node.node().id, i + 1}) : own_type(body, e);
    body.bind(e, add_argument(node, body, "value", type), type);
  }
  for (int i = 0; i < parts.scanned; ++i) {
    const Endpoint e = argument(1 + parts.carried + i);
    const int input = 2 + parts.carried + i;
    const OnnxName row =
        node.dtype(input) == DType::list
            ? body.add("SequenceAt", {node.in(input), iteration}, 1, {}, nullptr)[0]
            : body.add("Gather", {node.in(input), iteration}, 1, {{"axis", std::int64_t{0}}}, nullptr)[0];
    body.bind(e, row, own_type(body, e));
  }
  bind_captures(node, parts, body);
  return cond;
}

// A further value of the loop: its name before an iteration in the body, and after it.
struct FurtherValue {
  OnnxName before, after, first;
  OnnxType type;
};

FurtherValue count_of(const OnnxExportNode& node, OnnxGraphWriter& body) {
  FurtherValue out{.first = node.integer(0), .type = {{}, DType::i64, Shape{}}};
  out.before = add_argument(node, body, "count", out.type);
  out.after = body.add("Add", {out.before, node.integer(1)}, 1, {}, nullptr)[0];
  return out;
}

// Items of different shapes, which a loop of ONNX does not collect.
FurtherValue list_of_items(const OnnxExportNode& node, const LoopParts& parts, OnnxGraphWriter& body, Endpoint item) {
  const DType dtype = body.graph().dtype(item);
  const OnnxType type = OnnxType{{}, dtype, Shape::unknown_rank()}.list_of(OnnxType::List::sequence);
  FurtherValue out{.first = node.add("SequenceEmpty", {}, {{"dtype", dtype}}), .type = type};
  out.before = add_argument(node, body, "items", type);
  OnnxNames inputs{out.before, body.plain(item)};
  if (parts.reverse) inputs.push_back(node.integer(0));
  out.after = body.add("SequenceInsert", std::move(inputs), 1, {}, nullptr)[0];
  return out;
}

// Whether all items certainly have the same shape, or must have it.
bool items_stack(const OnnxExportNode& node, const Shape& item, Endpoint list) {
  return item.fully_known() || std::ranges::all_of(node.writer().readers(list), [](const Node* reader) {
           return reader && reader->op->name == "ListStack";
         });
}

OnnxName written_backwards(const OnnxExportNode& node, const OnnxName& x) {
  const OnnxName first = node.integers({std::numeric_limits<std::int64_t>::min()}), last = node.integers({-1});
  return node.add("Slice", {x, last, first, node.integers({0}), last});
}

// The inputs and outputs of the loop that is written: values, further values, rows that it collects.
struct LoopBody {
  std::vector<FurtherValue> further{};
  std::vector<Endpoint> further_outputs{};  // of our node
  std::vector<Endpoint> rows{};
  std::vector<Endpoint> results{};  // of the body, without items that become lists
};

LoopBody results_of(const OnnxExportNode& node, const LoopParts& parts, OnnxGraphWriter& body) {
  LoopBody out;
  const auto first = static_cast<std::size_t>(1 + parts.carried);
  const std::vector<Endpoint>& all = parts.body.results;
  out.results.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first));
  std::vector<Endpoint> lists;
  for (std::size_t i = first; i < all.size(); ++i) {
    const Endpoint list{node.node().id, static_cast<int>(i)};
    if (items_stack(node, body.graph().shape(all[i]), list)) {
      out.results.push_back(all[i]);
      out.rows.push_back(list);
    } else {
      lists.push_back(all[i]);
      out.further_outputs.push_back(list);
    }
  }
  std::vector<Endpoint> needed = out.results;
  needed.insert(needed.end(), lists.begin(), lists.end());
  body.write(needed);
  if (!body.state().unsupported.empty()) return out;
  for (const Endpoint& item : lists) out.further.push_back(list_of_items(node, parts, body, item));
  if (node.wants(0)) {
    out.further.push_back(count_of(node, body));
    out.further_outputs.push_back({node.node().id, 0});
  }
  return out;
}

// ---- scans

bool same_shape(const OnnxGraphWriter& body, Endpoint a, Endpoint b) {
  return body.graph().shape(a).has_rank() && body.graph().shape(a) == body.graph().shape(b);
}

// Whether a loop is a Scan of ONNX: over all rows of tensors, with states whose shapes stay. (One that becomes another
// is less known in the body than before.)
bool is_scan(const OnnxExportNode& node, const LoopParts& parts, const OnnxGraphWriter& body) {
  const auto known = node.known(0);
  if (parts.scanned == 0 || !known || known->item<std::int64_t>() >= 0 || !always_goes_on(node, parts.body) ||
      node.wants(0) || parts.body.results.size() == 1)
    return false;
  const auto& results = parts.body.results;
  for (std::size_t i = 1; i <= static_cast<std::size_t>(parts.carried); ++i)
    if (body.graph().dtype(results[i]) == DType::list || !same_shape(body, parts.body.arguments[i], results[i]) ||
        body.graph().shape(results[i]) != node.shape(static_cast<int>(i) + 1))
      return false;
  for (int i = 0; i < parts.scanned; ++i)
    if (node.dtype(2 + parts.carried + i) == DType::list) return false;
  for (std::size_t i = static_cast<std::size_t>(1 + parts.carried); i < results.size(); ++i)
    if (!items_stack(node, body.graph().shape(results[i]), {node.node().id, static_cast<int>(i)})) return false;
  const Endpoint iteration = parts.body.arguments[0];
  for (int id = 0; id < body.graph().size(); ++id)
    if (std::ranges::count(body.graph().node(id).inputs, iteration) > 0) return false;
  return std::ranges::count(results, iteration) == 0;
}

void write_scan(OnnxExportNode& node, const LoopParts& parts) {
  onnx::Graph graph;
  graph.set_name(node.node().name + "/body");
  OnnxGraphWriter body(node.writer().state(), *parts.body.body, graph, &node.writer());
  OnnxNames inputs;
  for (int i = 0; i < parts.carried + parts.scanned; ++i) {
    const Endpoint e = parts.body.arguments[static_cast<std::size_t>(i + 1)];
    const OnnxType type = own_type(body, e);
    body.bind(e, add_argument(node, body, i < parts.carried ? "value" : "row", type), type);
    inputs.push_back(node.in(2 + i));
  }
  bind_captures(node, parts, body);
  const std::vector<Endpoint> results(parts.body.results.begin() + 1, parts.body.results.end());
  body.write(results);
  write_outputs(body, results);
  Attributes attributes{{"num_scan_inputs", std::int64_t{parts.scanned}}};
  const std::size_t rows = results.size() - static_cast<std::size_t>(parts.carried);
  if (parts.reverse) {
    attributes.set("scan_input_directions", Integers(static_cast<std::size_t>(parts.scanned), 1));
    if (rows > 0) attributes.set("scan_output_directions", Integers(rows, 1));
  }
  onnx::Node* made = nullptr;
  const OnnxNames outputs =
      node.add_many("Scan", std::move(inputs), static_cast<int>(results.size()), attributes, &made);
  node.writer().name_node(node.node(), *made);
  add_graph(*made, "body", std::move(graph));
  for (int i = 0; i < parts.carried; ++i) node.set(1 + i, outputs[static_cast<std::size_t>(i)]);
  for (std::size_t i = static_cast<std::size_t>(parts.carried); i < outputs.size(); ++i)
    node.writer().set_stacked({node.node().id, static_cast<int>(i) + 1}, outputs[i]);
}

void write_loop_op(OnnxExportNode& node) {
  LoopParts parts{.body = function_of(node, "body"),
                  .carried = static_cast<int>(node.attributes().integer("carried")),
                  .scanned = static_cast<int>(node.attributes().integer("scanned")),
                  .reverse = node.attributes().boolean("reverse")};
  const int items = node.num_outputs() - 1 - parts.carried;
  for (int i = 0; i < items; ++i)
    if (parts.body.body->dtype(parts.body.results[static_cast<std::size_t>(1 + parts.carried + i)]) == DType::list)
      fail(Code::unimplemented, "it collects lists of lists");
  onnx::Graph unused;
  if (is_scan(node, parts, OnnxGraphWriter(node.writer().state(), *parts.body.body, unused, &node.writer())))
    return write_scan(node, parts);
  parts.limit = limit_of(node, parts);
  if (parts.reverse && parts.limit.empty()) invalid_argument("a loop in reverse needs a limit or a scanned input");
  const bool goes_on = always_goes_on(node, parts.body);
  OnnxNames inputs{parts.limit, goes_on ? OnnxName() : node.in(1)};
  for (int i = 0; i < parts.carried; ++i) inputs.push_back(node.in(2 + i));
  onnx::Graph graph;
  graph.set_name(node.node().name + "/body");
  OnnxGraphWriter body(node.writer().state(), *parts.body.body, graph, &node.writer());
  const OnnxName cond = bind_arguments(node, parts, body);
  if (goes_on) body.bind(parts.body.results[0], cond, {{}, DType::boolean, Shape{}});
  const LoopBody made_body = results_of(node, parts, body);
  write_outputs(body, made_body.results);
  auto& outputs = *graph.mutable_output();
  for (std::size_t i = 0; i < made_body.further.size(); ++i) {
    const FurtherValue& value = made_body.further[i];
    inputs.push_back(value.first);
    add_value(*outputs.Add(), value.after, value.type);
    for (int at = outputs.size() - 1; at > 1 + parts.carried + static_cast<int>(i); --at)
      outputs.SwapElements(at, at - 1);
  }
  onnx::Node* made = nullptr;
  const std::size_t values = static_cast<std::size_t>(parts.carried) + made_body.further.size();
  const OnnxNames results =
      node.add_many("Loop", std::move(inputs), static_cast<int>(values + made_body.rows.size()), {}, &made);
  node.writer().name_node(node.node(), *made);
  add_graph(*made, "body", std::move(graph));
  for (int i = 0; i < parts.carried; ++i) node.set(1 + i, results[static_cast<std::size_t>(i)]);
  for (std::size_t i = 0; i < made_body.further.size(); ++i)
    node.set(made_body.further_outputs[i].index, results[static_cast<std::size_t>(parts.carried) + i]);
  for (std::size_t i = 0; i < made_body.rows.size(); ++i) {
    if (!node.wants(made_body.rows[i].index)) continue;
    const OnnxName& rows = results[values + i];
    node.writer().set_stacked(made_body.rows[i], parts.reverse ? written_backwards(node, rows) : rows);
  }
}

// ---- lists

void write_list_of(OnnxExportNode& node) { node.set(node.add("SequenceConstruct", node.all_inputs())); }
void write_list_empty(OnnxExportNode& node) {
  const OnnxType type = node.writer().type({node.node().id, 0});
  if (type.lists.size() != 1) fail(Code::unimplemented, "ONNX has no sequences of sequences");
  node.set(node.add("SequenceEmpty", {}, {{"dtype", type.dtype}}));
}
void write_list_size(OnnxExportNode& node) { node.set(node.add("SequenceLength", {node.in(0)})); }
// The shapes of items, which sequences do not have.
void declare_output(const OnnxExportNode& node) {
  const OnnxName y = node.writer().plain({node.node().id, 0});
  if (node.output_shape().has_rank())
    add_value(*node.writer().out().add_value_info(), y, {{}, node.output_dtype(), node.output_shape()});
}

void write_list_get(OnnxExportNode& node) {
  node.set(node.add("SequenceAt", {node.in(0), node.in(1)}));
  if (node.output_dtype() != DType::list) declare_output(node);
}
void write_list_erase(OnnxExportNode& node) { node.set(node.add("SequenceErase", {node.in(0), node.in(1)})); }

// An index below 0 counts from behind the last item in ours, from before it in ONNX's.
void write_list_insert(OnnxExportNode& node) {
  const Node& index = node.graph().node(node.endpoint(2).node);
  if (index.op->name == "ListSize" && index.inputs[0] == node.endpoint(0) && !node.writer().is_given(node.endpoint(2)))
    return node.set(node.add("SequenceInsert", {node.in(0), node.in(1)}));
  const auto known = node.known(2);
  if (known && known->item<std::int64_t>() >= 0)
    return node.set(node.add("SequenceInsert", {node.in(0), node.in(1), node.in(2)}));
  const OnnxName places = node.add("Add", {node.add("SequenceLength", {node.in(0)}), node.integer(1)});
  const OnnxName below = node.add("Less", {node.in(2), node.integer(0)});
  const OnnxName at = node.add("Where", {below, node.add("Add", {node.in(2), places}), node.in(2)});
  node.set(node.add("SequenceInsert", {node.in(0), node.in(1), at}));
}

void write_list_stack(OnnxExportNode& node) {
  if (const OnnxName rows = node.writer().stacked(node.endpoint(0)); !rows.empty())
    return node.set(node.add("Identity", {rows}));
  node.set(node.add("ConcatFromSequence", {node.in(0)}, {{"axis", std::int64_t{0}}, {"new_axis", std::int64_t{1}}}));
  declare_output(node);
}
void write_list_concat(OnnxExportNode& node) {
  node.set(node.add("ConcatFromSequence", {node.in(0)}, {{"axis", node.attributes().integer("axis")}}));
}
void write_list_unstack(OnnxExportNode& node) { node.writer().set_stacked({node.node().id, 0}, node.in(0)); }

// Returns its inputs; the gradient is not part of a model.
void write_custom_gradient(OnnxExportNode& node) {
  for (int i = 0; i < node.num_outputs(); ++i)
    if (node.wants(i)) node.set(i, node.add("Identity", {node.in(i)}));
}

constexpr OnnxExportOp kControlWriters[] = {
    {"CustomGradient", write_custom_gradient},
    {"If", write_if_op},
    {"ListConcat", write_list_concat},
    {"ListEmpty", write_list_empty},
    {"ListErase", write_list_erase},
    {"ListGet", write_list_get},
    {"ListInsert", write_list_insert},
    {"ListOf", write_list_of},
    {"ListSize", write_list_size},
    {"ListStack", write_list_stack},
    {"ListUnstack", write_list_unstack},
    {"Loop", write_loop_op},
};

}  // namespace

std::span<const OnnxExportOp> onnx_control_writers() { return kControlWriters; }

}  // namespace troupe
