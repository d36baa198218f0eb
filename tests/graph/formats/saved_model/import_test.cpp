// SavedModels made by the test: what they compute, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/error_of.hpp"
#include "tests/graph/formats/saved_model/model_text.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/saved_model/saved_model.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The variable "w" is {3, 5}.
TensorflowFiles files_of_model() {
  return {.tensor =
              [](const std::string& key) {
                if (key == "w/.ATTRIBUTES/VARIABLE_VALUE") return Tensor::vector<float>({3, 5});
                if (key != "_CHECKPOINTABLE_OBJECT_GRAPH") fail(Code::not_found, "no tensor '{}'", key);
                tensorflow::TrackableObjectGraph graph;
                auto& child = *graph.add_nodes()->add_children();
                child.set_node_id(1);
                child.set_local_name("w");
                auto& value = *graph.add_nodes()->add_attributes();
                value.set_name("VARIABLE_VALUE");
                value.set_checkpoint_key("w/.ATTRIBUTES/VARIABLE_VALUE");
                return Tensor::scalar<std::string>(graph.SerializeAsString());
              },
          .asset = [](const std::string& name) -> std::string { fail(Code::not_found, "no asset '{}'", name); }};
}

TensorflowModel import_text(const std::string& nodes, const std::string& result, const std::string& functions = "",
                            const TensorflowImportOptions& options = {}) {
  return parse_tensorflow(model_of(nodes, result, functions).SerializeAsString(), files_of_model(), options);
}
Error import_error(const std::string& nodes, const std::string& result, const std::string& functions = "") {
  return error_of([&] { import_text(nodes, result, functions); });
}

// Of x = {{1, 2}, {3, 4}}.
std::string computed(const TensorflowModel& model) {
  const Output initialize = initializer(*model.graph);
  Session session(*model.graph);
  session.run_targets({initialize});
  const TensorflowSignature& f = model.signatures.at("f");
  return session.run({{f.inputs.at("x"), Tensor::of<float>({2, 2}, {1, 2, 3, 4})}}, f.outputs.at("y")).to_string();
}

const std::string kRead = node_text("ReadVariableOp", "read", {"w"});

TEST(TensorflowImport, VariablesHaveTheirValuesAndTrain) {
  const std::string nodes = kRead + node_text("Mul", "a/b/mul", {"x", "read:value:0"});
  TensorflowModel model = import_text(nodes, "a/b/mul:z:0");
  EXPECT_EQ(computed(model), "f32[2,2] = 3 10 9 20");
  EXPECT_EQ(model.version, "2.21.0");
  EXPECT_EQ(model.variables, std::vector<std::string>{"w_0"});
  EXPECT_TRUE(variables(*model.graph).at(0).trainable);
  EXPECT_NE(model.graph->find("a/b/Mul"), nullptr);
  EXPECT_EQ(model.signatures.at("f").outputs.at("y").shape(), (Shape{kUnknown, 2}));
  const TensorflowModel fixed = import_text(nodes, "a/b/mul:z:0", "", {.trainable = false});
  EXPECT_FALSE(variables(*fixed.graph).at(0).trainable);
}

TEST(TensorflowImport, UnknownOpsOfAllFunctionsAreListedAtOnce) {
  const std::string other = function_text("g", R"(input_arg { name: "x" type: 1 } output_arg { name: "y" type: 1 })",
                                          node_text("Bessel", "c", {"x"}), R"(ret { key: "y" value: "c:y:0" })");
  const Error error = import_error(node_text("Frobnicate", "a", {"x"}) + node_text("Frobnicate", "b", {"a:y:0"}) +
                                       node_text("Unread", "z", {"x"}) +
                                       node_text("PartitionedCall", "call", {"b:y:0"}, function_attribute("f", "g")),
                                   "call:output:0", other);
  EXPECT_EQ(error.code(), Code::unimplemented);
  EXPECT_THAT(error.message(), HasSubstr("Bessel: c; Frobnicate: a, b"));
  EXPECT_THAT(error.message(), Not(HasSubstr("Unread")));
}

TEST(TensorflowImport, ErrorsNameTheNode) {
  const Error error = import_error(kRead + node_text("BiasAdd", "dense/sum", {"x", "x"}), "dense/sum:output:0");
  EXPECT_THAT(error.message(), AllOf(HasSubstr("signature 'f'"), HasSubstr("BiasAdd 'dense/sum'")));
}

const char* const kOfTensor = R"(input_arg { name: "x" type: 1 } output_arg { name: "y" type: 1 })";

