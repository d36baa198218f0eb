// troupe-recommend: its data and scores, and the program as processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/recommend/dependency_data.hpp"
#include "apps/recommend/options.hpp"
#include "tests/apps/cluster.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"

namespace troupe {
namespace {

using testing::Arguments;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::last_line;
using testing::Process;
using testing::TemporaryDirectory;

TEST(RecommendData, PairsWithWhatElseThePackageHas) {
  TemporaryDirectory directory;
  const std::string file = directory.write("depends.tsv", "app-one\tlibc zlib\nb\tlibc\nc\tlibc libc xlib zlib\n");
  const DependencyData data = load_dependencies(file, {.seed = 5, .held_out = 0.3, .known = 2, .negatives = 3});
  EXPECT_EQ(data.item.num_elements() + data.held_out, 6);  // the pair that is there twice counts once
  EXPECT_EQ(data.negatives.shape(), (Shape{data.item.num_elements(), 3}));
  EXPECT_THAT(data.negatives.values<std::int64_t>(), Each(::testing::Lt(std::ssize(data.packages))));
  for (std::int64_t i = 0; i < data.item.num_elements(); ++i)  // an example does not tell its own answer
    for (int j = 0; j < 2; ++j)
      EXPECT_NE(data.known.data<std::int64_t>()[2 * i + j], 1 + data.item.data<std::int64_t>()[i]);
}

TEST(RecommendData, TheSplitFollowsFromTheSeed) {
  TemporaryDirectory directory;
  std::string rows;
  for (int i = 0; i < 200; ++i) rows += "p" + std::to_string(i) + "\ta b c d e\n";
  const std::string file = directory.write("depends.tsv", rows);
  const DependencyData once = load_dependencies(file, {.seed = 1}), again = load_dependencies(file, {.seed = 1});
  EXPECT_EQ(once.query_held_out, again.query_held_out);
  EXPECT_TRUE(bitwise_equal(once.negatives, again.negatives));
  EXPECT_NE(load_dependencies(file, {.seed = 2}).query_held_out, once.query_held_out);
  EXPECT_NEAR(static_cast<double>(once.held_out), 100, 30);
  EXPECT_EQ(error_of([&] { load_dependencies(file, {.held_out = 1}); }).code(), Code::invalid_argument);
}

// Of three held-out pairs one is among the first two that are not known, in each way of asking; -1 is never found.
TEST(RecommendData, RecallLeavesOutWhatAPackageHas) {
  DependencyData data;
  data.query_items = {{0}, {3, 1}};
  data.query_held_out = {{2}, {0, -1}};
  data.held_out = 3;
  EXPECT_DOUBLE_EQ(recall_at(data, Tensor::of<std::int64_t>(Shape{2, 4}, {0, 1, 2, 3, 3, 1, 2, 4}), 2), 1.0 / 3);
  EXPECT_DOUBLE_EQ(recall_at(data, Tensor::of<std::int64_t>(Shape{2, 4}, {0, 1, 2, 3, 3, 1, 2, 4}), 1), 0);
  EXPECT_DOUBLE_EQ(recall_at(data, Tensor::of<std::int64_t>(Shape{4}, {1, 3, 2, 0}), 3), 2.0 / 3);
  data.frequencies = Tensor::vector<float>({0.1F, 0.4F, 0.1F, 0.4F});
  EXPECT_THAT(most_frequent(data).values<std::int64_t>(), ElementsAre(1, 3, 0, 2));
}

TEST(RecommendOptions, DataAreNeeded) {
  const auto parsed = parse_recommend_options({}, false);
  ASSERT_NE(std::get_if<EarlyExit>(&parsed), nullptr);
  EXPECT_THAT(std::get<EarlyExit>(parsed).err, HasSubstr("troupe-recommend: --data is missing"));
}

// Packages of 20 languages need what that language needs: the most frequent packages are of all.
class RecommendProgram : public ::testing::Test {
 protected:
  RecommendProgram() {
    std::string rows;
    for (int i = 0; i < 600; ++i) {
      const std::string language = "lang" + std::to_string(i % 20);
      rows += language + "-app" + std::to_string(i) + "\t";
      for (int j = 0; j < 8; ++j) rows += " " + language + "-lib" + std::to_string(j);
      rows += "\n";
    }
    directory_.write("depends.tsv", rows);
  }
  nlohmann::json run(int ps, int workers, const Arguments& more) const {
    Arguments command;
    if (workers > 0)
      command = {testing::program("troupe-launch"), "--ps", std::to_string(ps), "--workers",
                 std::to_string(workers),           "--"};
    command.insert(command.end(), {testing::program("troupe-recommend"), "--json", "--data", directory_.path().string(),
                                   "--batch", "64", "--threads", "1"});
    command.insert(command.end(), more.begin(), more.end());
    Process process(command);
    EXPECT_EQ(process.wait(), 0) << process.err;
    return last_line(process.out);
  }
  TemporaryDirectory directory_;
};

TEST_F(RecommendProgram, FindsTwiceWhatTheMostFrequentHave) {
  const nlohmann::json last = run(0, 0, {});
  EXPECT_GT(last.at("recall_at_20"), 0.9);
  EXPECT_GT(last.at("recall_at_20"), 2 * last.at("most_frequent_recall_at_20").get<double>());
}

TEST_F(RecommendProgram, EqualSlotsHaveEqualBits) {
  const nlohmann::json here = run(0, 0, {"--replicas", "2"}), there = run(2, 2, {"--mode", "sync"});
  EXPECT_EQ(there.at("params_sha256"), here.at("params_sha256"));
  EXPECT_EQ(there.at("recall_at_20"), here.at("recall_at_20"));
}

TEST_F(RecommendProgram, AsyncAndAllReduceLearnAsWell) {
  EXPECT_GT(run(1, 2, {"--mode", "async"}).at("recall_at_20"), 0.85);
  EXPECT_GT(run(0, 2, {"--mode", "allreduce", "--epochs", "6"}).at("recall_at_20"), 0.85);
}

}  // namespace
}  // namespace troupe
