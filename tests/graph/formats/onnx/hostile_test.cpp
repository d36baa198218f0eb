// Models made to do harm: each is refused, in little time and memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/error_of.hpp"
#include "tests/graph/formats/onnx/model_maker.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/graph/formats/onnx/onnx.hpp>

namespace troupe {
namespace {

using testing::error_of;
using testing::GraphMaker;
using ::testing::HasSubstr;
using testing::ModelMaker;

namespace pb = troupe::onnx;

std::string refused(const std::string& bytes) {
  return error_of([&] { parse_onnx(bytes); }).message();
}

TEST(HostileOnnx, NestedBranchesEnd) {
  pb::Graph inner;
  GraphMaker(inner).output("y").node("Identity", {"x"}, {"y"});
  for (int depth = 0; depth < 30; ++depth) {
    pb::Graph outer;
    GraphMaker(outer).output("y").node("If", {"c"}, {"y"}).set("then_branch", inner).set("else_branch", pb::Graph());
    inner = std::move(outer);
  }
  ModelMaker m;
  m.graph.input("x", DType::f32).input("c", DType::boolean).output("y");
  *m.model.mutable_graph()->mutable_node() = inner.node();
  EXPECT_THAT(refused(m.bytes()), ::testing::AnyOf(HasSubstr("not an ONNX model"), HasSubstr("different numbers")));
}

TEST(HostileOnnx, DimensionsWhoseProductOverflowsAreRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  ModelMaker rows(11);
  rows.graph.input("x", DType::f32, Shape{2, kHuge, kHuge}).output("y").node("Softmax", {"x"}, {"y"});
  EXPECT_THAT(refused(rows.bytes()), HasSubstr("overflows"));
  ModelMaker channels;
  channels.graph.input("x", DType::f32, Shape{1, 8, 4, 4}).input("w", DType::f32, Shape{8, kHuge, 3, 3}).output("y");
  channels.graph.node("ConvTranspose", {"x", "w"}, {"y"}).set("group", std::int64_t{4});
  EXPECT_THAT(refused(channels.bytes()), HasSubstr("overflows"));
  ModelMaker units;
  units.graph.input("x", DType::f32, Shape{1, 1, 1}).input("w", DType::f32, Shape{1, kUnknown, 1});
  units.graph.input("r", DType::f32, Shape{1, kUnknown, kHuge}).output("y");
  units.graph.node("GRU", {"x", "w", "r"}, {"y"}).set("hidden_size", kHuge);
  EXPECT_THAT(refused(units.bytes()), HasSubstr("overflows"));
}

// Function f<i> calls f<i+1> twice.
ModelMaker doubling(int functions, bool cyclic) {
  ModelMaker m;
  for (int i = 0; i < functions; ++i) {
    pb::Function& f = *m.model.add_functions();
    f.set_name("f" + std::to_string(i));
    f.set_domain("test");
    f.add_input("x");
    f.add_output("z");
    f.add_opset_import()->set_version(17);
    const bool last = i + 1 == functions && !cyclic;
    pb::Graph steps;
    const auto call = [&](const char* from, const char* to) {
      pb::Node& node =
          GraphMaker(steps).node(last ? "Neg" : "f" + std::to_string((i + 1) % functions), {from}, {to}).node();
      if (!last) node.set_domain("test");
    };
    call("x", "y");
    call("y", "z");
    *f.mutable_node() = steps.node();
  }
  m.graph.input("x", DType::f32).output("y");
  m.graph.node("f0", {"x"}, {"y"}).node().set_domain("test");
  return m;
}

TEST(HostileOnnx, FunctionsThatCallEachOtherEnd) {
  EXPECT_THAT(refused(doubling(2, true).bytes()), HasSubstr("functions are nested more than 32 deep"));
  EXPECT_THAT(refused(doubling(25, false).bytes()), HasSubstr("its functions call too much"));
  EXPECT_EQ(parse_onnx(doubling(5, false).bytes()).graph->size(), 33);
}

TEST(HostileOnnx, ManyNodesAreAGraph) {
  ModelMaker m;
  m.graph.input("v0", DType::f32);
  constexpr int kNodes = 20'000;  // a million take 6 s and 1.3 GB
  for (int i = 0; i < kNodes; ++i) m.graph.node("Neg", {"v" + std::to_string(i)}, {"v" + std::to_string(i + 1)});
  m.graph.output("v" + std::to_string(kNodes));
  EXPECT_EQ(parse_onnx(m.bytes()).graph->size(), kNodes + 1);
}

TEST(HostileOnnx, TensorsHoldWhatTheySay) {
  const auto with = [](const std::function<void(pb::Tensor&)>& change) {
    ModelMaker m;
    m.graph.initializer("w", Tensor::vector<float>({1, 2})).output("w");
    change(*m.model.mutable_graph()->mutable_initializer(0));
    return refused(m.bytes());
  };
  const auto dims = [](std::vector<std::int64_t> values) {
    return [values](pb::Tensor& t) {
      t.clear_dims();
      for (const std::int64_t d : values) t.add_dims(d);
    };
  };
  EXPECT_EQ(with(dims({-2})), "tensor 'w' has a dimension of -2");
  EXPECT_NE(with(dims({1ll << 40, 1ll << 40})), "");
  EXPECT_NE(with(dims({1ll << 62, 1ll << 62, 0})), "");
  EXPECT_NE(with(dims({INT64_MAX})), "");
  EXPECT_NE(with(dims(std::vector<std::int64_t>(100'000, 1))), "");
  EXPECT_THAT(with([](pb::Tensor& t) { t.set_raw_data("1234567"); }), HasSubstr("'w'"));
  EXPECT_THAT(with([](pb::Tensor& t) { t.set_data_type(99); }), HasSubstr("elements of ONNX type 99"));
  EXPECT_NE(with([](pb::Tensor& t) { t.set_data_type(-1); }), "");
}

TEST(HostileOnnx, ListsHaveAsManyEntriesAsThereAreDimensions) {
  ModelMaker slice;
  slice.graph.input("x", DType::i64, Shape{1ll << 31}).output("y").node("Slice", {"x", "x", "x"}, {"y"});
  EXPECT_THAT(refused(slice.bytes()), HasSubstr("2147483648 begins"));
  ModelMaker conv;
  conv.graph.input("x", DType::f32, Shape{1, 1, 4, 4})
      .input("w", DType::f32, Shape{1, 1, 3, 3})
      .output("y")
      .node("ConvTranspose", {"x", "w"}, {"y"})
      .set("output_shape", std::vector<std::int64_t>{8, 8})
      .set("strides", std::vector<std::int64_t>{2});
  EXPECT_THAT(refused(conv.bytes()), HasSubstr("has 2 numbers, another attribute has 1"));
}

TEST(HostileOnnx, ManyOutputsAreWritten) {
  ModelMaker m;
  std::vector<std::string> parts;
  for (int i = 0; i < 20'000; ++i) parts.push_back("p" + std::to_string(i));
  m.graph.input("x", DType::f32, Shape{20'000}).output("p19999").node("Split", {"x"}, parts);
  const OnnxModel model = parse_onnx(m.bytes());
  EXPECT_GT(to_onnx(*model.graph, {.inputs = model.inputs, .outputs = model.outputs}).size(), 20'000u);
}

TEST(HostileOnnx, NamesAreUnique) {
  ModelMaker twice;
  twice.graph.input("x", DType::f32).input("x", DType::i64).output("x");
  EXPECT_EQ(refused(twice.bytes()), "two inputs are named 'x'");
  ModelMaker again;
  again.graph.input("x", DType::f32).output("x").node("Neg", {"x"}, {"x"});
  EXPECT_THAT(refused(again.bytes()), HasSubstr("'x' is the output of two nodes"));
  ModelMaker cycle;
  cycle.graph.output("a").node("Neg", {"b"}, {"a"});
  cycle.graph.node("Neg", {"a"}, {"b"});
  EXPECT_THAT(refused(cycle.bytes()), HasSubstr("input 'b' is not the output of an earlier node"));
}

TEST(HostileOnnx, NamesMayHaveAnyBytes) {
  ModelMaker m;
  const std::string name("a\0b/../c\n\xff", 10);
  m.graph.input(name, DType::f32).output("y").node("Neg", {name}, {"y"}).node().set_name(name);
  const OnnxModel model = parse_onnx(m.bytes());
  EXPECT_EQ(model.inputs[0].name, name);
  EXPECT_EQ(model.inputs[0].output.name(), "a_b/../c__");
}

TEST(HostileOnnx, ExternalDataDoNotFollowLinksOutOfTheFolder) {
  namespace fs = std::filesystem;
  const testing::TemporaryDirectory directory;
  directory.write("secret", "12345678");
  fs::create_directory(directory.path() / "model");
  fs::create_symlink("../secret", directory.path() / "model/link");
  fs::create_directory_symlink("..", directory.path() / "model/up");
  directory.write("model/data", "12345678");
  const auto read = [&](const std::string& location, const std::string& length = "8", const std::string& offset = "0") {
    ModelMaker m;
    m.graph.initializer("w", Tensor::vector<float>({1, 2})).output("w");
    pb::Tensor& w = *m.model.mutable_graph()->mutable_initializer(0);
    w.clear_raw_data();
    w.set_data_location(pb::Tensor::EXTERNAL);
    for (const auto& [key, value] : std::initializer_list<std::pair<std::string, std::string>>{
             {"location", location}, {"length", length}, {"offset", offset}}) {
      pb::StringPair& entry = *w.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    directory.write("model/m.onnx", m.bytes());
    return error_of([&] { import_onnx(directory.file("model/m.onnx")); }).message();
  };
  EXPECT_EQ(read("data"), "");
  for (const std::string location : {"link", "up/secret", "../secret", "/etc/passwd", "model/../../secret"})
    EXPECT_THAT(read(location), HasSubstr("are not in the folder of the model")) << location;
  EXPECT_THAT(read(std::string("data\0x", 6)), HasSubstr("are not in the folder of the model"));
  EXPECT_THAT(read("data", "8", "18446744073709551615"), HasSubstr("have 8 bytes"));
  EXPECT_THAT(read("data", "80000000000"), HasSubstr("needs 8 bytes"));
  EXPECT_THAT(read("data", "8", "-1"), HasSubstr("'-1' is not a place in a file"));
}

}  // namespace
}  // namespace troupe
