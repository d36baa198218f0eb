// Training on clusters of real processes.
#include "tests/apps/cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/actors/wire/certificates.hpp"
#include "tests/apps/process.hpp"
#include "tests/apps/training_oracle.hpp"
#include "tests/paths.hpp"
#include "tests/patience.hpp"
#include "tests/processes/child.hpp"
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::Arguments;
using testing::Cluster;
using ::testing::ContainsRegex;
using testing::free_ports;
using ::testing::HasSubstr;
using testing::holds_with_more_time;
using testing::last_line;
using ::testing::Not;
using testing::Process;
using testing::TemporaryDirectory;
using testing::TwoNetworks;
using testing::with_limit;

std::string hash_of_cluster(int ps, int workers, int slots) {
  Cluster cluster(ps, workers,
                  {"--mode", "sync", "--replicas", std::to_string(slots), "--epochs", "2", "--digits", "600,100"});
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
  return last_line(cluster->out).value("params_sha256", "none");
}

std::string hash_of_one_process(int slots) {
  Process process({testing::program("troupe-mnist"), "--json", "--replicas", std::to_string(slots), "--epochs", "2",
                   "--digits", "600,100"});
  EXPECT_EQ(process.wait(), 0) << process.err;
  return last_line(process.out).value("params_sha256", "none");
}

std::string hash_by_hand(int slots) {
  const DataSplits data = draw_digits({.train = 600, .test = 100});
  return params_sha256(testing::trained_by_hand(data.train, {.slots = slots, .epochs = 2}));
}

// ---- Results -------------------------------------------------------------------------------------------------------

struct ClusterSize {
  int ps, workers, slots;
};
void PrintTo(const ClusterSize& size, std::ostream* out) {
  *out << size.ps << " ps, " << size.workers << " workers, " << size.slots << " slots";
}

class SynchronousTraining : public ::testing::TestWithParam<ClusterSize> {};

TEST_P(SynchronousTraining, IsThePlainLoopBitByBitEachTime) {
  const auto [ps, workers, slots] = GetParam();
  const std::string expected = hash_by_hand(slots);
  EXPECT_EQ(hash_of_cluster(ps, workers, slots), expected);
  EXPECT_EQ(hash_of_cluster(ps, workers, slots), expected) << "in the second run";
}
INSTANTIATE_TEST_SUITE_P(Sizes, SynchronousTraining,
                         ::testing::Values(ClusterSize{1, 1, 2}, ClusterSize{2, 2, 2}, ClusterSize{2, 3, 2},
                                           ClusterSize{2, 2, 3}));

// Every worker has the same parameters at the end, or all fail.
class AllReduceTraining : public ::testing::TestWithParam<int> {};

TEST_P(AllReduceTraining, IsTheRingsOrderBitByBitEachTime) {
  const DataSplits data = draw_digits({.train = 600, .test = 100});
  const testing::OracleOptions by_hand{.slots = GetParam(), .epochs = 2, .all_reduce = true};
  const std::string expected = params_sha256(testing::trained_by_hand(data.train, by_hand));
  for (const char* run : {"first", "second"}) {
    Cluster cluster(0, GetParam(), {"--mode", "allreduce", "--epochs", "2", "--digits", "600,100"});
    EXPECT_EQ(cluster.wait(), 0) << cluster->err;
    EXPECT_EQ(last_line(cluster->out).value("params_sha256", "none"), expected) << "in the " << run << " run";
    EXPECT_EQ(last_line(cluster->out).value("steps", 0), 2 * (600 / 32 / GetParam())) << "in the " << run << " run";
  }
}
INSTANTIATE_TEST_SUITE_P(Workers, AllReduceTraining, ::testing::Values(1, 2, 3));

// A bucket that is full within the first dense layer, and one of what is left: the ring cuts each into three parts.
TEST(AllReduceTrainingOfOtherModels, OfThreeWorkersAndSeveralBucketsIsTheRingsOrderEachTime) {
  using namespace layers;
  const Sequential cnn({conv2d(32, 3, Activation::relu), max_pool(2), conv2d(64, 3, Activation::relu), max_pool(2),
                        flatten(), dense(128, Activation::relu), dense(10)});
  const DataSplits data = draw_digits({.train = 200, .test = 20});
  const std::string expected =
      params_sha256(testing::trained_by_replay(cnn, data.train, {.slots = 3, .epochs = 1, .all_reduce = true}));
  for (const char* run : {"first", "second"}) {
    Cluster cluster(0, 3, {"--mode", "allreduce", "--model", "cnn", "--epochs", "1", "--digits", "200,20"});
    EXPECT_EQ(cluster.wait(), 0) << cluster->err;
    EXPECT_EQ(last_line(cluster->out).value("params_sha256", "none"), expected) << "in the " << run << " run";
  }
}

