// The tokens of a worker by themselves: what it asks for, computes and reports, in which order.
#include "troupe/scheduler/training/worker_tokens.hpp"

#include <gtest/gtest.h>

namespace troupe::testing {
namespace {

class WorkerTokensTest : public ::testing::Test {
 protected:
  void make(TrainingMode mode, std::uint32_t ahead = 2) {
    tokens.emplace(WorkerTokens::Options{.worker = 3, .mode = mode, .ahead = ahead, .view = 7});
    tokens->begin(out);
  }
  // What it has said: "take 1", "done 5/0".
  std::string said() {
    std::string text;
    for (const Outgoing& message : std::exchange(out, {})) {
      EXPECT_EQ(message.to.kind, Destination::Kind::coordinator);
      if (const auto* take = std::get_if<TakeToken>(&message.message)) {
        EXPECT_EQ(take->worker, 3u);
        EXPECT_EQ(take->view, 7u);
        text += fmt::format("take {};", take->request);
      } else if (const auto* done = std::get_if<TokenDone>(&message.message)) {
        EXPECT_EQ(done->worker, 3u);
        EXPECT_EQ(done->view, 7u);
        text += fmt::format("done {}/{} of {};", done->token.step, done->token.slot, done->examples);
      }
    }
    return text;
  }
  void came(std::uint64_t request, std::uint64_t step, std::uint32_t slot, TokenKind kind = TokenKind::train) {
    tokens->came({.request = request, .kind = kind, .step = step, .slot = slot});
  }
  void end(std::uint64_t id) { tokens->ended(id, {.examples = 10}, out); }
  // (step, slot, id) of what begins now; step 0 slot 0 id 0: nothing.
  std::string start() {
    const auto work = tokens->start();
    return work ? fmt::format("{}: {}/{}", work->id, work->token.step, work->token.slot) : "nothing";
  }

  std::optional<WorkerTokens> tokens;
  TrainingOutbox out;
};

TEST_F(WorkerTokensTest, AsksAheadAndForAnotherWithEachReport) {
  make(TrainingMode::synchronous);
  EXPECT_EQ(said(), "take 1;take 2;");
  came(1, 0, 0);
  came(2, 1, 0);
  EXPECT_EQ(start(), "1: 0/0");
  EXPECT_EQ(start(), "2: 1/0");  // its pulls wait while the first computes
  EXPECT_EQ(start(), "nothing");
  end(1);
  EXPECT_EQ(said(), "done 0/0 of 10;take 3;");
}

// With backup workers a step waits for reports, and the next step for it.
TEST_F(WorkerTokensTest, AStepThatALostWorkerLeftBehindIsNotHeldUpByALaterOne) {
  make(TrainingMode::synchronous);
  said();
  came(1, 5, 0);
  came(2, 5, 2);
  came(0, 4, 1);
  EXPECT_EQ(start(), "1: 5/0");
  EXPECT_EQ(start(), "2: 5/2");
  EXPECT_EQ(start(), "3: 4/1");
  end(2);
  EXPECT_EQ(said(), "") << "it came behind one of its own step";
  end(3);
  EXPECT_EQ(said(), "done 4/1 of 10;");
  end(1);
  EXPECT_EQ(said(), "done 5/0 of 10;take 3;done 5/2 of 10;take 4;");
}

TEST_F(WorkerTokensTest, ReportsInTheOrderOfTheTokens) {
  make(TrainingMode::synchronous);
  came(1, 0, 0);
  came(2, 1, 0);
  start();
  start();
  said();
  end(2);
  EXPECT_EQ(said(), "");
  end(1);
  EXPECT_EQ(said(), "done 0/0 of 10;take 3;done 1/0 of 10;take 4;");
}

TEST_F(WorkerTokensTest, OfAsynchronousTrainingAreComputedOneAtATimeAfterItsOwnLastBatch) {
  make(TrainingMode::asynchronous);
  came(1, 4, 0);
  came(2, 6, 0);
  EXPECT_EQ(tokens->start()->after, 0u);
  EXPECT_EQ(start(), "nothing");
  end(1);
  EXPECT_EQ(tokens->start()->after, 5u);
}

TEST_F(WorkerTokensTest, DropsWhatItHasHad) {
  make(TrainingMode::synchronous);
  came(1, 0, 0);
  came(1, 0, 0);
  came(5, 9, 0);  // never asked for
  EXPECT_EQ(start(), "1: 0/0");
  came(0, 0, 0);
  EXPECT_EQ(start(), "nothing");
  came(0, 0, 1);  // unasked: a lost worker left it behind
  came(0, 0, 1);
  EXPECT_EQ(start(), "2: 0/1");
  EXPECT_EQ(start(), "nothing");
  said();
  end(1);
  end(2);
  EXPECT_EQ(said(), "done 0/0 of 10;take 3;done 0/1 of 10;");  // its two requests are still two
}

TEST_F(WorkerTokensTest, WhatItsStepDoesNotUseIsReportedWithoutBeingComputed) {
  make(TrainingMode::synchronous, 3);
  came(1, 4, 0);
  came(2, 4, 1);
  start();
  start();
  came(3, 4, 2);
  said();
  EXPECT_EQ(tokens->committed({.step = 4, .slots = {1}}, out), std::vector<std::uint64_t>{1});
  EXPECT_TRUE(tokens->unused(1));
  EXPECT_FALSE(tokens->unused(2));
  EXPECT_EQ(said(), "done 4/2 of 0;take 4;");
  EXPECT_TRUE(tokens->committed({.step = 4, .slots = {1}}, out).empty());
  EXPECT_EQ(start(), "nothing");
  end(1);
  end(2);
  EXPECT_EQ(said(), "done 4/0 of 0;take 5;done 4/1 of 10;take 6;");
}

TEST_F(WorkerTokensTest, FinishesOnceForEachTimeItIsTold) {
  make(TrainingMode::synchronous);
  came(1, 9, 0, TokenKind::finish);
  EXPECT_TRUE(tokens->finishes());
  EXPECT_EQ(tokens->finish()->step, 9u);
  EXPECT_FALSE(tokens->finish());
  came(0, 9, 3, TokenKind::finish);  // the chief is lost, and this is the next
  EXPECT_EQ(tokens->finish()->slot, 3u);
}

TEST_F(WorkerTokensTest, CountsItsRequestsOnFromThoseOfItsIncarnationBefore) {
  tokens.emplace(WorkerTokens::Options{.worker = 3, .ahead = 1, .view = 7, .requests = 12});
  tokens->begin(out);
  EXPECT_EQ(said(), "take 13;");
  came(12, 5, 0);
  EXPECT_EQ(start(), "nothing");
  EXPECT_EQ(tokens->requests(), 13u);
}

}  // namespace
}  // namespace troupe::testing
