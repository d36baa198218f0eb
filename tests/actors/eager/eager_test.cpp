// Ops that run when they are called: values, errors, variables, control flow, random numbers, threads, memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/devices/device.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/optimizers/updates.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EagerTest : public ::testing::Test {
 protected:
  Output vector(std::initializer_list<float> values) { return constant(graph_, Tensor::vector<float>(values)); }
  static std::vector<float> floats(const Output& x) {
    const auto values = x.value().values<float>();
    return {values.begin(), values.end()};
  }
  // Of the error that a function throws, or of its ops: on a busy device they run after it.
  template <class F>
  std::string message_of(F&& f) {
    return testing::error_of([&] {
             f();
             eager_.wait();
           })
        .message();
  }
  std::uint64_t live() {
    eager_.wait();
    return eager_.task().device().allocator().stats().bytes_in_use;
  }

  Eager eager_;
  Graph& graph_ = eager_.graph();
};

TEST_F(EagerTest, AnOpIsComputedWhenItIsCalled) {
  const Output x = constant(graph_, Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  const Output y = matmul(x, x) + 1.0;
  EXPECT_THAT(floats(y), ElementsAre(8, 11, 16, 23));
  EXPECT_EQ(y.shape(), Shape({2, 2}));
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_EQ(y.source().op->name, "Add");
  EXPECT_EQ(y.name(), "Add");
  EXPECT_EQ(eager_.ops_run(), 2u);
}

TEST_F(EagerTest, AFunctionRunsOnValuesAndBuildsNodes) {
  const auto f = [](const Output& x) { return mean(softmax(relu(x) * 2.0), 0) + sum(reshape(x, Shape{-1})); };
  const Tensor x = Tensor::of<float>({2, 3}, {-1, 2, 0.5f, 3, -2, 1});
  Graph graph;
  const Output fed = placeholder(graph, DType::f32, {2, 3});
  const Output built = f(fed);
  Session session(eager_.task(), graph);
  EXPECT_TRUE(bitwise_equal(f(constant(graph_, x)).value(), session.run({{fed, x}}, built)));
}

TEST_F(EagerTest, OpsHaveSeveralOutputsOrNone) {
  const Outputs parts = split(vector({1, 2, 3, 4}), 0, 2);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(floats(parts[1]), ElementsAre(3, 4));
  const Output done = assert_true(constant(graph_, true), {parts[0]});
  EXPECT_TRUE(done.valid());
  EXPECT_THAT(message_of([&] { (void)done.value(); }), HasSubstr("has no value: it is only an effect"));
  EXPECT_THAT(message_of([&] { assert_true(constant(graph_, false), {parts[0]}, {.message = "it is not so"}); }),
              HasSubstr("it is not so"));
}

TEST_F(EagerTest, ErrorsNameTheOpAndItsInputs) {
  const Output x = constant(graph_, Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const std::string line = std::to_string(__LINE__ + 1);
  EXPECT_THAT(message_of([&] { matmul(x, x); }), HasSubstr("MatMul(f32[2,3], f32[2,3]) at eager_test.cpp:" + line));
  // Where an operator is called the compiler does not tell.
  EXPECT_THAT(message_of([&] { x + constant(graph_, 1); }),
              AllOf(HasSubstr("Add(f32[2,3], i32[]): "), HasSubstr("use cast()")));
  // What only the values tell.
  EXPECT_THAT(message_of([&] { gather(x, constant(graph_, std::int64_t{7})); }),
              AllOf(HasSubstr("Gather(f32[2,3], i64[]) at eager_test.cpp"), HasSubstr("7"), HasSubstr("CPU:0")));
  EXPECT_THAT(floats(reshape(x, Shape{6})), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(message_of([&] { reshape(x, Shape{5}); }), AllOf(HasSubstr("Reshape"), HasSubstr("[5]")));
  EXPECT_THAT(message_of([&] { add_op("NoSuchOp", {x}); }), HasSubstr("NoSuchOp"));
  EXPECT_THAT(message_of([&] { add(x, Output()); }), HasSubstr("input 1 is not a tensor"));
}

// More shapes and attributes than are remembered.
TEST_F(EagerTest, CallsThatDifferAreToldApart) {
  for (int round = 0; round < 2; ++round)
    for (std::int64_t n = 1; n <= 40; ++n) {
      const Output x = constant(graph_, Tensor::zeros(DType::f32, {n, 3})) + 1.0;
      EXPECT_EQ(sum(x, {0}).shape(), Shape{3});
      EXPECT_EQ(sum(x, {1}).shape(), Shape{n});
      EXPECT_EQ(x.source().output_shapes[0], Shape({n, 3}));
      EXPECT_THAT(floats(leaky_relu(constant(graph_, -1.0f), static_cast<double>(n))),
                  ElementsAre(-static_cast<float>(n)));
      EXPECT_EQ(cast(x, n % 2 == 0 ? DType::i32 : DType::f64).dtype(), n % 2 == 0 ? DType::i32 : DType::f64);
    }
}

TEST_F(EagerTest, GraphsAndValuesAreNotMixed) {
  Graph graph;
  const Output node = placeholder(graph, DType::f32, {2}), value = vector({1, 2});
  EXPECT_THAT(message_of([&] { add(value, node); }), HasSubstr("belongs to a graph"));
  EXPECT_THAT(message_of([&] { add(node, value); }), HasSubstr("is a value of eager mode"));
  EXPECT_THAT(message_of([&] { (void)node.value(); }), HasSubstr("before a session runs it"));
  EXPECT_THAT(message_of([&] { (void)Output().value(); }), HasSubstr("invalid output"));
  EXPECT_THAT(message_of([&] { placeholder(graph_, DType::f32, {2}); }), HasSubstr("no meaning in eager mode"));
  Eager other(eager_.task());
  EXPECT_THAT(message_of([&] {
                add(value, constant(other.graph(), Tensor::vector<float>({1, 2})));
              }),
              HasSubstr("belongs to another Eager"));
  EXPECT_THAT(message_of([&] { graph_.add({.op = "NoOp"}); }), HasSubstr("an eager graph has no nodes"));
}

TEST_F(EagerTest, VariablesAreReadAndAssigned) {
  const VariableRef w = variable(graph_, {.name = "w", .initial_value = vector({1, 2})});
  EXPECT_THAT(floats(w.read()), ElementsAre(1, 2));
  const Output before = w.read();
  EXPECT_THAT(floats(w.assign_add(vector({10, 10}))), ElementsAre(11, 12));
  EXPECT_THAT(floats(w.read()), ElementsAre(11, 12));
  EXPECT_THAT(floats(before), ElementsAre(1, 2)) << "a value that was read stays";
  w.scatter(constant(graph_, {std::int64_t{1}}), vector({5}));
  EXPECT_THAT(floats(w.read()), ElementsAre(11, 5));
  apply_sgd(w.handle, constant(graph_, 0.5f), {.dense = vector({2, 4})});
  EXPECT_THAT(floats(w.read()), ElementsAre(10, 3));
  EXPECT_EQ(w.name, "w");
  const VariableRef other = variable(graph_, {.name = "w", .shape = Shape{2}});
  EXPECT_EQ(other.name, "w") << "names need not differ";
  EXPECT_THAT(floats(other.read()), ElementsAre(0, 0));
  EXPECT_THAT(message_of([&] { w.assign(vector({1})); }), HasSubstr("AssignVariable"));
  EXPECT_THAT(message_of([&] { (void)w.handle.value(); }), HasSubstr("'w' is a variable: read it"));
}

TEST_F(EagerTest, LoopsAndBranchesRunThemselves) {
  const Outputs doubled = while_loop([&](const Outputs& v) { return less(v[0], constant(graph_, 100.0f)); },
                                     [](const Outputs& v) { return Outputs{v[0] * 2.0}; }, {constant(graph_, 3.0f)});
  EXPECT_EQ(doubled[0].value().item<float>(), 192);
  const Outputs counted = for_loop(
      constant(graph_, std::int64_t{4}),
      [](const Output& i, const Outputs& v) { return Outputs{v[0] + cast(i, DType::f32)}; }, {constant(graph_, 0.0f)});
  EXPECT_EQ(counted[0].value().item<float>(), 6);
  for (const bool reverse : {false, true}) {
    const Scanned sums = scan(
        [](const Outputs& state, const Outputs& xs) {
          const Output next = state[0] + xs[0];
          return Scanned{.state = {next}, .ys = {next}};
        },
        {constant(graph_, 0.0f)}, {vector({1, 2, 4})}, {.reverse = reverse});
    EXPECT_EQ(sums.state[0].value().item<float>(), 7);
    EXPECT_THAT(floats(sums.ys[0]), reverse ? ElementsAre(7, 6, 4) : ElementsAre(1, 3, 7));
  }
  const auto branch = [&](bool which) {
    return if_else(
        constant(graph_, which), {vector({1})}, [](Graph&, const Outputs& v) { return Outputs{v[0] + 1.0}; },
        [](Graph&, const Outputs& v) { return Outputs{v[0] - 1.0}; })[0];
  };
  EXPECT_THAT(floats(branch(true)), ElementsAre(2));
  EXPECT_THAT(floats(branch(false)), ElementsAre(0));
}

// Nothing tells the shape of what a body collects but the body, which has not run.
TEST_F(EagerTest, AScanOfNoRowsHasNoRows) {
  const Scanned none =
      scan([](const Outputs& state, const Outputs& xs) { return Scanned{.state = state, .ys = {xs[0] * 2.0}}; },
           {constant(graph_, 0.0f)}, {constant(graph_, Tensor::zeros(DType::f32, {0, 3}))});
  EXPECT_EQ(none.ys[0].shape(), Shape({0, 3}));
}

TEST_F(EagerTest, RandomNumbersFollowTheSeed) {
  const auto draw = [&] { return floats(random_uniform(graph_, Shape{4})); };
  const auto first = draw(), second = draw();
  EXPECT_NE(first, second);
  eager_.set_seed(0);
  EXPECT_EQ(draw(), first);
  EXPECT_EQ(draw(), second);
  eager_.set_seed(1);
  EXPECT_NE(draw(), first);
}

TEST_F(EagerTest, ValuesThatNobodyHoldsAreFreed) {
  constexpr std::int64_t kBytes = 1 << 20;
  const std::uint64_t before = live();
  {
    Output x = constant(graph_, Tensor::zeros(DType::f32, {kBytes / 4})) + 1.0;
    for (int i = 0; i < 20; ++i) x = x * 0.5 + 1.0;
    EXPECT_LE(live(), before + 2 * kBytes);
  }
  EXPECT_EQ(live(), before);
  {
    const VariableRef w = variable(graph_, {.shape = Shape{kBytes / 4}});
    EXPECT_LE(live(), before + 2 * kBytes);
  }
  EXPECT_EQ(live(), before);
}

TEST_F(EagerTest, ThreadsShareADevice) {
  constexpr int kThreads = 4, kRounds = 200;
  std::vector<std::thread> threads;
  std::vector<float> sums(kThreads);
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const auto scope = graph_.scope("thread");
      Output x = vector({static_cast<float>(t)});
      for (int i = 0; i < kRounds; ++i) x = x + 1.0;
      sums[static_cast<std::size_t>(t)] = x.value().values<float>()[0];
    });
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(sums[static_cast<std::size_t>(t)], static_cast<float>(t + kRounds));
  EXPECT_EQ(eager_.ops_run(), static_cast<std::uint64_t>(kThreads * kRounds));
}

// While a session's step runs, ops wait for their turn.
TEST_F(EagerTest, OpsWaitForABusyDevice) {
  Graph graph;
  const Output square_of = placeholder(graph, DType::f32, Shape{200, 200});
  Output y = square_of;
  for (int i = 0; i < 50; ++i) y = matmul(y, square_of);
  Session session(eager_.task(), graph);
  const Callable call = session.callable({square_of}, {y});
  std::vector<std::future<std::vector<Tensor>>> steps;
  for (int i = 0; i < 5; ++i) steps.push_back(call.async({Tensor::zeros(DType::f32, {200, 200})}));
  EXPECT_THAT(floats(vector({1, 2}) + 1.0), ElementsAre(2, 3));
  for (auto& step : steps) EXPECT_EQ(step.get().size(), 1u);
}

// A body that never runs is built once for the shapes of its items: constants that are freed in it are told apart.
TEST_F(EagerTest, ALoopThatNeverRunsKnowsTheShapesOfItsItems) {
  const LoopOutputs out = loop(constant(graph_, false),
                               [&](const Output&, const Outputs& values) {
                                 LoopStep step{.again = constant(graph_, false), .values = values, .items = {}};
                                 for (std::int64_t size = 1; size <= 4; ++size)
                                   step.items.push_back(fill(constant(graph_, {size}), values[0]));
                                 return step;
                               },
                               {constant(graph_, 1.0)});
  ASSERT_EQ(out.item_shapes.size(), 4u);
  for (std::int64_t size = 1; size <= 4; ++size)
    EXPECT_EQ(out.item_shapes[static_cast<std::size_t>(size - 1)], Shape{size});
}

// An op inside an op: a function of the program, on the device's thread.
TEST_F(EagerTest, HostFunctionsRunOps) {
  const HostFunction twice = [&](std::span<const Tensor> x) {
    return std::vector<Tensor>{(constant(graph_, x[0]) * 2.0).value()};
  };
  EXPECT_THAT(floats(host_call(twice, {vector({1, 2})}, {DType::f32})[0]), ElementsAre(2, 4));
}

TEST_F(EagerTest, DevicesAreNamed) {
  Task task({.cpu_devices = 2});
  Eager eager(task, {.device = "CPU:1"});
  const Output x = constant(eager.graph(), 1.0f);
  EXPECT_THAT((x + 1.0).source().device, HasSubstr("CPU:1"));
  {
    const auto device = eager.graph().on_device("CPU:0");
    EXPECT_THAT((x + 1.0).source().device, HasSubstr("CPU:0"));
  }
  EXPECT_THAT(message_of([&] { Eager other(task, {.device = "CPU:7"}); }), HasSubstr("has no device CPU:7"));
}

}  // namespace
}  // namespace troupe