TEST(TensorflowImport, CallsBranchesAndLoopsRun) {
  const std::string twice =
      function_text("twice", kOfTensor, node_text("AddV2", "a", {"x", "x"}), R"(ret { key: "y" value: "a:z:0" })");
  const std::string same = function_text("same", kOfTensor, "", R"(ret { key: "y" value: "x" })");
  EXPECT_EQ(computed(import_text(node_text("twice", "call", {"x"}), "call:y:0", twice)), "f32[2,2] = 2 4 6 8");
  EXPECT_EQ(computed(import_text(integer_text("two", 2) + node_text("If", "if", {"two:output:0", "x"},
                                                                    function_attribute("then_branch", "twice") +
                                                                        function_attribute("else_branch", "same")),
                                 "if:output:0", twice + same)),
            "f32[2,2] = 2 4 6 8");
  const std::string loop_arguments =
      R"(input_arg { name: "i" type: 3 } input_arg { name: "v" type: 1 } input_arg { name: "h" type: 20 })";
  const std::string cond = function_text("cond", loop_arguments + R"( output_arg { name: "again" type: 10 })",
                                         integer_text("n", 3) + node_text("Less", "less", {"i", "n:output:0"}),
                                         R"(ret { key: "again" value: "less:z:0" })");
  const std::string body =
      function_text("body", loop_arguments + R"( output_arg { name: "i1" type: 3 } output_arg { name: "v1" type: 1 }
                                   output_arg { name: "h1" type: 20 })",
                    integer_text("one", 1) + node_text("AddV2", "next", {"i", "one:output:0"}) +
                        node_text("ReadVariableOp", "read", {"h"}) + node_text("AddV2", "sum", {"v", "read:value:0"}) +
                        node_text("Identity", "pass", {"h"}),
                    R"(ret { key: "i1" value: "next:z:0" } ret { key: "v1" value: "sum:z:0" }
         ret { key: "h1" value: "pass:output:0" })");
  const std::string loop =
      integer_text("zero", 0) + node_text("While", "while", {"zero:output:0", "x", "w"},
                                          function_attribute("cond", "cond") + function_attribute("body", "body"));
  EXPECT_EQ(computed(import_text(loop, "while:output:1", cond + body)), "f32[2,2] = 10 17 12 19");
}

// A list of `size` items that a loop of `rounds` iterations sets: item `index` becomes x.
std::string list_result(int size, int rounds, const std::string& index) {
  const std::string arguments =
      R"(input_arg { name: "i" type: 3 } input_arg { name: "l" type: 21 } input_arg { name: "v" type: 1 })";
  const std::string cond = function_text("cond", arguments + R"( output_arg { name: "again" type: 10 })",
                                         integer_text("n", rounds) + node_text("Less", "less", {"i", "n:output:0"}),
                                         R"(ret { key: "again" value: "less:z:0" })");
  const std::string body = function_text(
      "body", arguments + R"( output_arg { name: "i1" type: 3 } output_arg { name: "l1" type: 21 }
                              output_arg { name: "v1" type: 1 })",
      integer_text("one", 1) + integer_text("zero", 0) + node_text("AddV2", "next", {"i", "one:output:0"}) +
          node_text("AddV2", "sum", {"v", "v"}) + node_text("TensorListSetItem", "set", {"l", index, "v"}),
      R"(ret { key: "i1" value: "next:z:0" } ret { key: "l1" value: "set:output_handle:0" }
         ret { key: "v1" value: "sum:z:0" })");
  const std::string nodes = integer_text("zero", 0) + integer_text("size", size) + integer_text("any", -1) +
                            node_text("TensorListReserve", "list", {"any:output:0", "size:output:0"}) +
                            node_text("While", "while", {"zero:output:0", "list:handle:0", "x"},
                                      function_attribute("cond", "cond") + function_attribute("body", "body")) +
                            node_text("TensorListStack", "stack", {"while:output:1", "any:output:0"});
  return computed(import_text(nodes, "stack:tensor:0", cond + body));
}

TEST(TensorflowImport, ListsThatLoopsSetInOrderAreTheirRows) {
  EXPECT_EQ(list_result(3, 3, "i"), "f32[3,2,2] = 1 2 3 4 2 4 6 8 ...");
  EXPECT_EQ(list_result(1, 3, "zero:output:0"), "f32[1,2,2] = 4 8 12 16");
  EXPECT_EQ(error_of([] { list_result(4, 3, "i"); }).code(), Code::invalid_argument);
  EXPECT_THAT(error_of([] { list_result(3, 3, "next:z:0"); }).message(), HasSubstr("another order"));
}

