#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/passes/fuse_elementwise.hpp>
#include <troupe/graph/passes/simplify.hpp>

namespace troupe {
namespace {

struct Simplified : GraphBuilder {
  Output x = placeholder("x", Shape{kUnknown, 3});

  // What y reads after the pass.
  std::string input_of_y(Output y) {
    g.add({.op = "Fetch", .name = "f", .inputs = {y}, .attributes = {{"index", std::int64_t{0}}}});
    const auto out = simplify(g, {});
    return out->node(out->get("f").inputs[0].node).name;
  }
};

TEST(Simplify, WhatChangesNothingGivesWay) {
  using Make = std::function<Output(Simplified&)>;
  const auto binary = [](const char* op, Tensor constant, bool first = false) -> Make {
    return [=](Simplified& s) {
      const Output c = s.constant("c", constant);
      return s.add(op, "y", first ? std::vector<Output>{c, s.x} : std::vector<Output>{s.x, c});
    };
  };
  const std::vector<std::tuple<std::string, Make, std::string>> cases = {
      {"Identity", [](Simplified& s) { return s.add("Identity", "y", {s.x}); }, "x"},
      {"StopGradient", [](Simplified& s) { return s.add("StopGradient", "y", {s.x}); }, "x"},
      {"a chain", [](Simplified& s) { return s.add("Identity", "y", {s.add("Identity", "i", {s.x})}); }, "x"},
      {"Identity elsewhere", [](Simplified& s) { return s.add("Identity", "y", {s.x}, {}, "CPU:1"); }, "y"},
      {"Identity that waits",
       [](Simplified& s) {
         return s.g.output(s.g.add({.op = "Identity", .name = "y", .inputs = {s.x}, .controls = {s.x}}));
       },
       "y"},
      {"a target",
       [](Simplified& s) {
         return s.add("Identity", "y", {s.x}, {{"_target", true}});
       },
       "y"},
      {"Cast",
       [](Simplified& s) {
         return s.add("Cast", "y", {s.x}, {{"DstT", DType::f32}});
       },
       "x"},
      {"Cast to another",
       [](Simplified& s) {
         return s.add("Cast", "y", {s.x}, {{"DstT", DType::f64}});
       },
       "y"},
      {"AddN of one", [](Simplified& s) { return s.add("AddN", "y", {s.x}); }, "x"},
      {"AddN of two",
       [](Simplified& s) {
         return s.add("AddN", "y", {s.x, s.x});
       },
       "y"},
      {"x * 1", binary("Mul", Tensor::scalar(1.0f)), "x"},
      {"1 * x", binary("Mul", Tensor::scalar(1.0f), true), "x"},
      {"x * 2", binary("Mul", Tensor::scalar(2.0f)), "y"},
      {"x * [1]", binary("Mul", Tensor::vector<float>({1})), "y"},
      {"x / 1", binary("Div", Tensor::scalar(1.0f)), "x"},
      {"1 / x", binary("Div", Tensor::scalar(1.0f), true), "y"},
      {"x - 0", binary("Sub", Tensor::scalar(0.0f)), "x"},
      {"x - -0", binary("Sub", Tensor::scalar(-0.0f)), "y"},
      {"0 - x", binary("Sub", Tensor::scalar(0.0f), true), "y"},
      {"x + 0", binary("Add", Tensor::scalar(0.0f)), "y"},
      {"x + -0", binary("Add", Tensor::scalar(-0.0f)), "x"},
      {"-0 + x", binary("Add", Tensor::scalar(-0.0f), true), "x"},
  };
  for (const auto& [name, make, wanted] : cases) {
    Simplified s;
    EXPECT_EQ(s.input_of_y(make(s)), wanted) << name;
  }
}

TEST(Simplify, IntegersKnowOneZero) {
  GraphBuilder b;
  Output n = b.add("Placeholder", "n", {}, {{"T", DType::i64}, {"shape", Shape{}}});
  Output y = b.add("Add", "y", {n, b.constant("zero", Tensor::scalar<std::int64_t>(0))});
  b.add("Neg", "z", {y});
  EXPECT_EQ(simplify(b.g, {})->get("z").inputs[0].node, 0);
}

TEST(Simplify, AReshapeOfAReshapeIsOne) {
  GraphBuilder b;
  Output x = b.placeholder("x", Shape{4, 3});
  Output first = b.add("Reshape", "first", {x, b.constant("a", Tensor::vector<std::int64_t>({12}))});
  Output second = b.add("Reshape", "second", {first, b.constant("b", Tensor::vector<std::int64_t>({6, 2}))});
  b.add("Reshape", "third", {second, b.constant("c", Tensor::vector<std::int64_t>({2, 6}))});
  const auto out = simplify(b.g, {});
  EXPECT_EQ(out->get("second").inputs[0], (Endpoint{out->get("x").id, 0}));
  EXPECT_EQ(out->get("third").inputs[0], (Endpoint{out->get("x").id, 0}));
  EXPECT_EQ(out->get("third").output_shapes[0], (Shape{2, 6}));
}

TEST(Simplify, WhatFollowsFromShapesIsConstant) {
  GraphBuilder b;
  Output x = b.placeholder("x", Shape{2, 3}), unknown = b.placeholder("unknown", Shape{kUnknown, 3});
  for (const char* op : {"Size", "Shape", "OnesLike", "ZerosLike"}) {
    b.add(op, op, {x});
    b.add(op, std::string(op) + "_unknown", {unknown});
  }
  PassNotes notes;
  const auto out = simplify(b.g, {.notes = &notes});
  EXPECT_EQ(out->get("Size").attributes.tensor("value").to_string(), "i64[] = 6");
  EXPECT_EQ(out->get("Shape").attributes.tensor("value").to_string(), "i64[2] = 2 3");
  EXPECT_EQ(out->get("OnesLike").attributes.tensor("value").to_string(), "f32[2,3] = 1 1 1 1 1 1");
  EXPECT_EQ(out->get("ZerosLike").attributes.tensor("value").to_string(), "f32[2,3] = 0 0 0 0 0 0");
  for (const char* op : {"Size", "Shape", "OnesLike", "ZerosLike"})
    EXPECT_EQ(out->get(std::string(op) + "_unknown").op->name, op);
  EXPECT_EQ(notes, (PassNotes{"took out Size Shape OnesLike ZerosLike"}));
}

// y = f(x), then more; what FuseElementwise says of it.
struct Chain : GraphBuilder {
  Output x = placeholder("x", Shape{kUnknown, 3});
  Output a = add("Neg", "a", {x});
  Output b = add("Exp", "b", {a});

