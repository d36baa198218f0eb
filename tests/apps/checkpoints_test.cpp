// Training that is killed and started again, or goes on elsewhere, as processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/apps/cluster.hpp"
#include "tests/apps/training_oracle.hpp"
#include "tests/paths.hpp"
#include <troupe/graph/optimizers/schedules.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::Arguments;
using testing::Cluster;
using ::testing::HasSubstr;
using testing::last_line;
using ::testing::Not;
using testing::OracleOptions;
using testing::Process;
using testing::TemporaryDirectory;

Arguments joined(Arguments first, const Arguments& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

// Where a job runs; no worker: in one process.
struct Place {
  int ps = 0, workers = 0;
};
constexpr Place kHere;

class Checkpoints : public ::testing::Test {
 protected:
  // Long enough to be killed in the middle of: two slots make 9 steps of an epoch.
  static constexpr int kEpochs = 60;
  static std::string by_hand(OracleOptions options) {
    return params_sha256(testing::trained_by_hand(draw_digits({.train = 600, .test = 100}).train, options));
  }
  static std::string by_hand(int epochs = kEpochs) { return by_hand(OracleOptions{.slots = 2, .epochs = epochs}); }

  static constexpr const char* kNever = "100000";  // steps
  Arguments saving(const Arguments& more = {}, int epochs = kEpochs, const char* every = "20") const {
    return joined({"--epochs", std::to_string(epochs), "--digits", "600,100", "--checkpoint", directory.path(),
                   "--checkpoint-every", every},
                  more);
  }
  static Arguments of(const Place& place, const Arguments& training) {
    if (place.workers == 0) return joined({testing::program("troupe-mnist"), "--json"}, training);
    return joined({testing::program("troupe-launch"), "--ps", std::to_string(place.ps), "--workers",
                   std::to_string(place.workers), "--", testing::program("troupe-mnist"), "--json"},
                  training);
  }

  std::vector<std::filesystem::path> checkpoints() const {
    std::vector<std::filesystem::path> out;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
      if (std::filesystem::exists(entry.path() / "MANIFEST")) out.push_back(entry.path());
    std::sort(out.begin(), out.end());
    return out;
  }

  // Kills everything after the first save.
  void begin(const Place& place, const Arguments& training) {
    Process process(of(place, training));
    process.wait_for("saved step");
    process.signal(SIGKILL);
    ASSERT_EQ(process.wait(), -SIGKILL) << process.err;
    ASSERT_FALSE(checkpoints().empty());
  }
  // What the job comes to.
  std::string finish(const Place& place, const Arguments& training) {
    Process process(of(place, training));
    EXPECT_EQ(process.wait(), 0) << process.err;
    said = process.out + process.err;  // events of ps tasks are on stderr
    printed = process.out;
    return last_line(process.out).value("params_sha256", "none");
  }

  TemporaryDirectory directory;
  std::string said, printed;
};

// ---- The same bits -------------------------------------------------------------------------------------------------

struct Job {
  const char* name;
  Place place;
  Arguments options;
  OracleOptions by_hand;
};

void PrintTo(const Job& job, std::ostream* out) { *out << job.name; }

class KilledJob : public Checkpoints, public ::testing::WithParamInterface<Job> {};

// Twice: what was resumed saves too.
TEST_P(KilledJob, GoesOnWithTheSameBits) {
  const Job& job = GetParam();
  OracleOptions undisturbed = job.by_hand;
  undisturbed.epochs = kEpochs;
  begin(job.place, saving(job.options));
  begin(job.place, saving(job.options));
  EXPECT_EQ(finish(job.place, saving(job.options)), by_hand(undisturbed));
  EXPECT_THAT(said, HasSubstr("the job resumes from step"));
}

INSTANTIATE_TEST_SUITE_P(
    , KilledJob,
    ::testing::Values(Job{"OneProcess", kHere, {"--replicas", "2"}, {.slots = 2}},
                      Job{"SeveralDevices", kHere, {"--replicas", "2", "--devices", "2"}, {.slots = 2}},
                      Job{"RatesThatChange",
                          kHere,
                          {"--schedule", "cosine,steps=900", "--lr", "0.002"},
                          {.slots = 1,
                           .learning_rate =
                               [](std::int64_t t) {
                                 return Schedule(schedules::Cosine{.rate = 2e-3, .steps = 900}).rate(t);
                               }}},
                      Job{"MicroBatchesClipped",
                          kHere,
                          {"--replicas", "2", "--accumulate", "2", "--clip-norm", "0.5"},
                          {.slots = 2, .micro_batches = 2, .clip_norm = 0.5}},
                      Job{"TwoRanks", {0, 2}, {"--mode", "allreduce"}, {.slots = 2, .all_reduce = true}},
                      Job{"ThreeRanks", {0, 3}, {"--mode", "allreduce"}, {.slots = 3, .all_reduce = true}},
                      Job{"Shards", {2, 2}, {"--mode", "sync", "--replicas", "2"}, {.slots = 2}}),
    [](const auto& info) { return std::string(info.param.name); });

// Nothing was saved before the signal.
TEST_P(KilledJob, SavesWhenItIsStopped) {
  const Job& job = GetParam();
  OracleOptions undisturbed = job.by_hand;
  undisturbed.epochs = kEpochs;
  const Arguments training = saving(job.options, kEpochs, kNever);
  Process process(of(job.place, training));
  process.wait_for(R"("event":"epoch","epoch":2)");
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 143) << process.err;
  ASSERT_EQ(checkpoints().size(), 1u) << process.err;
  EXPECT_EQ(finish(job.place, training), by_hand(undisturbed));
  EXPECT_THAT(said, HasSubstr("the job resumes from step"));
}

