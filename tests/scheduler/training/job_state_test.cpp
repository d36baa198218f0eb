// What checkpoints keep of the protocol, and how a job goes on from it.
#include "tests/scheduler/training/job_fixture.hpp"
#include "tests/scheduler/training/shard_fixture.hpp"
#include <troupe/scheduler/training/batch_set.hpp>
#include <troupe/scheduler/training/job_state.hpp>

namespace troupe::testing {
namespace {

TEST(JobState, IsTextThatReadsBack) {
  JobState state{.epoch = 2,
                 .step = 40,
                 .epoch_step = 30,
                 .examples = 9,
                 .job_ns = 123456789,
                 .epoch_ns = 55,
                 .sums = {{"loss", {-0.1, 9}}, {"val/auc", {1e300, 0, 2}}},
                 .history = {{{{"loss", {3, 9}}}, {{"loss", {2, 1}}, {"auc", {1}}}}, {{{"loss", {1, 9}}}, {}}},
                 .place = {2, 7, {0, 1ull << 63}},
                 .commits = {}};
  state.commits.add(39, {0, 2});
  const std::string text = state.to_string();
  const JobState back = JobState::parse(text);
  EXPECT_EQ(back.to_string(), text);
  EXPECT_EQ(back.sums, state.sums);
  EXPECT_EQ(back.history, state.history);
  EXPECT_EQ(back.place, state.place);
  for (const char* place : {"place 2 7\n", "place 4294967296 7 0\n", "place 2 x 0\n", "place 2  7 0\n", "place\n"}) {
    std::string wrong = text;
    wrong.replace(wrong.find("place "), std::string("place 2 7 0 9223372036854775808\n").size(), place);
    EXPECT_THROW((void)JobState::parse(wrong), Error) << place;
  }
  EXPECT_EQ(std::tie(back.epoch, back.step, back.epoch_step, back.examples, back.job_ns, back.epoch_ns),
            std::tie(state.epoch, state.step, state.epoch_step, state.examples, state.job_ns, state.epoch_ns));
  EXPECT_EQ(JobState::parse(JobState{}.to_string()).to_string(), JobState{}.to_string());
  for (std::size_t length = 0; length < text.size(); ++length)
    if (text.substr(0, length).find("commits\n") == std::string::npos || length + 1 == text.size()) {
      EXPECT_THROW((void)JobState::parse(text.substr(0, length)), Error) << length;
    }
  EXPECT_THROW((void)JobState::parse("epoch -1" + text.substr(7)), Error);
  EXPECT_THROW((void)JobState::parse("epoch 4294967296" + text.substr(7)), Error);
}

TEST(BatchSetText, ReadsBack) {
  BatchSet set;
  for (std::uint64_t batch : {0, 1, 2, 7, 9, 10}) set.insert(batch);
  EXPECT_EQ(set.to_string(), "0-2 7-7 9-10");
  EXPECT_EQ(BatchSet::parse(set.to_string()).to_string(), set.to_string());
  EXPECT_EQ(BatchSet::parse("").intervals(), 0u);
  for (const char* text :
       {"1", "1-", "2-1", "1-2 ", "1-2 2-3", "1-2 3-4", "5-6 1-2", "x", "1-18446744073709551615", "-1-2"})
    EXPECT_THROW((void)BatchSet::parse(text), Error) << text;
}

class Resumed : public JobTest {
 protected:
  // The state at `version` of a job that has gone on meanwhile, as text.
  std::string state(std::uint64_t version) const {
    const auto found = job->state(version);
    return found ? found->to_string() : "none";
  }
  void resume(
      const std::string& text, const std::function<void(JobOptions&)>& change = [](JobOptions&) {}) {
    make([&](JobOptions& o) {
      change(o);
      o.resume = JobState::parse(text);
    });
    for (std::uint64_t& request : requests) request = 0;
    out.clear();
    join_all();
  }
};

TEST_F(Resumed, AJobGoesOnWhereItsStateWasTakenWithTheSameFigures) {
  const auto options = [](JobOptions& o) { o.epochs = 2; };
  make(options);
  join_all();
  EXPECT_EQ(state(0), JobState{}.to_string());
  const auto train = [&](int tokens, std::uint64_t from) {
    for (int i = 0; i < tokens; ++i) {
      const Token token = take(0);
      EXPECT_EQ(std::make_tuple(token.step, token.slot, token.min_version),
                std::make_tuple((from + i) / 2, static_cast<std::uint32_t>((from + i) % 2), (from + i) / 2));
      now += kSecond;
      EXPECT_FALSE(done(0, token, static_cast<double>(1 + (from + i) % 7))) << "token " << i;
      EXPECT_FALSE(stage(token)) << "token " << i;
    }
  };
  train(3, 0);
  EXPECT_EQ(state(2), "none");
  train(1, 3);
  train(1, 4);  // of the next step: not in the state
  const std::string saved = state(2);
  train(1, 5);
  finish_all(1, TokenKind::evaluate, 3);
  ASSERT_EQ(said<EpochDone>().size(), 2u);
  const EpochDone undisturbed = said<EpochDone>()[0];
  EXPECT_EQ(state(2), saved);
  const std::string at_end = state(3);

  now += 100 * kSecond;
  resume(saved, options);
  train(2, 4);
  finish_all(1, TokenKind::evaluate, 3);
  ASSERT_EQ(said<EpochDone>().size(), 2u);
  const EpochDone again = said<EpochDone>()[0];
  EXPECT_EQ(
      std::tie(again.training, again.evaluation, again.examples, again.steps, again.seconds, again.examples_per_second),
      std::tie(undisturbed.training, undisturbed.evaluation, undisturbed.examples, undisturbed.steps,
               undisturbed.seconds, undisturbed.examples_per_second));

  resume(at_end, options);  // evaluates once more, and tells
  finish_all(1, TokenKind::evaluate, 3);
  ASSERT_EQ(said<EpochDone>().size(), 2u);
  EXPECT_EQ(said<EpochDone>()[0].training, undisturbed.training);
  EXPECT_EQ(take(0).step, 3u);
}

TEST_F(Resumed, TheLastVersionsCanBeSaved) {
  make([](JobOptions& o) { o.steps_per_epoch = 100, o.evaluation_batches = 0; });
  join_all();
  for (int i = 0; i < 200; ++i) finish(0, take(0));
  EXPECT_EQ(state(36), "none");
  EXPECT_NE(state(37), "none");
  EXPECT_NE(state(100), "none");
  EXPECT_EQ(state(101), "none");
}

TEST_F(Resumed, CommitsAreThoseBeforeTheState) {
  make([](JobOptions& o) { o.backups = 1, o.workers = 3; });
  join_all();
  EXPECT_FALSE(join(2));
  for (int i = 0; i < 6; ++i) finish(0, take(0));
  EXPECT_EQ(job->state(1)->commits.to_string(), "0-0: 0 1\n");
}

TEST_F(Resumed, AnAsynchronousJobHandsOutAgainWhatWasNotComplete) {
  const auto options = [](JobOptions& o) {
    o.mode = TrainingMode::asynchronous, o.slots = 1, o.steps_per_epoch = 6, o.evaluation_batches = 0;
  };
  make(options);
  join_all();
  std::vector<Token> tokens;
  for (int i = 0; i < 4; ++i) tokens.push_back(take(static_cast<std::uint32_t>(i % 2)));
  for (int i : {0, 2, 3}) finish(static_cast<std::uint32_t>(i % 2), tokens[static_cast<std::size_t>(i)]);
  resume(state(0), options);
  EXPECT_EQ(take(0).step, 1u);
}

TEST_F(Resumed, AStateOfAnotherJobIsRefused) {
  const auto refused = [&](const JobState& state, std::string_view text) {
    try {
      resume(state.to_string());
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::failed_precondition);
      EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
    }
  };
  const auto at = [](std::uint32_t epoch, std::uint64_t step, std::uint64_t epoch_step, std::uint64_t examples) {
    JobState state;
    state.epoch = epoch;
    state.step = step;
    state.epoch_step = epoch_step;
    state.examples = examples;
    return state;
  };
  refused(at(1, 3, 3, 0), "epoch 1 of 1");
  refused(at(0, 4, 0, 80), "step 4 of epoch 0, which begins at step 0 and has 3");
  refused(at(0, 2, 1, 20), "step 2 of epoch 0, which begins at step 1 and has 3");
  refused(at(0, 2, 0, 50), "50 examples of 2 steps");
}

TEST_F(Resumed, AVersionToSaveIsOneThatNoShardCanHaveYet) {
  make();
  join_all();
  EXPECT_EQ(job->step_ahead(), 1u);
  const Token first = take(0);
  EXPECT_EQ(job->step_ahead(), 2u);  // the step may be complete when Save comes
  take(1);
  finish(0, first);
  EXPECT_EQ(job->step_ahead(), 2u);
  take(0);
  EXPECT_EQ(job->step_ahead(), 3u);
  take(1);
  take(0);
  EXPECT_EQ(job->step_ahead(), 3u);  // the last
}

class Cuts : public ShardTest {
 protected:
  Error cut(std::uint64_t version) {
    return state->cut(version, [this](const ShardState::Cut& cut) {
      taken.push_back(fmt::format("{}: {} {} [{}]", cut.version, value(10), value(20), cut.applied.to_string()));
    });
  }
  std::vector<std::string> taken;
};

using Texts = std::vector<std::string>;

TEST_F(Cuts, AreTakenAtTheirVersionNowOrLater) {
  make(2);
  EXPECT_FALSE(cut(0));
  EXPECT_EQ(taken, (Texts{"0: 0 0 []"}));
  EXPECT_FALSE(cut(2));
  push_all(0, 0, 1);
  push_all(0, 1, 1);
  EXPECT_EQ(cut(0).code(), Code::failed_precondition);
  push_all(1, 0, 2);
  EXPECT_EQ(taken.size(), 1u);
  push_all(1, 1, 2);
  EXPECT_EQ(taken, (Texts{"0: 0 0 []", "2: 3 3 []"}));
}

TEST_F(Cuts, AreRefusedWhenAPartOfTheNextVersionIsThere) {
  make(1);
  EXPECT_FALSE(push(0, 0, 10, 1));
  EXPECT_EQ(cut(0).code(), Code::failed_precondition);
  EXPECT_FALSE(cut(1));
  EXPECT_FALSE(push(message(0, 0, 20, 1)));
  EXPECT_EQ(taken, (Texts{"1: 1 1 []"}));
}

TEST_F(Cuts, HaveNothingOfTheStepsBehindThem) {
  ShardOptions options;
  options.mode = TrainingMode::bounded_staleness;
  options.staleness = 1;
  make(options);
  EXPECT_FALSE(cut(1));
  push_all(1, 0, 10);  // waits
  push_all(0, 0, 1);
  EXPECT_EQ(state->version(), 2u);
  EXPECT_EQ(taken, (Texts{"1: 1 1 []"}));
}

TEST_F(Cuts, OfAsynchronousTrainingKnowTheirBatchesAndWaitForAWholeUpdate) {
  make_async(2);
  push_all(4, 0, 2);
  EXPECT_FALSE(cut(0));
  EXPECT_TRUE(taken.empty());
  push_all(2, 0, 4);
  EXPECT_EQ(taken, (Texts{"1: 3 3 [2-2 4-4]"}));
  EXPECT_FALSE(cut(0));
  EXPECT_EQ(taken.size(), 2u);
}

TEST_F(Cuts, ARestoredShardDropsWhatItHasAndSaysSo) {
  ShardOptions options;
  options.mode = TrainingMode::asynchronous;
  options.version = 7;
  options.applied = BatchSet::parse("0-4");
  make(options);
  push_all(3, 0, 100);
  push_all(5, 0, 1);
  EXPECT_EQ(value(10), 1);
  EXPECT_EQ(state->version(), 8u);
  EXPECT_EQ(state->counters().duplicates, 2u);
  const auto staged = said<Staged>();
  ASSERT_EQ(staged.size(), 2u);
  EXPECT_EQ(std::make_pair(staged[0].step, staged[1].step), std::make_pair(std::uint64_t{3}, std::uint64_t{5}));
  EXPECT_EQ(state->provenance(8)->to_string(), "version 8: applied step 5 slot 0 of worker 0 (2 gradients)");
}

TEST_F(Cuts, ThatWaitAreBoundedAndEndWithTheShard) {
  make(1);
  for (std::uint64_t i = 0; i < 16; ++i) EXPECT_FALSE(cut(1)) << i;
  EXPECT_EQ(cut(1).code(), Code::resource_exhausted);
  make(1);
  const auto held = std::make_shared<int>();
  EXPECT_FALSE(state->cut(1, [held](const ShardState::Cut&) {}));
  state->fail(Error(Code::aborted, "over"), out);
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(cut(2).code(), Code::aborted);
  EXPECT_TRUE(taken.empty());
}

TEST_F(Cuts, OlderVersionsAreKeptIfWanted) {
  ShardOptions options;
  options.keep_versions = 2;
  make(options);
  for (std::uint64_t step = 0; step < 3; ++step) push_all(step, 0, 1);
  for (std::uint64_t version : {0, 1, 2, 3}) EXPECT_FALSE(pull(10, version)) << "version " << version;
  const auto puts = said<Put>();
  ASSERT_EQ(puts.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(puts[i].version, i == 0 ? 3 : i) << i;
  EXPECT_EQ(puts[1].tensor.item<float>(), 1);
}

}  // namespace
}  // namespace troupe::testing
