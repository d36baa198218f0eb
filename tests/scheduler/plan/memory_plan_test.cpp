#include <gtest/gtest.h>

#include "tests/scheduler/toy.hpp"
#include <troupe/scheduler/plan/memory_plan.hpp>

namespace troupe {
namespace {

using namespace testing;

Output doubled(Graph& g, Output x) { return node(g, "Concat", {x, x}, {}, {{"axis", std::int64_t{0}}}); }

TEST(MemoryPlan, OutputsWhoseLifetimesDoNotOverlapShareABlock) {
  Graph g;
  const Output a = node(g, "Neg", {feed(g, 0, kPair, "x")});  // 16 bytes
  const Output b = doubled(g, a);                             // 32
  const Output c = node(g, "Neg", {b});                       // in place of b
  fetch(g, doubled(g, c), 0);                                 // 64, in the block of a, grown
  ToyTask task(g);
  const MemoryPlan& memory = task.plan().memory;
  EXPECT_EQ(memory.peak_bytes, 64u + 32u);
  EXPECT_EQ(memory.block_bytes.size(), 2u);
  EXPECT_EQ(memory.planned_slots, 4u);
  EXPECT_EQ(memory.in_place_slots, 1u);
  EXPECT_EQ(memory.value_bytes, 16u + 32u + 64u);
  EXPECT_EQ(memory.live_bytes, 64u + 32u);
}

TEST(MemoryPlan, AViewKeepsItsBlockInUse) {
  Graph g;
  const Output a = node(g, "Neg", {feed(g, 0, kPair, "x")});
  const Output view = node(g, "Identity", {a});
  const Output b = node(g, "Add", {feed(g, 1, kPair), feed(g, 2, kPair)});  // while `view` lives
  fetch(g, doubled(g, node(g, "Sub", {view, b})), 0);
  ToyTask task(g);
  const auto block = [&](std::uint32_t slot) { return task.plan().memory.block_of[slot]; };
  for (const PlanNode& n : task.plan().nodes)
    if (task.plan().info(n).op == "Add") {
      EXPECT_NE(block(n.first_output), block(0)) << task.plan().info(n).name;
    }
  task.start(1, {i64({1, 2}), i64({10, 20}), i64({100, 200})});
  EXPECT_EQ(numbers(task.finish(1).at(0)), (std::vector<std::int64_t>{-111, -222, -111, -222}));
}

TEST(MemoryPlan, WhatAClientKeepsIsNotWrittenByTheNextStep) {
  Graph g;
  VariableStore store;
  const Output v = variable_node(g, "v", kPair);
  const Output y = node(g, "Neg", {feed(g, 0, kPair, "x")}, "y");
  fetch(g, y, 0);
  fetch(g, node(g, "AssignVariable", {v, node(g, "Square", {y})}), 1);
  ToyTask task(g);
  ASSERT_GT(task.plan().memory.planned_slots, 0u);
  std::vector<Tensor> kept, assigned;
  for (std::int64_t step = 1; step <= 3; ++step) {
    task.start(static_cast<std::uint64_t>(step), {i64({step, 10 * step})});
    auto fetched = task.finish(static_cast<std::uint64_t>(step));
    kept.push_back(fetched.at(0));
    assigned.push_back(fetched.at(1));
  }
  for (std::int64_t step = 1; step <= 3; ++step) {
    EXPECT_EQ(numbers(kept[static_cast<std::size_t>(step - 1)]), (std::vector<std::int64_t>{-step, -10 * step}));
    EXPECT_EQ(numbers(assigned[static_cast<std::size_t>(step - 1)]),
              (std::vector<std::int64_t>{step * step, 100 * step * step}));
  }
  EXPECT_EQ(numbers(task.variable("v").value()), (std::vector<std::int64_t>{9, 900}));
}

TEST(MemoryPlan, StepsUseTheSameMemoryAgain) {
  Graph g;
  const Output a = node(g, "Add", {feed(g, 0, kPair, "x"), feed(g, 1, kPair, "y")});
  push(g, node(g, "Neg", {doubled(g, a)}), 0);
  ToyTask task(g);
  for (std::uint64_t step = 1; step <= 5; ++step) {
    task.start(step, {i64({1, 2}), i64({3, 4})});
    task.finish(step);
    task.out.clear();
  }
  EXPECT_LE(task.device->allocator().stats().allocations, 2u);
}

TEST(MemoryPlan, SizesThatAreNotKnownAreLeftToTheAllocator) {
  Graph g;
  const Output a = node(g, "Neg", {feed(g, 0, Shape{kUnknown}, "x")});
  fetch(g, a, 0);
  ToyTask task(g);
  EXPECT_EQ(task.plan().memory.planned_slots, 0u);
  EXPECT_EQ(task.plan().memory.unknown_slots, 1u);
  EXPECT_NE(task.plan().dump().find(
                "memory: peak 0 bytes in 0 blocks for 0 slots, 0 of them in place; 1 slots of unknown size"),
            std::string::npos)
      << task.plan().dump();
}

}  // namespace
}  // namespace troupe
