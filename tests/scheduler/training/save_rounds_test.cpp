// The checkpoints of a job by themselves: when one begins, when it is whole, what may not be saved.
#include "troupe/scheduler/training/save_rounds.hpp"

#include <gtest/gtest.h>

namespace troupe::testing {
namespace {

using Kind = SaveEvent::Kind;

class SaveRoundsTest : public ::testing::Test {
 protected:
  // 2 shards, saves every 4 of 10 steps.
  static SaveRounds::Options defaults() { return {.every = 4, .begun = 0, .shards = {4, 5}}; }
  void make(SaveRounds::Options options) { saves.emplace(std::move(options)); }
  SaveRoundsTest() { make(defaults()); }

  // Versions that shards are told to save.
  std::vector<std::uint64_t> move(bool busy = false) {
    TrainingOutbox out;
    saves->move(job, busy, ++now, out);
    std::vector<std::uint64_t> versions;
    for (const Outgoing& message : out) {
      EXPECT_EQ(message.to.kind, Destination::Kind::shards);
      versions.push_back(std::get<Save>(message.message).step);
    }
    return versions;
  }
  std::vector<std::uint64_t> at(std::uint64_t steps, bool busy = false) {
    job.steps = steps;
    job.step_ahead = std::min<std::uint64_t>(steps + 2, 10);
    job.training = steps < 10;
    job.over = steps >= 10;
    return move(busy);
  }
  std::vector<Kind> events() {
    std::vector<Kind> kinds;
    for (const SaveEvent& event : saves->take_events()) kinds.push_back(event.kind), last = event;
    return kinds;
  }
  bool saved(std::uint32_t shard, std::uint64_t version, Error error = {}) {
    return saves->saved({.shard = shard, .step = version, .files = "f", .error = std::move(error)});
  }

