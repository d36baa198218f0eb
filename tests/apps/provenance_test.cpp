// What ps tasks write of the history of their parameters, and a job that repeats another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "tests/apps/cluster.hpp"
#include "tests/apps/training_oracle.hpp"
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using testing::Arguments;
using testing::Cluster;
using ::testing::HasSubstr;
using testing::last_line;
using testing::TemporaryDirectory;

// What the files of --provenance tell: every step's two slots went once into the version after it, whole, and nothing
// else did.
void expect_history(const std::filesystem::path& directory, int shards, std::uint64_t steps) {
  for (int shard = 0; shard < shards; ++shard) {
    std::ifstream file(directory / fmt::format("provenance-ps-{:05}.jsonl", shard));
    std::uint64_t version = 0, gradients_of_a_slot = 0;
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      if (!json.contains("applied")) continue;  // what came late
      ASSERT_EQ(json["version"], ++version) << line;
      std::map<std::uint32_t, std::uint64_t> gradients;
      for (const auto& source : json["applied"]) {
        EXPECT_EQ(source["step"], version - 1) << line;
        gradients[source["slot"]] += source["gradients"].get<std::uint64_t>();
      }
      if (gradients_of_a_slot == 0) gradients_of_a_slot = gradients[0];
      ASSERT_EQ(gradients, (std::map<std::uint32_t, std::uint64_t>{{0, gradients_of_a_slot}, {1, gradients_of_a_slot}}))
          << line;
    }
    EXPECT_EQ(version, steps) << "shard " << shard;
    EXPECT_GT(gradients_of_a_slot, 0u) << "shard " << shard;
  }
}

class HistoryOfParameters : public ::testing::TestWithParam<const char*> {};

TEST_P(HistoryOfParameters, TellsThatEachSlotWentIntoTheParametersOnceThoughATaskWasKilled) {
  const int epochs = 40;
  TemporaryDirectory history, checkpoints;
  Cluster cluster(2, 3,
                  {"--mode", "sync", "--replicas", "2", "--epochs", std::to_string(epochs), "--digits", "600,100",
                   "--provenance", history.path(), "--checkpoint", checkpoints.path(), "--checkpoint-every", "20"},
                  3);
  cluster->wait_for("saved step");
  if (const std::string task = GetParam(); !task.empty()) kill(cluster.pid(task), SIGKILL);
  EXPECT_EQ(cluster.wait(), 0) << cluster->err;
  EXPECT_EQ(last_line(cluster->out).value("params_sha256", "none"),
            params_sha256(testing::trained_by_hand(draw_digits({.train = 600, .test = 100}).train,
                                                   {.slots = 2, .epochs = epochs})));
  expect_history(history.path(), 2, 9 * epochs);
}
INSTANTIATE_TEST_SUITE_P(, HistoryOfParameters, ::testing::Values("", "worker/1", "ps/1", "ps/0"),
                         [](const auto& info) {
                           std::string name = *info.param ? info.param : "nobody";
                           std::erase(name, '/');
                           return name;
                         });

TEST(Replay, OfTheCommitsOfAJobHasItsBits) {
  TemporaryDirectory directory;
  const std::string commits = directory.path() / "commits";
  const auto train = [](Arguments more) {
    Arguments training = {"--mode", "sync",     "--replicas", "2",        "--backups",
                          "1",      "--epochs", "20",         "--digits", "600,100"};
    training.insert(training.end(), more.begin(), more.end());
    return Cluster(2, 3, training);
  };
  Cluster first = train({"--provenance", directory.path()});
  EXPECT_EQ(first.wait(), 0) << first->err;
  Cluster second = train({"--replay", commits});
  EXPECT_EQ(second.wait(), 0) << second->err;
  EXPECT_EQ(last_line(first->out).value("params_sha256", "none"),
            last_line(second->out).value("params_sha256", "other"));

  std::ofstream(commits) << "0-9: 0 5\n";
  Cluster wrong = train({"--replay", commits, "--on-loss", "fail"});
  EXPECT_NE(wrong.wait(), 0);
  EXPECT_THAT(wrong->err, HasSubstr("has the commits of a job with other slots: steps of this job use 2 of 3"));
}

}  // namespace
}  // namespace troupe
