#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/scheduler/run/replay_device.hpp"
#include <troupe/scheduler/run/replay.hpp>

namespace troupe {
namespace {

using namespace testing;
using ::testing::HasSubstr;

using Numbers = std::vector<std::int64_t>;
Output chain(Graph& g, Output x, int length) {
  for (int i = 0; i < length; ++i) x = node(g, "Neg", {x});
  return x;
}

// A graph on a device that records.
class Replayed {
 public:
  explicit Replayed(const Graph& g) : task(g, own(), launching_kernels) {}
  // Fetch 0 of a step.
  Numbers step(std::vector<Tensor> feeds) {
    start(std::move(feeds));
    EXPECT_FALSE(error()) << error().message();
    return numbers(on_host(task.finish(number).at(0)));
  }
  void start(std::vector<Tensor> feeds) {
    device->spoil();
    task.start(++number, feeds);
  }
  Error error() { return task.table.error(ToyTask::key(number)); }
  Variable& variable(const std::string& name, Tensor value) {
    Variable& v = task.variable(name);
    v.assign(device->upload(value));
    return v;
  }
  const RecordingStats& stats() const { return device->stats; }

  ReplayDevice* device = nullptr;
  ToyTask task;
  std::uint64_t number = 0;

 private:
  std::unique_ptr<Device> own() {
    auto made = std::make_unique<ReplayDevice>();
    device = made.get();
    return made;
  }
};

TEST(Replay, ASegmentThatRepeatsIsRecordedOnceAndLaunchedFromThenOn) {
  Graph g;
  fetch(g, chain(g, feed(g, 0, kPair), 5), 0);
  Replayed run(g);
  for (std::int64_t i = 1; i <= 10; ++i) {
    EXPECT_EQ(run.step({i64({i, 2 * i})}), (Numbers{-i, -2 * i}));
    EXPECT_EQ(run.stats().launches, static_cast<std::uint64_t>(std::max<std::int64_t>(0, i - 2))) << "step " << i;
  }
  EXPECT_EQ(run.stats().recordings, 1u);
  EXPECT_EQ(run.stats().refusals, 0u);
  EXPECT_EQ(run.task.hooks.ran.size(), 3u * 5u);  // two steps, and the recording
}

TEST(Replay, AFewNodesAreNotWorthIt) {
  Graph g;
  fetch(g, chain(g, feed(g, 0, kPair), 3), 0);
  Replayed run(g);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(run.step({i64({1, 2})}), (Numbers{-1, -2})) << "step " << i;
  EXPECT_EQ(run.stats().recordings, 0u);
}

TEST(Replay, ADeviceThatRecordsNothingRunsThemOneByOne) {
  Graph g;
  fetch(g, chain(g, feed(g, 0, kPair), 5), 0);
  Replayed run(g);
  run.device->records = false;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(run.step({i64({1, 2})}), (Numbers{-1, -2})) << "step " << i;
  EXPECT_EQ(run.task.hooks.ran.size(), 6u * 5u);
}

TEST(Replay, WhatIsFedInAnotherShapeRunsOneByOneAndTheRecordingStays) {
  Graph g;
  fetch(g, chain(g, feed(g, 0, Shape{-1}), 5), 0);
  Replayed run(g);
  for (int i = 0; i < 5; ++i) run.step({i64({1, 2})});
  EXPECT_EQ(run.stats().launches, 3u);
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE(::testing::Message() << "round " << i);  // never three times in a row
    EXPECT_EQ(run.step({i64({1, 2, 3})}), (Numbers{-1, -2, -3}));
    EXPECT_EQ(run.step({i64({4, 5, 6})}), (Numbers{-4, -5, -6}));
    EXPECT_EQ(run.step({i64({7, 8})}), (Numbers{-7, -8}));
  }
  EXPECT_EQ(run.stats().launches, 7u);
  EXPECT_EQ(run.stats().recordings, 1u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run.step({i64({1, 2, 3})}), (Numbers{-1, -2, -3})) << "step " << i;
  EXPECT_EQ(run.stats().recordings, 2u);
  EXPECT_EQ(run.device->recordings_alive, 1);
}

// Recorded nodes between which something leaves: that is copied out, what goes from one recording to the next is not.
TEST(Replay, WhatLeavesInTheMiddleStaysAsItLeft) {
  Graph g;
  const Output x = feed(g, 0, kPair);
  const Output a = chain(g, x, 4);
  send(g, a, 7);
  const Output b = chain(g, node(g, "Add", {a, x}), 4);
  push(g, b, 3);
  fetch(g, chain(g, node(g, "Mul", {b, a}), 4), 0);
  Replayed run(g);
  std::vector<std::pair<Tensor, Tensor>> left;
  for (std::int64_t i = 1; i <= 8; ++i) {
    EXPECT_EQ(run.step({i64({i, i + 1})}), (Numbers{2 * i * i, 2 * (i + 1) * (i + 1)}));
    left.emplace_back(run.task.out.at(run.number)->sent.at(7), run.task.out.at(run.number)->pushed.at(3));
  }
  for (std::int64_t i = 1; i <= 8; ++i) {
    const auto& [sent, pushed] = left[static_cast<std::size_t>(i - 1)];
    EXPECT_EQ(numbers(on_host(sent)), (Numbers{i, i + 1})) << i;
    EXPECT_EQ(numbers(on_host(pushed)), (Numbers{2 * i, 2 * i + 2})) << i;
  }
  EXPECT_GE(run.stats().recordings, 1u);
  EXPECT_EQ(run.stats().launches, 6u * run.stats().recordings);
}

// What one recording left for another is there for the nodes of that too, when they run one by one.
TEST(Replay, WhatStayedWithTheRecordingsComesBackWhenTheNextCannotBeUsed) {
  Graph g;
  const Output v = variable_node(g, "v", kPair);
  const Output x = feed(g, 0, kPair);
  const Output a = chain(g, x, 4);
  const Output square = node(g, "Square", {x});
  g.add_control_edge(g.node(a.node), g.node(square.node));
  fetch(g, chain(g, node(g, "AssignAddVariable", {v, node(g, "Sub", {square, a})}), 4), 0);
  Replayed run(g);
  Variable& value = run.variable("v", i64({0, 0}));
  std::int64_t sum = 0;
  for (std::int64_t i = 1; i <= 9; ++i) {
    std::optional<Tensor> held;
    if (i == 6) held = value.value();  // the second recording may not write it
    sum += i * i - i;
    EXPECT_EQ(run.step({i64({i, 0})}), (Numbers{sum, 0})) << i;
    if (i == 5) {
      EXPECT_EQ(run.stats().launches, 2u * 3u);
    }
    if (i == 6) {
      EXPECT_EQ(run.stats().launches, 2u * 3u + 1u);
    }
  }
}

// As soon as the last recording that reads it was launched.
TEST(Replay, WhatNobodyReadsAnyMoreIsNotKept) {
  for (const bool by_others : {false, true}) {
    SCOPED_TRACE(by_others ? "read by others" : "read by nobody else");
    Graph g;
    const Output x = recv(g, 1, kPair, "x"), y = recv(g, 2, kPair, "y"), z = recv(g, 3, kPair, "z");
    Output a = chain(g, x, 4);
    if (by_others)
      a = node(g, "Add", {a, node(g, "Mul", {x, y})});  // of two segments: which is the last is not known before
    fetch(g, chain(g, node(g, "Add", {a, y}), 4), 0);
    fetch(g, chain(g, z, 4), 1);
    Replayed run(g);
    for (std::int64_t i = 1; i <= 6; ++i) {
      run.start({});
      const Tensor given = run.device->upload(i64({i, 0}));
      run.task.arrive(run.number, "x", given);
      run.task.arrive(run.number, "y", run.device->upload(i64({5, 5})));
      EXPECT_EQ(given.buffer()->references(), 1u) << i;
      run.task.arrive(run.number, "z", run.device->upload(i64({1, 1})));
      EXPECT_EQ(numbers(on_host(run.task.finish(run.number).at(0)))[0], by_others ? 6 * i + 5 : i + 5) << "step " << i;
    }
    EXPECT_GT(run.stats().launches, 0u);
  }
}

TEST(Replay, VariablesAreChangedWhereTheyAre) {
  Graph g;
  const Output v = variable_node(g, "v", kPair);
  fetch(g, chain(g, node(g, "AssignAddVariable", {v, chain(g, feed(g, 0, kPair), 4)}), 4), 0);
  Replayed run(g);
  const Variable& value = run.variable("v", i64({100, 200}));
  const std::byte* where = value.value().raw();
  for (std::int64_t i = 1; i <= 8; ++i) EXPECT_EQ(run.step({i64({1, 2})}), (Numbers{100 + i, 200 + 2 * i}));
  EXPECT_EQ(value.value().raw(), where);
  EXPECT_EQ(numbers(on_host(value.value())), (Numbers{108, 216}));
  EXPECT_EQ(run.stats().launches, 6u);
}

// Who holds the value of a variable keeps it as it was; the recording is made anew for where the variable is then.
TEST(Replay, AVariableThatSomebodyReadsIsCopiedAsEver) {
  Graph g;
  const Output v = variable_node(g, "v", kPair);
  fetch(g, chain(g, node(g, "AssignAddVariable", {v, chain(g, feed(g, 0, kPair), 4)}), 4), 0);
  Replayed run(g);
  const Variable& value = run.variable("v", i64({0, 0}));
  for (int i = 0; i < 5; ++i) run.step({i64({1, 1})});
  ASSERT_EQ(run.stats().launches, 3u);
  const Tensor held = value.value();
  EXPECT_EQ(run.step({i64({1, 1})}), (Numbers{6, 6}));
  EXPECT_EQ(numbers(on_host(held)), (Numbers{5, 5}));
  EXPECT_EQ(run.stats().launches, 3u);
  for (std::int64_t i = 7; i <= 12; ++i) EXPECT_EQ(run.step({i64({1, 1})}), (Numbers{i, i}));
  EXPECT_EQ(numbers(on_host(held)), (Numbers{5, 5}));
  EXPECT_EQ(run.stats().recordings, 2u);
  EXPECT_EQ(run.device->recordings_alive, 1);
}

TEST(Replay, AVariableThatIsGivenOtherMemoryIsFoundThere) {
  Graph g;
  const Output v = variable_node(g, "v", kPair);
  fetch(g, chain(g, node(g, "Add", {node(g, "ReadVariable", {v}, {}, {{"T", DType::i64}}), feed(g, 0, kPair)}), 4), 0);
  Replayed run(g);
  run.variable("v", i64({10, 20}));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run.step({i64({1, 1})}), (Numbers{11, 21})) << "step " << i;
  run.variable("v", i64({30, 40}));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run.step({i64({1, 1})}), (Numbers{31, 41})) << "step " << i;
  EXPECT_EQ(run.stats().recordings, 2u);
}

