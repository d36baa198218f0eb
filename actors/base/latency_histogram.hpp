// Counts durations in buckets, so that percentiles can be told of any span of time: of the difference of two snapshots.
//
// The first bucket ends at 1 us, and each other one at sqrt(2) times the end of the one before; the last, from 67 s on,
// has none. A percentile that is interpolated in its bucket is at most 41 % off.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <troupe/actors/base/snapshot.hpp>
#include <troupe/messages/nanoseconds.hpp>

namespace troupe {

// Thread-safe, wait-free.
class LatencyHistogram {
 public:
  static constexpr std::size_t kBuckets = 54;
  // Of a bucket but the last, exclusive.
  static Nanoseconds upper_end(std::size_t bucket);

  void add(Nanoseconds took);
  LatencySnapshot read() const;

 private:
  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
  std::atomic<Nanoseconds> sum_{0}, longest_{0};
};

// `part`: 0.99. 0 without durations.
Nanoseconds percentile(const LatencySnapshot& durations, double part);
// What came after `before`, an earlier snapshot of the same durations; its longest is that of all.
LatencySnapshot since(const LatencySnapshot& before, const LatencySnapshot& durations);

}  // namespace troupe
