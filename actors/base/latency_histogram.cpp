#include "troupe/actors/base/latency_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace troupe {
namespace {

const std::array<Nanoseconds, LatencyHistogram::kBuckets - 1> kEnds = [] {
  std::array<Nanoseconds, LatencyHistogram::kBuckets - 1> out{};
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = std::llround(static_cast<double>(kMicrosecond) * std::exp2(static_cast<double>(i) / 2));
  return out;
}();

}  // namespace

Nanoseconds LatencyHistogram::upper_end(std::size_t bucket) { return kEnds.at(bucket); }

void LatencyHistogram::add(Nanoseconds took) {
  took = std::max<Nanoseconds>(took, 0);
  const auto bucket = static_cast<std::size_t>(std::ranges::upper_bound(kEnds, took) - kEnds.begin());
  buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(took, std::memory_order_relaxed);
  Nanoseconds longest = longest_.load(std::memory_order_relaxed);
  while (longest < took && !longest_.compare_exchange_weak(longest, took, std::memory_order_relaxed)) {
  }
}

LatencySnapshot LatencyHistogram::read() const {
  LatencySnapshot out{.sum_ns = sum_.load(std::memory_order_relaxed),
                      .longest_ns = longest_.load(std::memory_order_relaxed)};
  for (const auto& bucket : buckets_) {
    out.buckets.push_back(bucket.load(std::memory_order_relaxed));
    out.count += out.buckets.back();
  }
  while (!out.buckets.empty() && out.buckets.back() == 0) out.buckets.pop_back();
  return out;
}

Nanoseconds percentile(const LatencySnapshot& durations, double part) {
  if (durations.count == 0) return 0;
  const double rank = part * static_cast<double>(durations.count);
  double below = 0;
  for (std::size_t i = 0; i < durations.buckets.size(); ++i) {
    const auto own = static_cast<double>(durations.buckets[i]);
    if (own > 0 && below + own >= rank) {
      const auto low = static_cast<double>(i == 0 ? 0 : LatencyHistogram::upper_end(i - 1));
      const auto high = static_cast<double>(i + 1 < LatencyHistogram::kBuckets
                                                ? std::min(LatencyHistogram::upper_end(i), durations.longest_ns)
                                                : durations.longest_ns);
      return std::llround(low + (std::max(high, low) - low) * std::max(rank - below, 0.0) / own);
    }
    below += own;
  }
  return durations.longest_ns;
}

LatencySnapshot since(const LatencySnapshot& before, const LatencySnapshot& durations) {
  if (before.count > durations.count) return durations;  // of another object
  LatencySnapshot out = durations;
  out.count -= before.count;
  out.sum_ns -= before.sum_ns;
  for (std::size_t i = 0; i < std::min(before.buckets.size(), out.buckets.size()); ++i)
    out.buckets[i] -= std::min(before.buckets[i], out.buckets[i]);
  return out;
}

}  // namespace troupe
