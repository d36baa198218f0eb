#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/toy.hpp"
#include <troupe/scheduler/plan/departures.hpp>

namespace troupe {
namespace {

using testing::constant_node;
using ::testing::ElementsAre;
using testing::feed;
using testing::i64;
using testing::node;
using testing::push;

constexpr NodeWork kShort{.cost_ns = kDepartureWaitNs / 2}, kLong{.cost_ns = kDepartureWaitNs * 2};
NodeWork leaving(std::size_t bytes = 100) { return {.leaves = true, .bytes = bytes}; }

std::vector<std::size_t> flushes(const std::vector<NodeWork>& nodes) {
  const std::vector<bool> flags = departure_flushes(nodes);
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (flags[i]) out.push_back(i);
  return out;
}

TEST(Departures, ThoseWithLittleWorkBetweenAreWrittenTogether) {
  EXPECT_THAT(flushes({leaving(), kShort, leaving(), leaving(), kLong, leaving()}), ElementsAre(3));
}

TEST(Departures, TheFirstDoesNotWaitForManyShortOnes) {
  EXPECT_THAT(flushes({leaving(), kShort, leaving(), kShort, leaving(), kShort, leaving()}), ElementsAre(4));
}

TEST(Departures, WhatLeavesLastWaitsForAnEndThatIsNear) {
  EXPECT_THAT(flushes({kLong, leaving(), kShort}), ElementsAre());
  EXPECT_THAT(flushes({kLong, leaving(), kShort, kLong}), ElementsAre(1));
}

TEST(Departures, AWriteIsFullAtSoManyBytes) {
  EXPECT_THAT(flushes({leaving(kDepartureBytes / 2), leaving(kDepartureBytes / 2), leaving()}), ElementsAre(1));
}

TEST(Departures, ThePlanKnowsThem) {
  Graph g;
  const Output x = feed(g, 0, Shape{2}, "x");
  push(g, node(g, "Neg", {x}), 1, "last");
  const Output slow = node(g, "Neg", {x}, "slow", {{"_cost_ns", std::int64_t{1'000'000}}});
  push(g, slow, 0, "first");
  testing::ToyTask task(g);
  std::vector<std::string> flushed;
  for (const PlanNode& n : task.plan().nodes)
    if (n.flushes) flushed.push_back(task.plan().info(n).name);
  EXPECT_THAT(flushed, ElementsAre("last")) << task.plan().dump();
  task.start(1, {i64({1, 2})});
  task.run_ready();
  EXPECT_EQ(task.out.at(1)->flushed, 1);
}

}  // namespace
}  // namespace troupe