  std::string fused() {
    PassNotes notes;
    fuse_elementwise(g, {.notes = &notes});
    std::string text;
    for (const std::string& note : notes) text += note + "\n";
    return text;
  }
};

TEST(FuseElementwise, AChainIsOneNode) {
  Chain c;
  Output d = c.add("Mul", "d", {c.b, c.constant("half", 0.5f)});
  c.add("AddN", "y", {d, c.x, d});
  EXPECT_EQ(fuse_elementwise(c.g, {})->dump(),
            "x = Placeholder() T=f32 shape=[?,3] -> f32[?,3]\n"
            "half = Const() T=f32 value=f32[] = 0.5 -> f32[]\n"
            "y = FusedElementwise(x, half) T=f32 Tin=[f32,f32] program=[\"Neg:f32 i0\", \"Exp:f32 r0\", "
            "\"Mul:f32 r1 i1\", \"Add:f32 r2 i0\", \"Add:f32 r3 r2\"] -> f32[?,3]\n");
  EXPECT_EQ(c.fused(), "fused a + b + d + y -> FusedElementwise 'y'\n");
}

TEST(FuseElementwise, ComparisonsAndConditionsComeAlong) {
  Chain c;
  Output less = c.add("Less", "less", {c.a, c.x});
  Output wide = c.add("Cast", "wide", {c.b}, {{"DstT", DType::f64}});
  Output narrow = c.add("Cast", "narrow", {wide}, {{"DstT", DType::f32}});
  c.add("Select", "y", {less, narrow, c.x});
  const auto fused = fuse_elementwise(c.g, {});
  EXPECT_EQ(fused->size(), 2);
  EXPECT_EQ(to_string(fused->get("y").attributes.all().at("program")),
            "[\"Neg:f32 i0\", \"Exp:f32 r0\", \"Less:bool r0 i0\", \"Cast:f64 r1\", \"Cast:f32 r3\", \"Select:f32 r2 "
            "r4 i0\"]");
}

TEST(FuseElementwise, LeavesWhatItMustNotFuse) {
  const std::map<std::string, std::function<void(Chain&)>> cases = {
      {"used elsewhere", [](Chain& c) { c.add("Softmax", "n", {c.a}); }},
      {"fetched",
       [](Chain& c) {
         c.add("Fetch", "f", {c.a}, {{"index", std::int64_t{0}}});
       }},
      {"a target", [](Chain& c) { c.g.set_attribute(c.a.source(), "_target", true); }},
      {"waited for", [](Chain& c) { c.g.add({.op = "NoOp", .name = "n", .controls = {c.a}}); }},
      {"elsewhere", [](Chain& c) { c.g.set_device(c.a.source(), "CPU:1"); }},
      {"colocated", [](Chain& c) { c.g.set_colocation(c.b.source(), "x"); }},
  };
  for (const auto& [name, change] : cases) {
    Chain c;
    change(c);
    EXPECT_EQ(c.fused(), "") << name;
  }
  GraphBuilder b;  // integers, random ops, ops with attributes, one op alone, smaller shapes
  Output n = b.add("Placeholder", "n", {}, {{"T", DType::i64}, {"shape", Shape{3}}});
  b.add("Neg", "n2", {b.add("Neg", "n1", {n})});
  Output x = b.placeholder("x", Shape{4, 3}), row = b.placeholder("row", Shape{3});
  b.add("LeakyRelu", "l2", {b.add("LeakyRelu", "l1", {x})});
  b.add("Add", "sum", {b.add("Exp", "e", {row}), x});
  b.add("Neg", "r2", {b.add("Dropout", "r1", {x}, {{"rate", 0.5}})});
  EXPECT_EQ(fuse_elementwise(b.g, {})->dump(), b.g.dump());
  Chain c;
  const auto none = [](std::string_view, DType) { return false; };
  EXPECT_EQ(fuse_elementwise(c.g, {.has_kernel = none})->dump(), c.g.dump());
}

TEST(FuseElementwise, StopsAtTheLargestProgram) {
  GraphBuilder b;
  Output y = b.placeholder("x", Shape{3});
  for (int i = 0; i < 100; ++i) y = b.add("Neg", fmt::format("n{}", i), {y});
  EXPECT_EQ(fuse_elementwise(b.g, {})->size(), 1 + 4);  // 32 + 32 + 32 + 4
  GraphBuilder wide;
  Output sum = wide.placeholder("x", Shape{3});
  for (int i = 0; i < 40; ++i)
    sum = wide.add("Add", fmt::format("s{}", i), {sum, wide.placeholder(fmt::format("p{}", i), Shape{3})});
  const auto fused = fuse_elementwise(wide.g, {});
  for (int id = 0; id < fused->size(); ++id) EXPECT_LE(fused->node(id).inputs.size(), 16u);
}

}  // namespace
}  // namespace troupe
