#include "tests/page/example_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <troupe/actors/base/actor_kind.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::testing {
namespace {

constexpr std::uint64_t kBatch = 32, kModelBytes = 407'080, kEpochs = 5, kStepsOfEpoch = 1875;
constexpr std::int64_t kSecond = 1'000'000'000;

std::string worker(int index) { return fmt::format("/job:worker/task:{}", index); }
std::string ps(int index) { return fmt::format("/job:ps/task:{}", index); }

std::string input(int index) { return fmt::format("/job:input/task:{}", index); }

std::uint64_t counted(double value) { return static_cast<std::uint64_t>(value); }

// `busy`: of each second.
ActorSnapshot actor(std::string kind, std::string name, double seconds, double busy,
                    std::map<std::string, double> messages_per_second) {
  ActorSnapshot made{.kind = std::move(kind), .name = std::move(name), .state = busy > 0.5 ? "busy" : "idle"};
  for (const auto& [type, rate] : messages_per_second) {
    made.messages[type] = counted(rate * seconds);
    made.handled += made.messages[type];
  }
  made.sent = made.handled;
  made.mailbox_peak = 3;
  made.busy_ns = static_cast<std::int64_t>(busy * seconds * kSecond);
  return made;
}

struct Moment {
  const ExampleCluster& cluster;
  double seconds;

  double rate() const { return cluster.steps_per_second; }
  std::uint64_t epoch() const { return 1 + step() / kStepsOfEpoch; }
  std::uint64_t step() const { return counted(rate() * seconds); }
  double tensors() const { return rate() * kModelBytes / 2 / cluster.workers; }  // bytes per second, of a connection
  double loss(double step) const { return 0.08 + 2.2 * std::exp(-step / 900) + 0.03 * std::sin(step * 12.9898); }

  void common(TaskSnapshot& task) const {
    task.actors.push_back(actor("node", task.task, seconds, 0.001, {{"HelloRequest", 0.2}}));
    const double steps = rate();
    task.actors.push_back(actor("scheduler", task.task, seconds, 0.06,
                                {{"RunStep", steps}, {"SegmentDone", 3 * steps}, {"Delivered", steps}}));
    task.actors.push_back(actor("rendezvous", task.task, seconds, 0.04, {{"Put", 2 * rate()}, {"Await", 2 * rate()}}));
    task.actors.push_back(actor("introspector", task.task, seconds, 0.002, {{"SnapshotRequest", 1}}));
  }

  void link(TaskSnapshot& task, const std::string& peer, double sent, double received) const {
    LinkSnapshot made{.peer = peer, .up = true, .window = 8 << 20};
    made.bytes_sent = counted(sent * seconds);
    made.bytes_received = counted(received * seconds);
    made.frames_sent = made.frames_received = counted(2 * rate() * seconds);
    made.credit = made.window;
    made.heard_ns = 40'000'000;
    task.links.push_back(made);
    task.actors.push_back(
        actor("peer", peer, seconds, sent > 1e6 ? 0.08 : 0.001, {{"Outbound", rate()}, {"FrameCame", rate()}}));
  }

  void server(TaskSnapshot& task, int index) const {
    auto shard = actor("shard", task.task, seconds, 0.22,
                       {{"Pull", rate()}, {"Push", rate()}, {"Commit", rate() / cluster.workers}});
    shard.peers = {{worker(0), 120}, {worker(1), 96}};
    task.actors.push_back(shard);
    ShardSnapshot told{.shard = static_cast<std::uint32_t>(index), .job = 7, .slices = 4, .bytes = kModelBytes / 2};
    told.version = step();
    told.needed = static_cast<std::uint64_t>(cluster.workers);
    told.staged = told.needed - 1;
    told.missing = {static_cast<std::uint32_t>(step() % told.needed)};
    told.counts = {{"pulls", step() * told.needed}, {"pushes", step() * told.needed}, {"duplicates", 2}, {"stale", 5}};
    told.staleness = {step(), step() / 4, step() / 40, 3};
    told.waits_for = fmt::format("version {}: {} of {} slots are staged", told.version + 1, told.staged, told.needed);
    task.shards.push_back(told);
    for (int each = 0; each < cluster.workers; ++each) link(task, worker(each), tensors(), tensors());
    if (index != 0) return;
    task.actors.push_back(actor("coordinator", task.task, seconds, 0.03,
                                {{"TakeToken", rate()}, {"TokenDone", rate()}, {"Staged", rate()}}));
    JobSnapshot job{
        .job = 7, .mode = "sync", .stage = "training", .view = 1, .epoch = epoch(), .epochs = kEpochs, .step = step()};
    job.steps = kEpochs * kStepsOfEpoch;
    for (int each = 0; each < cluster.workers; ++each)
      job.members.push_back({worker(each), "joined", {fmt::format("step {} slot {}", step(), each)}});
    task.job = job;
  }

