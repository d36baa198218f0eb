#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/devices/collective/collective_testing.hpp"
#include <troupe/scheduler/collective/rank_operation.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::random_tensor;
using testing::reduced_by_hand;

Tensor allocate(DType dtype, const Shape& shape) { return Tensor(dtype, shape); }

// All ranks of one operation; what they send arrives in any order.
class Ranks {
 public:
  Ranks(const CollectiveSpec& spec, std::vector<Tensor> locals, unsigned seed) : random_(seed) {
    const auto n = static_cast<std::uint32_t>(locals.size());
    for (std::uint32_t r = 0; r < n; ++r) ranks_.emplace_back(spec, r, n, std::move(locals[r]), allocate);
  }

  std::vector<std::vector<Tensor>> run() {
    for (RankOperation& rank : ranks_) rank.start(flying_);
    while (!flying_.empty()) {
      std::swap(flying_[random_() % flying_.size()], flying_.back());
      CollectiveMessage message = std::move(flying_.back());
      flying_.pop_back();
      ranks_[message.to].take(std::move(message), flying_);
    }
    std::vector<std::vector<Tensor>> out;
    for (RankOperation& rank : ranks_) {
      EXPECT_TRUE(rank.done()) << rank.have() << " of " << rank.need();
      out.push_back(rank.take_result());
    }
    return out;
  }

 private:
  std::mt19937 random_;
  std::vector<RankOperation> ranks_;
  std::vector<CollectiveMessage> flying_;
};

CollectiveSpec all_reduce(DType dtype, const Shape& shape, Reduction reduction = Reduction::sum) {
  return {.kind = CollectiveKind::all_reduce, .reduction = reduction, .dtype = dtype, .shape = shape, .name = "x"};
}

std::vector<Tensor> locals(DType dtype, const Shape& shape, std::uint32_t ranks) {
  std::vector<Tensor> out;
  for (std::uint32_t r = 0; r < ranks; ++r) out.push_back(random_tensor(dtype, shape, 100 + r));
  return out;
}

class NumberOfRanks : public ::testing::TestWithParam<std::uint32_t> {};

// From nothing over what goes to everyone directly to many pieces; few of them can be divided by the ranks.
constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 17, 100, 4096, 4097, 5000, 70'001, 400'003};

TEST_P(NumberOfRanks, AllReduceIsTheSumFromThePartsRankOnWhateverTheOrderOfArrival) {
  const std::uint32_t n = GetParam();
  for (const std::int64_t size : kSizes) {
    const Shape shape{size};
    const Tensor expected =
        n == 1 ? locals(DType::f32, shape, 1)[0] : reduced_by_hand(locals(DType::f32, shape, n), Reduction::sum);
    for (unsigned seed = 0; seed < 3; ++seed)
      for (const auto& result : Ranks(all_reduce(DType::f32, shape), locals(DType::f32, shape, n), seed).run())
        ASSERT_TRUE(bitwise_equal(result.at(0), expected)) << size << " elements, order " << seed;
  }
}

TEST_P(NumberOfRanks, EveryDtypeAndReduction) {
  const std::uint32_t n = GetParam();
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64})
    for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max})
      for (const Shape& shape : {Shape{}, Shape{3, 7}, Shape{11, 1009}}) {
        const Tensor expected =
            n == 1 ? locals(dtype, shape, 1)[0] : reduced_by_hand(locals(dtype, shape, n), reduction);
        for (const auto& result : Ranks(all_reduce(dtype, shape, reduction), locals(dtype, shape, n), 7).run())
          ASSERT_TRUE(bitwise_equal(result.at(0), expected))
              << name(dtype) << " " << name(reduction) << shape.to_string();
      }
}