  using Versions = std::vector<std::uint64_t>;
  using Kinds = std::vector<Kind>;
  SaveRounds::Job job{
      .training = true, .steps = 0, .step_ahead = 1, .state = [this](std::uint64_t version) -> std::optional<JobState> {
        if (version > job.steps) return std::nullopt;
        JobState state;
        state.step = version;
        return state;
      }};
  std::optional<SaveRounds> saves;
  Nanoseconds now = 0;
  SaveEvent last;
};

TEST_F(SaveRoundsTest, ARoundBeginsWhenDueAtAVersionThatNoShardHas) {
  EXPECT_EQ(at(3), Versions{});
  EXPECT_EQ(at(4), Versions{6});
  EXPECT_EQ(saves->round().began, now);
  EXPECT_EQ(at(5), Versions{});
}

TEST_F(SaveRoundsTest, IsCommittedWhenAllShardsHaveSavedAndAllStepsBeforeItAreReported) {
  EXPECT_EQ(at(4), Versions{6});
  EXPECT_TRUE(saved(4, 6));
  EXPECT_FALSE(saved(4, 6));
  EXPECT_FALSE(saved(5, 2));
  EXPECT_TRUE(saved(5, 6));
  EXPECT_EQ(at(5), Versions{});
  EXPECT_EQ(events(), Kinds{});
  EXPECT_EQ(at(6), Versions{});
  EXPECT_EQ(events(), Kinds{Kind::commit});
  EXPECT_EQ(last.round.state->step, 6u);
  EXPECT_EQ(last.round.shards.size(), 2u);
}

TEST_F(SaveRoundsTest, KeepsTheStateOfTheJobBeforeTheJobForgetsIt) {
  EXPECT_EQ(at(4), Versions{6});
  EXPECT_EQ(at(6), Versions{});
  job.state = [](std::uint64_t) -> std::optional<JobState> { return std::nullopt; };
  saved(4, 6);
  saved(5, 6);
  move();
  EXPECT_EQ(events(), Kinds{Kind::commit});
}

class AsynchronousSaveRoundsTest : public SaveRoundsTest {
 protected:
  AsynchronousSaveRoundsTest() {
    SaveRounds::Options options = defaults();
    options.asynchronous = true;
    make(options);
    job.state = [this](std::uint64_t) { return JobState{.epoch = 0, .step = job.steps, .commits = {}}; };
  }
  void save(std::uint64_t version) {
    EXPECT_TRUE(saved(4, version));
    EXPECT_TRUE(saved(5, version));
  }
};

TEST_F(AsynchronousSaveRoundsTest, HaveTheStateOfWhenTheShardsAreTold) {
  EXPECT_EQ(at(4), Versions{4});
  save(4);
  EXPECT_EQ(at(7), Versions{});
  EXPECT_EQ(events(), Kinds{Kind::commit});
  EXPECT_EQ(last.round.state->step, 4u);
}

// Shards save at once: what was saved before the last step is complete is not all.
TEST_F(AsynchronousSaveRoundsTest, TheLastRoundFollowsAnyBeforeAndIsTheHighest) {
  EXPECT_EQ(at(9), Versions{9});
  save(9);
  EXPECT_EQ(at(9), Versions{});
  saves->written();
  EXPECT_EQ(at(10), Versions{10});
  EXPECT_FALSE(saves->over());
  save(10);
  move();
  EXPECT_EQ(events(), (Kinds{Kind::commit, Kind::commit}));
  EXPECT_EQ(last.round.state->step, 10u);
  saves->written();
  move();
  EXPECT_TRUE(saves->over());
}

TEST_F(AsynchronousSaveRoundsTest, AJobInAHurryWaitsForAStepThatIsNotSaved) {
  EXPECT_EQ(at(4), Versions{4});
  save(4);
  move();
  saves->written();
  saves->hurry();
  EXPECT_EQ(at(4), Versions{});
  EXPECT_FALSE(saves->hurried());
  EXPECT_EQ(at(5), Versions{5});
  save(5);
  move();
  saves->written();
  EXPECT_TRUE(saves->hurried());
}

TEST_F(SaveRoundsTest, AreLeftOutWhileARoundOrTheWriterIsBusy) {
  EXPECT_EQ(at(4, true), Versions{});
  EXPECT_EQ(events(), Kinds{Kind::left_out});
  EXPECT_EQ(last.step, 4u);
  EXPECT_EQ(at(5), Versions{});
  EXPECT_EQ(at(8), Versions{10});
  make(defaults());
  EXPECT_EQ(at(4), Versions{6});
  EXPECT_EQ(at(9), Versions{});
  EXPECT_EQ(at(9), Versions{});
  EXPECT_EQ(events(), Kinds{});  // the next would be due after step 10
}

TEST_F(SaveRoundsTest, ARoundThatFailsNamesTheShardAndTheNextIsBegunAsEver) {
  EXPECT_EQ(at(4), Versions{6});
  saved(4, 6);
  saved(5, 6, Error(Code::resource_exhausted, "disk full"));
  EXPECT_EQ(at(5), Versions{});
  EXPECT_EQ(events(), Kinds{Kind::failed});
  EXPECT_EQ(last.round.error.message(), "/job:ps/task:5: disk full");
  EXPECT_EQ(at(10), Versions{10});
}

TEST_F(SaveRoundsTest, TheJobIsOverWhenTheLastVersionIsWritten) {
  EXPECT_EQ(at(4), Versions{6});
  saved(4, 6);
  saved(5, 6);
  EXPECT_EQ(at(9), Versions{});
  EXPECT_EQ(events(), Kinds{Kind::commit});
  EXPECT_EQ(at(10, true), Versions{10});  // whatever is being written
  saved(4, 10);
  saved(5, 10);
  EXPECT_EQ(move(), Versions{});
  EXPECT_EQ(events(), Kinds{Kind::commit});
  saves->written();
  move();
  EXPECT_FALSE(saves->over());
  saves->written();
  EXPECT_FALSE(saves->over());
  move();
  EXPECT_TRUE(saves->over());
}

TEST_F(SaveRoundsTest, AJobThatBeginsWithItsLastVersionOrSavesNothingIsOverAtOnce) {
  SaveRounds::Options options = defaults();
  options.begun = 10;
  make(options);
  EXPECT_FALSE(saves->over());
  EXPECT_EQ(at(10), Versions{});
  EXPECT_TRUE(saves->over());
  options.every = 0;
  make(options);
  EXPECT_TRUE(saves->over());
  EXPECT_EQ(at(10), Versions{});
}

TEST_F(SaveRoundsTest, AJobInAHurryThatHasSavedTheStepOfNowEndsAtOnce) {
  SaveRounds::Options options = defaults();
  options.begun = 3;  // goes on with the evaluation after this step
  make(options);
  job.steps = 3;
  job.training = false;
  saves->hurry();
  EXPECT_EQ(move(), Versions{});
  EXPECT_TRUE(saves->hurried());
  EXPECT_EQ(saves->round().step, 3u);
}

TEST_F(SaveRoundsTest, AJobInAHurrySavesOnceMoreAndNeverLeavesThatOut) {
  EXPECT_EQ(at(1), Versions{});
  saves->hurry();
  EXPECT_EQ(at(1, true), Versions{});
  EXPECT_FALSE(saves->hurried());
  EXPECT_EQ(at(2), Versions{4});
  EXPECT_EQ(at(4), Versions{});
  saved(4, 4);
  saved(5, 4);
  EXPECT_EQ(at(5), Versions{});
  EXPECT_EQ(events(), Kinds{Kind::commit});
  EXPECT_FALSE(saves->hurried());
  saves->written();
  EXPECT_TRUE(saves->hurried());
  EXPECT_EQ(at(8), Versions{});  // although one is due
}

TEST_F(SaveRoundsTest, ARoundUnderWayIsSoonEnoughForAJobInAHurryAlsoIfItFails) {
  EXPECT_EQ(at(4), Versions{6});
  saves->hurry();
  EXPECT_EQ(at(6), Versions{});
  EXPECT_FALSE(saves->hurried());
  saved(4, 6);
  saved(5, 6, Error(Code::resource_exhausted, "disk full"));
  EXPECT_EQ(at(6), Versions{});
  EXPECT_EQ(events(), Kinds{Kind::failed});
  EXPECT_TRUE(saves->hurried());
}

}  // namespace
}  // namespace troupe::testing
