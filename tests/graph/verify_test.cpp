#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

// feed -> n -> fetch; w is assigned (which is a target), then read.
struct Example : GraphBuilder {
  Output feed = add("Feed", "feed", {}, {{"T", DType::f32}, {"index", std::int64_t{0}}, {"shape", Shape{2}}});
  Output n = add("Neg", "n", {feed});
  Output fetch = add("Fetch", "fetch", {n}, {{"index", std::int64_t{0}}});
  Output w = variable("w", Shape{2});
  Output assign = add("AssignVariable", "assign", {w, n}, {{"_target", true}});
  Output read = read_after("read", assign);
  Output more = add("Fetch", "more", {read}, {{"index", std::int64_t{1}}});

  Output read_after(const std::string& name, Output before) {
    return g.output(g.add(
        {.op = "ReadVariable", .name = name, .inputs = {w}, .attributes = {{"T", DType::f32}}, .controls = {before}}));
  }
};

// A copy of the graph in which `change` has been made to one node.
std::unique_ptr<Graph> with_changed(const Graph& graph, std::string_view name, std::function<void(Node&)> change) {
  Rewriter rewriter(graph);
  for (int id = 0; id < graph.size(); ++id) {
    Node node = graph.node(id);
    if (node.name == name) change(node);
    rewriter.to().add_copy(node, node.inputs, node.controls);
  }
  return std::move(rewriter).finish();
}

std::unique_ptr<Graph> without(const Graph& graph, std::string_view name) {
  std::vector<bool> keep(static_cast<std::size_t>(graph.size()), true);
  keep[static_cast<std::size_t>(graph.get(name).id)] = false;
  return copy_subset(graph, keep);
}

std::string error_of_pass(const std::function<std::unique_ptr<Graph>(const Graph&)>& pass) {
  Example e;
  verify(e.g);
  return error_of([&] { verified("fake", e.g, pass(e.g)); });
}

using FakePass = std::function<std::unique_ptr<Graph>(const Graph&)>;
FakePass changing(std::string name, std::function<void(Node&)> change) {
  return [=](const Graph& g) { return with_changed(g, name, change); };
}

TEST(Verify, APassThatBreaksAGraphIsNamedWithWhatItBroke) {
  const std::vector<std::pair<FakePass, std::string>> cases = {
      {changing("n", [](Node& n) { n.inputs[0].node = 99; }),
       "Neg 'n': input 0 comes from node number 99, which does not exist"},
      {changing("n", [](Node& n) { n.inputs[0].index = 1; }),
       "Neg 'n': input 0 is 'feed:1', but Feed 'feed' has 1 outputs"},
      {changing("n", [](Node& n) { n.controls = {-1}; }),
       "Neg 'n': a control input is node number -1, which does not exist"},
      {changing("n", [](Node& n) { n.inputs.clear(); }), "Neg 'n': input 'x' is missing (0 were given)"},
      {changing("n", [](Node& n) { n.attributes.set("T", DType::f64); }),
       "Neg 'n': input 'x' is f32, but attribute 'T' is f64: they must have the same dtype, use cast()"},
      {changing("n", [](Node& n) { n.attributes.erase("T"); }), "Neg 'n': attribute 'T' is missing"},
      {changing("n", [](Node& n) { n.attributes.set("axis", std::int64_t{1}); }),
       "Neg 'n': there is no attribute 'axis'"},
      {changing("fetch", [](Node& n) { n.attributes.set("index", 1.0); }),
       "Fetch 'fetch': attribute 'index' must be of type integer, not real"},
      {changing("n", [](Node& n) { n.output_types[0] = DType::f64; }), "Neg 'n': output 0 is f64 instead of f32"},
      {changing("n", [](Node& n) { n.output_types.push_back(DType::f32); }),
       "Neg 'n': it has 2 output types and 1 shapes"},
      {changing("n",
                [](Node& n) {
                  n.output_types.clear();
                  n.output_shapes.clear();
                }),
       "Fetch 'fetch': input 0 is 'n:0', but Neg 'n' has 0 outputs"},
      {changing("n", [](Node& n) { n.output_shapes[0] = Shape{3}; }),
       "Neg 'n': output 0 has shape [3], but inference says [2]"},
      {changing("n", [](Node& n) { n.device = "/job"; }), "Neg 'n': device '/job': 'job' is not a type of device"},
      {[](const Graph& g) {
         auto out = g.clone();
         out->set_colocation(out->get("n"), "nobody");
         return out;
       },
       "Neg 'n': it is colocated with 'nobody', which does not exist"},
      {changing("n", [](Node& n) { n.attributes.set("_branch", FunctionName{"f"}); }),
       "Neg 'n': attribute '_branch' names function 'f', which does not exist"},
      {[](const Graph& g) {
         auto out = g.clone();
         out->add_control_edge(out->get("fetch"), out->get("n"));
         return out;
       },
       "the graph has a cycle: "},
      {[](const Graph& g) { return without(g, "fetch"); }, "Fetch 'fetch' is lost"},
      {changing("fetch", [](Node& n) { n.attributes.set("index", std::int64_t{7}); }),
       "Fetch 'fetch' has index 7 instead of 0"},
      {[](const Graph& g) {
         Rewriter rewriter(g);
         for (int id = 0; id < g.size(); ++id) {
           Node node = g.node(id);
           if (node.name == "fetch") {
             const Output wide = rewriter.to().output(rewriter.to().add({.op = "Cast",
                                                                         .name = "wide",
                                                                         .inputs = {rewriter.output({1, 0})},
                                                                         .attributes = {{"DstT", DType::f64}}}));
             rewriter.to().add(
                 {.op = "Fetch", .name = "fetch", .inputs = {wide}, .attributes = {{"index", std::int64_t{0}}}});
           } else {
             rewriter.copy(node);
           }
         }
         return rewriter.finish();
       },
       "Fetch 'fetch' is f64 instead of f32"},
      {changing("assign", [](Node& n) { n.attributes.erase("_target"); }), "no target is left, but 'assign' was one"},
      {changing("read", [](Node& n) { n.controls.clear(); }),
       "ReadVariable 'read' no longer runs after AssignVariable 'assign'"},
  };
  for (const auto& [pass, wanted] : cases) {
    const std::string error = error_of_pass(pass);
    EXPECT_EQ(error.find("internal: pass 'fake' produced a broken graph: " + wanted), 0u)
        << "wanted: " << wanted << "\ngot: " << error;
  }
}

