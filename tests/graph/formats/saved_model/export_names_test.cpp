// The nodes, functions and ops of the saver that SavedModels have: their names, and what they refer to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "tests/error_of.hpp"
#include "tests/graph/formats/saved_model/model_text.hpp"
#include <troupe/graph/formats/saved_model/saved_model.hpp>
#include <troupe/graph/formats/text.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

namespace tf = troupe::tensorflow;
using OpsByName = std::map<std::string, std::string>;

tf::SavedModel parsed(const TensorflowBytes& bytes) {
  tf::SavedModel model;
  EXPECT_TRUE(model.ParseFromString(bytes.model));
  return model;
}

// Checks that nodes have valid names of their own, and that what they read is there. Returns their ops.
template <class Nodes>
OpsByName checked_nodes(const Nodes& nodes, const std::set<std::string>& arguments = {}) {
  static const std::regex kValid("[A-Za-z0-9.][A-Za-z0-9_./-]*");
  OpsByName ops;
  for (const std::string& argument : arguments) ops[argument] = "argument";
  for (const tf::NodeDef& node : nodes) {
    EXPECT_TRUE(std::regex_match(node.name(), kValid)) << "'" << node.name() << "'";
    EXPECT_TRUE(ops.emplace(node.name(), node.op()).second) << "two are named '" << node.name() << "'";
  }
  for (const tf::NodeDef& node : nodes)
    for (const std::string& input : node.input()) {
      const std::size_t begin = input.starts_with('^') ? 1 : 0;
      EXPECT_TRUE(ops.contains(input.substr(begin, input.find(':') - begin))) << node.name() << " reads " << input;
    }
  return ops;
}

OpsByName checked_model(const tf::MetaGraphDef& meta) {
  for (const tf::FunctionDef& function : meta.graph_def().library().function()) {
    std::set<std::string> arguments;
    for (const auto& argument : function.signature().input_arg()) arguments.insert(argument.name());
    const OpsByName ops = checked_nodes(function.node_def(), arguments);
    for (const auto& [name, value] : function.ret())
      EXPECT_TRUE(ops.contains(value.substr(0, value.find(':')))) << value;
  }
  return checked_nodes(meta.graph_def().node());
}

const tf::NodeDef& node_of(const tf::MetaGraphDef& meta, const std::string& name) {
  for (const tf::NodeDef& node : meta.graph_def().node())
    if (node.name() == name.substr(0, name.find(':'))) return node;
  fail(Code::not_found, "there is no node '{}'", name);
}

std::vector<std::string> ops_before(const tf::MetaGraphDef& meta, const std::string& name) {
  std::vector<std::string> out;
  for (const std::string& input : node_of(meta, name).input())
    out.push_back(node_of(meta, input.substr(input.starts_with('^') ? 1 : 0)).op());
  return out;
}

// All nodes of the graph are named as those that the model needs beside, or in ways that TensorFlow does not allow.
constexpr const char* kNames = R"(
x = Placeholder() T=f32 shape=[2]
words = Placeholder() T=string shape=[3]
yes = Placeholder() T=bool shape=[]
w = Variable() T=f32 shape=[2]
_v = Variable() T=f32 shape=[2]
read = ReadVariable(w) T=f32
other = ReadVariable(_v) T=f32
node_v = Neg(x)
s_x = Mul(node_v, read)
"w/Read/ReadVariableOp" = Neg(s_x)
"w/Assign" = Neg("w/Read/ReadVariableOp")
"save/filename" = Neg("w/Assign")
"save/Const" = Neg("save/filename")
"save/SaveV2" = Neg("save/Const")
"save/RestoreV2" = Neg("save/SaveV2")
"save/control_dependency" = Neg("save/RestoreV2")
"save/restore_all" = Neg("save/control_dependency")
init = Mul("save/restore_all", other)
_two = Const() T=f32 value=f32[] = 2
_hidden = Mul(init, _two)
_branch = If(yes, _hidden) Tout=[f32] then_branch=@_f else_branch=@g
_sum = L2Loss(_branch)
s_out_y = Mul(_branch, _sum)
keys = Const() T=string value=string[2] = "a" "b"
at = TableFind(words, keys)
"at/HashTableV2/import" = Neg(at)
function _f returns value_0 {
  a = Arg() T=f32 index=0 shape=[2]
  value_0 = Neg(a)
}
function g returns a {
  a = Arg() T=f32 index=0 shape=[2]
}
)";