// It is read where no recording sees the variable.
TEST(Replay, AValueThatWasReadIsUsedWhereItIsThen) {
  Graph g;
  const Output v = variable_node(g, "v", kPair);
  const Output read = node(g, "ReadVariable", {v}, "read", {{"T", DType::i64}});
  const Output square = node(g, "Square", {feed(g, 0, kPair)});
  g.add_control_edge(g.node(read.node), g.node(square.node));
  fetch(g, chain(g, node(g, "Add", {square, read}), 4), 0);
  Replayed run(g);
  run.variable("v", i64({10, 20}));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run.step({i64({2, 3})}), (Numbers{14, 29})) << "step " << i;
  EXPECT_EQ(run.stats().launches, 3u);
  const Tensor held = run.task.variable("v").value();  // so that the next value lies elsewhere
  run.variable("v", i64({30, 40}));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run.step({i64({2, 3})}), (Numbers{34, 49})) << "step " << i;
  EXPECT_EQ(run.stats().recordings, 2u);
}

// What a variable held when it was read goes to the second part, whatever it is given in between.
TEST(Replay, AValueThatWasReadOutlastsAnAssignment) {
  Graph g;
  const Output v = variable_node(g, "v", kPair);
  const Output x = feed(g, 0, kPair);
  const Output read = node(g, "ReadVariable", {v}, "read", {{"T", DType::i64}});
  const Output before = chain(g, node(g, "Add", {read, x}), 4);
  const Output assigned = node(g, "AssignVariable", {v, before});
  g.add_control_edge(g.node(read.node), g.node(assigned.node));
  const Output after = node(g, "Sub", {assigned, read});
  fetch(g, chain(g, after, 4), 0);
  Replayed run(g);
  run.variable("v", i64({0, 0}));
  for (std::int64_t i = 1; i <= 10; ++i) EXPECT_EQ(run.step({i64({i, 1})}), (Numbers{i, 1}));
}

