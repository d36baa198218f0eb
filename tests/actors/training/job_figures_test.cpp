// What can be seen of a training job from outside agrees with what the job has done, to the last message.
#include <gtest/gtest.h>

#include <map>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using testing::kPatience;

struct Job {
  int epochs = 2;
  int batch = 16;
  std::uint64_t slots = 2, steps_per_epoch = 10;
  std::uint64_t parameters = 784 * 16 + 16 + 16 * 10 + 10;
  std::uint64_t steps() const { return static_cast<std::uint64_t>(epochs) * steps_per_epoch; }
};

// Of the actors of this kind on all tasks whose name starts so, together.
std::uint64_t messages(const ClusterSnapshot& cluster, const std::string& job, const std::string& kind,
                       const std::string& message) {
  std::uint64_t sum = 0;
  for (const TaskReport& report : cluster.tasks)
    for (const ActorSnapshot& actor : report.snapshot->actors)
      if (report.task.starts_with("/job:" + job) && actor.kind == kind && actor.messages.contains(message))
        sum += actor.messages.at(message);
  return sum;
}

std::uint64_t counted(const ClusterSnapshot& cluster, const std::string& what) {
  std::uint64_t sum = 0;
  for (const TaskReport& report : cluster.tasks)
    for (const ShardSnapshot& shard : report.snapshot->shards) sum += shard.counts.at(what);
  return sum;
}

// All bytes that tasks have sent have been received.
bool is_quiet(const ClusterSnapshot& cluster) {
  std::map<std::pair<std::string, std::string>, std::uint64_t> sent, received;
  for (const TaskReport& report : cluster.tasks) {
    if (!report.snapshot) return false;
    for (const LinkSnapshot& link : report.snapshot->links) {
      sent[{report.task, link.peer}] = link.bytes_sent;
      received[{link.peer, report.task}] = link.bytes_received;
    }
  }
  return sent == received;
}

// On the chief's thread when all steps are complete, and evaluated: nobody does anything until it returns.
void check(const Job& job, const ClusterSnapshot& cluster) {
  ASSERT_EQ(cluster.tasks.size(), 4u);
  for (const TaskReport& report : cluster.tasks) ASSERT_TRUE(report.answered) << report.error;
  const TaskSnapshot& coordinator = *cluster.tasks[0].snapshot;
  ASSERT_TRUE(coordinator.job);
  EXPECT_EQ(coordinator.job->step, job.steps());
  EXPECT_EQ(coordinator.job->steps, job.steps());
  EXPECT_EQ(coordinator.job->epoch, static_cast<std::uint64_t>(job.epochs));
  EXPECT_EQ(coordinator.job->counts.at("steps"), job.steps());
  EXPECT_EQ(coordinator.job->members.size(), 2u);
  std::uint64_t bytes = 0, slices = 0, computed = 0, examples = 0;
  for (const TaskReport& report : cluster.tasks) {
    SCOPED_TRACE(report.task);
    const TaskSnapshot& task = *report.snapshot;
    for (const ShardSnapshot& shard : task.shards) {
      bytes += shard.bytes;
      slices += shard.slices;
      EXPECT_EQ(shard.version, job.steps());
      EXPECT_EQ(shard.staged, 0u);
      EXPECT_EQ(shard.needed, job.slots);
      EXPECT_EQ(shard.counts.at("pushes"), shard.slices * job.slots * job.steps());
      EXPECT_EQ(shard.counts.at("updates"), job.steps());
      EXPECT_EQ(shard.counts.at("batches"), job.slots * job.steps());
      EXPECT_EQ(shard.staleness.at(0), job.slots * job.steps());
      for (const char* none : {"duplicates", "stale", "fenced", "refused", "abandoned", "staged_bytes"})
        EXPECT_EQ(shard.counts.at(none), 0u) << none;
    }
    if (!task.training) continue;
    computed += task.training->steps;
    examples += task.training->examples;
    EXPECT_EQ(task.training->mode, "sync");
  }
  EXPECT_EQ(bytes, 4 * job.parameters);
  EXPECT_EQ(computed, job.slots * job.steps());
  EXPECT_EQ(examples, job.slots * job.steps() * static_cast<std::uint64_t>(job.batch));
  // What workers have sent, shards have got and counted. One shard has the large variable, the other one pack.
  const std::uint64_t pushes = 2 * job.slots * job.steps();
  EXPECT_EQ(messages(cluster, "worker", "peer", "to wire: Push"), pushes);
  EXPECT_EQ(messages(cluster, "ps", "shard", "Push"), pushes);
  EXPECT_EQ(counted(cluster, "pushes"), slices * job.slots * job.steps());
  const std::uint64_t pulls = messages(cluster, "worker", "peer", "to wire: Pull");
  EXPECT_GE(pulls, pushes);  // evaluation too
  EXPECT_EQ(messages(cluster, "ps", "shard", "Pull"), pulls);
  EXPECT_EQ(counted(cluster, "pulls"), pulls);
  EXPECT_EQ(messages(cluster, "worker", "rendezvous", "Put"), pulls);  // an answer each
  EXPECT_EQ(messages(cluster, "ps", "coordinator", "TokenDone"),
            job.slots * job.steps() + static_cast<std::uint64_t>(job.epochs));  // and one evaluation an epoch
  EXPECT_EQ(messages(cluster, "worker", "worker", "Token"), coordinator.job->counts.at("tokens"));
}

TEST(JobFigures, AgreeWithWhatTheJobHasDone) {
  const Job job;
  const DataSplits data = draw_digits({.train = 320, .test = 50});
  testing::JobTasks tasks{2, 2};
  int checked = 0;
  tasks.run([&](Task& task) {
    Model model(
        {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)},
        Shape{28, 28, 1}, DType::u8);
    model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}), task);
    TrainingOptions options{.mode = SyncMode{}, .epochs = job.epochs, .batch = job.batch};
    options.on_epoch = [&](const EpochLogs& epoch) {
      if (epoch.epoch + 1 != static_cast<std::uint32_t>(job.epochs)) return;
      ClusterSnapshot cluster;
      EXPECT_TRUE(testing::eventually([&] {
        cluster = parse_cluster_snapshot(http_get(*task.introspection().target(), "/snapshot", kPatience));
        return is_quiet(cluster);
      }));
      check(job, cluster);
      ++checked;
    };
    return model.fit(data, options).params_sha256;
  });
  EXPECT_EQ(checked, 1);
}

}  // namespace
}  // namespace troupe
