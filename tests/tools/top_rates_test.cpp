#include <gtest/gtest.h>

#include "tests/tools/top_example.hpp"
#include "tools/top/rates.hpp"

namespace troupe::top {
namespace {

using testing::example_cluster;

constexpr double kMiB = 1 << 20;

TEST(TopRates, AreGrowthByTheClockOfEachTask) {
  const ClusterRates speed = rates(example_cluster(1), example_cluster(3));
  const TaskRates& shard = speed.tasks.at(0);
  EXPECT_EQ(shard.seconds, 2.0);
  EXPECT_EQ(shard.actors.at(1).messages, 100.0);
  EXPECT_EQ(shard.actors.at(1).busy, 0.25);
  EXPECT_EQ(shard.actors.at(1).by_type.at("Push"), 60.0);
  EXPECT_EQ(shard.actors.at(3).messages, 100.0);  // 10 handled, 90 passed
  EXPECT_EQ(shard.devices.at(0).busy, 0.5);
  EXPECT_EQ(shard.shards.at(0).of("pushes"), 60.0);
  EXPECT_EQ(shard.shards.at(0).of("stale"), 0.0);
  EXPECT_EQ(shard.links.at(0).bytes_sent, kMiB);
  EXPECT_EQ(shard.job_steps, 10.0);
  EXPECT_EQ(speed.tasks.at(1).examples, 320.0);
  EXPECT_EQ(speed.tasks.at(1).actors.at(1).busy, 0.5);  // of which all may be the message that is being handled
  EXPECT_FALSE(speed.tasks.at(3).seconds);              // silent
}

TEST(TopRates, AreUnknownWhenTheTaskHasBeenStartedAgain) {
  const ClusterSnapshot before = example_cluster(1);
  ClusterSnapshot after = example_cluster(3);
  after.tasks[0].snapshot->incarnation = "0100";
  const ClusterRates speed = rates(before, after);
  EXPECT_FALSE(speed.tasks.at(0).actors.at(1).messages);
  EXPECT_FALSE(speed.tasks.at(0).job_steps);
  EXPECT_EQ(speed.tasks.at(0).links.size(), 2u);
  EXPECT_TRUE(speed.tasks.at(1).steps);
}

TEST(TopRates, AreUnknownWhenACounterGoesBack) {
  ClusterSnapshot after = example_cluster(3);
  after.tasks[0].snapshot->actors[1].handled = 1;
  after.tasks[0].snapshot->actors[1].messages["Push"] = 1;
  after.tasks[0].snapshot->shards[0].counts["pulls"] = 0;
  const TaskRates speed = rates(example_cluster(1), after).tasks.at(0);
  EXPECT_FALSE(speed.actors.at(1).messages);
  EXPECT_TRUE(speed.actors.at(1).sent);
  EXPECT_FALSE(speed.actors.at(1).by_type.contains("Push"));
  EXPECT_TRUE(speed.actors.at(1).by_type.contains("Pull"));
  EXPECT_FALSE(speed.shards.at(0).of("pulls"));
}

TEST(TopRates, AreUnknownForWhatIsNewAndWithoutTime) {
  ClusterSnapshot before = example_cluster(1), after = example_cluster(3);
  before.tasks[0].snapshot->actors.erase(before.tasks[0].snapshot->actors.begin() + 1);
  TaskRates speed = rates(before, after).tasks.at(0);
  EXPECT_FALSE(speed.actors.at(1).messages);
  EXPECT_TRUE(speed.actors.at(2).messages);  // found by its kind and name, not by its place
  speed = rates(after, after).tasks.at(0);
  EXPECT_FALSE(speed.actors.at(1).messages);
  EXPECT_FALSE(no_rates(after).tasks.at(0).actors.at(1).messages);
  after.tasks[0].snapshot->job->job = 10;
  EXPECT_FALSE(rates(example_cluster(1), after).tasks.at(0).job_steps);  // another job
}

TEST(TopRates, ActorsOfOneNameMeetInTheirOrder) {
  ClusterSnapshot before = example_cluster(1), after = example_cluster(2);
  for (auto* snapshot : {&before, &after}) {
    auto& actors = snapshot->tasks[0].snapshot->actors;
    actors.clear();
    for (int i = 0; i < 2; ++i)
      actors.push_back({.kind = "partition",
                        .name = "CPU:0",
                        .handled = snapshot == &after ? 10u + 5u * static_cast<unsigned>(i) : 10u});
  }
  const TaskRates speed = rates(before, after).tasks.at(0);
  EXPECT_EQ(speed.actors.at(0).messages, 0.0);
  EXPECT_EQ(speed.actors.at(1).messages, 5.0);
}

}  // namespace
}  // namespace troupe::top