  void trainer(TaskSnapshot& task, int index) const {
    const std::string cpu_name = task.task + "/device:CPU:0";
    auto device = actor("device", cpu_name, seconds, 0.78 + 0.04 * index, {{"ExecuteSegment", 3 * rate()}});
    device.current = "ExecuteSegment";
    device.current_ns = 1'900'000;
    device.mailbox = index == 1 ? 2 : 0;
    task.actors.push_back(device);
    for (int graph = 0; graph < 2; ++graph)
      task.actors.push_back(actor("partition", cpu_name, seconds, 0, {{"BuildPlan", 0.02}}));
    auto loop = actor("worker", task.task, seconds, 0.01, {{"Token", rate() / cluster.workers}});
    loop.state = "waits";
    loop.waits_for = fmt::format("the {} of step {}", cluster.inputs > 0 ? "batch" : "parameters", step() + 1);
    loop.waits_ns = 2'100'000;
    task.actors.push_back(loop);
    DeviceSnapshot cpu{
        .name = cpu_name, .type = "CPU", .busy_ns = device.busy_ns, .nodes_run = counted(60 * rate() * seconds)};
    cpu.running = "MatMul 'dense/matmul'";
    cpu.bytes_in_use = 9'400'000;
    cpu.peak_bytes = 14'100'000;
    cpu.cached_bytes = 3'000'000;
    cpu.limit_bytes = 1 << 30;
    cpu.largest = {{"dense/weights", "f32[784,128]", 401'408, 3}, {"dense/matmul", "f32[32,128]", 16'384}};
    task.devices.push_back(cpu);
    TrainingSnapshot training{.mode = "sync",
                              .epoch = epoch(),
                              .epochs = kEpochs,
                              .step = step() + 1,
                              .steps = step(),
                              .examples = step() * kBatch};
    training.loss = loss(static_cast<double>(step()));
    training.doing = cluster.inputs > 0 ? fmt::format("waits for the batch of slot {} of step {}", index, step() + 1)
                                        : fmt::format("computes step {}, slot {}", step() + 1, index);
    if (step() > 0) training.metrics = {{"accuracy", 0.9012}, {"val_accuracy", 0.9305}};
    training.doing_ns = 2'000'000;
    const double each = kSecond / rate();
    for (std::uint64_t back = std::min<std::uint64_t>(step(), 128); back > 0; --back) {
      StepRecord record{.step = step() - back, .slot = static_cast<std::uint32_t>(index), .examples = kBatch};
      record.begin_ns = static_cast<std::int64_t>(each * static_cast<double>(back));
      record.took_ns = static_cast<std::int64_t>(
          each * (0.72 + 0.1 * index + 0.08 * std::sin(static_cast<double>(record.step) * 7 + index)));
      record.loss = loss(static_cast<double>(record.step));
      training.recent.push_back(record);
    }
    task.training = training;
    for (int server = 0; server < cluster.ps; ++server) link(task, ps(server), tensors(), tensors());
    for (int other = 0; other < cluster.workers; ++other)
      if (other != index) link(task, worker(other), 300, 300);
    for (int each = 0; each < cluster.inputs; ++each) link(task, input(each), 4e3, batches() / cluster.workers);
  }

  double examples() const { return rate() * cluster.workers * kBatch / cluster.inputs; }  // per second and input task
  double batches() const { return examples() * 224 * 224 * 3; }                           // bytes per second, likewise

  StageSnapshot stage(std::string name, double elements, double busy, std::uint64_t held = 0) const {
    return {.name = std::move(name),
            .elements = counted(elements * seconds),
            .busy_ns = static_cast<std::int64_t>(busy * seconds * kSecond),
            .busy = busy,
            .held_bytes = held};
  }