// Buckets of several sizes, which leave in the middle of backprop; random numbers of each slot; a sum of two has one
// order.
TEST(AllReduceTrainingOfOtherModels, OfTwoWorkersHasTheBitsOfTwoSlots) {
  for (const Arguments& model : {Arguments{"--model", "cnn", "--digits", "200,50"},
                                 Arguments{"--precision", "f16", "--batch", "1", "--digits", "200,10"}}) {
    SCOPED_TRACE(::testing::PrintToString(model));
    Arguments in_cluster = {"--mode", "allreduce", "--epochs", "1"};
    in_cluster.insert(in_cluster.end(), model.begin(), model.end());
    Cluster cluster(0, 2, in_cluster);
    EXPECT_EQ(cluster.wait(), 0) << cluster->err;
    Arguments alone = {testing::program("troupe-mnist"), "--json", "--replicas", "2", "--epochs", "1"};
    alone.insert(alone.end(), model.begin(), model.end());
    Process process(alone);
    EXPECT_EQ(process.wait(), 0) << process.err;
    EXPECT_EQ(last_line(cluster->out).value("params_sha256", "none"),
              last_line(process.out).value("params_sha256", "other"));
  }
}

TEST(LocalTraining, IsThePlainLoopBitByBit) {
  for (const int slots : {1, 2, 3}) EXPECT_EQ(hash_of_one_process(slots), hash_by_hand(slots)) << slots << " slots";
}

// Casts and products of 16 bits are the same on a worker that pulls its weights as where they are.
class PrecisionOfTraining : public ::testing::TestWithParam<DType> {};

TEST_P(PrecisionOfTraining, OfAClusterHasTheBitsOfOneProcess) {
  const Arguments training = {
      "--precision", std::string(name(GetParam())), "--replicas", "2", "--epochs", "2", "--digits", "200,50"};
  Arguments in_cluster = training;
  in_cluster.insert(in_cluster.end(), {"--mode", "sync"});
  Cluster cluster(2, 2, in_cluster);
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
  const DataSplits data = draw_digits({.train = 200, .test = 50});
  const testing::OracleOptions by_hand{.slots = 2, .epochs = 2, .precision = GetParam()};
  EXPECT_EQ(last_line(cluster->out).value("params_sha256", "none"),
            params_sha256(testing::trained_by_hand(data.train, by_hand)));

  Arguments alone = {testing::program("troupe-mnist"), "--json"};
  alone.insert(alone.end(), training.begin(), training.end());
  Process process(alone);
  EXPECT_EQ(process.wait(), 0) << process.err;
  EXPECT_EQ(last_line(process.out).value("params_sha256", "none"),
            last_line(cluster->out).value("params_sha256", "other"));
}
INSTANTIATE_TEST_SUITE_P(MixedPrecision, PrecisionOfTraining, ::testing::Values(DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(name(info.param)); });

// A gradient of one example in f16 overflows at the first scale: the step is skipped, on all shards and by
// Adam's count.
TEST(MixedPrecisionTraining, ShardsSkipTheStepsThatOneProcessSkips) {
  const Arguments training = {"--precision", "f16",      "--replicas", "2",        "--batch",
                              "1",           "--epochs", "1",          "--digits", "200,10"};
  Arguments in_cluster = training, alone = {testing::program("troupe-mnist"), "--json"};
  in_cluster.insert(in_cluster.end(), {"--mode", "sync"});
  alone.insert(alone.end(), training.begin(), training.end());
  Cluster cluster(2, 2, in_cluster);
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
  Process process(alone);
  EXPECT_EQ(process.wait(), 0) << process.err;
  for (const std::string& err : {cluster->err, process.err})
    EXPECT_THAT(err, HasSubstr("1 of 100 steps were skipped because f16 overflowed; the loss scale is now 32768"));
  EXPECT_EQ(last_line(cluster->out).value("params_sha256", "none"),
            last_line(process.out).value("params_sha256", "other"));
}

