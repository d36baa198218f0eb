#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/passes/fuse_elementwise.hpp>

namespace troupe {
namespace {

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
  b.add("Neg", "r2",
        {b.add("Dropout", "r1", {x, b.add("Placeholder", "rate", {}, {{"T", DType::f64}, {"shape", Shape{}}})})});
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
  for (int id = 0; id < fused->size(); ++id) EXPECT_LE(fused->node(id).inputs.size(), 16u) << fused->node(id).name;
}

}  // namespace
}  // namespace troupe
