#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/prune.hpp>

namespace troupe {
namespace {

// x -> double -> plus ; plus also reads y; w is read and assigned.
struct Example : GraphBuilder {
  Output x = placeholder("x", Shape{2});
  Output y = placeholder("y");
  Output twice = add("Add", "twice", {x, x});
  Output plus = add("Add", "plus", {twice, y});
  Output w = variable("w", Shape{2});
  Output update = add("AssignAddVariable", "update", {w, plus});
  Output split = add("Split", "split", {x}, {{"axis", std::int64_t{0}}, {"N", std::int64_t{2}}});
};

TEST(Prune, KeepsWhatFetchesAndTargetsNeed) {
  Example e;
  const Endpoint fetch{e.twice.node, 0};
  EXPECT_EQ(prune(e.g, {&fetch, 1}, {})->dump(),
            "x = Placeholder() T=f32 shape=[2] -> f32[2]\n"
            "twice = Add(x, x) T=f32 -> f32[2]\n");
  const int target = e.update.node;
  EXPECT_EQ(prune(e.g, {}, {&target, 1})->size(), 6);
}

TEST(Prune, FollowsControlEdges) {
  Example e;
  const int done = e.g.add({.op = "NoOp", .name = "done", .controls = {e.twice}}).id;
  EXPECT_EQ(prune(e.g, {}, {&done, 1})->dump(),
            "x = Placeholder() T=f32 shape=[2] -> f32[2]\n"
            "twice = Add(x, x) T=f32 -> f32[2]\n"
            "done = NoOp(^twice)\n");
}

TEST(Prune, RefusesEndpointsThatDoNotExist) {
  Example e;
  const Endpoint fetch{e.twice.node, 1};
  EXPECT_EQ(error_of([&] { prune(e.g, {&fetch, 1}, {}); }), "out_of_range: prune: 'twice' has no output 1");
  const int target = 99;
  EXPECT_EQ(error_of([&] { prune(e.g, {}, {&target, 1}); }), "out_of_range: prune: the graph has no node number 99");
}

TEST(Prune, NodesColocatedWithOneThatGoesStayTogether) {
  GraphBuilder t;
  t.add("NoOp", "anchor", {}, {}, "/job:ps");
  t.g.add({.op = "NoOp", .name = "link", .colocate_with = "anchor"});
  const int a = t.g.add({.op = "NoOp", .name = "a", .device = "/task:1", .colocate_with = "anchor"}).id;
  const int b = t.g.add({.op = "NoOp", .name = "b", .colocate_with = "link"}).id;
  const std::vector<int> targets{a, b};
  auto out = prune(t.g, {}, targets);
  EXPECT_EQ(out->dump(), "a = NoOp() @ /job:ps/task:1\nb = NoOp() @ /job:ps with a\n");
}

TEST(Prune, ContradictoryColocationNamesBoth) {
  GraphBuilder t;
  t.add("NoOp", "anchor", {}, {}, "/job:ps");
  const int a = t.g.add({.op = "NoOp", .name = "a", .device = "/job:worker", .colocate_with = "anchor"}).id;
  EXPECT_EQ(error_of([&] {
              prune(t.g, {}, {&a, 1});
            }),
            "invalid_argument: cannot colocate 'a' (/job:worker) with 'anchor' (/job:ps)");
}

TEST(Callable, FeedsReplacePlaceholdersAndFetchesGetNodes) {
  Example e;
  EXPECT_EQ(make_callable_graph(e.g, {.feeds = {"y", "x"}, .fetches = {"plus", "twice:0", "plus"}})->dump(),
            "y/feed = Feed() T=f32 index=0 shape=[] -> f32[]\n"
            "x/feed = Feed() T=f32 index=1 shape=[2] -> f32[2]\n"
            "twice = Add(x/feed, x/feed) T=f32 -> f32[2]\n"
            "plus = Add(twice, y/feed) T=f32 -> f32[2]\n"
            "plus/fetch = Fetch(plus) T=f32 index=0\n"
            "twice/fetch = Fetch(twice) T=f32 index=1\n"
            "plus/fetch_1 = Fetch(plus) T=f32 index=2\n");
}

TEST(Callable, AnyEdgeMayBeFedAndPruningStopsThere) {
  Example e;
  EXPECT_EQ(make_callable_graph(e.g, {.feeds = {"twice", "y"}, .fetches = {"plus"}})->dump(),
            "twice/feed = Feed() T=f32 index=0 shape=[2] -> f32[2]\n"
            "y/feed = Feed() T=f32 index=1 shape=[] -> f32[]\n"
            "plus = Add(twice/feed, y/feed) T=f32 -> f32[2]\n"
            "plus/fetch = Fetch(plus) T=f32 index=0\n");
}

TEST(Callable, OneOutputOfANodeMayBeFedWhileTheOtherIsComputed) {
  Example e;
  e.add("Add", "both", {e.g.output("split:0"), e.g.output("split:1")});
  EXPECT_EQ(make_callable_graph(e.g, {.feeds = {"split:1", "x"}, .fetches = {"both"}})->dump(),
            "split/feed = Feed() T=f32 index=0 shape=[1] -> f32[1]\n"
            "x/feed = Feed() T=f32 index=1 shape=[2] -> f32[2]\n"
            "split = Split(x/feed) N=2 T=f32 axis=0 -> f32[1], f32[1]\n"
            "both = Add(split, split/feed) T=f32 -> f32[1]\n"
            "both/fetch = Fetch(both) T=f32 index=0\n");
}

TEST(Callable, AFedOutputMayBeFetched) {
  Example e;
  EXPECT_EQ(make_callable_graph(e.g, {.feeds = {"x"}, .fetches = {"x"}})->dump(),
            "x/feed = Feed() T=f32 index=0 shape=[2] -> f32[2]\n"
            "x/fetch = Fetch(x/feed) T=f32 index=0\n");
}

TEST(Callable, TargetsAreMarkedAndSurviveAnotherPruning) {
  Example e;
  auto callable = make_callable_graph(e.g, {.feeds = {"plus"}, .targets = {"update"}});
  EXPECT_EQ(callable->dump(),
            "plus/feed = Feed() T=f32 index=0 shape=[2] -> f32[2]\n"
            "w = Variable() T=f32 shape=[2] -> resource[2]\n"
            "update = AssignAddVariable(w, plus/feed) T=f32 _target=true -> f32[2]\n");
  EXPECT_EQ(prune_callable(*callable)->dump(), callable->dump());
}

TEST(Callable, ControlEdgesFromAFedPlaceholderComeFromTheFeed) {
  Example e;
  e.g.add({.op = "NoOp", .name = "after", .controls = {e.x}});
  EXPECT_EQ(make_callable_graph(e.g, {.feeds = {"x"}, .targets = {"after"}})->dump(),
            "x/feed = Feed() T=f32 index=0 shape=[2] -> f32[2]\n"
            "after = NoOp(^x/feed) _target=true\n");
}

TEST(Callable, WrongSignaturesAreRefusedWithTheNameInQuestion) {
  Example e;
  const auto error = [&](Signature s) { return error_of([&] { make_callable_graph(e.g, s); }); };
  EXPECT_EQ(error({.fetches = {"plus"}}), "invalid_argument: Placeholders 'x', 'y' must be fed");
  EXPECT_EQ(error({.feeds = {"y"}, .fetches = {"plus"}}), "invalid_argument: Placeholder 'x' must be fed");
  EXPECT_EQ(error({.targets = {"x"}}), "invalid_argument: Placeholder 'x' must be fed");
  EXPECT_EQ(error({.feeds = {"x", "x:0"}, .fetches = {"plus"}}), "invalid_argument: feed: 'x' is fed twice");
  EXPECT_EQ(error({.feeds = {"nobody"}, .fetches = {"plus"}}), "not_found: feed: the graph has no node 'nobody'");
  EXPECT_EQ(error({.fetches = {"nobody"}}), "not_found: fetch: the graph has no node 'nobody'");
  EXPECT_EQ(error({.fetches = {"plus:1"}}), "out_of_range: fetch: 'plus:1': Add 'plus' has 1 outputs");
  EXPECT_EQ(error({.fetches = {"plus:x"}}),
            "invalid_argument: fetch: 'plus:x' does not name an output: expected NODE or NODE:INDEX");
  EXPECT_EQ(error({.targets = {"nobody"}}), "not_found: target: the graph has no node 'nobody'");
  EXPECT_EQ(error({.fetches = {"w"}}),
            "invalid_argument: fetch: 'w' is the handle of a variable, not a tensor: use what reads or assigns it");
  EXPECT_EQ(error({.feeds = {"w"}, .fetches = {"plus"}}),
            "invalid_argument: feed: 'w' is the handle of a variable, not a tensor: use what reads or assigns it");
  EXPECT_EQ(error({.feeds = {"x"}}),
            "invalid_argument: there is nothing to run: the call has neither fetches nor targets");
}

TEST(Callable, AGraphMadeForACallIsRefused) {
  Example e;
  auto callable = make_callable_graph(e.g, {.feeds = {"x"}, .fetches = {"twice"}});
  EXPECT_EQ(error_of([&] { make_callable_graph(*callable, {.fetches = {"twice"}}); }),
            "invalid_argument: Feed 'x/feed': nodes of this op are made for a call; a graph to call must not "
            "have any");
}

}  // namespace
}  // namespace troupe
