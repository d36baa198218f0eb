// What a shard remembers, without the shard.
#include "troupe/scheduler/training/shard_ledger.hpp"

#include <gtest/gtest.h>

namespace troupe::testing {
namespace {

using Sender = ShardLedger::Sender;

Fence fence_of(std::uint32_t worker, std::uint64_t view) { return {worker, view, {}}; }

TEST(ShardLedger, FencesWhatAWorkerSaidInAnEarlierView) {
  ShardLedger ledger({});
  EXPECT_EQ(ledger.sender(1, 5), Sender::member);
  EXPECT_TRUE(ledger.fence(fence_of(1, 6)));
  EXPECT_EQ(ledger.sender(1, 5), Sender::fenced);
  EXPECT_EQ(ledger.sender(1, 7), Sender::joined_again);
  EXPECT_EQ(ledger.sender(1, 7), Sender::member);
  EXPECT_FALSE(ledger.fence(fence_of(1, 6)));  // late
  EXPECT_EQ(ledger.sender(1, 7), Sender::member);
  EXPECT_EQ(ledger.sender(1, 0), Sender::member);  // of no view
  EXPECT_TRUE(ledger.fence(fence_of(2, 1)));       // of one that has said nothing yet
}

TEST(ShardLedger, WithoutItsGuardNobodyIsFenced) {
  ShardLedger ledger({.fence = false});
  EXPECT_FALSE(ledger.fence(fence_of(1, 6)));
  EXPECT_EQ(ledger.sender(1, 5), Sender::member);
}

TEST(ShardLedger, KnowsWhichBatchesWereApplied) {
  ShardLedger ledger({.versions = 2, .applied = BatchSet::parse("0-4")});
  EXPECT_TRUE(ledger.has(3));
  EXPECT_TRUE(ledger.restored(3));
  ledger.add(5, 9);
  EXPECT_TRUE(ledger.has(5));
  EXPECT_FALSE(ledger.restored(5));
  EXPECT_EQ(ledger.version_of(5, 12), 9u);
  EXPECT_EQ(ledger.version_of(6, 12), 12u);
  EXPECT_EQ(ledger.version_of(3, 12), std::nullopt);
  ledger.add(6, 10);
  ledger.add(7, 11);
  EXPECT_EQ(ledger.version_of(5, 12), std::nullopt);
  EXPECT_EQ(ledger.applied().to_string(), "0-7");
}

TEST(ShardLedger, ABatchFarFromAllOthersIsNotNear) {
  ShardLedger ledger({});
  for (std::uint64_t batch : {0, 2, 4}) ledger.add(batch, 1);
  EXPECT_TRUE(ledger.near(100, 3));
  EXPECT_FALSE(ledger.near(100, 2));
  EXPECT_TRUE(ledger.near(5, 2));
}

TEST(ShardLedger, HandsItsHistoryOutOnceAndRemembersTheLastVersions) {
  ShardLedger ledger({.versions = 2, .keep_history = true});
  GradientSet set(1, 1);
  set.add(0, {Tensor::vector<float>({1}), {}}, 0, 3);
  for (std::uint64_t version : {1, 2, 3}) ledger.note_applied(version, set, {.step = version - 1});
  EXPECT_EQ(ledger.find(1), nullptr);
  EXPECT_EQ(ledger.find(3)->to_string(), "version 3: applied step 2 slot 0 of worker 3 (1 gradient)");
  EXPECT_EQ(ledger.take_history(2).size(), 1u);
  EXPECT_TRUE(ledger.take_history(2).empty());
  EXPECT_TRUE(ledger.used(2, 0));
  EXPECT_FALSE(ledger.used(2, 1));
  EXPECT_TRUE(ledger.used(0, 1));  // forgotten
}

}  // namespace
}  // namespace troupe::testing
