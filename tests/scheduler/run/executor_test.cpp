#include <gtest/gtest.h>

#include "tests/scheduler/toy.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/scheduler/run/executor.hpp>

namespace troupe {
namespace {

using namespace testing;

Output flag(Graph& g, std::int64_t index) {
  return node(g, "Feed", {}, "flag", {{"T", DType::boolean}, {"index", index}, {"shape", Shape{}}});
}

TEST(Executor, ComputesSendsPushesAndFetches) {
  Graph g;
  Output x = feed(g, 0, kPair, "x");
  Output y = node(g, "Add", {x, constant_node(g, i64({10, 20}))}, "y");
  send(g, y, 5);
  push(g, node(g, "Neg", {y}, "n"), 6);
  g.add({.op = "PushSparse",
         .inputs = {constant_node(g, i64({0, 3})), y},
         .attributes = {{"slice", std::int64_t{7}}, {"shard", std::int64_t{0}}}});
  fetch(g, x, 4);
  ToyTask task(g);
  task.start(1, {i64({1, 2})});
  EXPECT_TRUE(task.ended[1]);
  EXPECT_EQ(numbers(task.out[1]->sent[5]), (std::vector<std::int64_t>{11, 22}));
  EXPECT_EQ(numbers(task.out[1]->pushed[6]), (std::vector<std::int64_t>{-11, -22}));
  EXPECT_EQ(numbers(task.out[1]->pushed[7]), (std::vector<std::int64_t>{11, 22}));
  EXPECT_EQ(numbers(task.out[1]->push_indices[7]), (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(numbers(task.finish(1).at(4)), (std::vector<std::int64_t>{1, 2}));
}

TEST(Executor, WritesInPlaceWhereNobodyElseReads) {
  Graph g;
  Output x = feed(g, 0, kPair, "x");
  Output a = node(g, "Neg", {x}, "a");     // x is the caller's
  Output b = node(g, "Neg", {a}, "b");     // in place
  Output c = node(g, "Add", {b, b}, "c");  // read twice by one node
  send(g, c, 0);                           // kept by what it was sent to
  Output d = node(g, "Neg", {c}, "d");
  fetch(g, node(g, "Sub", {constant_node(g, i64({9, 9})), d}, "e"), 0);  // in place of d, not of the constant
  ToyTask task(g);
  task.start(1, {i64({1, 2})});
  EXPECT_EQ(task.hooks.in_place, 2);
  EXPECT_EQ(numbers(task.out[1]->sent[0]), (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(numbers(task.finish(1).at(0)), (std::vector<std::int64_t>{11, 13}));
  EXPECT_EQ(numbers(task.plan().constants.at(0)), (std::vector<std::int64_t>{9, 9}));
}

// The last of several segments may write in place what the others have read: in every step, also in a frame used again.
TEST(Executor, TheLastSegmentToReadASlotMayTakeIt) {
  Graph g;
  Output x = node(g, "Neg", {constant_node(g, i64({1, 2}))}, "x");
  for (int i = 0; i < 3; ++i) {
    Output r = recv(g, i, kPair, fmt::format("r{}", i));
    send(g, r, 10 + i);  // kept, so that only x may be taken
    fetch(g, node(g, "Sub", {x, r}), i);
  }
  ToyTask task(g);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    SCOPED_TRACE(::testing::Message() << "step " << step);
    task.hooks.in_place = 0;
    task.start(step);
    for (const char* name : {"r2", "r0", "r1"}) task.arrive(step, name, i64({10, 10}));
    EXPECT_EQ(task.hooks.in_place, 1);
    for (const auto& [index, tensor] : task.finish(step))
      EXPECT_EQ(numbers(tensor), (std::vector<std::int64_t>{-11, -12}));
  }
}

// An output that nobody reads must not share the variable's memory until the step ends.
TEST(Executor, UnreadOutputsDoNotHinderUpdatesInPlace) {
  Graph g;
  Output v = variable_node(g, "v", kPair);
  Output one = constant_node(g, i64({1, 1}));
  const Output first = node(g, "AssignAddVariable", {v, one}, "first");
  const Output second = node(g, "AssignAddVariable", {v, one}, "second");
  g.add_control_edge(first.source(), second.source());
  ToyTask task(g);
  task.variable("v").assign(i64({0, 0}));
  const void* memory = task.variable("v").value().raw();
  task.start(1);
  EXPECT_EQ(numbers(task.variable("v").value()), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(task.variable("v").value().raw(), memory);
}

TEST(Executor, AReadSeesTheValueOfItsTime) {
  Graph g;
  Output v = variable_node(g, "v", kPair);
  const Output before = node(g, "ReadVariable", {v}, "before", {{"T", DType::i64}});
  const Output update = node(g, "AssignAddVariable", {v, constant_node(g, i64({1, 1}))}, "update");
  const Output after = node(g, "ReadVariable", {v}, "after", {{"T", DType::i64}});
  g.add_control_edge(before.source(), update.source());
  g.add_control_edge(update.source(), after.source());
  fetch(g, before, 0);
  fetch(g, after, 1);
  ToyTask task(g);
  task.variable("v").assign(i64({5, 6}));
  task.start(1);
  const auto fetches = task.finish(1);
  EXPECT_EQ(numbers(fetches.at(0)), (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(numbers(fetches.at(1)), (std::vector<std::int64_t>{6, 7}));
}

TEST(Executor, ErrorsNameOpNodeAndDevice) {
  for (const auto& [op, text, code] :
       {std::tuple{"Abs", "Abs 'bad' on /device:CPU:0: -1 is negative", Code::invalid_argument},
        std::tuple{"Sign", "Sign 'bad' on /device:CPU:0: odd failure", Code::internal}}) {
    SCOPED_TRACE(op);
    Graph g;
    fetch(g, node(g, op, {feed(g, 0, kPair, "x")}, "bad"), 0, "out");
    ToyTask task(g);
    task.start(1, {i64({-1, 2})});
    EXPECT_EQ(task.table.error(task.key(1)).message(), text);
    EXPECT_EQ(task.table.error(task.key(1)).code(), code);
    EXPECT_TRUE(task.ended[1]);
  }
}

TEST(Executor, AVariableIsNoTensorAndATensorNoVariable) {
  Graph g;
  g.add({.op = "Fetch",
         .name = "out",
         .inputs = {variable_node(g, "v", kPair)},
         .attributes = {{"index", std::int64_t{0}}}});
  ToyTask task(g);
  task.start(1);
  EXPECT_EQ(task.table.error(task.key(1)).message(),
            "Fetch 'out' on /device:CPU:0: input 0 is a variable; a tensor was expected: read it first");
}

TEST(Executor, AnAbortedFrameStopsBeforeTheNextNode) {
  Graph g;
  fetch(g, node(g, "Neg", {node(g, "Square", {feed(g, 0, kPair, "x")}, "square")}, "never"), 0);
  ToyTask task(g);
  task.hooks.on_square = [&] { task.table.abort(task.key(1), Error(Code::cancelled, "enough")); };
  task.start(1, {i64({1, 2})});
  EXPECT_EQ(task.hooks.ran, (std::vector<std::string>{"square"}));
  EXPECT_TRUE(task.ended[1]);
  EXPECT_EQ(task.table.error(task.key(1)).message(), "enough");
  task.finish(1);
  task.hooks.on_square = nullptr;
  task.start(2, {i64({3, 2})});  // the frame is used again, and not aborted
  EXPECT_EQ(numbers(task.finish(2).at(0)), (std::vector<std::int64_t>{-9, -4}));
}

TEST(Executor, AbortReachesARunningBranch) {
  Graph g;
  Output x = feed(g, 0, kPair, "x");
  const auto branch = [](Graph&, const Outputs& in) {
    return Outputs{node(*in[0].graph, "Neg", {node(*in[0].graph, "Square", {in[0]}, "square")}, "never")};
  };
  fetch(g, if_else(flag(g, 1), {x}, branch, branch, "if")[0], 0);
  ToyTask task(g);
  task.hooks.on_square = [&] { task.table.abort(task.key(1), Error(Code::cancelled, "enough")); };
  task.start(1, {i64({1, 2}), Tensor::scalar(true)});
  EXPECT_EQ(task.hooks.ran, (std::vector<std::string>{"if/then/square"}));
}

TEST(Executor, AFrameHoldsNoTensorsAfterAStepEvenIfABranchFailed) {
  Graph g;
  Output x = feed(g, 0, kPair, "x");
  Output kept = node(g, "Identity", {recv(g, 0, kPair, "r")}, "kept");
  const auto branch = [](Graph&, const Outputs& in) {
    return Outputs{node(*in[0].graph, "Add", {node(*in[0].graph, "Abs", {in[0]}, "abs"), in[0]}, "sum")};
  };
  fetch(g, node(g, "Add", {if_else(flag(g, 1), {x}, branch, branch, "if")[0], kept}, "all"), 0);
  ToyTask task(g);
  for (const bool fails : {false, true}) {
    const std::uint64_t step = fails ? 2 : 1;
    const Tensor fed = i64({1, fails ? -1 : 1});
    const Tensor came = i64({5, 5});
    task.start(step, {fed, Tensor::scalar(true)});
    task.arrive(step, "r", came);
    EXPECT_EQ(task.table.error(task.key(step)).ok(), !fails) << fails;
    EXPECT_EQ(task.finish(step).contains(0), !fails) << fails;
    EXPECT_TRUE(fed.unique()) << fails;
    EXPECT_TRUE(came.unique()) << fails;
  }
}

TEST(If, TakesEitherBranchAgainAndAgain) {
  Graph g;
  Output x = feed(g, 0, kPair, "x");
  const auto negate = [](Graph&, const Outputs& in) { return Outputs{node(*in[0].graph, "Neg", {in[0]}, "n")}; };
  const auto twice = [](Graph&, const Outputs& in) { return Outputs{node(*in[0].graph, "Add", {in[0], in[0]}, "a")}; };
  Output cond = flag(g, 1);
  const Output once = if_else(cond, {x}, negate, twice, "if")[0];
  fetch(g, if_else(cond, {once}, "if/then", "if/else", "again")[0], 0);  // the same functions, twice in a step
  ToyTask task(g);
  EXPECT_EQ(task.plan().branches.at(0).then_plan, task.plan().branches.at(1).then_plan);
  for (std::uint64_t step = 1; step <= 4; ++step) {
    task.start(step, {i64({1, 2}), Tensor::scalar(step % 2 == 0)});
    EXPECT_EQ(numbers(task.finish(step).at(0)),
              step % 2 == 0 ? (std::vector<std::int64_t>{1, 2}) : (std::vector<std::int64_t>{4, 8}))
        << "step " << step;
  }
}

TEST(If, NestsAndPassesVariablesArgumentsAndConstants) {
  Graph g;
  Output x = feed(g, 0, kPair, "x");
  Output v = variable_node(g, "v", kPair);
  Output outer = flag(g, 1);
  Output inner = node(g, "Feed", {}, "inner", {{"T", DType::boolean}, {"index", std::int64_t{2}}, {"shape", Shape{}}});
  // Results: a constant, an argument as it came (twice), and something computed.
  const auto update = [](Graph& f, const Outputs& in) {
    Output sum = node(f, "AssignAddVariable", {in[1], in[0]}, "add");
    return Outputs{constant_node(f, i64({7, 7}), "c"), in[0], in[0], node(f, "Neg", {sum}, "n")};
  };
  const auto leave = [](Graph& f, const Outputs& in) {
    return Outputs{in[0], in[0], constant_node(f, i64({8, 8}), "c"),
                   node(f, "ReadVariable", {in[1]}, "read", {{"T", DType::i64}})};
  };
  const auto nested = [&](Graph&, const Outputs& in) {
    return if_else(in[2], {in[0], in[1]}, update, leave, "nested");
  };
  const auto skip = [&](Graph& f, const Outputs& in) { return leave(f, in); };
  const Outputs results = if_else(outer, {x, v, inner}, nested, skip, "if");
  for (std::size_t i = 0; i < results.size(); ++i) fetch(g, results[i], static_cast<std::int64_t>(i));
  ToyTask task(g);
  task.variable("v").assign(i64({100, 100}));
  const auto run = [&](std::uint64_t step, bool a, bool b) {
    task.start(step, {i64({1, 2}), Tensor::scalar(a), Tensor::scalar(b)});
    std::vector<std::vector<std::int64_t>> out;
    for (const auto& [index, tensor] : task.finish(step)) out.push_back(numbers(tensor));
    return out;
  };
  using Rows = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(run(1, true, true), (Rows{{7, 7}, {1, 2}, {1, 2}, {-101, -102}}));
  EXPECT_EQ(run(2, true, false), (Rows{{1, 2}, {1, 2}, {8, 8}, {101, 102}}));
  EXPECT_EQ(run(3, true, true), (Rows{{7, 7}, {1, 2}, {1, 2}, {-102, -104}}));
  EXPECT_EQ(run(4, false, true), (Rows{{1, 2}, {1, 2}, {8, 8}, {102, 104}}));
  EXPECT_EQ(numbers(task.plan().branches.at(0).else_plan->constants.at(0)), (std::vector<std::int64_t>{8, 8}));
}

TEST(If, ErrorsNameTheWholePath) {
  Graph g;
  const auto branch = [](Graph& f, const Outputs& in) { return Outputs{node(f, "Abs", {in[0]}, "abs")}; };
  fetch(g, if_else(flag(g, 1), {feed(g, 0, kPair, "x")}, branch, branch, "if")[0], 0);
  ToyTask task(g);
  task.start(1, {i64({1, -2}), Tensor::scalar(false)});
  EXPECT_EQ(task.table.error(task.key(1)).message(),
            "If 'if' on /device:CPU:0: Abs 'if/else/abs' on /device:CPU:0: -2 is negative");
  task.finish(1);
  task.start(2, {i64({1, 2}), Tensor::of<bool>(Shape{2}, {true, true})});
  EXPECT_EQ(task.table.error(task.key(2)).message(),
            "If 'if' on /device:CPU:0: the condition must be one bool, not bool[2] = true true");
}

// Functions in `depth` levels, each of which calls the one below `calls` times in a row (or, if not, returns its
// argument).
std::unique_ptr<Graph> nest(int depth, int calls) {
  auto body = std::make_unique<Graph>();
  node(*body, "Arg", {}, "x", {{"T", DType::i64}, {"index", std::int64_t{0}}, {"shape", kPair}});
  node(*body, "Arg", {}, "flag", {{"T", DType::boolean}, {"index", std::int64_t{1}}, {"shape", Shape{}}});
  Function leaf{.name = "f",
                .body = std::shared_ptr<const Graph>(std::move(body)),
                .arguments = {{0, 0}, {1, 0}},
                .results = {{0, 0}}};
  Function same = leaf;
  same.name = "same";
  for (int i = 0; i < depth; ++i) {
    auto outer = std::make_unique<Graph>();
    outer->add_function(leaf);
    outer->add_function(same);
    Output x = node(*outer, "Arg", {}, "x", {{"T", DType::i64}, {"index", std::int64_t{0}}, {"shape", kPair}});
    Output cond =
        node(*outer, "Arg", {}, "flag", {{"T", DType::boolean}, {"index", std::int64_t{1}}, {"shape", Shape{}}});
    for (int c = 0; c < calls; ++c) x = if_else(cond, {x, cond}, "f", "same")[0];
    leaf = Function{.name = "f",
                    .body = std::shared_ptr<const Graph>(std::move(outer)),
                    .arguments = {{0, 0}, {1, 0}},
                    .results = {{x.node, x.index}}};
  }
  auto g = std::make_unique<Graph>();
  g->add_function(leaf);
  g->add_function(same);
  Output cond = flag(*g, 1);
  fetch(*g, if_else(cond, {feed(*g, 0, kPair, "x"), cond}, "f", "same", "top")[0], 0);
  return g;
}

TEST(If, NestingIsBounded) {
  ToyTask task(*nest(30, 1));
  task.start(1, {i64({1, 2}), Tensor::scalar(true)});
  EXPECT_EQ(numbers(task.finish(1).at(0)), (std::vector<std::int64_t>{1, 2}));
  EXPECT_NE(error_of([] { ToyTask(*nest(40, 1)); }).message().find("functions are nested more than 32 deep"),
            std::string::npos);
}

TEST(If, ExpansionIsBounded) {
  const Error error = error_of([] { ToyTask(*nest(30, 4)); });
  EXPECT_EQ(error.code(), Code::resource_exhausted);
  EXPECT_NE(error.message().find("with its functions the graph has more than 10000000 nodes"), std::string::npos)
      << error.message();
}

struct BadFunction {
  std::string message;
  std::function<Outputs(Graph&, const Outputs&)> branch;
};

TEST(If, RefusesWhatAFunctionCannotHold) {
  const std::vector<BadFunction> cases = {
      {"branch 'if/then': Variable 'if/then/v' cannot be in the body 'if/then': make it before, and read it in the "
       "body",
       [](Graph& f, const Outputs& in) {
         variable_node(f, "v", kPair);
         return Outputs{in[0]};
       }},
      {"branch 'if/then': Send 'if/then/s' cannot be in the body 'if/then': make it before, and read it in the body",
       [](Graph& f, const Outputs& in) {
         send(f, in[0], 0, "s");
         return Outputs{in[0]};
       }},
      {"branch 'if/then': Recv 'if/then/r' cannot be in the body 'if/then': make it before, and read it in the body",
       [](Graph& f, const Outputs&) { return Outputs{recv(f, 0, kPair, "r")}; }},
      {"function 'if/then': Arg 'if/then/extra' is not among its arguments",
       [](Graph& f, const Outputs&) {
         return Outputs{node(f, "Arg", {}, "extra", {{"T", DType::i64}, {"index", std::int64_t{5}}})};
       }},
  };
  for (const BadFunction& bad : cases) {
    Graph g;
    const auto good = [](Graph&, const Outputs& in) { return Outputs{in[0]}; };
    const auto build_and_run = [&] {
      if_else(flag(g, 1), {feed(g, 0, kPair, "x")}, bad.branch, good, "if");
      ToyTask task(g);
    };
    EXPECT_EQ(error_of(build_and_run).message(), bad.message);
  }
}

TEST(If, RefusesAFunctionThatDoesNotFit) {
  Graph g;
  const auto same = [](Graph&, const Outputs& in) { return Outputs{in[0]}; };
  const Output out = if_else(flag(g, 1), {feed(g, 0, kPair, "x")}, same, same, "if")[0];
  g.set_attribute(out.source(), "then_branch", FunctionName{"nowhere"});
  EXPECT_EQ(error_of([&] { ToyTask task(g); }).message(), "If 'if': there is no function 'nowhere'");
  auto body = std::make_shared<Graph>();
  node(*body, "Arg", {}, "x", {{"T", DType::f32}, {"index", std::int64_t{0}}});
  g.add_function({.name = "other", .body = body, .arguments = {{0, 0}}, .results = {{0, 0}}});
  g.set_attribute(out.source(), "then_branch", FunctionName{"other"});
  EXPECT_EQ(error_of([&] { ToyTask task(g); }).message(),
            "If 'if': function 'other' is (f32) -> (f32), but the node needs (i64) -> (i64)");
  g.add_function({.name = "wild", .body = body, .arguments = {{0, 0}}, .results = {{3, 0}}});
  g.set_attribute(out.source(), "then_branch", FunctionName{"wild"});
  EXPECT_EQ(error_of([&] { ToyTask task(g); }).message(), "function 'wild': a result is not an output of its body");
}

TEST(VariableStore, RefusesAnotherDeclarationOfAVariable) {
  VariableStore store;
  Variable& v = store.get({"v", DType::i64, kPair});
  EXPECT_EQ(&store.get({"v", DType::i64, kPair}), &v);
  EXPECT_EQ(error_of([&] {
              store.get({"v", DType::f32, kPair});
            }).message(),
            "variable 'v' is i64[2] in this session or its container, but the graph declares it as f32[2]");
}

}  // namespace
}  // namespace troupe
