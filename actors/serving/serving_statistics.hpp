// What the requests of one version took, and how they ended. Thread-safe, wait-free: requests count on the threads that
// answer them, and the introspector reads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <troupe/actors/base/latency_histogram.hpp>
#include <troupe/actors/serving/servable.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

class ServingStatistics {
 public:
  enum class Stage : std::uint8_t {
    parse,      // a door makes tensors of the request
    queue,      // waits for others of its batch
    batch,      // rows are joined
    run,        // the step, with its wait for the device
    serialise,  // a door makes the answer of tensors
    total       // from Servable::start() to its end
  };
  static constexpr std::size_t kStages = 6;

  void begin() { in_flight_.fetch_add(1, std::memory_order_relaxed); }
  void end(const ServingResult& result, Nanoseconds total);
  // A request that did not come to start().
  void refused(Code code) { ended_.at(static_cast<std::size_t>(code)).fetch_add(1, std::memory_order_relaxed); }
  void add(Stage stage, Nanoseconds took) { stages_[static_cast<std::size_t>(stage)].add(took); }
  void waiting(std::int64_t more_rows) { waiting_rows_.fetch_add(more_rows, std::memory_order_relaxed); }
  void batch(std::int64_t rows);
  // Fills in all but what the manager knows.
  void read(ServableSnapshot& out) const;

 private:
  static constexpr std::size_t kSizes = 24;  // the last: of more rows than 2^22
  static constexpr std::size_t kCodes = static_cast<std::size_t>(Code::unauthenticated) + 1;

  std::array<LatencyHistogram, kStages> stages_;
  std::array<std::atomic<std::uint64_t>, kCodes> ended_{};  // by code
  std::array<std::atomic<std::uint64_t>, kSizes> batches_{};
  std::atomic<std::uint64_t> batch_rows_{0};
  std::atomic<std::int64_t> in_flight_{0}, waiting_rows_{0};
};
std::string_view name(ServingStatistics::Stage stage);

}  // namespace troupe