TEST(TensorflowExportNames, NodesNamedAsThoseOfTheModelDoNotTakeTheirPlaces) {
  const std::unique_ptr<Graph> graph = parse_text(kNames);
  const auto out = [&](const char* name) { return graph->output(name); };
  const TensorflowSignature signature{{{"an input: é", out("x")}, {"words", out("words")}, {"yes", out("yes")}},
                                      {{"an output: ü", out("s_out_y")}, {"at", out("at/HashTableV2/import")}}};
  const Tensor value = Tensor::vector<float>({1, 2});
  const tf::SavedModel model = parsed(to_tensorflow(
      *graph, {.signatures = {{"s", signature}}, .variables = {{"w", value}, {"_v", value}}, .trainable = {"w"}}));
  const tf::MetaGraphDef& meta = model.meta_graphs(0);
  const OpsByName ops = checked_model(meta);
  EXPECT_EQ(meta.graph_def().library().function_size(), 2);

  const tf::SaverDef& saver = meta.saver_def();
  EXPECT_THAT(ops_before(meta, saver.restore_op_name()), ElementsAre("AssignVariableOp", "AssignVariableOp"));
  EXPECT_THAT(ops_before(meta, saver.save_tensor_name()), ElementsAre("PlaceholderWithDefault", "SaveV2"));
  EXPECT_EQ(node_of(meta, saver.filename_tensor_name()).op(), "PlaceholderWithDefault");
  for (const tf::NodeDef& node : meta.graph_def().node())
    if (node.op() == "SaveV2" || node.op() == "RestoreV2") {
      EXPECT_EQ(node.input(0) + ":0", saver.filename_tensor_name()) << node.name();
    }
  const auto& collections = meta.collection_def();
  EXPECT_THAT(ops_before(meta, collections.at("saved_model_main_op").node_list().value(0)),
              ElementsAre("LookupTableImportV2"));
  std::vector<std::string> trainable;
  ASSERT_EQ(collections.at("variables").bytes_list().value_size(), 2);
  for (const std::string& bytes : collections.at("variables").bytes_list().value()) {
    tf::VariableDef variable;
    ASSERT_TRUE(variable.ParseFromString(bytes));
    const tf::NodeDef &assign = node_of(meta, variable.initializer_name()),
                      &read = node_of(meta, variable.snapshot_name());
    EXPECT_EQ(node_of(meta, variable.variable_name()).op(), "VarHandleOp");
    EXPECT_EQ(assign.op(), "AssignVariableOp");
    EXPECT_EQ(read.op(), "ReadVariableOp");
    EXPECT_EQ(assign.input(0) + ":0", variable.variable_name());
    EXPECT_EQ(read.input(0) + ":0", variable.variable_name());
    if (variable.trainable()) trainable.push_back(variable.variable_name());
  }
  EXPECT_THAT(trainable, ElementsAre("w:0"));
  ASSERT_EQ(collections.at("trainable_variables").bytes_list().value_size(), 1);
}

// Beside, only the op that computes a node has its name.
TEST(TensorflowExportNames, NodesKeepTheirs) {
  const std::unique_ptr<Graph> graph = parse_text(R"(
x = Placeholder() T=f32 shape=[3,4]
w = Variable() T=f32 shape=[4]
read = ReadVariable(w) T=f32
scaled = Mul(x, read)
flipped = Softmax(scaled) axis=0
top = TopK(flipped, one) axis=0
one = Const() T=i64 value=i64[1] = 1
y = Neg(top)
)");
  const Output x = graph->output("x");
  const TensorflowSignature signature{{{"x", x}}, {{"y", graph->output("y")}, {"at", graph->output("top:1")}}};
  const TensorflowBytes bytes = to_tensorflow(
      *graph, {.signatures = {{"s", signature}}, .variables = {{"w", Tensor::zeros(DType::f32, Shape{4})}}});
  EXPECT_THAT(bytes.variables, ElementsAre("w"));
  const OpsByName ops = checked_model(parsed(bytes).meta_graphs(0));
  for (const auto& [name, op] : OpsByName{{"s_x", "Placeholder"},
                                          {"w", "VarHandleOp"},
                                          {"w/Read/ReadVariableOp", "ReadVariableOp"},
                                          {"w/Assign", "AssignVariableOp"},
                                          {"scaled", "Mul"},
                                          {"flipped", "Transpose"},
                                          {"top", "Transpose"},
                                          {"y", "Neg"},
                                          {"s_out_y", "Identity"},
                                          {"save/restore_all", "NoOp"},
                                          {"save/Const", "PlaceholderWithDefault"}})
    EXPECT_EQ(ops.contains(name) ? ops.at(name) : "", op) << name;
}

