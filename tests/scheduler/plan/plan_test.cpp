#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/scheduler/toy.hpp"

namespace troupe {
namespace {

using namespace testing;

std::unique_ptr<const Plan> plan_of(const Graph& g) {
  ToyHooks hooks;
  return build_plan(g, toy_kernels(hooks), "CPU", "/device:CPU:0");
}

// Names of a segment's nodes, in order.
std::vector<std::string> nodes_of(const Plan& plan, std::size_t segment) {
  std::vector<std::string> names;
  const Segment& s = plan.segments.at(segment);
  for (std::uint32_t i = 0; i < s.num_nodes; ++i) names.push_back(plan.infos[s.first_node + i].name);
  return names;
}

std::size_t segment_with(const Plan& plan, const std::string& node) {
  for (std::size_t s = 0; s < plan.segments.size(); ++s)
    if (std::ranges::count(nodes_of(plan, s), node) > 0) return s;
  return plan.segments.size();
}

// What a person would compare: names of nodes, waits, arrivals and segments before, for each segment; independent of
// numbering.
std::set<std::string> structure(const Plan& plan) {
  std::set<std::string> out;
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    std::vector<std::string> names = nodes_of(plan, s);
    std::ranges::sort(names);
    std::string text = fmt::format("{} waits {}:", plan.segments[s].waits, fmt::join(names, ","));
    std::set<std::string> before;
    for (const Arrival& a : plan.arrivals)
      if (std::ranges::count(a.segments, s) > 0) before.insert(a.name);
    for (std::size_t b = 0; b < plan.segments.size(); ++b)
      if (std::ranges::count(plan.segments[b].successors, s) > 0) {
        std::vector<std::string> other = nodes_of(plan, b);
        before.insert(*std::ranges::min_element(other));
      }
    out.insert(text + fmt::format(" after {}", fmt::join(before, ",")));
  }
  return out;
}

// The same nodes and edges, listed in another order.
std::unique_ptr<Graph> relisted(const Graph& g, const std::vector<int>& order) {
  auto out = std::make_unique<Graph>(g.ops());
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  const auto moved = [&](int id) { return place[static_cast<std::size_t>(id)]; };
  for (int id : order) {
    std::vector<Endpoint> inputs;
    std::vector<int> controls;
    for (const Endpoint& e : g.node(id).inputs) inputs.push_back({moved(e.node), e.index});
    for (int c : g.node(id).controls) controls.push_back(moved(c));
    out->add_copy(g.node(id), inputs, controls);
  }
  for (const auto& [name, function] : g.functions()) out->add_function(function);
  return out;
}

// Layers whose weights are pulled; the way forward uses them in order, the way back in the opposite order.
void build_layers(Graph& g, int layers) {
  Output x = feed(g, 0, kPair, "x");
  std::vector<Output> weights;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(pull(g, i, kPair, fmt::format("w{}", i)));
    x = node(g, "Mul", {x, weights.back()}, fmt::format("forward{}", i));
  }
  for (int i = layers - 1; i >= 0; --i) {
    push(g, x, i, fmt::format("push{}", i));
    if (i > 0) x = node(g, "Mul", {x, weights[static_cast<std::size_t>(i)]}, fmt::format("back{}", i));
  }
}

TEST(Plan, NodesWithoutArrivalsAreOneSegment) {
  Graph g;
  Output x = feed(g, 0, kPair, "x");
  Output c = constant_node(g, i64({1, 2}), "c");
  fetch(g, node(g, "Neg", {node(g, "Add", {x, c}, "sum")}, "neg"), 0, "out");
  const auto plan = plan_of(g);
  ASSERT_EQ(plan->segments.size(), 1u);
  EXPECT_EQ(nodes_of(*plan, 0), (std::vector<std::string>{"sum", "neg", "out"}));
  EXPECT_EQ(plan->segments[0].waits, 0u);
  EXPECT_EQ(plan->kernel_count(), 2u);
}

TEST(Plan, ForwardAndBackwardThroughPulledLayersHasOneSegmentPerLayer) {
  Graph g;
  build_layers(g, 4);
  const auto plan = plan_of(g);
  ASSERT_EQ(plan->segments.size(), 4u);  // all of the way back has the arrivals of the last layer
  EXPECT_EQ(plan->segments[segment_with(*plan, "forward0")].waits, 1u);
  for (int i = 1; i < 4; ++i)  // its weights and the layer before; the last one needs the others' weights again
    EXPECT_EQ(plan->segments[segment_with(*plan, fmt::format("forward{}", i))].waits, i < 3 ? 2u : 4u) << i;
  EXPECT_EQ(segment_with(*plan, "push0"), segment_with(*plan, "forward3"));
}

