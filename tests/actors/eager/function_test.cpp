// Traced functions: when they are traced, what they do with variables and effects, and their gradients. That they have
// the bits of the same ops one by one: also random_programs_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/actors/eager/eager_testing.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/eager/function.hpp>
#include <troupe/actors/eager/function_trace.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/control.hpp>
#include <troupe/graph/builder/debug.hpp>
#include <troupe/graph/builder/functions.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/tape.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/optimizers/loss_scaling.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {
namespace {

using testing::numbers;
using testing::Weights;
using testing::why_not;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FunctionTest : public ::testing::Test {
 protected:
  Output scalar(double value) { return constant(graph_, value); }
  Output f32(const Shape& shape, int seed) { return constant(graph_, numbers(shape, seed)); }
  static double number(const Output& x) { return x.value().item<double>(); }
  void expect_same(const Outputs& a, const Outputs& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(bitwise_equal(a[i].value(), b[i].value()))
          << i << ": " << a[i].value().to_string() << ", " << b[i].value().to_string();
  }

  Eager eager_;
  Graph& graph_ = eager_.graph();
};

TEST_F(FunctionTest, IsTracedOncePerKindOfArguments) {
  int runs = 0;
  TracedFunction twice(eager_, [&](const Outputs& in) -> Outputs {
    ++runs;
    return {in[0] + in[0]};
  });
  EXPECT_EQ(number(twice({scalar(3)})[0]), 6);
  EXPECT_EQ(number(twice({scalar(4)})[0]), 8);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(twice({f32({2, 3}, 1)})[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(twice({f32({2, 4}, 1)})[0].shape(), (Shape{2, 4}));
  EXPECT_EQ(runs, 3);
  twice({scalar(1)}, "another key");
  EXPECT_EQ(runs, 4);
  twice({scalar(1)});
  EXPECT_EQ(runs, 4);
  EXPECT_EQ(twice.traces(), 4u);
}

TEST_F(FunctionTest, OneTraceServesSizesThatAreRelaxed) {
  int runs = 0;
  TracedFunction sum_of(eager_,
                        [&](const Outputs& in) -> Outputs {
                          ++runs;
                          return {sum(in[0] * 2.0, {0, 1})};
                        },
                        {.relax_shapes = true});
  for (int rows = 1; rows < 6; ++rows) {
    const Output x = f32({rows, 3}, rows);
    expect_same(sum_of({x}), {sum(x * 2.0, {0, 1})});
  }
  EXPECT_EQ(runs, 2) << "the second knows that rows differ";
  sum_of({f32({7, 4}, 1)});
  EXPECT_EQ(runs, 3);
  sum_of({f32({9, 9}, 1)});
  EXPECT_EQ(runs, 3);
}

TEST_F(FunctionTest, WarnsWithTheReasonWhenItIsTracedTooOften) {
  std::vector<std::string> warnings;
  TracedFunction f(eager_, [](const Outputs& in) -> Outputs { return {in[0] + 1.0}; },
                   {.name = "plus", .on_warning = [&](const std::string& text) { warnings.push_back(text); }});
  for (int rows = 1; rows <= 9; ++rows) f({f32({rows, 2}, 1)});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("function 'plus' is traced for the 5th time"));
  EXPECT_THAT(warnings[0], HasSubstr("argument 0 is f32[5,2], and was f32[4,2]: with relax_shapes one trace serves"));
  f({f32({1, 2}, 1)}, "training");
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[1], HasSubstr("its key is 'training', and was ''"));
}

TEST_F(FunctionTest, DropsTheTraceThatWasUsedLeastRecently) {
  TracedFunction f(eager_, [](const Outputs& in) -> Outputs { return {in[0] + 1.0}; }, {.most_traces = 2});
  const Output a = f32({1}, 1), b = f32({2}, 1), c = f32({3}, 1);
  f({a}), f({b}), f({a}), f({c});
  EXPECT_EQ(f.traces(), 3u);
  f({a});
  EXPECT_EQ(f.traces(), 3u);
  f({b});
  EXPECT_EQ(f.traces(), 4u);
}

TEST_F(FunctionTest, ReadsAndChangesVariablesInTheOrderOfTheProgram) {
  const VariableRef v = variable(graph_, {.name = "v", .initial_value = scalar(1)});
  const auto body = [&](const Outputs& in) -> Outputs {
    const Output before = v.read();
    for (int i = 0; i < 2; ++i) square(in[0], "a_name");
    v.assign_add(in[0]);
    const Output between = v.read();
    v.assign(between * 10.0);
    v.assign_sub(scalar(0.5));
    return {before, between, v.read()};
  };
  TracedFunction f(eager_, body);
  for (int round = 0; round < 3; ++round) {
    const double at_first = number(v.read());
    const Outputs found = f({scalar(2)});
    EXPECT_EQ(number(found[0]), at_first);
    EXPECT_EQ(number(found[1]), at_first + 2);
    EXPECT_EQ(number(found[2]), (at_first + 2) * 10 - 0.5);
    EXPECT_EQ(number(v.read()), (at_first + 2) * 10 - 0.5);
    v.assign(scalar(round));
  }
  EXPECT_EQ(f.traces(), 1u);
}

// Steps may run nodes that do not depend on each other in any order.
TEST_F(FunctionTest, EffectsDependOnThoseBeforeThem) {
  const VariableRef v = variable(graph_, {.name = "v", .initial_value = scalar(1)});
  const HostFunction nothing = [](std::span<const Tensor> in) { return std::vector<Tensor>{in[0]}; };
  FunctionTrace trace(graph_, {{DType::f64, Shape{}}}, {}, [&](const Outputs& in) -> Outputs {
    const Output first = v.read(), second = v.read();
    v.assign_add(in[0]);
    host_call(nothing, {in[0]}, {DType::f64});
    v.read();
    host_call(nothing, {in[0]}, {DType::f64});
    v.assign(scalar(3));
    return {first, second};
  });
  std::vector<std::string> found;
  std::map<int, std::string> named;
  std::map<std::string, int> count;
  for (int id = 0; id < trace.graph().size(); ++id) {
    const Node& node = trace.graph().node(id);
    if (!node.op->stateful) continue;
    named[id] = fmt::format("{}{}", node.op->name, count[node.op->name]++);
    std::string line = named[id] + " after";
    for (const int control : node.controls) line += " " + named.at(control);
    found.push_back(line);
  }
  EXPECT_THAT(found, ElementsAre("ReadVariable0 after", "ReadVariable1 after",
                                 "AssignAddVariable0 after ReadVariable0 ReadVariable1", "HostCall0 after",
                                 "ReadVariable2 after AssignAddVariable0", "HostCall1 after HostCall0",
                                 "AssignVariable0 after AssignAddVariable0 ReadVariable2"));
}

TEST_F(FunctionTest, EffectsHappenInTheOrderOfTheProgramUsedOrNot) {
  std::vector<double> seen;
  const HostFunction note = [&](std::span<const Tensor> in) {
    seen.push_back(in[0].item<double>());
    return std::vector<Tensor>{in[0]};
  };
  TracedFunction f(eager_, [&](const Outputs& in) -> Outputs {
    host_call(note, {in[0] * 3.0}, {DType::f64});
    host_call(note, {in[0]}, {DType::f64});
    host_call(note, {scalar(7)}, {DType::f64});
    assert_true(greater(in[0], scalar(0)), {}, {.message = "x must be positive"});
    return {};
  });
  EXPECT_TRUE(f({scalar(2)}).empty());
  EXPECT_THAT(seen, ElementsAre(6, 2, 7));
  EXPECT_THAT(why_not([&] { f({scalar(-2)}); }), HasSubstr("x must be positive"));
}

// Of what a step calls, ops run within the step, on whichever thread it is.
TEST_F(FunctionTest, StepsThatMayTakeLongRunAsTheCallerSays) {
  int long_steps = 0;
  bool refused = false;
  Eager eager(
      {.run_long_step = [&](Session&, const Callable& step, std::vector<Tensor> feeds, const RunOptions& options) {
        ++long_steps;
        if (refused) fail(Code::cancelled, "no more");
        return step(std::move(feeds), options);
      }});
  const Output x = constant(eager.graph(), 1.0);
  TracedFunction plain(eager, [](const Outputs& in) -> Outputs { return {in[0] + 1.0}; });
  for (int i = 0; i < 100; ++i) plain({x});
  EXPECT_GE(long_steps, 1);  // it was not known yet
  EXPECT_LT(long_steps, 100);
  TracedFunction loop(eager, [](const Outputs& in) -> Outputs {
    const auto grow = [](const Outputs& xs) -> Outputs {
      return while_loop([](const Outputs& v) { return less(v[0], scalar_like(v[0], 9)); },
                        [](const Outputs& v) -> Outputs { return {v[0] * 2.0}; }, xs);
    };
    return if_else(
        less(in[0], scalar_like(in[0], 5)), in, [&](Graph&, const Outputs& xs) { return grow(xs); },
        [](Graph&, const Outputs& xs) { return xs; });
  });
  long_steps = 0;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(number(loop({x})[0]), 16);
  EXPECT_EQ(long_steps, 5);
  refused = true;
  EXPECT_THAT(testing::error_of([&] { loop({x}); }).message(), HasSubstr("no more"));
}

TEST_F(FunctionTest, MayDoNothing) {
  TracedFunction f(eager_, [](const Outputs&) { return Outputs(); });
  EXPECT_TRUE(f({scalar(1)}).empty());
  EXPECT_THAT(f.explain({scalar(1)}), HasSubstr("it does nothing"));
}

TEST_F(FunctionTest, FunctionsOfTheProgramMayUseEagerModeWithinAStep) {
  TracedFunction square_of(eager_, [](const Outputs& in) -> Outputs { return {square(in[0])}; });
  const HostFunction f = [&](std::span<const Tensor> in) {
    const Output x = constant(graph_, in[0]);
    return std::vector<Tensor>{(square_of({x})[0] + x).value()};
  };
  TracedFunction traced(
      eager_, [&](const Outputs& in) -> Outputs { return {host_call(f, {in[0] + 1.0}, {DType::f64})[0] * 2.0}; });
  EXPECT_EQ(number(traced({scalar(2)})[0]), 24);
  Graph graph;
  const Output y = host_call(f, {constant(graph, 3.0)}, {DType::f64})[0];
  Session session(eager_.task(), graph);
  EXPECT_EQ(session.run(y).item<double>(), 12);
  EXPECT_EQ(session.callable({}, {y}).async({}).get()[0].item<double>(), 12);
}

TEST_F(FunctionTest, LoopsAndBranchesAreThoseOfBuilders) {
  const VariableRef v = variable(graph_, {.name = "v", .initial_value = scalar(2)});
  const Output limit = scalar(100);
  const auto body = [&](const Outputs& in) -> Outputs {
    const Outputs grown = while_loop([&](const Outputs& x) { return less(x[0], limit); },
                                     [&](const Outputs& x) -> Outputs { return {x[0] * v.read()}; }, {in[0]});
    const Output big = greater(grown[0], limit);  // of the graph around both branches
    return if_else(
        greater(grown[0], scalar(150)), {},
        [&](Graph&, const Outputs&) -> Outputs {
          return if_else(
              big, {}, [&](Graph&, const Outputs&) -> Outputs { return {grown[0] - limit}; },
              [&](Graph&, const Outputs&) -> Outputs { return {scalar(-2)}; });
        },
        [&](Graph&, const Outputs&) -> Outputs {
          // A branch within, of values from outside alone.
          return if_else(
              less(limit, scalar(1)), {}, [&](Graph&, const Outputs&) -> Outputs { return {scalar(-1)}; },
              [&](Graph&, const Outputs&) -> Outputs { return {grown[0] + limit}; });
        });
  };
  TracedFunction f(eager_, body);
  for (const double x : {3.0, 5.0, 99.0, 130.0, 200.0})
    EXPECT_EQ(number(f({scalar(x)})[0]), number(body({scalar(x)})[0]));
  EXPECT_EQ(f.traces(), 1u);
  EXPECT_THAT(why_not([&] {
                TracedFunction changes(eager_, [&](const Outputs& in) -> Outputs {
                  return while_loop([&](const Outputs& x) { return less(x[0], limit); },
                                    [&](const Outputs& x) -> Outputs { return {v.assign_add(x[0])}; }, {in[0]});
                });
                changes({scalar(1)});
              }),
              HasSubstr("cannot change a variable"));
}

// The memory of a value that is used and freed is that of the next.
TEST_F(FunctionTest, ValuesFromOutsideAreToldApart) {
  TracedFunction f(eager_, [&](const Outputs& in) -> Outputs {
    Output sum = in[0];
    for (std::int64_t i = 1; i <= 4; ++i) {
      Output outside;
      {
        const InitScope init;
        outside = constant(graph_, i);
      }
      sum = sum * constant(graph_, std::int64_t{10}) + outside;
    }
    return {sum};
  });
  EXPECT_EQ(f({constant(graph_, std::int64_t{0})})[0].value().item<std::int64_t>(), 1234);
}

TEST_F(FunctionTest, ValuesAreNotThereWhileItIsTraced) {
  Output kept;
  TracedFunction f(eager_,
                   [&](const Outputs& in) -> Outputs {
                     kept = in[0] + 1.0;
                     return {in[0].value().item<double>() > 0 ? in[0] : -in[0]};
                   },
                   {.name = "absolute"});
  const std::string text = why_not([&] { f({scalar(1)}); });
  EXPECT_THAT(text, HasSubstr("function 'absolute'"));
  EXPECT_THAT(text, HasSubstr("has no value before the function runs; decide by if_else()"));
  TracedFunction g(eager_, [&](const Outputs& in) -> Outputs { return {kept = in[0] + 1.0}; });
  g({scalar(1)});
  EXPECT_THAT(why_not([&] { scalar(1) + kept; }),
              HasSubstr("a tensor of a function that was traced has no value outside of it"));
  EXPECT_THAT(why_not([&] { g({variable(graph_, {.name = "v", .shape = {}}).handle}); }),
              HasSubstr("variables are not arguments"));
  EXPECT_THAT(why_not([&] { TracedFunction(eager_, [&](const Outputs&) { return Outputs{{}}; })({}); }),
              HasSubstr("result 0 is not a tensor"));
}

TEST_F(FunctionTest, CallsWithinATraceBecomePartsOfIt) {
  int inner_runs = 0;
  TracedFunction inner(eager_, [&](const Outputs& in) -> Outputs {
    ++inner_runs;
    return {square(in[0])};
  });
  TracedFunction outer(eager_, [&](const Outputs& in) -> Outputs { return {inner(in)[0] + inner({in[0] * 2.0})[0]}; });
  EXPECT_EQ(number(outer({scalar(3)})[0]), 45);
  EXPECT_EQ(number(outer({scalar(4)})[0]), 80);
  EXPECT_EQ(inner_runs, 2);
  EXPECT_EQ(inner.traces(), 0u);
  // Of a graph too.
  Graph graph;
  const Output y = inner({placeholder(graph, DType::f64, Shape{})})[0];
  EXPECT_EQ(y.graph, &graph);
}

TEST_F(FunctionTest, RandomNumbersDifferFromCallToCallAndBeginAgainWithASeed) {
  TracedFunction draw(eager_, [&](const Outputs&) -> Outputs { return {random_normal(graph_, Shape{4})}; });
  eager_.set_seed(5);
  const Output first = draw({})[0], second = draw({})[0];
  EXPECT_FALSE(bitwise_equal(first.value(), second.value()));
  eager_.set_seed(5);
  expect_same({first, second}, {draw({})[0], draw({})[0]});
  eager_.set_seed(6);
  EXPECT_FALSE(bitwise_equal(first.value(), draw({})[0].value()));
}

// ---- Gradients

Output rows_of(Graph& graph, int step) {
  return constant(graph, {std::int64_t{step % 10}, std::int64_t{3}, std::int64_t{step * 7 % 10}});
}

class OptimizersInFunctions : public FunctionTest, public ::testing::WithParamInterface<Optimizer> {};

// The whole step is traced; or the loss alone, whose gradients a tape asks outside.
TEST_P(OptimizersInFunctions, TrainWithTheSameBits) {
  Weights by_lines(graph_), by_steps(graph_), by_losses(graph_);
  EagerOptimizer first(GetParam()), second(GetParam()), third(GetParam());
  TracedFunction step(eager_, [&](const Outputs& in) -> Outputs {
    return {second.minimize([&] { return by_steps.loss(in[0], in[1]); }, by_steps.all)};
  });
  TracedFunction loss(eager_, [&](const Outputs& in) -> Outputs { return {by_losses.loss(in[0], in[1])}; });
  for (int i = 0; i < 5; ++i) {
    const Output rows = rows_of(graph_, i), wanted = f32({3, 4}, 10 + i);
    const Output a = first.minimize([&] { return by_lines.loss(rows, wanted); }, by_lines.all);
    const Output b = step({rows, wanted})[0];
    const Output c = third.minimize([&] { return loss({rows, wanted})[0]; }, by_losses.all);
    expect_same({a, a}, {b, c});
    expect_same(by_lines.values(), by_steps.values());
    expect_same(by_lines.values(), by_losses.values());
  }
  EXPECT_EQ(step.traces(), 1u);
  EXPECT_EQ(loss.traces(), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, OptimizersInFunctions,
                         ::testing::Values(optimizers::SGD{.learning_rate = 0.1},
                                           optimizers::Momentum{.learning_rate = 0.1},
                                           optimizers::Adam{.learning_rate = 0.01},
                                           optimizers::RMSProp{.learning_rate = 0.01},
                                           optimizers::Adagrad{.learning_rate = 0.1}),
                         [](const auto& info) { return name(info.param); });

// Step 2 overflows: it changes the scale alone.
TEST_F(FunctionTest, ScaledLossesTrainWithTheBitsOfGraphs) {
  const LossScaling scaling{.initial = 1024, .growth_interval = 2};
  const auto loss_of = [](const Output& x, const VariableRef& w) {
    return cast(mean(square(cast(matmul(x, w.read()), DType::f16))), DType::f32);
  };
  const auto batch = [](int step) {
    Tensor x = numbers({4, 3}, 20 + step);
    if (step == 2) x.mutable_data<float>()[0] = 1e30f;
    return x;
  };
  Graph graph;
  const Output in = placeholder(graph, DType::f32, {4, 3});
  const VariableRef in_graph = variable(graph, {.name = "w", .initial_value = constant(graph, numbers({3, 2}, 5))});
  const LossScale scale = loss_scale(graph, scaling);
  const Output train = minimize_scaled(loss_of(in, in_graph), optimizers::Adam{.learning_rate = 0.1}, scale);
  const Output start = initializer(graph);
  Session session(graph);
  session.run_targets({start});

  const VariableRef by_lines = variable(graph_, {.name = "w", .initial_value = f32({3, 2}, 5)}),
                    by_steps = variable(graph_, {.name = "w", .initial_value = f32({3, 2}, 5)});
  EagerOptimizer first(optimizers::Adam{.learning_rate = 0.1}, scaling),
      second(optimizers::Adam{.learning_rate = 0.1}, scaling);
  TracedFunction step(eager_, [&](const Outputs& given) -> Outputs {
    return {second.minimize([&] { return loss_of(given[0], by_steps); }, {by_steps})};
  });
  for (int i = 0; i < 6; ++i) {
    const Tensor x = batch(i);
    session.run({{in, x}}, {}, {train});
    const Output given = constant(graph_, x);
    first.minimize([&] { return loss_of(given, by_lines); }, {by_lines});
    step({given});
    const Tensor expected = session.run(in_graph.read());
    EXPECT_TRUE(bitwise_equal(by_lines.read().value(), expected)) << i;
    EXPECT_TRUE(bitwise_equal(by_steps.read().value(), expected)) << i;
  }
  const Tensor state = session.run(scale.state.read());
  EXPECT_EQ(state.values<double>()[2], 1) << "one step was skipped";
  EXPECT_TRUE(bitwise_equal(first.variables().back().read().value(), state));
  EXPECT_TRUE(bitwise_equal(second.variables().back().read().value(), state));
}

TEST_F(FunctionTest, TapesOutsideGetGradientsOfAllThatItReads) {
  const VariableRef w = variable(graph_, {.name = "w", .initial_value = f32({3, 2}, 1)});
  const Output captured = f32({4, 3}, 2), x = f32({4, 3}, 3);
  const auto body = [&](const Outputs& in) -> Outputs {
    const Output y = matmul(in[0] * captured, w.read());
    // What is read in a loop's body has a gradient as well.
    const Outputs z = while_loop([](const Outputs& s) { return less(s[1], scalar_like(s[1], 3)); },
                                 [&](const Outputs& s) -> Outputs {
                                   return {s[0] * mean(captured, {0, 1}) + mean(w.read(), {0, 1}), s[1] + 1.0};
                                 },
                                 {y, scalar(0)});
    return {sum(z[0], {0, 1}), y, cast(y, DType::i32)};
  };
  TracedFunction f(eager_, body);
  const auto gradients = [&](const std::function<Outputs(const Outputs&)>& fn) {
    GradientTape tape;
    tape.watch(x);
    tape.watch(captured);
    const Outputs y = fn({x});
    const Output loss = y[0] + sum(square(y[1]), {0, 1});
    return tape.gradient(loss, {x, captured, w.handle});
  };
  expect_same(gradients(body), gradients([&](const Outputs& in) { return f(in); }));
  // Some of them, and none.
  GradientTape tape({.persistent = true, .watch_variables = false});
  tape.watch(captured);
  const Output y = f({x})[0];
  const Outputs found = tape.gradient(y, {x, captured, w.handle});
  EXPECT_FALSE(found[0].valid());
  EXPECT_TRUE(found[1].valid());
  EXPECT_FALSE(found[2].valid());
  expect_same({tape.gradient(y, captured)}, {found[1]});
}

TEST_F(FunctionTest, GradientsUseTheValuesOfTheTimeOfTheCall) {
  const VariableRef w = variable(graph_, {.name = "w", .initial_value = scalar(3)});
  TracedFunction f(eager_, [&](const Outputs& in) -> Outputs {
    const Output y = in[0] * square(w.read());
    w.assign(scalar(100));
    return {y};
  });
  GradientTape tape;
  const Output x = scalar(2);
  tape.watch(x);
  const Outputs found = tape.gradient(f({x})[0], {x, w.handle});
  EXPECT_EQ(number(found[0]), 9);
  EXPECT_EQ(number(found[1]), 12);
}

TEST_F(FunctionTest, TapesInsideAndNestedOnesHaveTheBitsOfLines) {
  const Output x = f32({3, 3}, 4);
  const auto body = [&](const Outputs& in) -> Outputs {
    GradientTape outer;
    outer.watch(in[0]);
    Output first;
    {
      GradientTape inner;
      inner.watch(in[0]);
      const Output y = sum(tanh(matmul(in[0], in[0])) * in[0], {0, 1});
      first = inner.gradient(y, in[0]);
    }
    return {first, outer.gradient(sum(square(first), {0, 1}), in[0])};
  };
  TracedFunction f(eager_, body);
  expect_same(body({x}), f({x}));
  // Gradients of gradients through a function: it runs op by op.
  TracedFunction y_of(eager_, [&](const Outputs& in) -> Outputs { return {sum(exp(in[0]) * in[0], {0, 1})}; });
  const auto second = [&](const std::function<Output()>& y) {
    GradientTape outer;
    outer.watch(x);
    GradientTape inner;
    inner.watch(x);
    const Output dx = inner.gradient(y(), x);
    return outer.gradient(sum(dx, {0, 1}), x);
  };
  expect_same({second([&] { return sum(exp(x) * x, {0, 1}); })}, {second([&] { return y_of({x})[0]; })});
}

TEST_F(FunctionTest, DropoutKeepsItsChoiceUntilTheGradient) {
  const Output x = f32({8, 8}, 1);
  TracedFunction f(eager_, [&](const Outputs& in) -> Outputs { return {dropout(in[0], 0.5)}; });
  GradientTape tape;
  tape.watch(x);
  const Output y = f({x})[0];
  const Output dx = tape.gradient(y, x);
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(y.value().values<float>()[i] == 0, dx.value().values<float>()[i] == 0) << i;
}

// The step backward runs the loop again, and must draw what the step forward has drawn.
TEST_F(FunctionTest, LoopsThatAreRecomputedDrawTheSameNumbers) {
  const Output x = f32({8, 8}, 1);
  TracedFunction f(eager_, [&](const Outputs& in) -> Outputs {
    return for_loop(constant(graph_, std::int64_t{2}),
                    [](const Output&, const Outputs& values) -> Outputs { return {tanh(dropout(values[0], 0.3))}; },
                    {in[0]}, {.recompute = true});
  });
  GradientTape tape;
  tape.watch(x);
  const Output y = f({x})[0];
  const Output dx = tape.gradient(y, x);
  int dropped = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(y.value().values<float>()[i] == 0, dx.value().values<float>()[i] == 0) << i;
    dropped += y.value().values<float>()[i] == 0;
  }
  EXPECT_GT(dropped, 8);
  EXPECT_LT(dropped, 56);
}

TEST_F(FunctionTest, LayersMakeTheirWeightsInTheFirstCall) {
  const Sequential model({layers::dense(5, Activation::relu), layers::dense(2)});
  VariablePool variables;
  TracedFunction f(eager_, [&](const Outputs& in) -> Outputs {
    LayerContext context{.graph = graph_, .training = true, .variables = variables};
    return {model.apply(context, in[0])};
  });
  const Output x = f32({3, 4}, 1);
  const Output first = f({x})[0];
  EXPECT_EQ(variables.all().size(), 4u);
  f({f32({2, 4}, 1)});
  EXPECT_EQ(variables.all().size(), 4u);
  LayerContext context{.graph = graph_, .training = true, .variables = variables};
  expect_same({model.apply(context, x)}, {first});
  EXPECT_THAT(why_not([&] {
                TracedFunction late(eager_, [&](const Outputs& in) -> Outputs {
                  return {variable(graph_, {.name = "late", .initial_value = in[0]}).read()};
                });
                late({x});
              }),
              HasSubstr("variable 'late' cannot begin with a value that a traced function computes"));
}

TEST_F(FunctionTest, ThreadsTraceOnceAndShareVariables) {
  const VariableRef total = variable(graph_, {.name = "total", .initial_value = scalar(0)});
  std::atomic<int> runs{0};
  TracedFunction add_to(eager_, [&](const Outputs& in) -> Outputs {
    ++runs;
    return {total.assign_add(in[0])};
  });
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) add_to({scalar(1)});
    });
  threads.clear();
  EXPECT_EQ(number(total.read()), 400);
  EXPECT_EQ(runs, 1);
}

TEST_F(FunctionTest, RunsOnTheDeviceOfItsCall) {
  Task task({.cpu_devices = 2, .threads = 1});
  Eager eager(task);
  Graph& graph = eager.graph();
  const VariableRef there = [&] {
    const auto device = graph.on_device("CPU:1");
    return variable(graph, {.name = "there", .initial_value = constant(graph, 5.0)});
  }();
  TracedFunction f(eager, [&](const Outputs& in) -> Outputs { return {in[0] + there.read()}; }, {.name = "f"});
  const Output x = constant(graph, 2.0);
  EXPECT_EQ(number(f({x})[0]), 7);
  EXPECT_THAT(f.explain({x}), HasSubstr("function 'f': traced 1 times\n* (f64[]) on /job:local/task:0/device:CPU:0"));
  const auto device = graph.on_device("CPU:1");
  EXPECT_EQ(number(f({x})[0]), 7);
  EXPECT_EQ(f.traces(), 2u);
}

}  // namespace
}  // namespace troupe
