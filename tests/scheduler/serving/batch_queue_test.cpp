#include "troupe/scheduler/serving/batch_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/error_of.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Batch = BatchQueue::Batch;
using Part = BatchQueue::Part;

struct Queue : BatchQueue {
  using BatchQueue::BatchQueue;
  std::string put(std::uint64_t id, std::int64_t rows, Nanoseconds now, Nanoseconds deadline = kNever) {
    return add({.id = id, .rows = rows, .deadline = deadline}, now).to_string();
  }
};

const std::string kOk = Error().to_string();

TEST(BatchQueue, ABatchStartsWhenItIsFullOrItsOldestRequestHasWaited) {
  Queue q({.most_rows = 4, .timeout = 10});
  EXPECT_FALSE(q.next(0));
  EXPECT_EQ(q.next_time(), std::nullopt);
  EXPECT_EQ(q.put(1, 2, 100), kOk);
  EXPECT_EQ(q.next_time(), 110);
  EXPECT_FALSE(q.next(109));
  EXPECT_EQ(q.put(2, 1, 109), kOk);
  auto batch = q.next(110);
  ASSERT_TRUE(batch);
  EXPECT_THAT(batch->parts, ElementsAre(Part{1, 0, 2, true}, Part{2, 0, 1, true}));
  EXPECT_EQ(batch->padded, 3);
  q.finished(5);
  EXPECT_EQ(q.put(3, 4, 120), kOk);
  EXPECT_TRUE(q.next(120)) << "it is full";
}

TEST(BatchQueue, SoManyRunAtOnce) {
  Queue q({.most_rows = 1, .timeout = 0, .at_once = 2});
  for (std::uint64_t id = 0; id < 3; ++id) EXPECT_EQ(q.put(id, 1, 0), kOk);
  EXPECT_TRUE(q.next(0));
  EXPECT_TRUE(q.next(0));
  EXPECT_FALSE(q.next(0));
  EXPECT_EQ(q.next_time(), std::nullopt) << "the end of a batch is told by a call";
  q.finished(7);
  EXPECT_TRUE(q.next(0));
  q.finished(7);
  q.finished(7);
  EXPECT_EQ(error_of([&] { q.finished(7); }).code(), Code::failed_precondition);
}

TEST(BatchQueue, LargeRequestsAreSplit) {
  Queue q({.most_rows = 4, .timeout = 10, .at_once = 9});
  EXPECT_EQ(q.put(1, 3, 0), kOk);
  EXPECT_EQ(q.put(2, 7, 0), kOk);
  EXPECT_THAT(q.next(0)->parts, ElementsAre(Part{1, 0, 3, true}, Part{2, 0, 1, false}));
  EXPECT_THAT(q.next(0)->parts, ElementsAre(Part{2, 1, 4, false}));
  EXPECT_FALSE(q.next(0));
  EXPECT_EQ(q.waiting_rows(), 2);
  EXPECT_THAT(q.next(10)->parts, ElementsAre(Part{2, 5, 2, true}));
  EXPECT_EQ(q.waiting_requests(), 0u);
}

TEST(BatchQueue, RowsArePaddedToTheNextAllowedSize) {
  Queue q({.most_rows = 8, .timeout = 0, .allowed_sizes = {1, 4, 8}, .at_once = 9});
  for (const auto& [rows, padded] : {std::pair{1, 1}, {2, 4}, {4, 4}, {5, 8}, {8, 8}}) {
    EXPECT_EQ(q.put(1, rows, 0), kOk);
    EXPECT_EQ(q.next(0)->padded, padded);
  }
}

TEST(BatchQueue, RefusesWhatWouldWaitInVain) {
  Queue q({.most_rows = 4, .timeout = 10, .most_waiting = 10});
  EXPECT_EQ(q.put(1, 9, 0), kOk);
  EXPECT_EQ(q.put(2, 2, 0), "unavailable: 9 rows wait, 2 more would be too many: ask again in 1 ms");
  EXPECT_EQ(q.put(2, 11, 0), "invalid_argument: a request of 11 rows: at most 10 may wait");
  EXPECT_EQ(q.put(2, 0, 0), "invalid_argument: a request of 0 rows");
  EXPECT_EQ(q.put(2, 1, 5, 5), "deadline_exceeded: the deadline had passed when the request came");
  EXPECT_EQ(error_of([&] { q.put(1, 1, 0); }).code(), Code::already_exists);
  q.next(0);
  q.finished(6 * kMillisecond);
  EXPECT_EQ(q.put(2, 6, 0), "unavailable: 5 rows wait, 6 more would be too many: ask again in 12 ms");
  EXPECT_EQ(q.retry_after_ms(), 12);
  EXPECT_EQ(q.add({.id = 2, .rows = 1}, 0, 5).code(), Code::unavailable);  // with those elsewhere
  EXPECT_FALSE(q.add({.id = 2, .rows = 1}, 0, 4));
}