// Clipping, rates that change and micro-batches, all at once: what each does is in oracle_test.cpp.
TEST(UpdatesOfTraining, OfClustersHaveTheBitsOfOneProcess) {
  const Arguments training = {"--clip-norm",  "0.5",   "--schedule", "cosine,steps=16,end=1e-4,warmup=3",
                              "--accumulate", "4",     "--epochs",   "2",
                              "--digits",     "600,20"};
  const auto with = [&](Arguments first) {
    first.insert(first.end(), training.begin(), training.end());
    return first;
  };
  Process alone(with({testing::program("troupe-mnist"), "--json", "--replicas", "2"}));
  EXPECT_EQ(alone.wait(), 0) << alone.err;
  const std::string expected = last_line(alone.out).value("params_sha256", "none");
  for (const int ps : {2, 3, 0}) {
    Cluster cluster(ps, 2,
                    with(ps == 0 ? Arguments{"--mode", "allreduce"} : Arguments{"--mode", "sync", "--replicas", "2"}));
    EXPECT_EQ(cluster.wait(), 0) << cluster->err;
    EXPECT_EQ(last_line(cluster->out).value("params_sha256", "other"), expected) << ps << " ps";
  }
}

TEST(AsynchronousTraining, LearnsTheDigits) {
  Cluster cluster(2, 2, {"--mode", "async", "--epochs", "4", "--digits", "2000,200"});
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
  const nlohmann::json result = last_line(cluster->out);
  EXPECT_GT(result.value("test_accuracy", 0.0), 0.7) << cluster->out;
  EXPECT_EQ(result.value("steps", 0), 4 * (2000 / 32));
}

// 20 batches an epoch.
std::string hash_of_one_asynchronous_worker(int ps, const Arguments& more = {}) {
  Arguments training = {"--mode", "async", "--epochs", "2", "--digits", "640,100"};
  training.insert(training.end(), more.begin(), more.end());
  Cluster cluster(ps, 1, training);
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
  EXPECT_THAT(cluster->err, HasSubstr("staleness of the "));
  return last_line(cluster->out).value("params_sha256", "none");
}

// It sees each of its own updates, though its pulls overtake them on their way.
TEST(AsynchronousTraining, OfOneWorkerIsThePlainLoop) {
  const std::string expected = params_sha256(
      testing::trained_by_hand(draw_digits({.train = 640, .test = 100}).train, {.slots = 1, .epochs = 2}));
  for (const int ps : {1, 2}) EXPECT_EQ(hash_of_one_asynchronous_worker(ps), expected) << ps << " ps";
  EXPECT_EQ(hash_of_one_asynchronous_worker(1, {"--staleness-aware"}), expected) << "nothing is stale";
}

// Two batches computed on the same parameters make an update: that is a step of two slots.
TEST(AsynchronousTraining, MayMakeAnUpdateOfSeveralBatches) {
  const std::string expected = params_sha256(
      testing::trained_by_hand(draw_digits({.train = 640, .test = 100}).train, {.slots = 2, .epochs = 2}));
  EXPECT_EQ(hash_of_one_asynchronous_worker(2, {"--aggregate", "2"}), expected);
}

// ---- Tasks that are lost, and the end ------------------------------------------------------------------------------

// Longer than any test.
const Arguments kForever = {"--mode", "sync", "--epochs", "100000", "--digits", "2000,100", "--on-loss", "fail"};

TEST(ClusterFailure, AKilledWorkerEndsTheJobAndIsNamed) {
  Cluster cluster(1, 2, kForever);
  cluster->wait_for("\"event\":\"epoch\"");
  kill(cluster.pid("worker/1"), SIGKILL);
  EXPECT_NE(cluster.wait(), 0);
  EXPECT_THAT(cluster->err, HasSubstr("[worker/0] troupe-mnist: /job:worker/task:1 was lost"));
  EXPECT_THAT(cluster->err, HasSubstr("[ps/0] troupe-mnist: /job:worker/task:1 was lost"));
  EXPECT_THAT(cluster->err, HasSubstr("worker/1 was killed by signal 9"));
  EXPECT_THAT(cluster->out, Not(HasSubstr("final")));
}

// Nobody starts it again, and the launcher does not end those that go on: the parameters at the end are those of an
// undisturbed job.
class AKilledWorker : public ::testing::TestWithParam<const char*> {};

TEST_P(AKilledWorker, IsNotNeededAndTheLauncherEndsWithTheCodeOfTheChief) {
  const int epochs = 40;
  Cluster cluster(2, 3,
                  {"--mode", "sync", "--replicas", "2", "--epochs", std::to_string(epochs), "--digits", "600,100"});
  cluster->wait_for("\"event\":\"epoch\"");
  kill(cluster.pid(GetParam()), SIGKILL);
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
  EXPECT_EQ(last_line(cluster->out).value("params_sha256", "none"),
            params_sha256(testing::trained_by_hand(draw_digits({.train = 600, .test = 100}).train,
                                                   {.slots = 2, .epochs = epochs})))
      << cluster->err;
  EXPECT_THAT(cluster->err, HasSubstr(std::string("the other tasks may continue without ") + GetParam()));
}
INSTANTIATE_TEST_SUITE_P(, AKilledWorker, ::testing::Values("worker/1", "worker/0"),
                         [](const auto& info) { return std::string(info.param) == "worker/0" ? "chief" : "worker1"; });

