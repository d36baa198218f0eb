// troupe-tags: its data and scores, and the program as processes, on a small part of the packages of Debian.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <zlib.h>

#include <map>
#include <sstream>

#include "apps/tags/options.hpp"
#include "apps/tags/tag_data.hpp"
#include "tests/apps/cluster.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/element_stream.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::Arguments;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::last_line;
using testing::Process;
using testing::TemporaryDirectory;

constexpr const char* kTrain =
    "vim-gtk\tText editor\tuse::editing role::program\n"
    "nano\tSmall editor\tuse::editing\n"
    "libz\tA library\trole::shared-lib\n";
constexpr const char* kTest =
    "ed\tline editor\tuse::editing role::program\n"
    "emacs\tEditor, and more\tuse::editing web::forum\n";

class TagFiles : public ::testing::Test {
 protected:
  TagData load() { return load_tags(directory_.write("train.tsv", kTrain), directory_.write("test.tsv", kTest), 100); }
  TemporaryDirectory directory_;
};

TEST_F(TagFiles, BecomeTextsAndRowsOfTags) {
  const TagData data = load();
  EXPECT_THAT(data.labels, ElementsAre("role::program", "role::shared-lib", "use::editing"));
  EXPECT_EQ(data.vocabulary.front(), "editor");
  EXPECT_THAT(data.train_text.values<std::string>(),
              ElementsAre("vim gtk Text editor", "nano Small editor", "libz A library"));
  EXPECT_THAT(data.train_tags.values<std::uint8_t>(), ElementsAre(1, 0, 1, 0, 0, 1, 0, 1, 0));
  EXPECT_THAT(data.test_tags.values<std::uint8_t>(), ElementsAre(1, 0, 1, 0, 0, 1));
  EXPECT_EQ(data.unseen_labels, 1);
  EXPECT_EQ(data.unseen_pairs, 1);
}

TEST_F(TagFiles, AreReadAgainForTraining) {
  const std::string train = directory_.write("train.tsv", kTrain), test = directory_.write("test.tsv", kTest);
  const TagData kept = load();
  const TagData data = load_tags(train, test, 100, false);
  EXPECT_EQ(data.vocabulary, kept.vocabulary);
  EXPECT_EQ(data.labels, kept.labels);
  EXPECT_FALSE(data.train_text.valid());
  std::map<std::string, std::vector<std::uint8_t>> streamed, in_memory;
  const auto stream = open_stream(data.stream(3).stage());
  stream->start(0);
  while (const auto package = stream->next()) {
    const auto tags = (*package)[1].values<std::uint8_t>();
    streamed[(*package)[0].item<std::string>()] = {tags.begin(), tags.end()};
  }
  for (std::int64_t i = 0; i < kept.train_packages; ++i) {
    const Tensor row = kept.train_tags.rows(i, i + 1);
    const auto tags = row.values<std::uint8_t>();
    in_memory[kept.train_text.data<std::string>()[i]] = {tags.begin(), tags.end()};
  }
  EXPECT_EQ(streamed, in_memory);
}

// By scikit-learn's f1_score of the rows with web::forum as a fourth label: [1,0,0,0], [0,1,1,0] against [1,0,1,0],
// [0,0,1,1]; macro without role::shared-lib, which does not occur.
TEST_F(TagFiles, ScoresCountTagsThatCannotBeFound) {
  Tensor logits(DType::f32, Shape{2, 3});
  std::ranges::copy(std::vector<float>{2, -1, -0.1F, 0, 0.1F, 3}, logits.mutable_data<float>());
  const TagData data = load();
  const TagScores scores = score_tags(data, logits);
  EXPECT_DOUBLE_EQ(scores.micro_f1, 4.0 / 7);
  EXPECT_DOUBLE_EQ(scores.macro_f1, (1 + 2.0 / 3 + 0) / 3);
  EXPECT_EQ(describe_tags(data, logits, 1),
            "emacs Editor, and more\n  found:  use::editing\n  wrong:  role::shared-lib");
}

