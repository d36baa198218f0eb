#include <gtest/gtest.h>

#include <troupe/messages/error.hpp>
#include <troupe/scheduler/training/commit_log.hpp>

namespace troupe {
namespace {

CommitLog sample() {
  CommitLog log;
  for (std::uint64_t step : {12, 13, 14}) log.add(step, {0, 2});
  log.add(15, {1, 2});
  log.add(16, {0, 2});
  return log;
}

TEST(CommitLog, KnowsTheSlotsOfEachStep) {
  const CommitLog log = sample();
  EXPECT_EQ(log.begin(), 12u);
  EXPECT_EQ(log.end(), 17u);
  EXPECT_EQ(log.find(11), nullptr);
  EXPECT_EQ(log.find(17), nullptr);
  for (std::uint64_t step : {12, 14, 16}) EXPECT_EQ(*log.find(step), (std::vector<std::uint32_t>{0, 2})) << step;
  EXPECT_EQ(*log.find(15), (std::vector<std::uint32_t>{1, 2}));
}

TEST(CommitLog, IsTextThatReadsBack) {
  EXPECT_EQ(sample().to_string(), "12-14: 0 2\n15-15: 1 2\n16-16: 0 2\n");
  EXPECT_EQ(CommitLog::parse(sample().to_string()).to_string(), sample().to_string());
  EXPECT_TRUE(CommitLog::parse("").empty());
}

TEST(CommitLog, ForgetsTheStepsThatAreTrainedAgain) {
  CommitLog log = sample();
  log.truncate(14);
  EXPECT_EQ(log.to_string(), "12-13: 0 2\n");
  log.add(14, {1, 2});
  EXPECT_EQ(log.end(), 15u);
  log.truncate(12);
  EXPECT_TRUE(log.empty());
  log.add(40, {0});
  EXPECT_EQ(log.to_string(), "40-40: 0\n");
}

TEST(CommitLog, RefusesGapsAndSlotsInDisorder) {
  CommitLog log = sample();
  EXPECT_THROW(log.add(18, {0, 2}), Error);
  EXPECT_THROW(log.add(17, {2, 0}), Error);
  EXPECT_THROW(log.add(17, {0, 0}), Error);
  EXPECT_THROW(log.add(17, {}), Error);
}

TEST(CommitLog, RefusesTextThatIsNone) {
  for (const char* text :
       {"1-2: 0", "1-2:\n", "2-1: 0\n", "1-2: 1 0\n", "1-2: 0 \n", "1-2: 0\n4-5: 1\n", "1-2: 0\n3-3: 0\n", "x\n",
        "1: 0\n", "1-18446744073709551615: 0\n", "1-2: 4294967296\n", "-1-2: 0\n"}) {
    try {
      (void)CommitLog::parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::data_loss) << text;
    }
  }
}

}  // namespace
}  // namespace troupe