TEST(TensorflowImport, RecursionAndCyclesAreRefused) {
  const std::string again =
      function_text("g", kOfTensor, node_text("g", "call", {"x"}), R"(ret { key: "y" value: "call:y:0" })");
  EXPECT_THAT(import_error(node_text("g", "call", {"x"}), "call:y:0", again).message(), HasSubstr("nested more than"));
  EXPECT_THAT(import_error(node_text("Neg", "a", {"b:y:0"}) + node_text("Neg", "b", {"a:y:0"}), "a:y:0").message(),
              HasSubstr("reads its own result"));
  EXPECT_THAT(import_error(node_text("Neg", "a", {"missing:y:0"}), "a:y:0").message(), HasSubstr("no node 'missing'"));
  EXPECT_THAT(import_error(node_text("Neg", "a", {"x"}) + node_text("Neg", "a", {"x"}), "a:y:0").message(),
              HasSubstr("two nodes"));
  EXPECT_THAT(import_error(node_text("h", "a", {"x"}), "a:y:0").message(), HasSubstr("ops that are not known: h"));
}

// 24 functions, each of which calls the next one twice.
TEST(TensorflowImport, CallsDoNotMakeHugeGraphs) {
  std::string functions;
  for (int i = 0; i < 24; ++i)
    functions += function_text(fmt::format("g{}", i), kOfTensor,
                               node_text(i == 23 ? "Neg" : fmt::format("g{}", i + 1), "a", {"x"}) +
                                   node_text(i == 23 ? "Neg" : fmt::format("g{}", i + 1), "b", {"a:y:0"}),
                               R"(ret { key: "y" value: "b:y:0" })");
  const Error error = import_error(node_text("g0", "call", {"x"}), "call:y:0", functions);
  EXPECT_EQ(error.code(), Code::resource_exhausted);
  EXPECT_THAT(error.message(), HasSubstr("would make more than"));
}

std::string constant_text(const std::string& tensor) {
  return node_text("Const", "c", {}, "attr { key: \"value\" value { tensor { " + tensor + " } } }") +
         node_text("AddV2", "y", {"x", "c:output:0"});
}

TEST(TensorflowImport, ConstantsAreChecked) {
  EXPECT_EQ(computed(import_text(constant_text("dtype: 1 tensor_shape { dim { size: 2 } } float_val: 2"), "y:z:0")),
            "f32[2,2] = 3 4 5 6");
  EXPECT_EQ(
      computed(import_text(constant_text("dtype: 1 tensor_shape { dim { size: 2 } } float_val: [1, 2]"), "y:z:0")),
      "f32[2,2] = 2 4 4 6");
  const auto error = [](const std::string& tensor) { return import_error(constant_text(tensor), "y:z:0"); };
  EXPECT_EQ(error("dtype: 1 tensor_shape { dim { size: 1099511627776 } } float_val: 2").code(),
            Code::resource_exhausted);
  EXPECT_THAT(error("dtype: 1 tensor_shape { dim { size: 2 } } tensor_content: \"abc\"").message(),
              HasSubstr("needs 8 bytes, but has 3"));
  EXPECT_THAT(error("dtype: 1 tensor_shape { dim { size: 2 } } float_val: [1, 2, 3]").message(), HasSubstr("lists 3"));
  EXPECT_THAT(error("dtype: 8 tensor_shape { }").message(), HasSubstr("DT_COMPLEX64"));
  EXPECT_THAT(error("dtype: 10 tensor_shape { } tensor_content: \"\\002\"").message(), HasSubstr("is 2"));
}

TEST(TensorflowImport, OtherKindsOfModelsAreRefusedByName) {
  tensorflow::SavedModel model = model_of(kRead, "x");
  const auto error = [&] {
    return error_of([&] { parse_tensorflow(model.SerializeAsString(), files_of_model()); }).message();
  };
  auto& graph = *model.mutable_meta_graphs(0);
  graph.mutable_graph_def()->mutable_node(2)->set_op("MatMul");
  EXPECT_THAT(error(), HasSubstr("come from MatMul 'call', not from a function"));
  graph.clear_object_graph_def();  // one of version 1 then
  EXPECT_THAT(error(), HasSubstr("VarHandleOp 'w': no op restores the variable"));
  graph.mutable_meta_info_def()->clear_tags();
  EXPECT_THAT(error(), HasSubstr("no graph with the tag 'serve'"));
  EXPECT_EQ(error_of([&] { parse_tensorflow("abc", files_of_model()); }).code(), Code::data_loss);
  EXPECT_EQ(error_of([&] { import_text(kRead, "x", "", {.signatures = {"g"}}); }).code(), Code::not_found);
}

