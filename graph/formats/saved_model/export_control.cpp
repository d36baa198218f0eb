// Branches, loops and the lists that loops collect, as TensorFlow's StatelessIf, StatelessWhile and TensorLists.
#include <algorithm>
#include <limits>

#include <troupe/graph/formats/saved_model/export_node.hpp>

namespace troupe {
namespace {

const Function& tf_function_of(const TfExportNode& node, const char* attribute) {
  const std::string& name = node.attributes().get<FunctionName>(attribute).value;
  const Function* found = node.writer().graph().function(name);
  if (!found) fail(Code::not_found, "there is no function '{}'", name);
  return *found;
}

std::string body_name(const TfExportNode& node, const char* part) {
  std::string name = fmt::format("{}_{}", node.node().name, part);
  std::ranges::replace(name, '/', '_');
  return node.writer().state().unique_name(name);
}

void write_tf_if(TfExportNode& node) {
  Attributes attributes{{"Tout", node.node().output_types}};
  for (const char* branch : {"then_branch", "else_branch"}) {
    const Function& function = tf_function_of(node, branch);
    TfGraphWriter body(node.writer().state(), *function.body, false);
    TfNames arguments, results;
    for (std::size_t i = 0; i < function.arguments.size(); ++i) {
      arguments.push_back(body.argument(fmt::format("value_{}", i), function.body->dtype(function.arguments[i])));
      body.bind(function.arguments[i], arguments.back());
    }
    body.write(function.results);
    for (const Endpoint& e : function.results) results.push_back(body.value(e));
    const std::string name = body_name(node, branch);
    body.add_function(name, arguments, results);
    attributes.set(branch, FunctionName{name});
  }
  node.set_all(node.add_many("StatelessIf", node.all_inputs(), attributes));
}

// ---- loops

bool is_true_in(const Graph& graph, Endpoint e) {
  const Node& node = graph.node(e.node);
  return node.op->role == OpRole::constant && node.attributes.tensor("value").item<bool>();
}

// Our loop as values of a While: the number of iterations so far, whether to go on, those that the body changes, lists
// of what it collects; then what it only reads: the most iterations, inputs by rows, values of the graph around.
class TfLoopWriter {
 public:
  explicit TfLoopWriter(const TfExportNode& node)
      : node_(node),
        function_(tf_function_of(node, "body")),
        carried_(static_cast<std::size_t>(node.attributes().integer("carried"))),
        scanned_(static_cast<std::size_t>(node.attributes().integer("scanned"))),
        reverse_(node.attributes().boolean("reverse")) {}

  void write() {
    for (std::size_t i = 0; i < carried_ + scanned_; ++i)
      if (node_.dtype(static_cast<int>(i) + 2) == DType::list) fail(Code::unimplemented, "lists as values of a loop");
    TfNames values{node_.integer(0), node_.in(1)};
    for (std::size_t i = 0; i < carried_; ++i) values.push_back(node_.in(static_cast<int>(i) + 2));
    const TfName limit = limit_of();
    add_lists(limit, values);
    first_fixed_ = values.size();
    values.push_back(limit);
    for (auto i = static_cast<int>(2 + carried_); i < node_.num_inputs(); ++i) values.push_back(node_.in(i));
    const TfNames made = node_.add_many(
        "StatelessWhile", values, {{"cond", FunctionName{condition(values)}}, {"body", FunctionName{body(values)}}});
    node_.set(0, made[0]);
    for (std::size_t i = 2; i < first_fixed_; ++i) node_.set(static_cast<int>(i) - 1, made[i]);
  }

 private:
  // The most iterations: as many as scanned inputs have rows, and the loop's limit unless that is below 0.
  TfName limit_of() {
    TfNames limits;
    for (std::size_t i = 0; i < scanned_; ++i) {
      const TfName rows = node_.dims_of(node_.in(static_cast<int>(2 + carried_ + i)), 0, 1);
      limits.push_back(node_.add("Reshape", {rows, node_.integers({})}));
    }
    const auto known = node_.known(0);
    const TfName most = node_.integer(std::numeric_limits<std::int64_t>::max());
    if (!known)
      limits.push_back(node_.add("SelectV2", {node_.add("Less", {node_.in(0), node_.integer(0)}), most, node_.in(0)}));
    else if (known->item<std::int64_t>() >= 0)
      limits.push_back(node_.in(0));
    bounded_ = !limits.empty();
    if (limits.empty()) return most;
    TfName out = limits[0];
    for (std::size_t i = 1; i < limits.size(); ++i) out = node_.add("Minimum", {out, limits[i]});
    return out;
  }

