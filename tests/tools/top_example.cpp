#include "tests/tools/top_example.hpp"

namespace troupe::testing {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TaskSnapshot task(const std::string& name, double second) {
  TaskSnapshot out;
  out.task = name;
  out.cluster = "demo";
  out.incarnation = "00ff";
  out.pid = 4711;
  out.uptime_ns = static_cast<std::int64_t>(second * 1e9);
  return out;
}

TaskSnapshot shard_task(double second) {
  const auto count = [&](double rate) { return static_cast<std::uint64_t>(rate * second); };
  TaskSnapshot out = task("/job:ps/task:0", second);
  out.actors.push_back({.kind = "node", .name = out.task, .state = "idle", .handled = 12});
  out.actors.push_back({.kind = "shard",
                        .name = out.task,
                        .state = "busy",
                        .mailbox = 3,
                        .mailbox_peak = 57,
                        .handled = count(100),
                        .sent = count(50),
                        .restarts = 1,
                        .busy_ns = static_cast<std::int64_t>(second * 25e7),
                        .current = "Push",
                        .current_ns = 0,
                        .waits_for = "slot 1 of step 20",
                        .waits_ns = 1'500'000'000,
                        .messages = {{"Push", count(60)}, {"Pull", count(40)}},
                        .peers = {{"/job:worker/task:0", 120}, {"/job:worker/task:1", 136}}});
  out.actors.push_back({.kind = "coordinator",
                        .name = out.task,
                        .state = "waits",
                        .handled = count(30),
                        .waits_for = "step 20 slot 1 of /job:worker/task:1",
                        .waits_ns = 7'200'000'000});
  out.actors.push_back(
      {.kind = "peer", .name = "/job:worker/task:0", .state = "idle", .handled = count(10), .passed = count(90)});
  out.devices.push_back({.name = "/job:ps/task:0/device:CPU:0",
                         .type = "CPU",
                         .busy_ns = static_cast<std::int64_t>(second * 5e8),
                         .nodes_run = count(1000),
                         .bytes_in_use = 3 * kMiB,
                         .peak_bytes = 4 * kMiB,
                         .cached_bytes = kMiB,
                         .limit_bytes = 0,
                         .allocations = 1000,
                         .reuses = 990,
                         .largest = {{"dense/weights", "f32[784,128]", 401408, 3}, {"bias", "f32[128]", 512}}});
  out.shards.push_back(
      {.shard = 0,
       .job = 9,
       .slices = 4,
       .bytes = 407'080,
       .version = 20,
       .staged = 1,
       .needed = 2,
       .missing = {1},
       .parked = 1,
       .counts = {{"pulls", count(40)}, {"pushes", count(60)}, {"updates", count(10)}, {"stale", 3}, {"duplicates", 0}},
       .staleness = {36, 4, 0, 0},
       .waits_for = "version 21: 1 of 2 staged, missing slots 1"});
  out.job = JobSnapshot{.job = 9,
                        .mode = "sync",
                        .stage = "training",
                        .view = 2,
                        .epoch = 3,
                        .epochs = 5,
                        .step = count(10),
                        .steps = 1000,
                        .members = {{"/job:worker/task:0", "joined", {"step 21 slot 0"}},
                                    {"/job:worker/task:1", "joined", {"step 20 slot 1"}}}};
  out.links.push_back({.peer = "/job:worker/task:0",
                       .up = true,
                       .shared_memory = true,
                       .bytes_sent = count(kMiB),
                       .bytes_received = count(2 * kMiB),
                       .frames_sent = count(70),
                       .frames_received = count(100),
                       .queued_frames = 2,
                       .queued_bytes = 4096,
                       .credit = 60 * kMiB,
                       .window = 64 * kMiB,
                       .heard_ns = 3'000'000});
  out.links.push_back({.peer = "/job:worker/task:2", .up = false, .heard_ns = 12'000'000'000});
  return out;
}

TaskSnapshot worker_task(int index, double second) {
  const auto count = [&](double rate) { return static_cast<std::uint64_t>(rate * second); };
  TaskSnapshot out = task("/job:worker/task:" + std::to_string(index), second);
  out.actors.push_back({.kind = "scheduler", .name = out.task, .state = "idle", .handled = count(200)});
  out.actors.push_back({.kind = "device",
                        .name = out.task + "/device:CPU:0",
                        .state = "busy",
                        .handled = count(20),
                        .busy_ns = out.uptime_ns / 2,
                        .current = "ExecuteSegment",
                        .current_ns = out.uptime_ns / 2});
  out.devices.push_back({.name = out.task + "/device:CPU:0",
                         .type = "CPU",
                         .busy_ns = out.uptime_ns,
                         .nodes_run = count(5000),
                         .running = "MatMul 'dense/matmul'",
                         .queue = 1,
                         .bytes_in_use = 64 * kMiB,
                         .peak_bytes = 96 * kMiB,
                         .limit_bytes = 128 * kMiB});
  out.training = TrainingSnapshot{
      .mode = "sync",
      .epoch = 3,
      .epochs = 5,
      .step = count(10),
      .steps = count(10),
      .examples = count(320),
      .loss = 0.25 + index,
      .doing = "computes step 20, slot 1",
      .doing_ns = 12'000'000,
      .recent = {{.step = count(10) - static_cast<unsigned>(index), .loss = 0.125 + index, .examples = 32}}};
  out.links.push_back({.peer = "/job:ps/task:0",
                       .up = true,
                       .stalled = index == 1,
                       .bytes_sent = count(2 * kMiB),
                       .credit = 0,
                       .window = 64 * kMiB});
  return out;
}

}  // namespace

ClusterSnapshot example_cluster(double second) {
  ClusterSnapshot out{.cluster = "demo", .asked = "/job:ps/task:0"};
  const auto add = [&](TaskSnapshot snapshot) {
    out.tasks.push_back(
        {.task = snapshot.task, .address = "127.0.0.1:1", .answered = true, .snapshot = std::move(snapshot)});
  };
  add(shard_task(second));
  add(worker_task(0, second));
  add(worker_task(1, second));
  out.tasks.push_back({.task = "/job:worker/task:2", .error = "has not answered within 1.0 s"});
  return out;
}

top::Observation example_observation() {
  top::Observation out;
  out.snapshot = example_cluster(2);
  out.rates = top::rates(example_cluster(1), out.snapshot);
  out.waits.text =
      "step 20 waits for slot 1 of step 20\n  which waits for /job:worker/task:2\n\nsilent: /job:worker/task:2 has not "
      "answered within 1.0 s\n";
  out.waits.brief = "silent: /job:worker/task:2 has not answered within 1.0 s\n";
  out.waits.causes = {
      {.kind = RootCause::Kind::silent, .text = "/job:worker/task:2 has not answered within 1.0 s", .waiters = 2},
      {.kind = RootCause::Kind::working, .text = "MatMul 'dense/matmul' on /job:worker/task:0/device:CPU:0"}};
  return out;
}

}  // namespace troupe::testing