TEST(Verify, ASoundRewriteMayDropReorderAndRefine) {
  Example e;
  EXPECT_NO_THROW(verify_rewrite(e.g, *e.g.clone()));
  // A shape may be known better, or less well, than inference knows it.
  EXPECT_NO_THROW(verify_rewrite(e.g, *with_changed(e.g, "n", [](Node& n) { n.output_shapes[0] = Shape{kUnknown}; })));
  // The order of two may be kept by way of a third.
  const auto by_way_of = [](const Graph& g) {
    auto out = g.clone();
    const Node& between = out->add({.op = "NoOp", .name = "between", .controls = {out->output("assign")}});
    out->add_control_edge(between, out->get("read"));
    return out;
  };
  EXPECT_NO_THROW(verify_rewrite(*by_way_of(e.g), *by_way_of(e.g)));
}

TEST(Verify, FunctionsAreLookedInto) {
  const auto with_body = [](std::function<void(Graph&)> change, Endpoint result) {
    auto body = std::make_shared<Graph>();
    const Node& arg =
        body->add({.op = "Arg", .name = "x", .attributes = {{"T", DType::f32}, {"index", std::int64_t{0}}}});
    body->add({.op = "Neg", .name = "n", .inputs = {body->output(arg)}});
    change(*body);
    GraphBuilder b;
    b.g.add_function({.name = "f", .body = body, .arguments = {{0, 0}}, .results = {result}});
    return error_of([&] { verify(b.g); });
  };
  EXPECT_EQ(with_body([](Graph&) {}, {1, 0}), "no error");
  EXPECT_EQ(with_body([](Graph& g) { g.set_colocation(g.get("n"), "nobody"); }, {1, 0}),
            "internal: function 'f': Neg 'n': it is colocated with 'nobody', which does not exist");
  EXPECT_EQ(with_body([](Graph&) {}, {1, 1}),
            "internal: function 'f': an argument or result is output 1 of node number 1, which the body does not have");
}

TEST(Verify, APlacedGraphHasCompleteDevicesAndVariablesWhereTheyAreUsed) {
  const std::string a = "/job:w/task:0/device:CPU:0", b = "/job:w/task:1/device:CPU:0";
  GraphBuilder t;
  Output w = t.variable("w", Shape{}, a);
  t.add("ReadVariable", "r", {w}, {{"T", DType::f32}}, a);
  EXPECT_NO_THROW(verify_placed(t.g));
  t.g.set_device(t.g.get("r"), b);
  EXPECT_EQ(error_of([&] { verify_placed(t.g); }),
            "internal: ReadVariable 'r': it runs on " + b + ", but its variable 'w' is on " + a);
  t.g.set_device(t.g.get("r"), "/job:w");
  EXPECT_EQ(error_of([&] { verify_placed(t.g); }),
            "internal: ReadVariable 'r': it is not placed: its device is '/job:w'");
}

// The programs of these tests have switched it on.
TEST(Verify, OnlyWhenSwitchedOn) {
  ASSERT_TRUE(passes_are_verified());
  Example e;
  const auto broken = [&] { return verified("fake", without(e.g, "fetch")); };
  EXPECT_NO_THROW(broken()) << "a sound graph, taken alone";
  const auto lost = [&] { return verified("fake", e.g, without(e.g, "fetch")); };
  EXPECT_THROW(lost(), Error);
  verify_passes(false);
  EXPECT_NO_THROW(lost());
  verify_passes(true);
}

}  // namespace
}  // namespace troupe
