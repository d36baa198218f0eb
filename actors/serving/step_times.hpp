// How long steps of a function usually take, by how many rows they have.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <troupe/messages/nanoseconds.hpp>

namespace troupe {

// Times of steps include waits for the device and for the processor, which can be far longer than the step. So the
// usual time follows the fast ones: it falls by an eighth of the distance to a faster step, and rises by a sixty-fourth
// of itself with a slower one.
//
// Thread-safe: of times that come together, one may be lost.
class StepTimes {
 public:
  // 0: unknown. Of a number of rows of which no step is known, as if it were a multiple of the next smaller known one.
  Nanoseconds usual(std::int64_t rows) const {
    const std::size_t wanted = class_of(rows);
    for (std::size_t i = wanted + 1; i-- > 0;)
      if (const Nanoseconds known = times_[i].load(std::memory_order_relaxed)) return known << (wanted - i);
    return 0;
  }
  void add(std::int64_t rows, Nanoseconds took) {
    if (took < 1) took = 1;
    std::atomic<Nanoseconds>& time = times_[class_of(rows)];
    const Nanoseconds before = time.load(std::memory_order_relaxed);
    Nanoseconds after = took;
    if (before != 0)
      after = took < before ? before - (before - took + 7) / 8 : std::min(took, before + before / 64 + 1);
    time.store(after, std::memory_order_relaxed);
  }

 private:
  // Rows 0 and 1, 2 and 3, 4 to 7, ...; the last has all others.
  static constexpr std::size_t kClasses = 24;
  static std::size_t class_of(std::int64_t rows) {
    const auto bits = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(rows < 1 ? 1 : rows)));
    return bits - 1 < kClasses ? bits - 1 : kClasses - 1;
  }

  std::array<std::atomic<Nanoseconds>, kClasses> times_{};
};

}  // namespace troupe
