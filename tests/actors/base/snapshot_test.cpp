#include <gtest/gtest.h>

#include <troupe/actors/base/snapshot.hpp>

namespace troupe {
namespace {

TaskSnapshot worker() {
  TaskSnapshot task;
  task.task = "/job:worker/task:0";
  task.incarnation = "00ff";
  task.pid = 7;
  task.actors.push_back({.kind = "scheduler",
                         .name = task.task,
                         .state = "waits",
                         .mailbox = 2,
                         .handled = ~std::uint64_t{0},
                         .messages = {{"RunStep", 3}}});
  task.devices.push_back({.name = "/job:worker/task:0/device:CPU:0",
                          .type = "CPU",
                          .largest = {{"dense/weights", "f32[784,128]", 401408, 3}}});
  task.shards.push_back({.shard = 1, .missing = {0, 2}, .counts = {{"pushes", 5}}, .staleness = {1, 0, 2}});
  task.training = TrainingSnapshot{.mode = "sync",
                                   .step = 7,
                                   .all_steps = 70,
                                   .loss = 0.25,
                                   .metrics = {{"test_accuracy", 0.5}},
                                   .recent = {{.step = 6, .took_ns = 12, .loss = 0.5, .examples = 32}}};
  task.links.push_back({.peer = "/job:ps/task:0", .up = true, .bytes_sent = 10});
  task.waiting.things.push_back(
      {.id = "step/1/2", .text = "step 2", .task = task.task, .state = WaitThing::State::never, .for_ns = 5});
  task.waiting.waits.push_back(
      {.waiter = "step/1/2", .awaited = "tensor/1/2/3", .kind = "tensor", .have = 1, .need = 2});
  return task;
}

TEST(Snapshot, IsTheSameAfterItsJson) {
  ClusterSnapshot cluster{.cluster = "demo", .asked = "/job:worker/task:0", .unix_ns = 9};
  cluster.tasks.push_back(
      {.task = "/job:worker/task:0", .address = "127.0.0.1:1", .answered = true, .took_ns = 4, .snapshot = worker()});
  cluster.tasks.push_back({.task = "/job:ps/task:0", .error = "has not answered within 1.0 s"});
  const std::string json = to_json(cluster);
  const ClusterSnapshot again = parse_cluster_snapshot(json);
  EXPECT_EQ(to_json(again), json);
  const TaskSnapshot& task = *again.tasks.at(0).snapshot;
  EXPECT_EQ(task.actors.at(0).handled, ~std::uint64_t{0});
  EXPECT_EQ(task.actors.at(0).messages.at("RunStep"), 3u);
  EXPECT_EQ(task.shards.at(0).missing, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(task.training->recent.at(0).loss, 0.5);
  EXPECT_EQ(task.training->all_steps, 70u);
  EXPECT_EQ(task.training->metrics.at("test_accuracy"), 0.5);
  EXPECT_EQ(task.devices.at(0).largest.at(0).count, 3u);
  EXPECT_FALSE(task.job);
  EXPECT_EQ(task.waiting.things.at(0).state, WaitThing::State::never);
  EXPECT_FALSE(again.tasks.at(1).snapshot);
}

TEST(Snapshot, NamesThatAreNoTextDoNotStopIt) {
  TaskSnapshot task;
  task.devices.push_back({.name = "\xff\xfe", .running = "MatMul '</script>'"});
  const TaskSnapshot again = parse_task_snapshot(to_json(task));
  EXPECT_EQ(again.devices.at(0).running, "MatMul '</script>'");
}

std::string refusal(std::string_view json) {
  try {
    parse_cluster_snapshot(json);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Snapshot, WhatIsNoneIsRefusedInWords) {
  EXPECT_NE(refusal("{").find("malformed snapshot of a cluster"), std::string::npos);
  EXPECT_NE(refusal(R"({"format":1,"tasks":7})").find("malformed snapshot of a cluster"), std::string::npos);
  EXPECT_EQ(refusal(R"({"format":2})"),
            "the snapshot of a cluster has format 2, written by a later Troupe; this program reads formats up to 1");
}

}  // namespace
}  // namespace troupe
