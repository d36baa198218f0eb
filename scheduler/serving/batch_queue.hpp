// Requests that are computed together: those of one signature of one version wait here until they make a batch.
//
//   add() ───▶ waiting ──── next() ───▶ a batch: rows of several requests, padded to an allowed size
//                 │
//                 └─ cancel(), expired(): never computed
//
// A batch starts when it is full, or when its oldest request has waited for `timeout`, as soon as fewer than `at_once`
// batches run. A request of more rows than fit is split over several batches. At most `most_waiting` rows wait: a
// request that would be one too many is refused at once, so that clients can ask elsewhere while it matters.
//
// A plain class: its driver joins rows, runs steps and hands out results. Not thread-safe. Times are those of one
// steady clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <troupe/messages/error.hpp>
#include <troupe/messages/nanoseconds.hpp>

namespace troupe {

class BatchQueue {
 public:
  struct Options {
    std::int64_t most_rows = 32;  // of a batch
    Nanoseconds timeout = 1 * kMillisecond;
    std::vector<std::int64_t> allowed_sizes{};  // ascending, the last is most_rows; empty: any
    std::int64_t most_waiting = 1024;           // rows
    std::size_t at_once = 1;                    // batches that run
    Nanoseconds above = 0;                      // requests whose step takes less, by itself, are not worth adding
  };
  struct Request {
    std::uint64_t id = 0;  // no other waiting request has it
    std::int64_t rows = 1;
    Nanoseconds deadline = kNever;
  };
  struct Part {
    std::uint64_t request = 0;
    std::int64_t first = 0;  // row of the request
    std::int64_t rows = 0;
    bool last = false;  // the request has no more rows that wait
    bool operator==(const Part&) const = default;
  };
  struct Batch {
    std::vector<Part> parts{};
    std::int64_t rows = 0;
    std::int64_t padded = 0;  // rows of the step: the smallest allowed size
  };
  static constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

  // Throws invalid_argument for limits below 1 and sizes that do not fit the comment above.
  explicit BatchQueue(Options options);

  // Ok, or: unavailable, the queue is full (retry_after_ms() says when to ask again); deadline_exceeded;
  // invalid_argument, no rows, or more than may wait at all. `elsewhere`: rows that wait in other queues and count too.
  [[nodiscard]] Error add(const Request& request, Nanoseconds now, std::int64_t elsewhere = 0);
  // How long a request that is refused now should wait, in milliseconds, at least 1.
  std::int64_t retry_after_ms() const;
  // The request's rows that wait are not computed. False: none wait.
  bool cancel(std::uint64_t request);
  // Takes out the requests whose deadline has passed: in the order in which they came.
  std::vector<std::uint64_t> expired(Nanoseconds now);

  // The next batch, if one is due and may start. It runs until finished() is called. Call expired() before: what is too
  // late is not computed.
  std::optional<Batch> next(Nanoseconds now);
  // A batch that next() has returned has ended. `took`: how long it ran, for hints to clients.
  void finished(Nanoseconds took);

  // When next() or expired() may have something, if nothing is called before; nullopt: never.
  std::optional<Nanoseconds> next_time() const;

  std::int64_t waiting_rows() const { return rows_; }
  std::size_t waiting_requests() const { return waiting_.size(); }
  std::size_t running() const { return running_; }
  // Of the oldest request; 0: none.
  Nanoseconds longest_wait(Nanoseconds now) const;
  const Options& options() const { return options_; }

 private:
  struct Waiting {
    Request request{};
    Nanoseconds since = 0;
    std::int64_t done = 0;  // rows that are in batches
  };
  using Place = std::map<std::uint64_t, Waiting>::iterator;

  void take_out(Place place);

  const Options options_;
  std::map<std::uint64_t, Waiting> waiting_;                   // by order of arrival
  std::map<std::uint64_t, std::uint64_t> order_;               // of requests
  std::set<std::pair<Nanoseconds, std::uint64_t>> deadlines_;  // with order of arrival
  std::uint64_t arrivals_ = 0;
  std::int64_t rows_ = 0;
  std::size_t running_ = 0;
  Nanoseconds usual_time_ = 0;  // of a batch: a running average
};

}  // namespace troupe