TEST(TensorflowImport, VariablesMustFitTheirValues) {
  tensorflow::SavedModel model = model_of(kRead + node_text("Mul", "y", {"x", "read:value:0"}), "y:z:0");
  const auto error = [&] {
    return error_of([&] { parse_tensorflow(model.SerializeAsString(), files_of_model()); }).message();
  };
  auto& object = *model.mutable_meta_graphs(0)->mutable_object_graph_def()->mutable_nodes(1);
  object.mutable_variable()->mutable_shape()->mutable_dim(0)->set_size(3);
  EXPECT_THAT(error(), HasSubstr("is f32[3], but 'w/.ATTRIBUTES/VARIABLE_VALUE' has f32[2]"));
  model.mutable_meta_graphs(0)->mutable_object_graph_def()->mutable_nodes(0)->mutable_children(0)->set_local_name("v");
  EXPECT_THAT(error(), HasSubstr("has no value in the checkpoint"));
  object.mutable_asset();
  EXPECT_THAT(error(), HasSubstr("there is no asset 0"));
}

// y = x w, in a graph without functions; w is tensor "weights" of the bundle.
tensorflow::SavedModel model_of_version_1() {
  const std::string type = R"(attr { key: "dtype" value { type: 1 } })";
  const std::string text = fmt::format(
      R"(meta_graphs {{
           meta_info_def {{ tags: "serve" }}
           graph_def {{
             node {{ name: "x" op: "Placeholder" {0} }}
             node {{ name: "w" op: "VarHandleOp" {0}
                     attr {{ key: "shape" value {{ shape {{ dim {{ size: 2 }} }} }} }} }}
             node {{ name: "read" op: "ReadVariableOp" input: "w" {0} }}
             node {{ name: "y" op: "Mul" input: "x" input: "read" }}
             node {{ name: "names" op: "Const" attr {{ key: "value" value {{ tensor {{ dtype: 7
                     tensor_shape {{ dim {{ size: 1 }} }} string_val: "weights" }} }} }} }}
             node {{ name: "restore" op: "RestoreV2" input: "names" input: "names" input: "names" }}
             node {{ name: "assign" op: "AssignVariableOp" input: "w" input: "restore" }}
           }}
           signature_def {{ key: "f" value {{
             inputs {{ key: "a" value {{ name: "x:0" dtype: 1 tensor_shape {{ dim {{ size: 2 }} }} }} }}
             outputs {{ key: "b" value {{ name: "y:0" dtype: 1 }} }} }} }} }})",
      type);
  tensorflow::SavedModel model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model));
  return model;
}

TEST(TensorflowImport, ModelsOfVersion1HaveTheirRestoredVariables) {
  Tensor weights = Tensor::vector<float>({2, 3});
  const TensorflowFiles files{.tensor = [&](const std::string& key) {
    EXPECT_EQ(key, "weights");
    return weights;
  }};
  const auto parse = [&](const tensorflow::SavedModel& model) {
    return parse_tensorflow(model.SerializeAsString(), files);
  };
  const tensorflow::SavedModel whole = model_of_version_1();
  const TensorflowModel read = parse(whole);
  EXPECT_EQ(read.variables, std::vector<std::string>{"w"});
  EXPECT_EQ(read.signatures.at("f").inputs.at("a").shape(), Shape{2});
  EXPECT_EQ(read.signatures.at("f").outputs.at("b").source().op->name, "Mul");

  const auto error_after = [&](const std::function<void(tensorflow::GraphDef&)>& change) {
    tensorflow::SavedModel model = whole;
    change(*model.mutable_meta_graphs(0)->mutable_graph_def());
    return error_of([&] { parse(model); }).message();
  };
  EXPECT_THAT(error_after([](auto& graph) { graph.mutable_node(0)->set_name("z"); }),
              HasSubstr("input 'a' is 'x:0', which is not there"));
  EXPECT_THAT(error_after([](auto& graph) { graph.mutable_node(3)->set_input(1, "none"); }),
              HasSubstr("there is no node 'none'"));
  EXPECT_THAT(error_after([](auto& graph) { graph.mutable_node(6)->set_input(1, "restore:1"); }),
              HasSubstr("RestoreV2 'restore' has no name for its result 1"));
  EXPECT_THAT(error_after([](auto& graph) { graph.mutable_node(6)->set_op("NoOp"); }),
              HasSubstr("VarHandleOp 'w': no op restores the variable"));
  EXPECT_THAT(error_after([](auto& graph) { graph.mutable_node(3)->set_input(0, "y"); }),
              HasSubstr("reads its own result"));
  EXPECT_THAT(error_after([](auto& graph) { graph.mutable_node(4)->set_name("x"); }),
              HasSubstr("two nodes are named 'x'"));
  weights = Tensor::vector<float>({2, 3, 4});
  EXPECT_THAT(error_after([](auto&) {}), HasSubstr("the variable is f32[2], but 'weights' has f32[3]"));
}

}  // namespace
}  // namespace troupe::testing