std::size_t count_of(const tf::MetaGraphDef& meta, std::string_view op) {
  std::size_t count = 0;
  for (const tf::NodeDef& node : meta.graph_def().node()) count += node.op() == op;
  return count;
}

TEST(TensorflowExportNames, SignaturesShareInputsVariablesAndTables) {
  const std::unique_ptr<Graph> graph = parse_text(R"(
x = Placeholder() T=i64 shape=[2]
w = Variable() T=f32 shape=[2]
read = ReadVariable(w) T=f32
again = ReadVariable(w) T=f32
keys = Const() T=i64 value=i64[2] = 5 7
same = Const() T=i64 value=i64[2] = 5 7
different = Const() T=i64 value=i64[2] = 5 8
first = TableFind(x, keys)
second = TableFind(x, same)
third = TableFind(x, different)
longer = Const() T=i64 value=i64[3] = 5 7 9
fourth = TableFind(x, longer)
numbers = Const() T=i64 value=i64[2] = 1 0
number = Const() T=i64 value=i64[] = 3
fifth = TableLookup(x, keys, numbers, number)
words = Const() T=string value=string[2] = "a" "b"
word = Placeholder() T=string shape=[2]
sixth = TableFind(word, words)
all = AddN(first, third, fourth, fifth, sixth)
y = Add(read, again)
)");
  const auto out = [&](const char* name) { return graph->output(name); };
  const TensorflowSignature a{{{"x", out("x")}, {"word", out("word")}}, {{"one", out("all")}, {"y", out("y")}}},
      b{{{"z", out("x")}}, {{"two", out("second")}, {"three", out("third")}, {"x", out("x")}}};
  const Tensor value = Tensor::vector<float>({1, 2});
  const tf::SavedModel model = parsed(
      to_tensorflow(*graph, {.signatures = {{"a", a}, {"b", b}}, .variables = {{"w", value}, {"unread", value}}}));
  const tf::MetaGraphDef& meta = model.meta_graphs(0);
  checked_model(meta);
  EXPECT_EQ(count_of(meta, "Placeholder"), 2u);
  EXPECT_EQ(count_of(meta, "VarHandleOp"), 1u);
  EXPECT_EQ(count_of(meta, "ReadVariableOp"), 1u);
  EXPECT_EQ(count_of(meta, "HashTableV2"), 5u);  // "second" has that of "first"
  EXPECT_EQ(count_of(meta, "LookupTableImportV2"), 5u);
  std::set<std::string> shared;
  for (const tf::NodeDef& node : meta.graph_def().node())
    if (node.op() == "HashTableV2") shared.insert(node.attr().at("shared_name").s());
  EXPECT_EQ(shared.size(), 5u);  // loaders share tables of one name
  // What is given is read from a node of its own: loaders may not feed and fetch the same tensor.
  const tf::SignatureDef& signature = meta.signature_def().at("b");
  EXPECT_EQ(signature.inputs().at("z").name(), meta.signature_def().at("a").inputs().at("x").name());
  EXPECT_NE(signature.outputs().at("x").name(), signature.inputs().at("z").name());
  EXPECT_EQ(node_of(meta, signature.outputs().at("x").name()).op(), "Identity");
  EXPECT_EQ(signature.method_name(), "tensorflow/serving/predict");
}

// Without variables there is nothing to save, and without tables nothing to fill.
TEST(TensorflowExportNames, AModelOfNothingButOpsRestoresNothing) {
  const std::unique_ptr<Graph> graph = parse_text("x = Placeholder() T=f32 shape=[?,2]\ny = Neg(x)\n");
  const TensorflowSignature signature{{{"x", graph->output("x")}}, {{"y", graph->output("y")}}};
  const TensorflowBytes bytes = to_tensorflow(*graph, {.signatures = {{"s", signature}}});
  const tf::SavedModel model = parsed(bytes);
  const tf::MetaGraphDef& meta = model.meta_graphs(0);
  checked_model(meta);
  EXPECT_TRUE(bytes.variables.empty());
  EXPECT_THAT(ops_before(meta, meta.saver_def().restore_op_name()), ElementsAre());
  EXPECT_EQ(count_of(meta, "SaveV2") + count_of(meta, "RestoreV2"), 0u);
  EXPECT_TRUE(meta.collection_def().empty());
  const tf::TensorInfo& x = meta.signature_def().at("s").inputs().at("x");
  EXPECT_EQ(x.tensor_shape().dim(0).size(), -1);
  EXPECT_EQ(x.tensor_shape().dim(1).size(), 2);
  EXPECT_EQ(x.dtype(), 1);  // DT_FLOAT
}

}  // namespace
}  // namespace troupe::testing