  // Lists of the items, which have as many places as there are iterations.
  void add_lists(const TfName& limit, TfNames& values) {
    const std::vector<Endpoint>& results = function_.results;
    if (results.size() == 1 + carried_) return;
    const bool whole = is_true_in(node_.writer().graph(), node_.endpoint(1)) && is_true_in(*function_.body, results[0]);
    if (!whole || !bounded_) fail(Code::unimplemented, "a loop that collects values and may end early is not written");
    for (std::size_t i = 1 + carried_; i < results.size(); ++i) {
      const DType dtype = function_.body->dtype(results[i]);
      values.push_back(node_.add("TensorListReserve",
                                 {item_shape(node_, function_.body->shape(results[i])), node_.cast(limit, DType::i32)},
                                 {{"element_dtype", dtype}}));
    }
  }

 public:
  // A shape as lists take it: a vector of i32, or -1 if the rank is not known.
  static TfName item_shape(const TfExportNode& node, const Shape& shape) {
    if (!shape.has_rank()) return node.integer32(-1);
    std::vector<std::int32_t> dims;
    for (const std::int64_t d : shape.dims()) dims.push_back(static_cast<std::int32_t>(d));
    return node.constant(Tensor::of<std::int32_t>(Shape{std::ssize(dims)}, dims));
  }

 private:
  TfNames arguments_in(TfGraphWriter& writer, const TfNames& values) const {
    TfNames out;
    for (const TfName& value : values)
      out.push_back(writer.argument(fmt::format("value_{}", out.size()), node_.writer().dtype(value)));
    return out;
  }

  std::string condition(const TfNames& values) const {
    TfGraphWriter writer(node_.writer().state(), *function_.body, false);
    const TfNames arguments = arguments_in(writer, values);
    const TfName below = writer.add("Less", {arguments[0], arguments[first_fixed_]}, {})[0];
    const TfName again = writer.add("LogicalAnd", {arguments[1], below}, {})[0];
    const std::string name = body_name(node_, "cond");
    writer.add_function(name, arguments, {again});
    return name;
  }

  std::string body(const TfNames& values) const {
    TfGraphWriter writer(node_.writer().state(), *function_.body, false);
    const TfNames arguments = arguments_in(writer, values);
    const TfName one = writer.constant(Tensor::scalar(std::int64_t{1}));
    TfName index = arguments[0];
    if (reverse_) {
      const TfName last = writer.add("Sub", {arguments[first_fixed_], one}, {})[0];
      index = writer.add("Sub", {last, index}, {})[0];
    }
    writer.bind(function_.arguments.at(0), index);
    for (std::size_t i = 0; i < carried_; ++i) writer.bind(function_.arguments.at(1 + i), arguments[2 + i]);
    const TfName axis = writer.constant(Tensor::scalar(std::int32_t{0}));
    for (std::size_t i = carried_; i + 1 < function_.arguments.size(); ++i) {
      const TfName& given = arguments[first_fixed_ + 1 + i - carried_];
      const bool row = i < carried_ + scanned_;
      writer.bind(function_.arguments[1 + i], row ? writer.add("GatherV2", {given, index, axis}, {})[0] : given);
    }
    writer.write(function_.results);
    TfNames results = arguments;
    results[0] = writer.add("AddV2", {arguments[0], one}, {})[0];
    results[1] = writer.value(function_.results[0]);
    const TfName place = writer.add("Cast", {index}, {{"DstT", DType::i32}})[0];
    for (std::size_t i = 2; i < first_fixed_; ++i) {
      const TfName value = writer.value(function_.results.at(i - 1));
      results[i] = i < 2 + carried_ ? value : writer.add("TensorListSetItem", {arguments[i], place, value}, {})[0];
    }
    const std::string name = body_name(node_, "body");
    writer.add_function(name, arguments, results);
    return name;
  }

  const TfExportNode& node_;
  const Function& function_;
  std::size_t carried_, scanned_, first_fixed_ = 0;
  bool reverse_, bounded_ = false;
};

void write_tf_loop(TfExportNode& node) { TfLoopWriter(node).write(); }

void write_tf_list_stack(TfExportNode& node) {
  if (node.writer().graph().node(node.endpoint(0).node).op->role != OpRole::loop)
    fail(Code::unimplemented, "lists other than those of loops are not written");
  const DType dtype = node.output_dtype();
  const TfName item = TfLoopWriter::item_shape(node, node.attributes().shape("item"));
  node.set(node.add("TensorListStack", {node.in(0), item}, {{"element_dtype", dtype}}));
}

constexpr TfExportOp kTfControlWriters[] = {
    {"If", write_tf_if}, {"ListStack", write_tf_list_stack}, {"Loop", write_tf_loop}};

}  // namespace

std::span<const TfExportOp> tensorflow_control_writers() { return kTfControlWriters; }

}  // namespace troupe