TEST(BatchQueue, WhatIsCancelledOrTooLateIsNotComputed) {
  Queue q({.most_rows = 4, .timeout = 10});
  EXPECT_EQ(q.put(1, 2, 0, 8), kOk);
  EXPECT_EQ(q.put(2, 2, 0, 30), kOk);
  EXPECT_EQ(q.put(3, 2, 0, 8), kOk);
  EXPECT_TRUE(q.cancel(2));
  EXPECT_FALSE(q.cancel(2));
  EXPECT_EQ(q.next_time(), 0) << "still full";
  EXPECT_THAT(q.expired(7), IsEmpty());
  EXPECT_THAT(q.expired(8), ElementsAre(1, 3));
  EXPECT_EQ(q.waiting_rows(), 0);
  EXPECT_FALSE(q.next(100));
  EXPECT_EQ(q.put(1, 1, 100), kOk) << "the number is free again";
}

TEST(BatchQueue, OptionsMakeSense) {
  const auto said = [](const BatchQueue::Options& options) {
    return error_of([&] { BatchQueue{options}; }).to_string();
  };
  EXPECT_THAT(said({.most_rows = 0}), HasSubstr("must be at least 1"));
  EXPECT_THAT(said({.most_rows = 8, .allowed_sizes = {4, 4, 8}}), HasSubstr("must ascend"));
  EXPECT_THAT(said({.most_rows = 8, .allowed_sizes = {4, 6}}), HasSubstr("it must be that of the largest batch, 8"));
}

// Drawn requests, ends and times against plain books of what each request has got.
TEST(BatchQueue, EachRowIsComputedOnceInOrderOrItsRequestIsOver) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto draw = [&](std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random); };
    const std::int64_t most = 1 + draw(8);
    Queue q({.most_rows = most,
             .timeout = draw(20),
             .most_waiting = most + draw(30),
             .at_once = 1 + static_cast<std::size_t>(draw(3))});
    struct Known {
      std::int64_t rows = 0, done = 0;
      Nanoseconds since = 0, deadline = 0;
      bool over = false;
    };
    std::map<std::uint64_t, Known> known;
    std::uint64_t next_id = 0;
    Nanoseconds now = 0;
    std::size_t running = 0;
    for (int i = 0; i < 300; ++i) {
      now += draw(4);
      const std::int64_t what = draw(5);
      if (what < 2) {
        const Known k{
            .rows = 1 + draw(2 * most), .since = now, .deadline = draw(3) ? BatchQueue::kNever : now + 1 + draw(40)};
        const std::int64_t before = q.waiting_rows();
        const Error error = q.add({next_id, k.rows, k.deadline}, now);
        if (error.ok())
          known[next_id++] = k;
        else
          EXPECT_EQ(q.waiting_rows(), before);
        EXPECT_TRUE(error.ok() || before + k.rows > q.options().most_waiting);
      } else if (what == 2 && running > 0) {
        q.finished(3);
        --running;
      } else if (what == 3 && next_id > 0) {
        const auto id = static_cast<std::uint64_t>(draw(static_cast<std::int64_t>(next_id)));
        Known& k = known.at(id);
        EXPECT_EQ(q.cancel(id), !k.over);
        k.over = true;
      }
      for (const std::uint64_t id : q.expired(now)) {
        EXPECT_FALSE(known.at(id).over);
        EXPECT_LE(known.at(id).deadline, now);
        known.at(id).over = true;
      }
      const auto time = q.next_time();
      const auto batch = q.next(now);
      EXPECT_TRUE(!batch || time.value() <= now);
      std::int64_t waiting = 0, oldest = -1;
      for (const auto& [id, k] : known)
        if (!k.over && k.done < k.rows) {
          EXPECT_GT(k.deadline, now);
          waiting += k.rows - k.done;
          if (oldest < 0) oldest = static_cast<std::int64_t>(id);
        }
      const bool due = oldest >= 0 && (waiting >= most ||
                                       now - known.at(static_cast<std::uint64_t>(oldest)).since >= q.options().timeout);
      ASSERT_EQ(batch.has_value(), due && running < q.options().at_once);
      if (!batch) continue;
      EXPECT_EQ(batch->rows, std::min(most, waiting));
      ++running;
      std::uint64_t last = 0;
      for (const Part& part : batch->parts) {
        Known& k = known.at(part.request);
        EXPECT_FALSE(k.over);
        EXPECT_GE(part.request, last);
        last = part.request;
        EXPECT_EQ(part.first, k.done);
        k.done += part.rows;
        EXPECT_EQ(part.last, k.done == k.rows);
        k.over = part.last;
      }
    }
  }
}

}  // namespace
}  // namespace troupe::testing
