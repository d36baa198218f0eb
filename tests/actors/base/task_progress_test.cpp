#include "troupe/actors/base/task_progress.hpp"

#include <gtest/gtest.h>

#include <troupe/actors/base/inspected.hpp>

namespace troupe {
namespace {

// A scheduler that says which node runs.
struct Running final : Inspected {
  void inspect(ActorDetails& out) const override {
    if (!node.empty()) out.running.emplace("/job:worker/task:0/device:CPU:0", node);
  }
  std::string node;
};

TEST(TaskProgress, GrowsWithWorkAndNotWithMessagesOfOtherActors) {
  ActorRegistry registry;
  const auto device = registry.add(ActorKind::device, "CPU:0"), shard = registry.add(ActorKind::shard, "ps/0"),
             node = registry.add(ActorKind::node, "ps/0");
  TaskProgress progress(registry);
  const std::uint64_t first = progress();
  EXPECT_GT(first, 0u);
  node->messages_handled = 100;
  EXPECT_EQ(progress(), first);
  device->nodes_run = 7;
  EXPECT_EQ(progress(), first + 7);
  shard->messages_handled = 2;
  shard->messages_passed = 1;
  EXPECT_EQ(progress(), first + 10);
  EXPECT_EQ(progress(), first + 10);
}

TEST(TaskProgress, GrowsWithinALongSegment) {
  ActorRegistry registry;
  const auto scheduler = registry.add(ActorKind::scheduler, "worker/0");
  Running running;
  scheduler->inspected = &running;
  TaskProgress progress(registry);
  progress();
  running.node = "Conv2D 'a'";
  const std::uint64_t at_a = progress();
  EXPECT_EQ(progress(), at_a);  // still at it
  running.node = "Conv2D 'b'";
  EXPECT_EQ(progress(), at_a + 1);
  running.node = "";
  EXPECT_EQ(progress(), at_a + 1);
}

TEST(TaskProgress, IsUnknownWhereNothingIsCounted) {
  ActorRegistry registry(false);
  registry.add(ActorKind::device, "CPU:0")->nodes_run = 7;
  EXPECT_EQ(TaskProgress(registry)(), 0u);
}

}  // namespace
}  // namespace troupe
