// troupe-language: its data, and the program as a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/language/options.hpp"
#include "apps/language/text_data.hpp"
#include "tests/apps/cluster.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/kernels/readers/text_table.hpp>

namespace troupe {
namespace {

using testing::Arguments;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::last_line;
using testing::Process;
using testing::TemporaryDirectory;

TEST(LanguageData, WindowsFollowEachOtherAndSayTheNextCharacter) {
  TemporaryDirectory directory;
  const std::string file = directory.write("train.tsv", "x\tabc\t\ny\tba\tsome tags\n");  // "abc\nba\n"
  const CharacterData data = load_characters(file, directory.write("test.tsv", "z\tcdb\t\n"), 3);
  EXPECT_EQ(data.alphabet.tokens(), 5);
  EXPECT_THAT(data.train_text.values<std::int64_t>(), ElementsAre(2, 3, 4, 1, 3, 2));
  EXPECT_THAT(data.train_next.values<std::int64_t>(), ElementsAre(3, 4, 1, 3, 2, 1));
  EXPECT_THAT(data.test_text.values<std::int64_t>(), ElementsAre(4, 0, 3));  // d was not trained on
  EXPECT_EQ(data.alphabet.decode({2, 3, 0, 1}), "ab?\n");
}

// After a: b or c, one bit; after b and c: nothing to say.
TEST(LanguageData, BigramEntropyIsThatOfTheTextsOwnCounts) {
  EXPECT_DOUBLE_EQ(bigram_entropy({0, 1, 0, 2, 0, 1, 0, 2, 0}, 3), 0.5);
  EXPECT_DOUBLE_EQ(bigram_entropy({0, 0, 0}, 1), 0);
}

TEST(LanguageOptions, ThatCannotBeAreRefused) {
  const auto problem = [](const Arguments& arguments) {
    const auto parsed = parse_language_options(arguments, false);
    const auto* exit = std::get_if<EarlyExit>(&parsed);
    return exit == nullptr ? "accepted" : exit->err;
  };
  EXPECT_THAT(problem({}), HasSubstr("troupe-language: --data is missing"));
  EXPECT_THAT(problem({"--data", "x", "--width", "12"}), HasSubstr("--width: expected a multiple of 8"));
  EXPECT_THAT(problem({"--data", "x", "--top-p", "0"}), HasSubstr("--top-p"));
  EXPECT_EQ(problem({"--data", "x", "--beams", "4"}), "accepted");
}

// Sentences that pairs of characters say little of.
class LanguageProgram : public ::testing::Test {
 protected:
  LanguageProgram() {
    constexpr const char* kThings[] = {"library", "editor", "viewer", "compiler", "manager", "server"};
    constexpr const char* kOf[] = {"images", "mail", "fonts", "packages", "sound", "networks"};
    std::string train, test;
    for (int i = 0; i < 700; ++i) {
      std::string& file = i % 8 == 7 ? test : train;
      file += std::string("p\ta ") + kThings[i * 7 % 6] + " for " + kOf[(i / 6 + i) % 6] + "\t\n";
    }
    directory_.write("train.tsv", train);
    directory_.write("test.tsv", test);
  }
  // What it prints.
  std::string run(const Arguments& more) const {
    Arguments command = {testing::program("troupe-language"),
                         "--data",
                         directory_.path().string(),
                         "--width",
                         "32",
                         "--epochs",
                         "12",
                         "--batch",
                         "8",
                         "--lr",
                         "0.005"};
    command.insert(command.end(), more.begin(), more.end());
    Process process(command);
    EXPECT_EQ(process.wait(), 0) << process.err;
    return process.out;
  }
  TemporaryDirectory directory_;
};

TEST_F(LanguageProgram, LearnsMoreThanPairsOfCharactersSay) {
  const nlohmann::json last = last_line(run({"--json"}));
  EXPECT_GT(last.at("bigram_entropy"), 0.7);
  EXPECT_LT(last.at("bits_per_character"), 0.9 * last.at("bigram_entropy").get<double>());
  EXPECT_EQ(last.at("params_sha256").get<std::string>().size(), 64u);
}

TEST_F(LanguageProgram, WritesWhatItHasRead) {
  const std::string out = run({"--prompt", "a libr", "--generate", "12", "--temperature", "0"});
  EXPECT_THAT(out, HasSubstr("a library for "));
}

// The real descriptions, where they lie beside the repository.
TEST(LanguageOfDebian, APartOfTheDescriptionsIsLearntBelowTheirBigramEntropy) {
  const std::string data = testing::source_file() + "../shared/data/debtags";
  if (!std::filesystem::exists(data + "/train.tsv.gz")) GTEST_SKIP() << "there is no " << data;
  TemporaryDirectory directory;
  std::string train, test;
  const std::vector<TableRow> rows = read_table(data + "/train.tsv", 3);
  for (std::size_t i = 0; i < 6000; ++i) (i % 12 == 0 ? test : train) += rows[i][0] + "\t" + rows[i][1] + "\t\n";
  directory.write("train.tsv", train);
  directory.write("test.tsv", test);
  Process process({testing::program("troupe-language"), "--data", directory.path().string(), "--json", "--width", "32",
                   "--epochs", "3", "--batch", "16", "--lr", "0.005"});
  EXPECT_EQ(process.wait(), 0) << process.err;
  const nlohmann::json last = last_line(process.out);
  EXPECT_LT(last.at("bits_per_character"), last.at("bigram_entropy"));
}

}  // namespace
}  // namespace troupe