TEST(Replay, RandomValuesAreThoseOfTheStep) {
  Graph g;
  const Output dims = node(g, "Const", {}, "dims", {{"T", DType::i64}, {"value", i64({2})}});
  const Output first = node(g, "RandomUniform", {dims}, "r", {{"T", DType::f64}});
  const Output second = node(g, "RandomUniform", {dims}, "s", {{"T", DType::f64}, {"_slot", std::int64_t{5}}});
  const Output r = node(g, "Identity", {first}), s = node(g, "Identity", {second});
  fetch(g, r, 0);
  fetch(g, s, 1);
  Replayed run(g);
  for (std::uint64_t i = 1; i <= 6; ++i) {
    run.start({});
    const auto fetched = run.task.finish(run.number);
    const auto step = static_cast<double>(i);
    EXPECT_TRUE(bitwise_equal(on_host(fetched.at(0)), Tensor::vector<double>({step, 0}))) << i;
    EXPECT_TRUE(bitwise_equal(on_host(fetched.at(1)), Tensor::vector<double>({step, 5}))) << i;
  }
  EXPECT_EQ(run.stats().launches, 4u);
}

TEST(Replay, ARecordingThatFailsIsMadeOneByOne) {
  Graph g;
  const Output v = variable_node(g, "v", kPair);
  fetch(g, chain(g, node(g, "AssignAddVariable", {v, chain(g, feed(g, 0, kPair), 4)}), 4), 0);
  Replayed run(g);
  run.variable("v", i64({0, 0}));
  run.device->failing_ends = 1;
  for (std::int64_t i = 1; i <= 8; ++i) EXPECT_EQ(run.step({i64({1, 2})}), (Numbers{i, 2 * i}));
  EXPECT_EQ(run.stats().refusals, 1u);
  EXPECT_THAT(run.stats().last_refusal, HasSubstr("/device:GPU:0: the capture failed"));
  EXPECT_EQ(run.stats().recordings, 1u);  // the next time it works
  EXPECT_EQ(run.stats().launches, 3u);
}

