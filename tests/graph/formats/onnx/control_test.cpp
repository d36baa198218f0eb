// Control flow, sequences and optional values of ONNX models, as they run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include "tests/graph/formats/onnx/model_maker.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using testing::GraphMaker;
using ::testing::HasSubstr;
using testing::ModelMaker;

namespace pb = troupe::onnx;

constexpr auto kSequence = OnnxType::List::sequence;
constexpr auto kOptional = OnnxType::List::optional;

Tensor floats(Shape shape, std::initializer_list<float> values) { return Tensor::of<float>(shape, values); }
Tensor whole(std::int64_t value) { return Tensor::scalar(value); }

std::vector<Tensor> run(const ModelMaker& maker, const std::vector<Tensor>& inputs) {
  const OnnxModel model = parse_onnx(maker.bytes(), {.weights = OnnxImportOptions::Weights::constants});
  Feeds feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) feeds.emplace_back(model.inputs.at(i).output, inputs[i]);
  Outputs fetches;
  for (const OnnxValue& output : model.outputs) fetches.push_back(output.output);
  return Session(*model.graph).run(feeds, fetches);
}

std::vector<float> values(const Tensor& tensor) {
  const auto all = tensor.values<float>();
  return {all.begin(), all.end()};
}

TEST(OnnxControl, BranchesReadValuesAroundThemAndMayDifferInShape) {
  ModelMaker m;
  pb::Graph then_graph, else_graph;
  GraphMaker(then_graph).output("t").node("Concat", {"x", "doubled"}, {"t"}).set("axis", std::int64_t{0});
  GraphMaker(else_graph).output("e").node("Add", {"x", "w"}, {"e"});
  m.graph.input("c", DType::boolean, Shape{1}).input("x", DType::f32, Shape{2}).initializer("w", floats({2}, {5, 6}));
  m.graph.node("Add", {"x", "x"}, {"doubled"});
  m.graph.node("If", {"c"}, {"y"}).set("then_branch", then_graph).set("else_branch", else_graph);
  m.graph.output("y");
  const Tensor x = floats({2}, {1, 2});
  EXPECT_THAT(values(run(m, {Tensor::vector<bool>({true}), x})[0]), ElementsAre(1, 2, 2, 4));
  EXPECT_THAT(values(run(m, {Tensor::vector<bool>({false}), x})[0]), ElementsAre(6, 8));
  EXPECT_EQ(parse_onnx(m.bytes()).outputs[0].output.shape(), (Shape{kUnknown}));
}

TEST(OnnxControl, BranchesOfDifferentDtypesAreRefused) {
  ModelMaker m;
  pb::Graph then_graph, else_graph;
  GraphMaker(then_graph).output("t").node("Identity", {"x"}, {"t"});
  GraphMaker(else_graph).output("e").node("Cast", {"x"}, {"e"}).set("to", std::int64_t{7});
  m.graph.input("c", DType::boolean).input("x", DType::f32).output("y");
  m.graph.node("If", {"c"}, {"y"}).set("then_branch", then_graph).set("else_branch", else_graph);
  EXPECT_THAT(error_of([&] { parse_onnx(m.bytes()); }).message(), HasSubstr("result 0 is f32 in one branch and i64"));
}

// s += x; goes on while s < 10; the scan output has the sums. `trip` and `cond` may be absent: "".
ModelMaker summing(const std::string& trip, const std::string& cond) {
  ModelMaker m;
  pb::Graph body;
  GraphMaker b(body);
  b.input("i").input("c").input("s").output("again").output("next").output("row");
  b.node("Add", {"s", "x"}, {"next"});
  b.node("Less", {"next", "ten"}, {"again"});
  b.node("Identity", {"next"}, {"row"});
  m.graph.input("x", DType::f32).initializer("ten", Tensor::scalar(10.0f)).initializer("zero", Tensor::scalar(0.0f));
  if (!trip.empty()) m.graph.input(trip, DType::i64, Shape{1});
  if (!cond.empty()) m.graph.input(cond, DType::boolean);
  m.graph.node("Loop", {trip, cond, "zero"}, {"sum", "rows"}).set("body", body);
  m.graph.output("sum").output("rows");
  return m;
}

TEST(OnnxControl, LoopsEndByTripCountOrCondition) {
  const Tensor three = Tensor::scalar(3.0f), yes = Tensor::scalar(true), no = Tensor::scalar(false);
  const Tensor two = Tensor::vector<std::int64_t>({2}), twenty = Tensor::vector<std::int64_t>({20});
  EXPECT_THAT(values(run(summing("", "c"), {three, yes})[1]), ElementsAre(3, 6, 9, 12));
  EXPECT_THAT(values(run(summing("n", "c"), {three, two, yes})[1]), ElementsAre(3, 6));
  EXPECT_THAT(values(run(summing("n", "c"), {three, twenty, yes})[1]), ElementsAre(3, 6, 9, 12));
  // Without a condition the body's is not looked at.
  EXPECT_EQ(run(summing("n", ""), {three, twenty})[0].item<float>(), 60.0f);
  const auto never = run(summing("n", "c"), {three, two, no});
  EXPECT_EQ(never[0].item<float>(), 0.0f);
  EXPECT_EQ(never[1].shape(), (Shape{0}));
}