// Whoever is killed is started again, and the parameters at the end are those of an undisturbed job.
class AKilledTask : public ::testing::TestWithParam<const char*> {};

TEST_P(AKilledTask, ComesAgainAndTheJobEndsWithTheSameBits) {
  const int epochs = 40;
  const DataSplits data = draw_digits({.train = 600, .test = 100});
  Cluster cluster(2, 3,
                  {"--mode", "sync", "--replicas", "2", "--epochs", std::to_string(epochs), "--digits", "600,100"}, 3);
  cluster->wait_for("\"event\":\"epoch\"");
  kill(cluster.pid(GetParam()), SIGKILL);
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
  EXPECT_EQ(last_line(cluster->out).value("params_sha256", "none"),
            params_sha256(testing::trained_by_hand(data.train, {.slots = 2, .epochs = epochs})))
      << cluster->err;
  EXPECT_THAT(cluster->err, HasSubstr(std::string(GetParam()) + " was killed by signal 9"));
}

TEST(AStoppedWorker, IsSuspectedThenLostAndJoinsAgainWhenItContinues) {
  Cluster cluster(1, 2, {"--mode", "sync", "--epochs", "100000", "--digits", "2000,100", "--peer-timeout", "4"});
  cluster->wait_for("\"event\":\"epoch\"");
  const pid_t worker = cluster.pid("worker/1");
  testing::stop_process(worker);
  cluster->wait_for("/job:worker/task:1 has not been heard from for a while");
  cluster->wait_for("/job:worker/task:1 was lost");
  cluster->wait_for("training continued");
  kill(worker, SIGCONT);
  cluster->wait_for("/job:worker/task:1 has joined");
  cluster->signal(SIGTERM);
  EXPECT_EQ(cluster.wait(), 128 + SIGTERM) << cluster->err;
}

// The same with checkpoints: the job goes on from the newest.
TEST_P(AKilledTask, ComesAgainAndGoesOnFromACheckpoint) {
  const int epochs = 40;
  const DataSplits data = draw_digits({.train = 600, .test = 100});
  TemporaryDirectory directory;
  Cluster cluster(2, 3,
                  {"--mode", "sync", "--replicas", "2", "--epochs", std::to_string(epochs), "--digits", "600,100",
                   "--checkpoint", directory.path(), "--checkpoint-every", "20"},
                  3);
  cluster->wait_for("saved step");
  kill(cluster.pid(GetParam()), SIGKILL);
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
  EXPECT_EQ(last_line(cluster->out).value("params_sha256", "none"),
            params_sha256(testing::trained_by_hand(data.train, {.slots = 2, .epochs = epochs})))
      << cluster->err;
}

INSTANTIATE_TEST_SUITE_P(, AKilledTask, ::testing::Values("worker/1", "worker/0", "ps/1", "ps/0"),
                         [](const auto& info) {
                           std::string name = info.param;
                           name.erase(name.find('/'), 1);
                           return name;
                         });

// Its part of a step is kept for it, for longer than it takes to come again.
TEST(ClusterFailure, AKilledWorkerIsWaitedForUnderThePolicyWait) {
  const int epochs = 40;
  Cluster cluster(2, 2,
                  {"--mode", "sync", "--replicas", "4", "--epochs", std::to_string(epochs), "--digits", "600,100",
                   "--on-loss", "wait"},
                  3);
  cluster->wait_for("\"event\":\"epoch\"");
  kill(cluster.pid("worker/1"), SIGKILL);
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
  EXPECT_EQ(last_line(cluster->out).value("params_sha256", "none"),
            params_sha256(testing::trained_by_hand(draw_digits({.train = 600, .test = 100}).train,
                                                   {.slots = 4, .epochs = epochs})));
}

TEST(ClusterFailure, ATaskThatFailsTooOftenEndsTheCluster) {
  Process process({testing::program("troupe-launch"), "--ps", "1", "--workers", "1", "--restart", "2", "--",
                   testing::program("troupe-mnist"), "--mode", "allreduce"});
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err, HasSubstr("restarted as process"));
  EXPECT_THAT(process.err, HasSubstr("has failed 3 times and is not restarted"));
}