TEST(Replay, ALaunchThatFailsIsMadeOneByOne) {
  Graph g;
  const Output x = feed(g, 0, kPair);
  const Output a = chain(g, x, 4);
  send(g, a, 7);
  const Output square = node(g, "Square", {x});
  fetch(g, chain(g, node(g, "Sub", {node(g, "Add", {square, a}), x}), 4), 0);
  Replayed run(g);
  for (std::int64_t i = 1; i <= 10; ++i) {
    if (i == 3 || i == 7) run.device->failing_launches = 1;
    EXPECT_EQ(run.step({i64({i, 0})}), (Numbers{i * i, 0}));
  }
  EXPECT_EQ(run.stats().refusals, 2u);
  EXPECT_EQ(run.stats().last_refusal, "/device:GPU:0: no memory for the launch");
}

TEST(Replay, AKernelThatNeedsAValueRunsBetweenRecordings) {
  Graph g;
  const Output a = chain(g, feed(g, 0, kPair), 4);
  fetch(g, chain(g, node(g, "Abs", {a}, "abs"), 4), 0);
  Replayed run(g);
  for (std::int64_t i = 1; i <= 9; ++i) EXPECT_EQ(run.step({i64({i, 0})}), (Numbers{i, 0}));
  EXPECT_EQ(run.stats().refusals, 1u);
  EXPECT_EQ(run.stats().last_refusal, "Abs 'abs' on /device:GPU:0: to wait for a value cannot be recorded");
  EXPECT_EQ(run.stats().recordings, 2u);
  EXPECT_EQ(run.stats().launches, 2u * 4u);
  run.start({i64({-1, 0})});
  EXPECT_EQ(run.error().message(), "Abs 'abs' on /device:GPU:0: -1 is negative");
  run.task.table.finish(ToyTask::key(run.number));
  EXPECT_EQ(run.step({i64({3, 4})}), (Numbers{3, 4}));
}