TEST(OnnxControl, ScansGoAlongAnyAxisInAnyDirection) {
  // Two inputs, one of them backwards along axis 1; the second output is filled from the end, along axis 1.
  ModelMaker m;
  pb::Graph body;
  GraphMaker b(body);
  b.input("s").input("a").input("b").output("next").output("p").output("q");
  b.node("Add", {"s", "a"}, {"next"});
  b.node("Identity", {"next"}, {"p"});
  b.node("Add", {"a", "b"}, {"q"});
  m.graph.input("init", DType::f32, Shape{2}).input("x", DType::f32, Shape{3, 2}).input("y", DType::f32, Shape{2, 3});
  m.graph.node("Scan", {"init", "x", "y"}, {"last", "ps", "qs"})
      .set("body", body)
      .set("num_scan_inputs", std::int64_t{2})
      .set("scan_input_axes", std::vector<std::int64_t>{0, -1})
      .set("scan_input_directions", std::vector<std::int64_t>{0, 1})
      .set("scan_output_axes", std::vector<std::int64_t>{0, 1})
      .set("scan_output_directions", std::vector<std::int64_t>{0, 1});
  m.graph.output("last").output("ps").output("qs");
  const auto found =
      run(m, {floats({2}, {0, 0}), floats({3, 2}, {1, 2, 3, 4, 5, 6}), floats({2, 3}, {10, 20, 30, 40, 50, 60})});
  EXPECT_THAT(values(found[0]), ElementsAre(9, 12));
  EXPECT_THAT(values(found[1]), ElementsAre(1, 2, 4, 6, 9, 12));
  // q of iteration t: x[t] + y[:, 2 - t] = (31,62), (23,54), (15,46); prepended, as columns.
  EXPECT_THAT(values(found[2]), ElementsAre(15, 23, 31, 46, 54, 62));
}

TEST(OnnxControl, BackwardScansKeepTheOrderOfIterations) {
  ModelMaker m;
  pb::Graph body;
  GraphMaker b(body);
  b.input("s").input("a").output("next").output("p");
  b.node("Add", {"s", "a"}, {"next"});
  b.node("Identity", {"next"}, {"p"});
  m.graph.input("init", DType::f32).input("x", DType::f32, Shape{3}).output("ps");
  m.graph.node("Scan", {"init", "x"}, {"", "ps"})
      .set("body", body)
      .set("num_scan_inputs", std::int64_t{1})
      .set("scan_input_directions", std::vector<std::int64_t>{1});
  EXPECT_THAT(values(run(m, {Tensor::scalar(0.0f), floats({3}, {1, 2, 4})})[0]), ElementsAre(4, 6, 7));
}