  void maker(TaskSnapshot& task, int index) const {
    const double made = examples() / kBatch;
    task.actors.push_back(actor("input", task.task, seconds, 0.02, {{"WantBatch", made}, {"BatchReady", made}}));
    task.actors.push_back(actor("reader", task.task, seconds, 0.05, {{"BeginBatch", made}}));
    for (int each = 0; each < 2; ++each)
      task.actors.push_back(
          actor("maker", fmt::format("{} {}", task.task, each), seconds, 0.6, {{"MakeBatch", made / 2}}));
    const double parsed = examples() * cluster.inputs;  // each reads all records
    PipelineSnapshot pipeline{.data = "training", .feeds = static_cast<std::uint64_t>(cluster.workers)};
    pipeline.made = counted(made * seconds);
    pipeline.waited = counted(made * seconds / 3);
    pipeline.wanted = 2;
    pipeline.making = 2;
    pipeline.kept = 1 + static_cast<std::uint64_t>(index);
    pipeline.kept_bytes = pipeline.kept * kBatch * 224 * 224 * 3;
    pipeline.makers = 2;
    pipeline.ahead = 8;
    pipeline.stages = {stage("records flowers-*.tfrecord", parsed, 0.04, 6 << 20),
                       stage("shuffle", parsed, 0, 96 << 20), stage("map decode", examples(), 0.93 - 0.02 * index),
                       stage("map random_flip_left_right image", examples(), 0.11),
                       stage(fmt::format("batch {}", kBatch), made, 0.07)};
    task.pipelines.push_back(pipeline);
    for (int each = 0; each < cluster.workers; ++each) link(task, worker(each), batches() / cluster.workers, 4e3);
  }

  TaskReport report(const std::string& name, int index, void (Moment::*fill)(TaskSnapshot&, int) const) const {
    const bool trains = fill == &Moment::trainer;
    TaskSnapshot task{
        .task = name, .cluster = "launch-4711", .pid = 4712 + index + (trains ? cluster.ps : 0), .version = "0.1.0"};
    if (fill == &Moment::maker) task.pid += cluster.ps + cluster.workers;
    task.incarnation = fmt::format("{:016x}", 0x51f0'0000'0000'1000 + task.pid);
    task.unix_ns = kExampleBegin + static_cast<std::int64_t>(seconds * kSecond);
    task.uptime_ns = static_cast<std::int64_t>(seconds * kSecond);
    common(task);
    (this->*fill)(task, index);
    std::ranges::stable_sort(task.actors, {}, [](const ActorSnapshot& each) {
      return std::ranges::find(kActorRoles, each.kind, &ActorRole::name);  // the order of a real snapshot
    });
    return {.task = name,
            .address = fmt::format("127.0.0.1:{}", 9000 + index),
            .answered = true,
            .took_ns = 800'000,
            .snapshot = task};
  }
};

}  // namespace

ClusterSnapshot ExampleCluster::at(double seconds) const {
  const Moment moment{*this, seconds};
  ClusterSnapshot made{.cluster = "launch-4711",
                       .asked = worker(0),
                       .unix_ns = kExampleBegin + static_cast<std::int64_t>(seconds * kSecond)};
  for (int index = 0; index < ps; ++index)
    made.tasks.push_back(moment.report(testing::ps(index), index, &Moment::server));
  for (int index = 0; index < inputs; ++index) made.tasks.push_back(moment.report(input(index), index, &Moment::maker));
  for (int index = 0; index < workers; ++index)
    made.tasks.push_back(moment.report(worker(index), index, &Moment::trainer));
  return made;
}

ClusterSnapshot alone_at(double seconds) {
  ClusterSnapshot made = ExampleCluster{.ps = 0, .workers = 1}.at(seconds);
  made.cluster.clear();
  TaskSnapshot& task = *made.tasks.front().snapshot;
  task.training->mode = "local";
  task.training->all_steps = kEpochs * kStepsOfEpoch;
  return made;
}

TaskReport& report_of(ClusterSnapshot& snapshot, const std::string& task) {
  for (TaskReport& report : snapshot.tasks)
    if (report.task == task) return report;
  fail(Code::not_found, "no task {} in the example", task);
}

void silence(ClusterSnapshot& snapshot, const std::string& task) {
  TaskReport& report = report_of(snapshot, task);
  report.answered = false;
  report.error = "has not answered within 1.0 s";
  report.snapshot.reset();
}

}  // namespace troupe::testing