TEST(Replay, NothingIsTriedForEver) {
  Graph g;
  fetch(g, chain(g, feed(g, 0, kPair), 4), 0);
  Replayed run(g);
  run.device->failing_ends = 1000;
  for (int i = 0; i < 100; ++i) run.step({i64({1, 2})});
  EXPECT_EQ(run.stats().refusals, 16u);
}

TEST(Replay, StepsInFlightHaveRecordingsOfTheirOwn) {
  Graph g;
  const Output v = variable_node(g, "v", kPair);
  const Output x = recv(g, 1, kPair, "x"), y = recv(g, 2, kPair, "y");
  const Output a = chain(g, x, 4);
  fetch(g, chain(g, node(g, "Add", {node(g, "AssignAddVariable", {v, a}), y}), 4), 0);
  Replayed run(g);
  run.variable("v", i64({0, 0}));
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < 8; ++i) {
    SCOPED_TRACE(::testing::Message() << "pair " << i);
    const std::uint64_t first = run.number + 1, second = run.number + 2;
    run.start({});
    run.task.start(++run.number, {});
    run.task.arrive(first, "x", run.device->upload(i64({i, 0})));
    run.task.arrive(second, "x", run.device->upload(i64({10 * i, 0})));
    run.task.arrive(second, "y", run.device->upload(i64({1, 1})));
    run.task.arrive(first, "y", run.device->upload(i64({2, 2})));
    EXPECT_EQ(numbers(on_host(run.task.finish(second).at(0))), (Numbers{sum + 11 * i + 1, 1}));
    EXPECT_EQ(numbers(on_host(run.task.finish(first).at(0))), (Numbers{sum + i + 2, 2}));
    sum += 11 * i;
  }
  EXPECT_GE(run.stats().launches, 8u);
}

TEST(Replay, AStepThatIsAbortedDoesNotGoOn) {
  Graph g;
  const Output a = chain(g, feed(g, 0, kPair), 4);
  fetch(g, chain(g, node(g, "Square", {a}), 4), 0);
  Replayed run(g);
  for (int i = 0; i < 4; ++i) run.step({i64({2, 3})});
  const std::uint64_t launches = run.stats().launches;
  VariableStore store;
  std::shared_ptr<PlanFrame> frame = run.task.partition->take_frame();
  frame->begin({});
  frame->slots[frame->plan().feed_slots[0]] = i64({2, 3});
  frame->aborted = true;
  Recorder out(frame->plan());
  EXPECT_EQ(run_segment(*frame, 0, *run.device, out).code(), Code::cancelled);
  EXPECT_EQ(run.stats().launches, launches);
}

}  // namespace
}  // namespace troupe
