#include <gtest/gtest.h>

#include <algorithm>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/passes/shard_map.hpp>

namespace troupe {
namespace {

std::vector<VariableSpec> some_variables() {
  return {{"w1", DType::f32, Shape{784, 128}},
          {"b1", DType::f32, Shape{128}},
          {"w2", DType::f32, Shape{128, 10}},
          {"b2", DType::f32, Shape{10}},
          {"scale", DType::f64, Shape{}}};
}

TEST(ShardMap, PutsWholeVariablesLargestFirstOnTheLeastLoadedShard) {
  const ShardMap map(some_variables(), 2);
  EXPECT_EQ(map.dump(),
            "0: b1 rows [0,128) f32[128] -> shard 1\n"
            "1: b2 rows [0,10) f32[10] -> shard 1\n"
            "2: scale rows [0,1) f64[] -> shard 1\n"
            "3: w1 rows [0,784) f32[784,128] -> shard 0\n"
            "4: w2 rows [0,128) f32[128,10] -> shard 1\n");
  EXPECT_EQ(map.bytes_of(0), 784 * 128 * 4);
  EXPECT_EQ(map.bytes_of(1), 128 * 4 + 10 * 4 + 8 + 1280 * 4);
}

TEST(ShardMap, DependsOnTheSetOfVariablesOnly) {
  auto variables = some_variables();
  const ShardMap map(variables, 3);
  std::ranges::reverse(variables);
  const ShardMap again(variables, 3);
  EXPECT_EQ(map.slices(), again.slices());
  EXPECT_EQ(map.fingerprint(), again.fingerprint());
}

TEST(ShardMap, TheFingerprintSeesEveryField) {
  const auto base = ShardMap({{"w", DType::f32, Shape{6, 2}}}, 1).fingerprint();
  EXPECT_NE(base, ShardMap({{"v", DType::f32, Shape{6, 2}}}, 1).fingerprint());
  EXPECT_NE(base, ShardMap({{"w", DType::i32, Shape{6, 2}}}, 1).fingerprint());
  EXPECT_NE(base, ShardMap({{"w", DType::f32, Shape{6, 3}}}, 1).fingerprint());
  EXPECT_NE(base, ShardMap({{"w", DType::f32, Shape{6, 2, 1}}}, 1).fingerprint());
  EXPECT_NE(base, ShardMap({{"w", DType::f32, Shape{6, 2}}}, 2).fingerprint());
  // The published test vector of FNV-1a for the empty string would be the offset; eight zero bytes follow for
  // 0 slices.
  std::uint64_t expected = 0xcbf29ce484222325ull;
  for (int byte : {1, 0, 0, 0, 0, 0, 0, 0}) expected = (expected ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3ull;
  EXPECT_EQ(ShardMap({}, 1).fingerprint(), expected);
}

TEST(ShardMap, CutsAboveFourMebibytesAtMultiplesOf64Bytes) {
  // Rows of 12 bytes: 16 rows make 192 bytes, the smallest multiple of 64.
  const ShardMap map({{"w", DType::f32, Shape{1'000'003, 3}}}, 3);
  const auto slices = map.slices_of("w");
  ASSERT_EQ(slices.size(), 3u);
  std::int64_t at = 0;
  for (const Slice& s : slices) {
    SCOPED_TRACE(::testing::Message() << "slice from row " << s.row_begin);
    EXPECT_EQ(s.row_begin, at);
    EXPECT_EQ(s.row_begin * 12 % 64, 0);
    EXPECT_EQ(s.shape, (Shape{s.row_end - s.row_begin, 3}));
    EXPECT_NEAR(static_cast<double>(s.row_end - s.row_begin), 1'000'003 / 3.0, 32);
    at = s.row_end;
  }
  EXPECT_EQ(at, 1'000'003);
  EXPECT_EQ(slices[0].shard + slices[1].shard + slices[2].shard, 0 + 1 + 2);
}

TEST(ShardMap, DealsOutTheRowsOfVariablesWithSparseGradients) {
  const ShardMap map({{"table", DType::f32, Shape{1'000'003, 3}, true}}, 3);
  const auto slices = map.slices_of("table");
  ASSERT_EQ(slices.size(), 3u);
  for (std::int64_t k = 0; k < 3; ++k) {
    const Slice& s = slices[static_cast<std::size_t>(k)];
    EXPECT_EQ(s.row_begin, k);
    EXPECT_EQ(s.row_end, 1'000'003);
    EXPECT_EQ(s.stride, 3);
    EXPECT_EQ(s.shape, (Shape{k == 0 ? 333'335 : 333'334, 3})) << k;
  }
  EXPECT_EQ(slices[0].shard + slices[1].shard + slices[2].shard, 0 + 1 + 2);
  EXPECT_EQ(ShardMap({{"table", DType::f32, Shape{2, 4 << 20}, true}}, 3).slices().size(), 2u);
  EXPECT_EQ(ShardMap({{"table", DType::f32, Shape{1 << 20}, true}}, 3).slices()[0].stride, 1);
}

TEST(ShardMap, FourMebibytesExactlyStayWhole) {
  EXPECT_EQ(ShardMap({{"w", DType::f32, Shape{1 << 20}}}, 2).slices().size(), 1u);
  EXPECT_EQ(ShardMap({{"w", DType::f32, Shape{(1 << 20) + 1}}}, 2).slices().size(), 2u);
  EXPECT_EQ(ShardMap({{"w", DType::f32, Shape{(1 << 20) + 1}}}, 1).slices().size(), 1u);
  EXPECT_EQ(ShardMap({{"w", DType::f32, Shape{1, 4 << 20}}}, 2).slices().size(),
            1u);  // one row cannot be cut
  EXPECT_EQ(ShardMap({{"w", DType::f32, Shape{0, 4 << 20}}}, 2).slices().size(), 1u);
  EXPECT_EQ(ShardMap({{"w", DType::f32, Shape{(1 << 20) + 1}}}, 100).slices().size(),
            2u);  // no more than needed
}

// Ids follow those of slices; the order is that of slices, which are sorted by name.
TEST(SlicePacks, HoldTheSmallVariablesOfAShardAGroupAndADtype) {
  const ShardMap map({{"a", DType::f32, Shape{4, 2}},
                      {"b", DType::f32, Shape{}},
                      {"c", DType::f32, Shape{4097}},  // above 16 KiB
                      {"d", DType::f64, Shape{2}},
                      {"e", DType::f32, Shape{4096}},
                      {"f", DType::f32, Shape{3}},
                      {"g", DType::f32, Shape{0}},
                      {"h", DType::f32, Shape{1}},
                      {"i", DType::f32, Shape{1}}},
                     1);
  const auto packs = pack_slices(map, [](const std::string& variable) -> std::optional<std::uint32_t> {
    if (variable == "f") return std::nullopt;
    return variable >= "h" ? 1 : 0;
  });
  const std::vector<SlicePack> expected = {
      {.id = 9, .shard = 0, .dtype = DType::f32, .elements = 8 + 1 + 4096, .slices = {0, 1, 4}},
      {.id = 10, .shard = 0, .dtype = DType::f32, .elements = 2, .slices = {7, 8}}};
  EXPECT_EQ(packs, expected);
}

TEST(SlicePacks, HaveUpTo256KiB) {
  std::vector<VariableSpec> variables;
  for (int i = 0; i < 18; ++i) variables.push_back({fmt::format("v{:02}", i), DType::f32, Shape{4096}});
  const auto packs = pack_slices(ShardMap(variables, 1), [](const std::string&) { return 0u; });
  ASSERT_EQ(packs.size(), 2u);
  EXPECT_EQ(packs[0].slices.size(), 16u);
  EXPECT_EQ(packs[1].slices, (std::vector<std::uint32_t>{16, 17}));
}

TEST(ShardMap, RefusesWhatCannotBeSharded) {
  EXPECT_EQ(error_of([] {
              ShardMap({{"w", DType::f32, Shape{kUnknown}}}, 1);
            }),
            "invalid_argument: variable 'w': its shape [?] must be fully known to be sharded");
  EXPECT_EQ(error_of([] {
              ShardMap({{"w", DType::string, Shape{2}}}, 1);
            }),
            "invalid_argument: variable 'w': a shard cannot hold dtype string");
  EXPECT_EQ(error_of([] {
              ShardMap({{"w", DType::f32, Shape{}}, {"w", DType::f32, Shape{}}}, 1);
            }),
            "invalid_argument: variable 'w' appears twice in the shard map");
  EXPECT_EQ(error_of([] { ShardMap({}, 0); }), "invalid_argument: a shard map needs at least one shard, not 0");
  EXPECT_EQ(error_of([] {
              ShardMap({{"w", DType::f32, Shape{1ll << 40, 1ll << 40}}}, 1);
            }),
            "invalid_argument: variable 'w': the number of elements of [1099511627776,1099511627776] "
            "overflows 63 bits");
  EXPECT_EQ(error_of([] { ShardMap({}, 1).slices_of("w"); }), "not_found: the shard map has no variable 'w'");
}

}  // namespace
}  // namespace troupe