TEST_F(TagFiles, ThatAreDamagedAreNamed) {
  const std::string test = directory_.write("test.tsv", kTest);
  const auto message = [&](const std::string& train) {
    try {
      load_tags(train, test, 100);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message(directory_.write("bad.tsv", "a\tb\tc\nd\te\n")),
              AllOf(HasSubstr("bad.tsv: line 2"), HasSubstr("3")));
  EXPECT_THAT(message((directory_.path() / "none.tsv").string()),
              AllOf(HasSubstr("cannot open"), HasSubstr("none.tsv")));
  const std::string whole = directory_.path() / "whole.tsv.gz";
  gzFile file = gzopen(whole.c_str(), "wb");
  gzputs(file, kTrain);
  gzclose(file);
  EXPECT_EQ(load_tags(directory_.path() / "whole.tsv", test, 100).labels.size(), 3u);
  std::filesystem::resize_file(whole, std::filesystem::file_size(whole) - 9);
  EXPECT_THAT(message(whole), HasSubstr("whole.tsv.gz: the file ends within compressed data"));
}

TEST(TagsOptions, ThoseOfTheEncoderNeedIt) {
  const auto refused = [](const Arguments& more) {
    Arguments all{"--data", "x"};
    all.insert(all.end(), more.begin(), more.end());
    const auto parsed = parse_tags_options(all, false);
    const auto* exit = std::get_if<EarlyExit>(&parsed);
    return exit ? exit->err : "accepted";
  };
  EXPECT_THAT(refused({"--weights", "e"}), HasSubstr("--weights needs --model encoder"));
  EXPECT_THAT(refused({"--model", "encoder", "--weights", "e", "--layers", "2"}),
              HasSubstr("--layers is that of the weights"));
  EXPECT_THAT(refused({"--model", "encoder", "--features", "30"}),
              HasSubstr("30 features cannot be cut into 12 heads"));
  EXPECT_EQ(refused({"--model", "encoder", "--weights", "e", "--heads", "2"}), "accepted");
}

TEST(TagsOptions, DataAreNeededAndAClusterTrainsInModeSync) {
  const auto missing = parse_tags_options({}, false);
  ASSERT_NE(std::get_if<EarlyExit>(&missing), nullptr);
  EXPECT_THAT(std::get<EarlyExit>(missing).err, HasSubstr("troupe-tags: --data is missing"));
  const auto given = parse_tags_options(
      {"--data", "x", "--model", "transformer", "--job", "worker", "--task", "0", "--cluster", "c.json"}, false);
  ASSERT_NE(std::get_if<TagsOptions>(&given), nullptr);
  EXPECT_EQ(std::get<TagsOptions>(given).model, TagsModel::transformer);
  EXPECT_EQ(name(std::get<TagsOptions>(given).training.mode), "sync");
}

// Packages whose descriptions tell their tags: every program of the family is kept small.
class TagsProgram : public ::testing::Test {
 protected:
  TagsProgram() {
    constexpr const char* kKinds[] = {"editor", "library", "game", "compiler", "font", "driver"};
    std::string train, test;
    for (int i = 0; i < 480; ++i) {
      const int a = i % 6, b = (i / 6) % 6;
      std::string& file = i % 8 == 7 ? test : train;
      file += "package" + std::to_string(i) + "\ta " + kKinds[a] + " and " + kKinds[b] + "\tis::" + kKinds[a];
      if (a != b) file += std::string(" is::") + kKinds[b];
      file += "\n";
    }
    directory_.write("train.tsv", train);
    directory_.write("test.tsv", test);
  }

  Arguments options(const Arguments& more = {}) const {
    Arguments all = {"--json", "--data", directory_.path().string(), "--epochs", "8", "--batch", "10", "--threads", "1",
                     "--lr",   "0.02"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // The last line of a run; without workers, of one process.
  nlohmann::json run(int ps, int workers, const Arguments& more, int inputs = 0) const {
    Arguments command;
    if (workers > 0)
      command = {testing::program("troupe-launch"), "--ps",     std::to_string(ps),     "--workers",
                 std::to_string(workers),           "--inputs", std::to_string(inputs), "--"};
    command.push_back(testing::program("troupe-tags"));
    for (const std::string& option : options(more)) command.push_back(option);
    Process process(command);
    EXPECT_EQ(process.wait(), 0) << process.err;
    return last_line(process.out);
  }
  TemporaryDirectory directory_;
};

TEST_F(TagsProgram, LearnsAndEndsWithItsScores) {
  const nlohmann::json last = run(0, 0, {});
  EXPECT_EQ(last.at("event"), "final");
  EXPECT_GT(last.at("micro_f1"), 0.98);
  EXPECT_GT(last.at("macro_f1"), 0.98);
  EXPECT_EQ(last.at("steps"), 336);
  EXPECT_GT(last.at("examples_per_second"), 0);
  EXPECT_EQ(last.at("params_sha256").get<std::string>().size(), 64u);
}

// Read while training, in one process and through input tasks.
TEST_F(TagsProgram, StreamsItsPackagesWithTheSameBitsEverywhere) {
  const nlohmann::json here = run(0, 0, {"--stream", "--replicas", "2"});
  EXPECT_GT(here.at("micro_f1"), 0.98);
  const nlohmann::json fed = run(1, 2, {"--mode", "sync", "--stream", "--replicas", "2"}, 2);
  const nlohmann::json ranks = run(0, 2, {"--mode", "allreduce", "--stream"}, 1);
  for (const char* key : {"params_sha256", "micro_f1"}) EXPECT_EQ(fed.at(key), here.at(key)) << key;
  EXPECT_EQ(ranks.at("steps"), here.at("steps"));
}

TEST_F(TagsProgram, EqualSlotsHaveEqualBitsInOneProcessAndInClusters) {
  const nlohmann::json here = run(0, 0, {"--replicas", "2"});
  const nlohmann::json two = run(2, 2, {"--mode", "sync", "--replicas", "2"});
  const nlohmann::json three = run(2, 3, {"--mode", "sync", "--replicas", "2"});
  for (const char* key : {"params_sha256", "micro_f1", "macro_f1"}) {
    EXPECT_EQ(two.at(key), here.at(key)) << key;
    EXPECT_EQ(three.at(key), here.at(key)) << key;
  }
}

TEST_F(TagsProgram, TheTransformerToo) {
  const nlohmann::json here =
      run(0, 0, {"--replicas", "2", "--model", "transformer", "--lr", "0.005", "--epochs", "4"});
  const nlohmann::json there =
      run(1, 2, {"--mode", "sync", "--model", "transformer", "--lr", "0.005", "--epochs", "4"});
  EXPECT_EQ(there.at("params_sha256"), here.at("params_sha256"));
  EXPECT_GT(here.at("micro_f1"), 0.9);
}

// 20 steps of a small encoder, with the loss of each half.
TEST_F(TagsProgram, AnEncoderLearns) {
  Arguments command{testing::program("troupe-tags")};
  for (const std::string& option : options({"--model", "encoder", "--length", "16", "--layers", "2", "--features", "32",
                                            "--heads", "4", "--lr", "0.003", "--epochs", "2", "--batch", "42"}))
    command.push_back(option);
  Process process(command);
  ASSERT_EQ(process.wait(), 0) << process.err;
  std::vector<double> losses;
  std::istringstream lines(process.out);
  for (std::string line; std::getline(lines, line);)
    if (const auto event = nlohmann::json::parse(line); event.at("event") == "epoch")
      losses.push_back(event.at("loss"));
  ASSERT_EQ(losses.size(), 2u) << process.out;
  EXPECT_LT(losses[1], 0.8 * losses[0]);
  EXPECT_EQ(last_line(process.out).at("steps"), 20);
}

TEST_F(TagsProgram, OtherModesLearnAsWell) {
  EXPECT_GT(run(1, 2, {"--mode", "async"}).at("micro_f1"), 0.98);
  EXPECT_GT(run(1, 2, {"--mode", "ssp", "--replicas", "2", "--epochs", "16"}).at("micro_f1"), 0.98);
  EXPECT_GT(run(0, 2, {"--mode", "allreduce", "--epochs", "16"}).at("micro_f1"), 0.98);
}

TEST_F(TagsProgram, AKilledJobGoesOnWithTheSameBits) {
  const Arguments longer = {"--mode", "sync", "--replicas", "2", "--epochs", "60"};
  const nlohmann::json undisturbed = run(0, 0, {"--replicas", "2", "--epochs", "60"});
  Arguments saving = longer;
  saving.insert(saving.end(), {"--checkpoint", directory_.path() / "checkpoints", "--checkpoint-every", "20"});
  Arguments command = {testing::program("troupe-launch"), "--ps", "2", "--workers", "2", "--",
                       testing::program("troupe-tags")};
  for (const std::string& option : options(saving)) command.push_back(option);
  Process process(command);
  process.wait_for("saved step");
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait(), -SIGKILL) << process.err;
  EXPECT_EQ(run(2, 3, saving).at("params_sha256"), undisturbed.at("params_sha256"));
}

}  // namespace
}  // namespace troupe