TEST(Plan, ArrivalsThatMeetFormASegmentOfTheirOwn) {
  Graph g;
  Output a = node(g, "Neg", {recv(g, 0, kPair, "r0")}, "a");
  Output b = node(g, "Neg", {recv(g, 1, kPair, "r1")}, "b");
  Output ab = node(g, "Add", {a, b}, "ab");
  Output ba = node(g, "Add", {b, a}, "ba");
  fetch(g, node(g, "Add", {ab, ba}, "all"), 0, "out");
  const auto plan = plan_of(g);
  EXPECT_EQ(structure(*plan),
            (std::set<std::string>{"1 waits a: after r0", "1 waits b: after r1", "2 waits ab,all,ba,out: after a,b"}));
}

TEST(Plan, WaitsOnceForASegmentHoweverManyOfItsNodesAreRead) {
  Graph g;
  Output x = feed(g, 0, kPair, "x");
  Output a = node(g, "Neg", {x}, "a");
  Output b = node(g, "Neg", {x}, "b");
  node(g, "Add", {node(g, "Add", {a, b}, "d"), recv(g, 0, kPair, "r")}, "e");
  node(g, "Add", {node(g, "Sub", {a, b}, "f"), g.output("r")}, "h");
  const auto plan = plan_of(g);
  EXPECT_EQ(structure(*plan), (std::set<std::string>{"0 waits a,b,d,f: after ", "2 waits e,h: after a,r"}));
}