TEST_F(Checkpoints, AJobSavesWhenOneOfItsTasksIsStopped) {
  const Arguments training = saving({"--mode", "sync", "--replicas", "2", "--on-loss", "fail"}, 100'000, kNever);
  for (const char* task : {"ps/1", "worker/1"}) {
    Cluster cluster(2, 2, training);
    const pid_t pid = cluster.pid(task);
    cluster->wait_for(R"("event":"epoch")");
    kill(pid, SIGTERM);
    EXPECT_NE(cluster.wait(), 0);
    const std::string name = std::string("/job:") + (task[0] == 'p' ? "ps" : "worker") + "/task:1";
    EXPECT_THAT(cluster->err, HasSubstr(name + " was stopped; the job has saved step ")) << task;
    ASSERT_EQ(checkpoints().size(), 1u) << task;
    std::filesystem::remove_all(checkpoints()[0]);
  }
}

// On any number of tasks, and in one process.
TEST_F(Checkpoints, AJobGoesOnElsewhere) {
  const Arguments shards = saving({"--mode", "sync", "--replicas", "2"}), one = saving({"--replicas", "2"});
  begin({2, 2}, shards);
  begin(kHere, one);
  begin({1, 3}, shards);
  EXPECT_EQ(finish(kHere, one), by_hand());
  EXPECT_THAT(said, HasSubstr("the job resumes from step"));
}

// The first gradients of f16 overflow at the first scale: such steps count for neither Adam nor a schedule.
TEST_F(Checkpoints, StepsThatChangedNothingStayUncounted) {
  const auto training = [&](const char* epochs) {
    return Arguments{"--precision", "f16",  "--replicas", "2",      "--batch",    "1",
                     "--epochs",    epochs, "--digits",   "200,10", "--schedule", "cosine,steps=400"};
  };
  const Arguments keep = {"--checkpoint", directory.path()};
  const std::string undisturbed = finish(kHere, training("3"));
  ASSERT_THAT(said, HasSubstr("steps were skipped because"));
  finish(kHere, joined(training("1"), keep));
  finish({3, 2}, joined(joined(training("2"), {"--mode", "sync"}), keep));
  EXPECT_THAT(said, HasSubstr("the job resumes from step 100"));
  EXPECT_EQ(finish(kHere, joined(training("3"), keep)), undisturbed);
  EXPECT_THAT(said, AllOf(HasSubstr("the job resumes from step 200"), HasSubstr("of 300 steps were skipped because")));
}

// Each rank ends with the group, and all come again.
TEST_F(Checkpoints, RanksThatAreStartedAgainGoOn) {
  Cluster cluster(0, 3, saving({"--mode", "allreduce"}), 10);
  cluster->wait_for("saved step");
  kill(cluster.pid("worker/1"), SIGKILL);
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
  EXPECT_THAT(cluster->out, HasSubstr("the job resumes from step"));
  EXPECT_EQ(last_line(cluster->out).value("params_sha256", "none"),
            by_hand({.slots = 3, .epochs = kEpochs, .all_reduce = true}));
}

// ---- The end -------------------------------------------------------------------------------------------------------

class FinishedJob : public Checkpoints, public ::testing::WithParamInterface<Job> {};

TEST_P(FinishedJob, SaysSoAndMayGetMoreEpochs) {
  const Job& job = GetParam();
  const auto hash = [&](int epochs) {
    OracleOptions options = job.by_hand;
    options.epochs = epochs;
    return by_hand(options);
  };
  EXPECT_EQ(finish(job.place, saving(job.options, 4)), hash(4));
  EXPECT_THAT(said, Not(HasSubstr("the job")));
  const auto steps = last_line(printed).value("steps", 0);
  EXPECT_THAT(said, HasSubstr(fmt::format("saved step {} in", steps)));
  EXPECT_EQ(checkpoints().back().filename(), fmt::format("checkpoint-{:012}", steps));
  EXPECT_EQ(finish(job.place, saving(job.options, 4)), hash(4));
  EXPECT_THAT(said, AllOf(HasSubstr("the job is complete"), Not(HasSubstr("saved"))));
  EXPECT_EQ(last_line(printed).value("steps", 0), steps);
  EXPECT_EQ(finish(job.place, saving(job.options, 6)), hash(6));
  EXPECT_THAT(said, HasSubstr(fmt::format("the job resumes from step {}", steps)));
}

INSTANTIATE_TEST_SUITE_P(
    , FinishedJob,
    ::testing::Values(Job{"OneProcess", kHere, {"--replicas", "2"}, {.slots = 2}},
                      Job{"Ranks", {0, 2}, {"--mode", "allreduce"}, {.slots = 2, .all_reduce = true}},
                      Job{"Shards", {2, 2}, {"--mode", "sync"}, {.slots = 2}}),
    [](const auto& info) { return std::string(info.param.name); });

// Its parameters depend on timing, but not when nothing is left to train.
TEST_F(Checkpoints, OfAnAsynchronousJobThatIsOverAreItsEnd) {
  const Arguments job = {"--mode", "async"};
  const std::string first = finish({2, 2}, saving(job, 2));
  EXPECT_EQ(last_line(printed).value("steps", 0), 36);
  EXPECT_EQ(finish({2, 2}, saving(job, 2)), first);
  EXPECT_THAT(said, HasSubstr("the job is complete"));
  EXPECT_NE(finish({2, 2}, saving(job, 3)), first);
  EXPECT_EQ(last_line(printed).value("steps", 0), 54);
}

// ---- What cannot go on ---------------------------------------------------------------------------------------------

TEST_F(Checkpoints, OfAnotherJobAreRefused) {
  ASSERT_EQ(finish(kHere, saving({"--replicas", "2"}, 4)), by_hand(4));
  const auto refused = [&](const Place& place, const Arguments& training) {
    Process process(of(place, training));
    EXPECT_NE(process.wait(), 0);
    return process.err;
  };
  EXPECT_THAT(refused(kHere, saving({"--replicas", "2", "--seed", "3"}, 4)),
              HasSubstr("belongs to another job: seed is '0', expected '3'; use another directory"));
  EXPECT_THAT(refused(kHere, saving({"--replicas", "2", "--batch", "16"}, 4)),
              HasSubstr("belongs to another job: batch is '32', expected '16'"));
  EXPECT_THAT(refused(kHere, saving({"--replicas", "2"}, 3)), HasSubstr("is already in epoch 4, but this job has 3"));
  EXPECT_THAT(refused({2, 2}, saving({"--mode", "sync", "--seed", "3", "--on-loss", "fail"}, 4)),
              HasSubstr("seed is '0', expected '3'"));
  const std::string ranks = refused({0, 2}, saving({"--mode", "allreduce"}, 4));
  for (const char* rank : {"worker/0", "worker/1"})
    EXPECT_THAT(ranks, ::testing::ContainsRegex(
                           fmt::format("{}\\] troupe-mnist: .*mode is 'local or sync', expected 'allreduce'", rank)));
}

TEST_F(Checkpoints, OfAnotherNumberOfRanksAreRefused) {
  finish({0, 2}, saving({"--mode", "allreduce"}, 2));
  Process three(of({0, 3}, saving({"--mode", "allreduce"}, 2)));
  EXPECT_NE(three.wait(), 0);
  EXPECT_THAT(three.err, AllOf(HasSubstr("slots is '2', expected '3'"),
                               HasSubstr("uses one slot per worker, and that job had 2")));
}

TEST_F(Checkpoints, ADamagedOneIsPassedOverAndNamed) {
  const Arguments training = saving({"--mode", "sync", "--replicas", "2"});
  begin({2, 2}, training);
  while (checkpoints().size() < 2) begin({2, 2}, training);
  const auto newest = checkpoints().back();
  for (const auto& entry : std::filesystem::directory_iterator(newest)) {
    if (entry.path().filename() == "MANIFEST") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(100);
    const char flipped = static_cast<char>(file.get() ^ 1);
    file.seekp(100);
    file.put(flipped);
  }
  EXPECT_EQ(finish({2, 2}, training), by_hand());
  EXPECT_THAT(said, HasSubstr(fmt::format("skipping checkpoint '{}': ", newest.string())));
}

TEST_F(Checkpoints, ADirectoryThatCannotBeIsSaidBeforeTraining) {
  Process process({testing::program("troupe-mnist"), "--json", "--digits", "600,100", "--checkpoint",
                   directory.write("file", "") + "/below"});
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err, HasSubstr("below'"));
  EXPECT_EQ(process.out, "");
}

}  // namespace
}  // namespace troupe