TEST(ClusterFailure, AKilledParameterServerEndsTheJobAndIsNamed) {
  for (const char* lost : {"0", "1"}) {
    SCOPED_TRACE(::testing::Message() << "ps/" << lost);  // the coordinator's, and another
    Cluster cluster(2, 2, kForever);
    cluster->wait_for("\"event\":\"epoch\"");
    kill(cluster.pid(std::string("ps/") + lost), SIGKILL);
    EXPECT_NE(cluster.wait(), 0);
    EXPECT_THAT(cluster->err, ContainsRegex(std::string("worker/0\\] troupe-mnist: .*/job:ps/task:") + lost));
  }
}

TEST(ClusterFailure, AKilledChiefEndsTheJob) {
  Cluster cluster(1, 2, kForever);
  cluster->wait_for("\"event\":\"epoch\"");
  kill(cluster.pid("worker/0"), SIGKILL);
  EXPECT_EQ(cluster.wait(), 128 + SIGKILL);
}

TEST(ClusterFailure, AKilledWorkerOfAsynchronousTrainingIsNamed) {
  Cluster cluster(1, 2, {"--mode", "async", "--epochs", "100000", "--digits", "2000,100", "--on-loss", "fail"});
  cluster->wait_for("\"event\":\"epoch\"");
  kill(cluster.pid("worker/1"), SIGKILL);
  EXPECT_NE(cluster.wait(), 0);
  EXPECT_THAT(cluster->err, HasSubstr("[worker/0] troupe-mnist: /job:worker/task:1 was lost"));
}

TEST(ClusterFailure, AKilledWorkerOfAnAllReduceIsNamedByAllOthers) {
  Cluster cluster(0, 3, {"--mode", "allreduce", "--epochs", "100000", "--digits", "2000,100"});
  cluster->wait_for("\"event\":\"epoch\"");
  kill(cluster.pid("worker/1"), SIGKILL);
  EXPECT_NE(cluster.wait(), 0);
  for (const char* task : {"0", "2"})
    EXPECT_THAT(cluster->err,
                ContainsRegex(std::string("worker/") + task + "\\] troupe-mnist: .*/job:worker/task:1 was lost"));
  EXPECT_THAT(cluster->out, Not(HasSubstr("final")));
}

TEST(ClusterEnd, ASignalToTheLauncherEndsAnAllReduceInOrder) {
  Cluster cluster(0, 2, {"--mode", "allreduce", "--epochs", "100000", "--digits", "2000,100"});
  cluster->wait_for("\"event\":\"epoch\"");
  cluster->signal(SIGTERM);
  EXPECT_EQ(cluster.wait(), 143) << cluster->err;
}