TEST(OnnxControl, BatchedScansOfOpset8EndWithTheirSequences) {
  ModelMaker m(8);
  pb::Graph body;
  GraphMaker b(body);
  b.input("s").input("a").output("next").output("p");
  b.node("Add", {"s", "a"}, {"next"});
  b.node("Identity", {"next"}, {"p"});
  m.graph.input("lengths", DType::i64, Shape{2}).input("init", DType::f32, Shape{2, 1});
  m.graph.input("x", DType::f32, Shape{2, 3, 1}).output("last").output("ps");
  m.graph.node("Scan", {"lengths", "init", "x"}, {"last", "ps"})
      .set("body", body)
      .set("num_scan_inputs", std::int64_t{1});
  const auto found =
      run(m, {Tensor::vector<std::int64_t>({2, 3}), floats({2, 1}, {0, 1}), floats({2, 3, 1}, {1, 2, 4, 10, 20, 40})});
  EXPECT_THAT(values(found[0]), ElementsAre(3, 71));
  EXPECT_EQ(found[1].shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(found[1].values<float>()[1], 3.0f);
  EXPECT_EQ(found[1].values<float>()[5], 71.0f);
}

TEST(OnnxControl, SequencesAreSplitByKnownAndUnknownSizes) {
  ModelMaker m;
  m.graph.input("x", DType::f32, Shape{2, kUnknown}).input("sizes", DType::i64, Shape{2});
  m.graph.input("size", DType::i64);
  m.graph.node("SplitToSequence", {"x", "sizes"}, {"a"}).set("axis", std::int64_t{1});
  m.graph.node("SplitToSequence", {"x", "size"}, {"b"}).set("axis", std::int64_t{-1});
  m.graph.node("SplitToSequence", {"x"}, {"c"}).set("axis", std::int64_t{1}).set("keepdims", std::int64_t{0});
  m.graph.output("a").output("b").output("c");
  const auto found = run(m, {floats({2, 3}, {1, 2, 3, 4, 5, 6}), Tensor::vector<std::int64_t>({1, 2}), whole(2)});
  const auto a = list_items(found[0]), b = list_items(found[1]), c = list_items(found[2]);
  ASSERT_EQ(a.size(), 2u);
  EXPECT_THAT(values(a[0]), ElementsAre(1, 4));
  EXPECT_THAT(values(a[1]), ElementsAre(2, 3, 5, 6));
  ASSERT_EQ(b.size(), 2u);
  EXPECT_THAT(values(b[0]), ElementsAre(1, 2, 4, 5));
  EXPECT_EQ(b[1].shape(), (Shape{2, 1}));
  ASSERT_EQ(c.size(), 3u);
  EXPECT_EQ(c[2].shape(), (Shape{2}));
  EXPECT_THAT(values(c[2]), ElementsAre(3, 6));
}

TEST(OnnxControl, PositionsBelowZeroCountFromTheEnd) {
  ModelMaker m;
  m.graph.input("list", OnnxType{{kSequence}, DType::f32, Shape{}}).input("x", DType::f32).input("at", DType::i32);
  m.graph.node("SequenceInsert", {"list", "x", "at"}, {"longer"});
  m.graph.node("ConcatFromSequence", {"longer"}, {"y"}).set("axis", std::int64_t{0}).set("new_axis", std::int64_t{1});
  m.graph.output("y");
  const Tensor list = make_list({Tensor::scalar(1.0f), Tensor::scalar(2.0f)}), x = Tensor::scalar(9.0f);
  EXPECT_THAT(values(run(m, {list, x, Tensor::scalar<std::int32_t>(-1)})[0]), ElementsAre(1, 9, 2));
  EXPECT_THAT(values(run(m, {list, x, Tensor::scalar<std::int32_t>(-2)})[0]), ElementsAre(9, 1, 2));
  EXPECT_THAT(values(run(m, {list, x, Tensor::scalar<std::int32_t>(2)})[0]), ElementsAre(1, 2, 9));
  EXPECT_THAT(error_of([&] { run(m, {list, x, Tensor::scalar<std::int32_t>(3)}); }).message(), HasSubstr("index 3"));
}

TEST(OnnxControl, OptionalValuesAreListsOfAtMostOne) {
  ModelMaker m;
  m.graph.input("x", OnnxType{{kOptional, kSequence}, DType::f32, Shape{2}}).output("has").output("first");
  m.graph.node("OptionalHasElement", {"x"}, {"has"});
  m.graph.node("OptionalGetElement", {"x"}, {"list"});
  m.graph.node("SequenceAt", {"list", "zero"}, {"first"});
  m.graph.initializer("zero", whole(0));
  const auto found = run(m, {make_list({make_list({floats({2}, {1, 2})})})});
  EXPECT_TRUE(found[0].item<bool>());
  EXPECT_THAT(values(found[1]), ElementsAre(1, 2));
  EXPECT_EQ(parse_onnx(m.bytes()).outputs[1].output.dtype(), DType::f32);
}

TEST(OnnxControl, FunctionsOfTheModelMayHoldControlFlow) {
  ModelMaker m;
  pb::Graph then_graph, else_graph;
  GraphMaker(then_graph).output("t").node("Neg", {"v"}, {"t"});
  GraphMaker(else_graph).output("e").node("Identity", {"v"}, {"e"});
  pb::Function& f = *m.model.add_functions();
  f.set_name("Magnitude");
  f.set_domain("test");
  f.add_opset_import()->set_version(17);
  f.add_input("v");
  f.add_output("w");
  pb::Graph steps;
  GraphMaker s(steps);
  s.node("Constant", {}, {"zero"}).set("value", Tensor::scalar(0.0f));
  s.node("Less", {"v", "zero"}, {"below"});
  s.node("If", {"below"}, {"w"}).set("then_branch", then_graph).set("else_branch", else_graph);
  *f.mutable_node() = steps.node();
  m.graph.input("x", DType::f32).output("y");
  m.graph.node("Magnitude", {"x"}, {"y"}).node().set_domain("test");
  EXPECT_EQ(run(m, {Tensor::scalar(-3.0f)})[0].item<float>(), 3.0f);
  EXPECT_EQ(run(m, {Tensor::scalar(4.0f)})[0].item<float>(), 4.0f);
}

}  // namespace
}  // namespace troupe
