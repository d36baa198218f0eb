#include "troupe/actors/base/latency_histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace troupe::testing {
namespace {

TEST(LatencyHistogram, PercentilesAreWithinABucketOfTheTruth) {
  std::mt19937_64 draw(7);
  std::lognormal_distribution<double> microseconds(4, 2);
  LatencyHistogram histogram;
  std::vector<Nanoseconds> all;
  for (int i = 0; i < 10'000; ++i) {
    all.push_back(static_cast<Nanoseconds>(microseconds(draw) * 1000));
    histogram.add(all.back());
  }
  std::ranges::sort(all);
  const LatencySnapshot seen = histogram.read();
  EXPECT_EQ(seen.count, all.size());
  EXPECT_EQ(seen.longest_ns, all.back());
  for (const double part : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const auto truth = static_cast<double>(all[static_cast<std::size_t>(part * static_cast<double>(all.size()))]);
    const auto told = static_cast<double>(percentile(seen, part));
    EXPECT_LT(std::max(told, 1000.0), std::max(truth, 1000.0) * 1.42) << part;
    EXPECT_GT(std::max(told, 1000.0), truth / 1.42) << part;
  }
}

TEST(LatencyHistogram, BucketsBeginWhereTheOneBeforeEnds) {
  LatencyHistogram histogram;
  for (std::size_t i = 0; i + 1 < LatencyHistogram::kBuckets; ++i) {
    histogram.add(LatencyHistogram::upper_end(i) - 1);
    histogram.add(LatencyHistogram::upper_end(i));
  }
  const LatencySnapshot seen = histogram.read();
  ASSERT_EQ(seen.buckets.size(), LatencyHistogram::kBuckets);
  EXPECT_EQ(seen.buckets.front(), 1u);
  EXPECT_EQ(seen.buckets.back(), 1u);
  for (std::size_t i = 1; i + 1 < seen.buckets.size(); ++i) EXPECT_EQ(seen.buckets[i], 2u) << i;
  histogram.add(-5);  // a clock that went back
  EXPECT_EQ(histogram.read().buckets.front(), 2u);
}

TEST(LatencyHistogram, ASpanIsTheDifferenceOfTwoSnapshots) {
  LatencyHistogram histogram;
  EXPECT_EQ(percentile(histogram.read(), 0.5), 0);
  for (int i = 0; i < 100; ++i) histogram.add(10 * kMicrosecond);
  const LatencySnapshot before = histogram.read();
  for (int i = 0; i < 100; ++i) histogram.add(10 * kMillisecond);
  const LatencySnapshot span = since(before, histogram.read());
  EXPECT_EQ(span.count, 100u);
  EXPECT_EQ(span.sum_ns, 1000 * kMillisecond);
  EXPECT_GT(percentile(span, 0.01), 5 * kMillisecond);
  EXPECT_EQ(since(histogram.read(), before).count, before.count);  // of a process that has begun anew
}

}  // namespace
}  // namespace troupe::testing