TEST(ClusterEnd, ASignalToTheLauncherEndsAllTasksInOrder) {
  for (const auto& [number, code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    Cluster cluster(2, 2, kForever);
    cluster->wait_for("\"event\":\"epoch\"");
    cluster->signal(number);
    EXPECT_EQ(cluster.wait(), code) << cluster->err;
    EXPECT_THAT(cluster->out, Not(HasSubstr("final"))) << "signal " << number;
  }
}

TEST(ClusterEnd, CtrlCKeepsWhatTheClusterHasTrained) {
  const testing::TemporaryDirectory directory;
  Arguments training = kForever;
  training.insert(training.end(), {"--save", directory.file("model")});
  Cluster cluster(2, 2, training);
  cluster->wait_for("\"event\":\"epoch\"");
  cluster->signal(SIGINT);
  EXPECT_EQ(cluster.wait(), 130) << cluster->err;
  EXPECT_THAT(cluster->err, HasSubstr("the model is in "));
}

// ---- By hand -------------------------------------------------------------------------------------------------------

// troupe-mnist as a task of a cluster file.
Arguments task(const std::string& file, const char* job, const char* index, Arguments more = {}) {
  Arguments all = {testing::program("troupe-mnist"),
                   "--mode",
                   "sync",
                   "--epochs",
                   "2",
                   "--digits",
                   "600,100",
                   "--json",
                   "--job",
                   job,
                   "--task",
                   index,
                   "--cluster",
                   file};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string cluster_file(const TemporaryDirectory& directory, const std::vector<int>& ports) {
  return directory.write("c.json", fmt::format(R"({{"name":"c","token":"t","ps":["127.0.0.1:{}"],)"
                                               R"("worker":["127.0.0.1:{}","127.0.0.1:{}"]}})",
                                               ports[0], ports[1], ports[2]));
}

TEST(ClusterByHand, TrainsLikeOneThatIsLaunched) {
  TemporaryDirectory directory;
  const std::string file = cluster_file(directory, free_ports(3));
  Process second(task(file, "worker", "1"));  // in any order
  Process chief(task(file, "worker", "0"));
  Process shard(task(file, "ps", "0"));
  EXPECT_EQ(chief.wait(), 0) << chief.err;
  EXPECT_EQ(second.wait(), 0) << second.err;
  EXPECT_EQ(shard.wait(), 0) << shard.err;
  EXPECT_EQ(last_line(chief.out).value("params_sha256", "none"), hash_by_hand(2));
  EXPECT_EQ(second.out, "");
  for (const char* event : {"joined", "began", "used", "job_ended", "ended"})
    EXPECT_THAT(shard.out, HasSubstr(fmt::format("\"event\":\"{}\"", event)));
}

// Two of four begin, the others are used as soon as they come.
TEST(ClusterByHand, TrainingBeginsWithSomeOfTheWorkersAndTakesTheOthersWhenTheyCome) {
  TemporaryDirectory directory;
  const std::vector<int> ports = free_ports(5);
  const std::string file = directory.write(
      "c.json", fmt::format(R"({{"name":"c","token":"t","ps":["127.0.0.1:{}"],)"
                            R"("worker":["127.0.0.1:{}","127.0.0.1:{}","127.0.0.1:{}","127.0.0.1:{}"]}})",
                            ports[0], ports[1], ports[2], ports[3], ports[4]));
  const int epochs = 120;
  const auto start = [&](const char* job, const char* index) {
    return std::make_unique<Process>(Arguments{testing::program("troupe-mnist"),
                                               "--mode",
                                               "sync",
                                               "--replicas",
                                               "2",
                                               "--epochs",
                                               std::to_string(epochs),
                                               "--digits",
                                               "600,20",
                                               "--json",
                                               "--min-workers",
                                               "2",
                                               "--threads",
                                               "1",
                                               "--job",
                                               job,
                                               "--task",
                                               index,
                                               "--cluster",
                                               file});
  };
  const auto shard = start("ps", "0"), third = start("worker", "2"), fourth = start("worker", "3");
  third->wait_for("\"event\":\"epoch\"");  // the lowest is the chief
  const auto first = start("worker", "0"), second = start("worker", "1");
  first->wait_for("\"event\":\"epoch\"");  // and is it no more
  EXPECT_EQ(first->wait(), 0) << first->err;
  for (Process* process : {second.get(), third.get(), fourth.get(), shard.get()})
    EXPECT_EQ(process->wait(), 0) << process->err;
  for (const char* late : {"0", "1"})
    EXPECT_THAT(shard->out, ContainsRegex(fmt::format("\"used\"[^\n]*/job:worker/task:{}\"", late)));
  EXPECT_EQ(last_line(first->out).value("params_sha256", "none"),
            params_sha256(testing::trained_by_hand(draw_digits({.train = 600, .test = 20}).train,
                                                   {.slots = 2, .epochs = epochs})));
}

// It has no address in the cluster file, and leaves no trace in the bits.
TEST(ClusterByHand, AWorkerBeyondThoseOfTheFileJoinsWhileTheJobTrainsAndIsUsed) {
  TemporaryDirectory directory;
  const std::vector<int> ports = free_ports(3);
  const std::string file =
      directory.write("c.json", fmt::format(R"({{"name":"c","token":"t","max_workers":3,"ps":["127.0.0.1:{}"],)"
                                            R"("worker":["127.0.0.1:{}","127.0.0.1:{}"]}})",
                                            ports[0], ports[1], ports[2]));
  const int epochs = 120;
  const auto start = [&](const char* job, const char* index) {
    Arguments command = task(file, job, index);
    *(std::ranges::find(command, "--epochs") + 1) = std::to_string(epochs);
    return std::make_unique<Process>(command);
  };
  const auto shard = start("ps", "0"), first = start("worker", "0"), second = start("worker", "1");
  first->wait_for("\"event\":\"epoch\"");
  const auto late = start("worker", "2");
  EXPECT_EQ(first->wait(), 0) << first->err;
  for (Process* process : {second.get(), late.get(), shard.get()}) EXPECT_EQ(process->wait(), 0) << process->err;
  EXPECT_THAT(shard->out, ContainsRegex("\"used\"[^\n]*/job:worker/task:2\""));
  EXPECT_EQ(last_line(first->out).value("params_sha256", "none"),
            params_sha256(testing::trained_by_hand(draw_digits({.train = 600, .test = 100}).train,
                                                   {.slots = 2, .epochs = epochs})));
  Process stranger(task(file, "worker", "3"));  // one too many
  EXPECT_NE(stranger.wait(), 0);
  EXPECT_THAT(stranger.err, HasSubstr("has no task /job:worker/task:3"));
}

TEST(ClusterLaunched, AWorkerStartedByHandJoinsUpToMaxWorkers) {
  const int epochs = 120;
  const Arguments training = {"--mode", "sync", "--epochs", std::to_string(epochs), "--digits", "600,100"};
  Arguments launch = {testing::program("troupe-launch"), "--ps",  "1", "--workers", "2", "--max-workers", "3", "--",
                      testing::program("troupe-mnist"),  "--json"};
  launch.insert(launch.end(), training.begin(), training.end());
  Process cluster(launch);
  cluster.wait_for("\"event\":\"epoch\"");
  std::smatch file;
  ASSERT_TRUE(std::regex_search(cluster.err, file, std::regex("may join with: .* --task 2 --cluster (\\S+)")))
      << cluster.err;
  Arguments command = {testing::program("troupe-mnist"), "--job", "worker", "--task", "2", "--cluster", file.str(1)};
  command.insert(command.end(), training.begin(), training.end());
  Process late(command);
  EXPECT_EQ(cluster.wait(), 0) << cluster.err;
  EXPECT_EQ(late.wait(), 0) << late.err;
  EXPECT_THAT(cluster.err, HasSubstr("/job:worker/task:2 has joined"));
  EXPECT_EQ(last_line(cluster.out).value("params_sha256", "none"),
            params_sha256(testing::trained_by_hand(draw_digits({.train = 600, .test = 100}).train,
                                                   {.slots = 2, .epochs = epochs})));
}

TEST(ClusterByHand, TasksWithOtherOptionsAreRefusedAndTheDifferenceIsNamed) {
  TemporaryDirectory directory;
  const std::string file = cluster_file(directory, free_ports(3));
  Process chief(task(file, "worker", "0"));
  Process second(task(file, "worker", "1", {"--batch", "16"}));
  Process shard(task(file, "ps", "0"));
  EXPECT_EQ(second.wait(), 1);
  EXPECT_THAT(second.err, HasSubstr("batch"));
  EXPECT_THAT(second.err, HasSubstr("/job:worker/task:1"));
  EXPECT_EQ(chief.wait(), 1);
  EXPECT_EQ(shard.wait(), 1);
}

TEST(ClusterByHand, RanksWithOtherOptionsAllSayInWhat) {
  TemporaryDirectory directory;
  const std::vector<int> ports = free_ports(2);
  const std::string file = directory.write(
      "c.json",
      fmt::format(R"({{"name":"c","token":"t","worker":["127.0.0.1:{}","127.0.0.1:{}"]}})", ports[0], ports[1]));
  const auto worker = [&](const char* index, const char* batch) -> Arguments {
    return {testing::program("troupe-mnist"),
            "--mode",
            "allreduce",
            "--digits",
            "600,100",
            "--job",
            "worker",
            "--task",
            index,
            "--cluster",
            file,
            "--batch",
            batch};
  };
  Process chief(worker("0", "32")), second(worker("1", "16"));
  for (Process* process : {&chief, &second}) {
    SCOPED_TRACE(process == &chief ? "chief" : "second");
    EXPECT_EQ(process->wait(), 1);
    EXPECT_THAT(process->err, AllOf(HasSubstr("batch=32"), HasSubstr("batch=16"), HasSubstr("/job:worker/task:1")));
  }
}

// What a shard knows of a version: by troupe-top, while the job stands still because a worker is missing.
TEST(ClusterByHand, TellsWhatWentIntoAVersion) {
  TemporaryDirectory directory;
  const std::string file = cluster_file(directory, free_ports(3));
  const auto start = [&](const char* job, const char* index) -> Arguments {
    return {testing::program("troupe-mnist"),
            "--json",
            "--epochs",
            "100000",
            "--digits",
            "600,100",
            "--replicas",
            "4",
            "--on-loss",
            "wait",
            "--rejoin-timeout",
            "10000",
            "--job",
            job,
            "--task",
            index,
            "--cluster",
            file};
  };
  Process shard(start("ps", "0")), chief(start("worker", "0"));
  {
    Process second(start("worker", "1"));
    chief.wait_for("\"event\":\"epoch\"");
  }  // and it is killed
  const auto ask = [&](const std::string& version) {
    Process top({testing::program("troupe-top"), "--provenance", version, "--cluster", file});
    EXPECT_EQ(top.wait(), 0) << top.err;
    return top.out;
  };
  const std::string unknown = ask("1000000000");
  EXPECT_THAT(unknown, HasSubstr("/job:ps/task:0, job "));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      unknown, found,
      std::regex("version 1000000000 is unknown: the shard has version (\\d+) and keeps the provenance "
                 "of the last 1024")));
  const std::uint64_t version = std::stoull(found.str(1));
  const std::string known = ask(found.str(1));
  for (int slot = 0; slot < 4; ++slot)
    EXPECT_THAT(known,
                ContainsRegex(fmt::format("version {}: .*applied step {} slot {} of worker [01] \\(4 gradients\\)",
                                          version, version - 1, slot)));
  Process refused({testing::program("troupe-top"), "--provenance", "1"});
  EXPECT_EQ(refused.wait(), 2);
}