TEST(Plan, DoesNotDependOnTheOrderOfDefinition) {
  Graph g;
  build_layers(g, 5);
  std::vector<int> order(static_cast<std::size_t>(g.size()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  const auto expected = structure(*plan_of(g));
  std::ranges::reverse(order);
  EXPECT_EQ(structure(*plan_of(*relisted(g, order))), expected);
  std::ranges::rotate(order, order.begin() + 7);
  EXPECT_EQ(structure(*plan_of(*relisted(g, order))), expected);
}

TEST(Plan, ControlEdgesOrderThroughNodesThatDoNothing) {
  Graph g;
  const Output first = node(g, "Neg", {recv(g, 0, kPair, "r")}, "first");
  Output c = constant_node(g, i64({1, 2}), "c");
  Output fed = feed(g, 0, kPair, "fed");
  g.add_control_edge(first.source(), c.source());
  g.add_control_edge(c.source(), fed.source());
  fetch(g, fed, 0, "out");
  const auto plan = plan_of(g);
  // "out" reads a feed alone, but comes after "first".
  ASSERT_EQ(plan->segments.size(), 1u);
  EXPECT_EQ(nodes_of(*plan, 0), (std::vector<std::string>{"first", "out"}));
  EXPECT_EQ(plan->segments[0].waits, 1u);
}

TEST(Plan, WaitsForWhatMustRunBeforeAnArrival) {
  Graph g;
  const Output before = node(g, "Neg", {feed(g, 0, kPair, "x")}, "before");
  Output r = recv(g, 0, kPair, "r");
  g.add_control_edge(before.source(), r.source());
  fetch(g, r, 0, "out");
  const auto plan = plan_of(g);
  EXPECT_EQ(structure(*plan), (std::set<std::string>{"0 waits before: after ", "2 waits out: after before,r"}));
}

// A thousand levels of constants, each after two of the level below: looked through once each, not once for each path.
TEST(Plan, ManyPathsThroughConstantsAreNoMoreWork) {
  Graph g;
  std::vector<Output> level = {recv(g, 0, kPair, "r0"), recv(g, 1, kPair, "r1")};
  for (int i = 0; i < 1000; ++i) {
    std::vector<Output> next;
    for (int k = 0; k < 2; ++k) {
      next.push_back(constant_node(g, i64({i, k}), fmt::format("c{}_{}", i, k)));
      for (const Output& below : level) g.add_control_edge(below.source(), next.back().source());
    }
    level = next;
  }
  fetch(g, node(g, "Add", level, "sum"), 0, "out");
  const auto plan = plan_of(g);
  EXPECT_EQ(structure(*plan), (std::set<std::string>{"2 waits out,sum: after r0,r1"}));
}

TEST(Plan, MarksLastUsesAndCountsUsesOverSegments) {
  Graph g;
  Output x = feed(g, 0, kPair, "x");
  Output a = node(g, "Neg", {x}, "a");
  Output shared = node(g, "Neg", {a}, "shared");
  node(g, "Add", {a, shared}, "sum");
  node(g, "Add", {shared, recv(g, 0, kPair, "r")}, "later");
  const auto plan = plan_of(g);
  const auto kinds = [&](const std::string& name) {
    std::vector<InputRef::Kind> out;
    for (const PlanNode& n : plan->nodes)
      if (plan->info(n).name == name)
        for (std::uint32_t i = 0; i < n.num_inputs; ++i) out.push_back(plan->inputs[n.first_input + i].kind);
    return out;
  };
  using enum InputRef::Kind;
  EXPECT_EQ(kinds("a"), (std::vector{slot_last}));
  EXPECT_EQ(kinds("shared"), (std::vector{slot}));
  EXPECT_EQ(kinds("sum"), (std::vector{slot_last, slot_counted}));
  EXPECT_EQ(kinds("later"), (std::vector{slot_counted, slot_last}));
}

TEST(Plan, DumpShowsSegmentsAndArrivals) {
  Graph g;
  Output r = recv(g, 3, kPair, "r");
  send(g, node(g, "Neg", {r}, "neg"), 4, "s");
  EXPECT_EQ(plan_of(g)->dump(),
            "plan for /device:CPU:0: 2 nodes, 1 segments, 2 slots, 0 constants\n"
            "memory: peak 16 bytes in 1 blocks for 1 slots, 0 of them in place; 0 slots of unknown size; "
            "values of 16 bytes, of which 16 live at once\n"
            "arrival r -> s0 from /device:CPU:9, awaited by segments 0\n"
            "segment 0 waits for 1\n"
            "  Neg neg(s0!) -> s1:b0\n"
            "  Send s(s1!) edge 4 to /device:CPU:9\n");
}

std::string refusal(const Graph& g) {
  return error_of([&] { plan_of(g); }).message();
}

TEST(Plan, RefusesWhatCannotRunAndNamesIt) {
  {
    Graph g;
    node(g, "Placeholder", {}, "p", {{"T", DType::i64}});
    EXPECT_EQ(refusal(g), "Placeholder 'p' must be fed");
  }
  {
    Graph g;
    node(g, "Exp", {constant_node(g, Tensor::scalar(1.0f))}, "e");
    EXPECT_EQ(refusal(g), "Exp 'e' on /device:CPU:0: op Exp has no CPU kernel for f32; available: none");
  }
  {
    Graph g;
    const Output a = node(g, "Neg", {feed(g, 0, kPair, "x")}, "a");
    const Output b = node(g, "Neg", {a}, "b");
    g.add_control_edge(b.source(), a.source());
    EXPECT_NE(refusal(g).find("cycle"), std::string::npos);
  }
  {
    Graph g;
    feed(g, 1, kPair, "x");
    feed(g, 1, kPair, "y");
    EXPECT_EQ(refusal(g), "Feed 'y': another node has index 1");
  }
  {
    Graph g;
    recv(g, 1, kPair, "x");
    recv(g, 1, kPair, "y");
    EXPECT_EQ(refusal(g), "Recv 'y': another node has edge 1");
  }
  {
    Graph g;
    recv(g, 0x80000000, kPair, "x");
    EXPECT_EQ(refusal(g), "Recv 'x': attribute 'edge' is 2147483648; it must be at least 0 and below 2^31");
  }
  {
    Graph g;
    pull(g, -1, kPair, "x");
    EXPECT_EQ(refusal(g), "Pull 'x': attribute 'slice' is -1; it must be at least 0 and below 2^31");
  }
  {
    Graph g;
    fetch(g, feed(g, 0, kPair), 2, "a");
    fetch(g, feed(g, 1, kPair), 2, "b");
    EXPECT_EQ(refusal(g), "Fetch 'b': another node has index 2");
  }
  {
    Graph g;
    node(g, "Arg", {}, "a", {{"T", DType::i64}, {"index", std::int64_t{0}}});
    EXPECT_EQ(refusal(g), "Arg 'a' is outside a function");
  }
  {
    Graph g;
    node(g, "Identity", {variable_node(g, "v", kPair)}, "alias");
    EXPECT_EQ(refusal(g), "Identity 'alias' returns a variable; only a Variable or an argument may");
  }
}

TEST(Plan, HashIsThatOfTheOriginalName) {
  Graph g;
  const Output plain = feed(g, 0, kPair, "b");
  const Output copy = feed(g, 1, kPair, "copy");
  g.set_attribute(copy.source(), "_original_name", std::string("b"));
  EXPECT_EQ(original_name_hash(plain.source()), original_name_hash(copy.source()));
  EXPECT_NE(original_name_hash(plain.source()), original_name_hash(feed(g, 2, kPair, "c").source()));
}

}  // namespace
}  // namespace troupe
