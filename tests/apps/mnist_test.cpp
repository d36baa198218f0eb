// troupe-mnist as a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::Process;
using ::testing::StartsWith;
using testing::TemporaryDirectory;

struct Outcome {
  int code;
  std::string out, err;
};

Outcome mnist(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), testing::program("troupe-mnist"));
  Process process(arguments);
  const int code = process.wait();
  return {code, process.out, process.err};
}

// A small run: 20 steps, one thread, for equal bits everywhere.
std::vector<std::string> small(std::initializer_list<std::string> more = {}) {
  std::vector<std::string> arguments = {"--digits", "100,50", "--epochs", "2", "--batch", "10", "--threads", "1"};
  arguments.insert(arguments.end(), more);
  return arguments;
}

std::vector<nlohmann::json> json_lines(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::vector<nlohmann::json> lines;
  std::istringstream text(outcome.out);
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::string params_sha256(std::initializer_list<std::string> more) {
  auto arguments = small(more);
  arguments.push_back("--json");
  const auto lines = json_lines(mnist(arguments));
  return lines.empty() ? "none" : lines.back().at("params_sha256").get<std::string>();
}

TEST(Mnist, HelpAndVersionGoToStdout) {
  const Outcome help = mnist({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("Usage: troupe-mnist"));
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(mnist({"--version"}).out, "troupe-mnist " TROUPE_VERSION "\n");
}

TEST(Mnist, WrongUsageExitsWithTwo) {
  for (const std::vector<std::string>& arguments : std::initializer_list<std::vector<std::string>>{
           {"--epochs", "0"}, {"--mode", "ssp"}, {"--mode", "sync"}, {"--unknown"}, {"--job", "worker"}}) {
    SCOPED_TRACE(::testing::PrintToString(arguments));
    const Outcome outcome = mnist(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("troupe-mnist: "));
  }
}

TEST(Mnist, SaysWhereEachNodeRunsAndWhatBecameOfTheSearchForGpus) {
  const Outcome told = mnist(small({"--gpus", "0", "--log-placement"}));
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(
      told.err,
      AllOf(HasSubstr("troupe-mnist: GPUs: switched off\n"), ::testing::ContainsRegex("/device:CPU:0: [0-9]+ nodes\n"),
            HasSubstr("\n  ReadVariable 'dense/kernel/read'\n"), HasSubstr("\n  Feed 'evaluation/images/feed'\n")));
  EXPECT_THAT(told.out, HasSubstr("accuracy"));
  const Outcome silent = mnist(small());
  EXPECT_THAT(silent.err, AllOf(Not(HasSubstr("GPU")), Not(HasSubstr("nodes"))));
  EXPECT_THAT(mnist(small({"--log-placement"})).err,
              HasSubstr("troupe-mnist: GPUs: "));  // none found, or those there are
}

TEST(Mnist, AMissingDirectoryIsNamed) {
  const Outcome outcome = mnist({"--data", "/nowhere/mnist"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(StartsWith("troupe-mnist: "), HasSubstr("/nowhere/mnist")));
}

TEST(Mnist, ATruncatedFileIsNamed) {
  TemporaryDirectory directory;
  // 60000 images are announced, and none is there.
  directory.write("train-images-idx3-ubyte", std::string("\0\0\x08\x03\0\0\xEA\x60\0\0\0\x1C\0\0\0\x1C", 16));
  for (const char* name : {"train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    directory.write(name, "");
  const Outcome outcome = mnist({"--data", directory.path()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(StartsWith("troupe-mnist: "), HasSubstr("train-images-idx3-ubyte")));
}

TEST(Mnist, APlaceForTheModelThatCannotBeIsRefusedBeforeTraining) {
  TemporaryDirectory directory;
  const std::string file = directory.write("file", "");
  const Outcome outcome = mnist(small({"--save", file + "/below"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("--save: cannot create"));
}

TEST(Mnist, TrainsAndSaysHowGoodItIs) {
  const Outcome outcome = mnist(small());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith("Training mlp on 100 built-in digits, testing on 50"), HasSubstr("\nEpoch 1/2: loss "),
                    HasSubstr("\nEpoch 2/2: loss "), HasSubstr("\n20 steps in ")));
  const std::string last = outcome.out.substr(outcome.out.rfind('\n', outcome.out.size() - 2) + 1);
  EXPECT_THAT(last, MatchesRegex("Test accuracy: [01][.][0-9]{4}\n"));
}

TEST(Mnist, JsonIsOneObjectPerLine) {
  const auto lines = json_lines(mnist(small({"--json"})));
  ASSERT_EQ(lines.size(), 3u);
  for (int i = 0; i < 2; ++i) {
    SCOPED_TRACE(::testing::Message() << "line " << i);
    EXPECT_EQ(lines[i].at("event"), "epoch");
    EXPECT_EQ(lines[i].at("epoch"), i + 1);
    EXPECT_GT(lines[i].at("loss"), 0.0);
    EXPECT_GT(lines[i].at("images_per_second"), 0.0);
  }
  EXPECT_EQ(lines[2].at("event"), "final");
  EXPECT_EQ(lines[2].at("steps"), 20);
  EXPECT_EQ(lines[2].at("test_accuracy"), lines[1].at("test_accuracy"));
  EXPECT_EQ(lines[2].at("params_sha256").get<std::string>().size(), 64u);
}

TEST(Mnist, TheResultFollowsFromTheSeedNotFromTheDevices) {
  const std::string hash = params_sha256({"--seed", "7", "--replicas", "2"});
  EXPECT_EQ(params_sha256({"--seed", "7", "--replicas", "2"}), hash);
  EXPECT_EQ(params_sha256({"--seed", "7", "--replicas", "2", "--devices", "2"}), hash);
  EXPECT_NE(params_sha256({"--seed", "8", "--replicas", "2"}), hash);
  EXPECT_NE(params_sha256({"--seed", "7", "--replicas", "1"}), hash);
}

TEST(Mnist, WhatIsSaidOfUpdatesIsDone) {
  EXPECT_NE(params_sha256({"--clip-norm", "0.5"}), params_sha256({}));
  EXPECT_EQ(params_sha256({"--clip-norm", "1e9"}), params_sha256({}));
  EXPECT_NE(params_sha256({"--accumulate", "5"}), params_sha256({}));
  EXPECT_NE(params_sha256({"--schedule", "cosine,steps=20"}), params_sha256({}));
}

TEST(Mnist, TheConvolutionalModelTrainsToo) {
  const auto lines = json_lines(mnist(small({"--model", "cnn", "--json"})));
  EXPECT_EQ(lines.size(), 3u);
}

TEST(Mnist, SavesTheModel) {
  TemporaryDirectory directory;
  const std::filesystem::path place = directory.path() / "new" / "place";
  const Outcome outcome = mnist(small({"--save", place}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GT(std::filesystem::file_size(place / "values.safetensors"), 400'000u);  // 101770 numbers
  EXPECT_THAT(outcome.err, HasSubstr(place.string()));
}

TEST(Mnist, ASignalEndsTheTrainingInOrder) {
  for (const auto& [number, code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    Process process({testing::program("troupe-mnist"), "--digits", "100,50", "--epochs", "1000000"});
    process.wait_for("Epoch 2/1000000: ");
    process.signal(number);
    EXPECT_EQ(process.wait(), code) << process.err;
    EXPECT_THAT(process.out, ::testing::Not(HasSubstr("Test accuracy"))) << "signal " << number;
  }
}

TEST(Mnist, CtrlCKeepsWhatWasTrained) {
  TemporaryDirectory directory;
  for (const auto& [number, code] : {std::pair(SIGTERM, 143), std::pair(SIGINT, 130)}) {
    const std::string place = directory.file("model");
    Process process({testing::program("troupe-mnist"), "--digits", "100,50", "--epochs", "1000000", "--save", place});
    process.wait_for("Epoch 2/1000000: ");
    process.signal(number);
    EXPECT_EQ(process.wait(), code) << process.err;
    EXPECT_EQ(process.err.find("the model is in ") != std::string::npos, number == SIGINT) << process.err;
  }
}

TEST(Mnist, OutputThatGoesNowhereIsAFailure) {
  Process process({"/bin/sh", "-c", "exec \"$0\" --help > /dev/full", testing::program("troupe-mnist")});
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err, HasSubstr("troupe-mnist: cannot write all results to stdout"));
}

TEST(Mnist, AClusterWithoutParameterServersIsExplained) {
  Process process({testing::program("troupe-launch"), "--workers", "1", "--", testing::program("troupe-mnist"),
                   "--digits", "10,10"});
  EXPECT_NE(process.wait(), 0);
  EXPECT_THAT(process.err, HasSubstr("has no ps: use"));
}

}  // namespace
}  // namespace troupe