// ---- Over TLS ------------------------------------------------------------------------------------------------------

Arguments tls_options(const TlsFiles& files) {
  return {"--tls-cert", files.certificate, "--tls-key", files.key, "--tls-ca", files.ca};
}

TEST(ClusterOverTls, TrainsToTheSameParameters) {
  TemporaryDirectory directory;
  testing::Authority ca(directory.path(), "ca");
  const std::string file = cluster_file(directory, free_ports(3));
  Process second(task(file, "worker", "1", tls_options(ca.issue("worker1"))));
  Process chief(task(file, "worker", "0", tls_options(ca.issue("worker0"))));
  Process shard(task(file, "ps", "0", tls_options(ca.issue("ps0"))));
  EXPECT_EQ(chief.wait(), 0) << chief.err;
  EXPECT_EQ(second.wait(), 0) << second.err;
  EXPECT_EQ(shard.wait(), 0) << shard.err;
  EXPECT_EQ(last_line(chief.out).value("params_sha256", "none"), hash_by_hand(2));
}

TEST(ClusterOverTls, TrainsBetweenTwoNetworksToTheSameParameters) {
  const TwoNetworks networks;
  if (!networks.possible()) GTEST_SKIP() << "network namespaces cannot be made here: needs root and ip (iproute2)";
  TemporaryDirectory directory;
  testing::Authority ca(directory.path(), "ca");
  const std::string file =
      directory.write("c.json", fmt::format(R"({{"name":"c","token":"t","ps":["{}:7701"],"worker":["{}:7711"]}})",
                                            networks.address(0), networks.address(1)));
  Process shard(networks.in(0, task(file, "ps", "0", tls_options(ca.issue("ps0")))));
  Process worker(networks.in(1, task(file, "worker", "0", tls_options(ca.issue("worker0")))));
  EXPECT_EQ(worker.wait(), 0) << worker.err;
  EXPECT_EQ(shard.wait(), 0) << shard.err;
  EXPECT_EQ(last_line(worker.out).value("params_sha256", "none"), hash_by_hand(1));
}

