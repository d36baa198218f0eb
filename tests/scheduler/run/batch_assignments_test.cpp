#include "troupe/scheduler/run/batch_assignments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tests/error_of.hpp"
#include "tests/long_runs.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Assignment = BatchAssignments::Assignment;

// The batch that starts next, of a source that always has one; -1: none.
std::int64_t next(BatchAssignments& all, std::map<std::uint64_t, std::uint64_t>* numbers = nullptr) {
  auto made = all.assign();
  if (!made && all.wants_batch()) {
    all.add();
    made = all.assign();
  }
  if (!made) return -1;
  if (numbers) (*numbers)[made->batch] = made->number;
  return static_cast<std::int64_t>(made->batch);
}

TEST(BatchAssignments, AReplicaHasSoManyBatchesAtATime) {
  BatchAssignments all({.in_flight = 2, .window = 100});
  EXPECT_FALSE(all.wants_batch()) << "nobody would compute it";
  all.join(0);
  EXPECT_EQ(next(all), 0);
  EXPECT_EQ(next(all), 1);
  EXPECT_EQ(next(all), -1);
  all.join(7);
  EXPECT_EQ(next(all), 2);
  EXPECT_EQ(next(all), 3);
  EXPECT_EQ(next(all), -1);
  EXPECT_EQ(all.in_flight(7), 2u);
}

TEST(BatchAssignments, WhatALostReplicaHadComesBeforeNewBatchesInOrder) {
  BatchAssignments all({.in_flight = 2, .window = 100});
  std::map<std::uint64_t, std::uint64_t> numbers;
  all.join(0);
  all.join(1);
  for (std::int64_t batch = 0; batch < 4; ++batch) EXPECT_EQ(next(all, &numbers), batch);
  EXPECT_THAT(all.lose(0), ElementsAre(0u, 2u));
  EXPECT_THAT(all.lose(0), IsEmpty()) << "it is lost already";
  EXPECT_EQ(all.losses(2), 1);
  EXPECT_EQ(all.losses(1), 0);
  EXPECT_FALSE(all.wants_batch());
  EXPECT_EQ(all.replicas(), 1u);
  EXPECT_TRUE(all.finish(numbers[1]));
  EXPECT_FALSE(all.wants_batch()) << "what is lost comes first";
  EXPECT_EQ(next(all), 0);
  EXPECT_TRUE(all.finish(numbers[3]));
  EXPECT_EQ(next(all), 2);
  all.join(0);
  EXPECT_EQ(next(all), 4);
}

TEST(BatchAssignments, ResultsAreHandedOutInOrderAndOnce) {
  BatchAssignments all({.in_flight = 3, .window = 100});
  std::map<std::uint64_t, std::uint64_t> numbers;
  all.join(0);
  for (int i = 0; i < 3; ++i) next(all, &numbers);
  EXPECT_TRUE(all.finish(numbers[2]));
  EXPECT_TRUE(all.finish(numbers[1]));
  EXPECT_EQ(all.hand_out(), std::nullopt);
  EXPECT_TRUE(all.finish(numbers[0]));
  EXPECT_FALSE(all.finish(numbers[0])) << "it has come";
  for (std::uint64_t batch = 0; batch < 3; ++batch) EXPECT_EQ(all.hand_out(), batch);
  EXPECT_EQ(all.hand_out(), std::nullopt);
  EXPECT_FALSE(all.over());
  all.end();
  EXPECT_TRUE(all.over());
}

TEST(BatchAssignments, TheLateResultOfALostReplicaDoesNotCount) {
  BatchAssignments all({.in_flight = 1, .window = 100});
  std::map<std::uint64_t, std::uint64_t> first, second;
  all.join(0);
  next(all, &first);
  all.lose(0);
  all.join(0);
  EXPECT_EQ(next(all, &second), 0);
  EXPECT_FALSE(all.finish(first[0]));
  EXPECT_EQ(all.hand_out(), std::nullopt);
  EXPECT_TRUE(all.finish(second[0]));
}

TEST(BatchAssignments, NoBatchIsReadWhileTheWindowIsFull) {
  BatchAssignments all({.in_flight = 2, .window = 3, .repeat_slow = false});
  std::map<std::uint64_t, std::uint64_t> numbers;
  all.join(0);
  all.join(1);
  for (int i = 0; i < 3; ++i) next(all, &numbers);
  EXPECT_TRUE(all.finish(numbers[1]));
  EXPECT_TRUE(all.finish(numbers[2]));
  EXPECT_EQ(next(all), -1) << "0, on which all others wait, is not finished";
  EXPECT_EQ(error_of([&] { all.add(); }).code(), Code::failed_precondition);
  EXPECT_TRUE(all.finish(numbers[0]));
  EXPECT_EQ(next(all), -1) << "they are kept until they are handed out";
  EXPECT_EQ(all.hand_out(), 0u);
  EXPECT_EQ(next(all), 3);
}