TEST_P(NumberOfRanks, TensorsThatOthersHoldStayAsTheyAre) {
  const std::uint32_t n = GetParam();
  const auto before = locals(DType::f32, {20'000}, n), held = locals(DType::f32, {20'000}, n);
  Ranks(all_reduce(DType::f32, {20'000}), held, 1).run();
  for (std::uint32_t r = 0; r < n; ++r) EXPECT_TRUE(bitwise_equal(held[r], before[r])) << "rank " << r;
}

TEST_P(NumberOfRanks, BroadcastGivesTheRootsTensorToAll) {
  const std::uint32_t n = GetParam();
  for (std::uint32_t root = 0; root < n; ++root)
    for (const std::int64_t size : kSizes) {
      std::vector<Tensor> given(n);
      given[root] = random_tensor(DType::i64, {size}, 5);
      const Tensor expected = given[root];
      const CollectiveSpec spec{
          .kind = CollectiveKind::broadcast, .root = root, .dtype = DType::i64, .shape = {size}, .name = "x"};
      for (const auto& result : Ranks(spec, given, root).run())
        ASSERT_TRUE(bitwise_equal(result.at(0), expected)) << "root " << root << ", " << size << " elements";
    }
}

TEST_P(NumberOfRanks, AllGatherHasTheTensorOfEachRank) {
  const std::uint32_t n = GetParam();
  for (const std::int64_t size : kSizes) {
    const CollectiveSpec spec{.kind = CollectiveKind::all_gather, .dtype = DType::f64, .shape = {size}, .name = "x"};
    const auto expected = locals(DType::f64, {size}, n);
    for (const auto& result : Ranks(spec, locals(DType::f64, {size}, n), 3).run()) {
      SCOPED_TRACE(::testing::Message() << size << " elements");
      ASSERT_EQ(result.size(), n);
      for (std::uint32_t r = 0; r < n; ++r) ASSERT_TRUE(bitwise_equal(result[r], expected[r]));
    }
  }
}

TEST_P(NumberOfRanks, ABarrierNeedsAll) {
  const std::uint32_t n = GetParam();
  const CollectiveSpec spec{.kind = CollectiveKind::barrier, .name = "end"};
  for (const auto& result : Ranks(spec, std::vector<Tensor>(n), 1).run()) EXPECT_TRUE(result.empty());
}

INSTANTIATE_TEST_SUITE_P(Ranks, NumberOfRanks, ::testing::Values(1, 2, 3, 4, 5));

// 257 cache lines in parts of 9: the part before the last is short, and the last is empty.
TEST(RankOperation, ARingMayHaveEmptyParts) {
  const Shape shape{257 * 16};
  ASSERT_GT(257 * 64u, kDirectBytes);
  ASSERT_EQ(CollectiveCut(257 * 16, 4, 30).part(29).size(), 0);
  const Tensor expected = reduced_by_hand(locals(DType::f32, shape, 30), Reduction::mean);
  for (unsigned seed = 0; seed < 3; ++seed)
    for (const auto& result :
         Ranks(all_reduce(DType::f32, shape, Reduction::mean), locals(DType::f32, shape, 30), seed).run())
      ASSERT_TRUE(bitwise_equal(result.at(0), expected)) << "order " << seed;
}

TEST(RankOperation, ABroadcastOfNothingWaitsForItsRootAndTheRootForAll) {
  const CollectiveSpec spec{
      .kind = CollectiveKind::broadcast, .root = 1, .dtype = DType::f32, .shape = {0}, .name = "x"};
  std::vector<RankOperation> ranks;
  for (std::uint32_t r = 0; r < 3; ++r) ranks.emplace_back(spec, r, 3, Tensor(DType::f32, {0}), allocate);
  std::vector<CollectiveMessage> flying;
  for (const std::uint32_t r : {0u, 2u}) {
    SCOPED_TRACE(::testing::Message() << "rank " << r);
    ranks[r].start(flying);
    EXPECT_TRUE(flying.empty());
    EXPECT_FALSE(ranks[r].done());
  }
  ranks[1].start(flying);
  for (std::size_t i = 0; i < flying.size(); ++i) {
    EXPECT_FALSE(ranks[1].done()) << "message " << i;
    CollectiveMessage m = flying[i];
    ranks[m.to].take(std::move(m), flying);
  }
  EXPECT_EQ(flying.size(), 3u) << "1 to 2, 2 to 0, and back";
  for (const RankOperation& rank : ranks) EXPECT_TRUE(rank.done()) << "rank " << (&rank - ranks.data());
}

TEST(RankOperation, SaysWhoHasNotBegun) {
  std::vector<RankOperation> ranks;
  for (std::uint32_t r = 0; r < 3; ++r)
    ranks.emplace_back(all_reduce(DType::f32, {9000}), r, 3, random_tensor(DType::f32, {9000}, r), allocate);
  std::vector<CollectiveMessage> flying;
  for (const std::uint32_t r : {0u, 2u}) ranks[r].start(flying);
  for (std::size_t i = 0; i < flying.size(); ++i)
    if (flying[i].to != 1) {
      CollectiveMessage m = flying[i];
      ranks[m.to].take(std::move(m), flying);
    }
  EXPECT_TRUE(ranks[2].awaits(1) && ranks[2].owes(1));
  EXPECT_TRUE(ranks[0].awaits(2) && !ranks[0].owes(2)) << "that one waits itself";
  EXPECT_FALSE(ranks[0].owes(1)) << "nothing comes from it";
}

TEST(RankOperation, OneSumOfItsOwnMemoryIsTheResult) {
  Tensor local = random_tensor(DType::f32, {10'000}, 1);
  const std::byte* memory = local.raw();
  std::vector<RankOperation> two;
  two.emplace_back(all_reduce(DType::f32, {10'000}), 0, 2, std::move(local), allocate);
  two.emplace_back(all_reduce(DType::f32, {10'000}), 1, 2, random_tensor(DType::f32, {10'000}, 2), allocate);
  std::vector<CollectiveMessage> flying;
  for (RankOperation& r : two) r.start(flying);
  for (std::size_t i = 0; i < flying.size(); ++i) {
    CollectiveMessage m = flying[i];
    two[m.to].take(std::move(m), flying);
  }
  EXPECT_EQ(two[0].take_result()[0].raw(), memory);
}

// Each message that cannot be, in turn: nothing changes, and the operation still comes to its end.
TEST(RankOperation, WhatCannotBeIsRefused) {
  const CollectiveSpec spec = all_reduce(DType::f32, {9000});
  RankOperation rank(spec, 1, 3, random_tensor(DType::f32, {9000}, 1), allocate);
  std::vector<CollectiveMessage> out;
  rank.start(out);
  const CollectiveCut cut(9000, 4, 3);
  const Tensor good = random_tensor(DType::f32, {cut.part(0).size()}, 2);
  const CollectiveMessage fine{.from = 0, .to = 1, .hop = 0, .part = 0, .piece = 0, .tensor = good};
  std::vector<CollectiveMessage> bad(8, fine);
  bad[0].from = 2;
  bad[1].hop = 1;
  bad[2].hop = 100;
  bad[3].part = 3;
  bad[4].part = 1;  // its own part comes back only when it is whole
  bad[5].piece = 1;
  bad[6].tensor = random_tensor(DType::f64, good.shape(), 2);
  bad[7].tensor = random_tensor(DType::f32, {1}, 2);
  for (const CollectiveMessage& m : bad) EXPECT_THROW(rank.take(m, out), Error) << "message " << (&m - bad.data());
  EXPECT_EQ(rank.have(), 0u);
  EXPECT_NO_THROW(rank.take(fine, out));
  EXPECT_THROW(rank.take(fine, out), Error) << "a second time";
  EXPECT_EQ(rank.have(), 1u);
  EXPECT_TRUE(rank.awaits(0));
  EXPECT_FALSE(rank.awaits(2)) << "around the ring everything comes from the rank before";
}

TEST(CollectiveSpec, SaysWhatItIsAndRefusesWhatCannotBe) {
  const CollectiveSpec spec = all_reduce(DType::f32, {10, 3}, Reduction::mean);
  EXPECT_EQ(spec.describe(), "all_reduce mean of f32[10,3] 'x'");
  EXPECT_NO_THROW(spec.check(2));
  EXPECT_THROW(all_reduce(DType::u8, {1}).check(2), Error);
  EXPECT_THROW(all_reduce(DType::f32, {kUnknown}).check(2), Error);
  const CollectiveSpec far{.kind = CollectiveKind::broadcast, .root = 2, .dtype = DType::u8, .shape = {1}, .name = "x"};
  EXPECT_THROW(far.check(2), Error);
  EXPECT_NO_THROW(far.check(3));
}

}  // namespace
}  // namespace troupe