TEST(ClusterOverTls, TheLauncherPassesTheCertificatesOn) {
  TemporaryDirectory directory;
  testing::Authority ca(directory.path(), "ca");
  Arguments training = tls_options(ca.issue("all"));
  training.insert(training.end(), {"--epochs", "1", "--digits", "64,10"});
  Cluster cluster(1, 1, training);
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
}

TEST(ClusterOverTls, AWorkerOfAnotherCaIsRefusedAndToldWhy) {
  TemporaryDirectory directory;
  testing::Authority ca(directory.path(), "ca"), other(directory.path(), "other");
  const std::string file = cluster_file(directory, free_ports(3));
  const Arguments shard_task = task(file, "ps", "0", tls_options(ca.issue("ps0")));
  const Arguments worker_task = task(file, "worker", "0", tls_options(other.issue("worker0")));
  // The shard may give up before the worker calls.
  EXPECT_TRUE(holds_with_more_time(std::chrono::seconds(2), [&](std::chrono::milliseconds limit) {
    Process shard(with_limit(shard_task, "--join-timeout", limit));
    Process worker(with_limit(worker_task, "--join-timeout", limit));
    EXPECT_EQ(worker.wait(), 1);
    EXPECT_EQ(shard.wait(), 1);
    EXPECT_THAT(shard.err, HasSubstr("/job:worker/task:0, /job:worker/task:1 did not join"));
    if (worker.err.find("the peer's certificate was rejected: ") == std::string::npos) return false;
    EXPECT_THAT(worker.err, HasSubstr("/job:ps/task:0 at 127.0.0.1:"));
    return true;
  }));
}

}  // namespace
}  // namespace troupe
