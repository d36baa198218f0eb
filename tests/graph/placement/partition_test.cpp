#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/placement/partition.hpp>

namespace troupe {
namespace {

const std::string kA = "/job:a/task:0/device:CPU:0";
const std::string kB = "/job:b/task:0/device:CPU:0";
const std::string kC = "/job:c/task:0/device:CPU:0";

// All parts as one graph again, with an edge from each Send to its Recv: throws if that has a cycle.
void check_no_deadlock(const Partitioned& p) {
  Graph whole;
  std::map<std::string, int> ids;
  std::map<std::int64_t, std::vector<int>> ends;  // edge -> Send, Recv
  for (const auto& [device, part] : p.parts)
    for (int id : part->topological_order()) {
      const Node& node = part->node(id);
      std::vector<Output> before;
      for (const Endpoint& e : node.inputs) before.push_back({&whole, ids.at(part->node(e.node).name), 0});
      for (int c : node.controls) before.push_back({&whole, ids.at(part->node(c).name), 0});
      const Node& copy = whole.add({.op = "NoOp", .name = node.name, .controls = before});
      ids[node.name] = copy.id;
      if (node.op->name == "Send" || node.op->name == "Recv") {
        auto& pair = ends[node.attributes.integer("edge")];
        pair.resize(2, -1);
        pair[node.op->name == "Recv"] = copy.id;
        EXPECT_EQ(p.edges[static_cast<std::size_t>(node.attributes.integer("edge"))].edge.value,
                  static_cast<std::uint32_t>(node.attributes.integer("edge")));
      }
    }
  EXPECT_EQ(ends.size(), p.edges.size());
  for (const auto& [edge, pair] : ends) whole.add_control_edge(whole.node(pair[0]), whole.node(pair[1]));
  EXPECT_NO_THROW(whole.topological_order());
}

std::string edges_of(const Partitioned& p) {
  std::string text;
  for (const EdgeInfo& e : p.edges)
    text += fmt::format("{} {} -> {}: {} {}{}\n", e.edge.value, e.from.substr(1, 5), e.to.substr(1, 5), e.tensor,
                        name(e.dtype), e.shape.to_string());
  return text;
}

TEST(Partition, EdgesBackAndForthDoNotDeadlock) {
  GraphBuilder b;
  Output at = b.add("Placeholder", "x", {}, {{"T", DType::f32}, {"shape", Shape{}}}, kA);
  Output other = b.add("Placeholder", "y", {}, {{"T", DType::f32}, {"shape", Shape{}}}, kB);
  std::vector<Output> all;
  for (int i = 0; i < 40; ++i) {  // a ladder: each rung needs both sides
    const std::string& device = i % 3 == 0 ? kA : i % 3 == 1 ? kB : kC;
    Output next = b.g.output(
        b.g.add({.op = "Add",
                 .name = fmt::format("n{}", i),
                 .inputs = {at, other},
                 .controls = all.size() > 3 ? std::vector<Output>{all[all.size() - 3]} : std::vector<Output>{},
                 .device = device}));
    all.push_back(next);
    other = at;
    at = next;
  }
  const Partitioned p = partition(b.g);
  EXPECT_EQ(p.parts.size(), 3u);
  check_no_deadlock(p);
  const Partitioned again = partition(b.g);
  EXPECT_EQ(edges_of(p), edges_of(again));
  for (const auto& [device, part] : p.parts) EXPECT_EQ(part->dump(), again.parts.at(device)->dump()) << device;
}

TEST(Partition, NamesOfTheUsersNodesAreAvoided) {
  GraphBuilder b;
  Output x = b.add("Placeholder", "x", {}, {{"T", DType::f32}, {"shape", Shape{}}}, kA);
  b.add("Neg", "x/send_0", {x}, {}, kB);
  const Partitioned p = partition(b.g);
  EXPECT_NE(p.parts.at(kA)->find("x/send_0_1"), nullptr);
  check_no_deadlock(p);
}

TEST(Partition, FunctionsGoWithTheNodesThatUseThem) {
  const auto body_with = [](const std::string& inner) {
    auto body = std::make_shared<Graph>();
    Output flag = body->output(body->add(
        {.op = "Const", .name = "c", .attributes = {{"T", DType::boolean}, {"value", Tensor::scalar(true)}}}));
    if (!inner.empty())
      body->add({.op = "If",
                 .inputs = {flag},
                 .attributes = {{"Tout", std::vector<DType>{}},
                                {"then_branch", FunctionName{inner}},
                                {"else_branch", FunctionName{inner}}}});
    return body;
  };
  GraphBuilder b;
  b.g.add_function({.name = "inner", .body = body_with(""), .arguments = {}, .results = {}});
  b.g.add_function({.name = "outer", .body = body_with("inner"), .arguments = {}, .results = {}});
  b.g.add_function({.name = "unused", .body = body_with(""), .arguments = {}, .results = {}});
  Output flag = b.add("Const", "flag", {}, {{"T", DType::boolean}, {"value", Tensor::scalar(true)}}, kA);
  b.add(
      "If", "if", {flag},
      {{"Tout", std::vector<DType>{}}, {"then_branch", FunctionName{"outer"}}, {"else_branch", FunctionName{"outer"}}},
      kB);
  const Partitioned p = partition(b.g);
  EXPECT_TRUE(p.parts.at(kA)->functions().empty());
  EXPECT_EQ(p.parts.at(kB)->functions().size(), 2u);
  EXPECT_NE(p.parts.at(kB)->function("inner"), nullptr);
}

}  // namespace
}  // namespace troupe