TEST(BatchAssignments, AnIdleReplicaRepeatsTheFirstSlowBatch) {
  BatchAssignments all({.in_flight = 2, .window = 100});
  std::map<std::uint64_t, std::uint64_t> first, second;
  all.join(0);
  next(all, &first);
  next(all, &first);
  all.end();
  EXPECT_EQ(next(all), -1) << "the same replica";
  all.join(1);
  EXPECT_EQ(next(all, &second), 0);
  EXPECT_EQ(next(all), -1) << "it is not idle";
  EXPECT_TRUE(all.finish(second[0]));
  EXPECT_EQ(next(all, &second), 1);
  EXPECT_FALSE(all.finish(first[0])) << "the other was faster";
  EXPECT_THAT(all.lose(1), IsEmpty()) << "replica 0 has it, too";
  EXPECT_TRUE(all.finish(first[1]));
}

TEST(BatchAssignments, MisuseIsAnError) {
  EXPECT_EQ(error_of([] { BatchAssignments all({.in_flight = 0}); }).code(), Code::invalid_argument);
  EXPECT_EQ(error_of([] { BatchAssignments all({.window = 0}); }).code(), Code::invalid_argument);
  BatchAssignments all({});
  all.join(1);
  EXPECT_EQ(error_of([&] { all.join(1); }).code(), Code::failed_precondition);
}

// A source of some batches and replicas that come and go, drawn from a seed. Results of lost replicas may come, too.
class DrawnRun {
 public:
  explicit DrawnRun(std::uint64_t seed) : random_(seed) {
    options_ = {.in_flight = 1 + below(3), .window = 1 + below(8), .repeat_slow = below(2) == 0};
    batches_ = below(40);
    replicas_ = 1 + below(4);
    all_.emplace(options_);
  }

  // Until everything has been handed out.
  void play() {
    for (int turn = 0; !all_->over(); ++turn) {
      ASSERT_LT(turn, 20'000) << "it does not end";
      start_all();
      if (::testing::Test::HasFatalFailure()) return;
      ASSERT_TRUE(alive_.empty() || all_->over() || busy()) << "nobody works, and nothing is to be done";
      act();
      hand_out();
    }
    ASSERT_EQ(handed_, batches_);
  }

 private:
  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }
  bool busy() const {
    return std::ranges::any_of(alive_, [&](std::size_t replica) { return all_->in_flight(replica) > 0; });
  }

  void start_all() {
    while (true) {
      if (const auto made = all_->assign()) {
        check_start(*made);
        running_.push_back(*made);
      } else if (all_->wants_batch()) {
        ASSERT_THAT(waiting_, IsEmpty()) << "a new batch before those of lost replicas";
        if (added_ == batches_) {
          all_->end();
        } else {
          ASSERT_EQ(all_->add(), added_);
          waiting_.insert(added_++);
        }
        ASSERT_LE(all_->in_window(), options_.window);
        ASSERT_LE(added_ - handed_, options_.window);
      } else {
        return;
      }
    }
  }
  void check_start(const Assignment& made) {
    ASSERT_TRUE(alive_.contains(made.replica));
    ASSERT_LE(all_->in_flight(made.replica), options_.in_flight);
    if (waiting_.empty()) {
      ASSERT_TRUE(options_.repeat_slow && !results_.contains(made.batch));
      return;
    }
    ASSERT_EQ(made.batch, *waiting_.begin());
    waiting_.erase(made.batch);
  }

  void act() {
    const std::size_t what = below(10);
    const std::size_t replica = below(replicas_);
    if (alive_.empty() || what == 0) {
      if (alive_.insert(replica).second) all_->join(replica);
    } else if (what == 1) {
      for (const std::uint64_t batch : all_->lose(replica)) {
        ASSERT_FALSE(results_.contains(batch));
        waiting_.insert(batch);
      }
      alive_.erase(replica);
    } else if (!running_.empty()) {
      finish(below(running_.size()));
    }
  }
  // A lost replica's result comes as others do: the class has to know.
  void finish(std::size_t at) {
    const Assignment ended = running_[at];
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(at));
    if (!all_->finish(ended.number)) return;
    ASSERT_TRUE(results_.insert(ended.batch).second) << "twice: " << ended.batch;
  }
  void hand_out() {
    while (const auto batch = all_->hand_out()) {
      ASSERT_EQ(*batch, handed_) << "out of order";
      ASSERT_TRUE(results_.contains(*batch)) << "without a result";
      ++handed_;
    }
  }

  std::mt19937_64 random_;
  BatchAssignments::Options options_;
  std::uint64_t batches_ = 0, added_ = 0, handed_ = 0;
  std::size_t replicas_ = 0;
  std::optional<BatchAssignments> all_;
  std::set<std::size_t> alive_;
  std::vector<Assignment> running_;
  std::set<std::uint64_t> waiting_, results_;
};

TEST(BatchAssignments, HandOutAllBatchesInOrderWhateverHappens) {
  for (std::uint64_t seed = 0; seed < seeds(20'000); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    DrawnRun(seed).play();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace troupe::testing
