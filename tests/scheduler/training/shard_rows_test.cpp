// Rows of a slice: pulled by their numbers, at the version asked for, though only what an update changes is kept.
#include <gtest/gtest.h>

#include "tests/scheduler/training/shard_fixture.hpp"

namespace troupe::testing {
namespace {

// One table of four rows; adds the rows of gradients.
class TableStore final : public ShardStore {
 public:
  Tensor value(std::uint32_t) override { return table; }
  void keep_as_final(std::uint32_t) override {}
  Tensor final_value(std::uint32_t slice) override { return value(slice); }
  void apply(std::uint32_t, const Update& update) override {
    table = table.clone();
    std::int64_t i = 0;
    for (const std::int64_t row : update.gradient.indices.values<std::int64_t>())
      table.mutable_data<float>()[row] += update.gradient.values.data<float>()[i++];
  }
  Tensor table = Tensor::of<float>(Shape{4, 1}, {0, 10, 20, 30});
};

class ShardRows : public ::testing::Test {
 protected:
  void make(bool keep_previous) {
    ShardOptions options{.workers = 2, .slots = 2};
    options.keep_previous = keep_previous;
    options.keep_versions = 2;
    state.emplace(options, std::vector<SliceSpec>{{7, "table", DType::f32, Shape{4, 1}, 0, true}}, store);
  }
  Error push(std::uint64_t step, std::uint32_t slot, std::vector<std::int64_t> rows, float g) {
    const std::vector<float> values(rows.size(), g);
    const auto n = std::ssize(rows);
    return state->push({.worker = slot,
                        .step = step,
                        .slot = slot,
                        .slice = 7,
                        .pulled_version = step,
                        .gradient = Tensor::of<float>(Shape{n, 1}, std::span<const float>(values)),
                        .indices = Tensor::of<std::int64_t>(Shape{n}, rows)},
                       out);
  }
  Error pull(std::uint64_t min_version, Tensor rows) {
    out.clear();
    return state->pull({.worker = 0, .reply_to = {}, .slice = 7, .min_version = min_version, .rows = std::move(rows)},
                       out);
  }
  // What it is answered with; empty: nothing yet.
  std::vector<float> pulled(std::uint64_t min_version, std::initializer_list<std::uint32_t> rows) {
    EXPECT_FALSE(pull(min_version, Tensor::vector<std::uint32_t>(rows)));
    if (out.empty()) return {};
    const Put& put = std::get<Put>(out.front().message);
    EXPECT_EQ(put.version, min_version);
    const auto values = put.tensor.values<float>();
    return {values.begin(), values.end()};
  }

  TableStore store;
  std::optional<ShardState> state;
  TrainingOutbox out;
};

using Floats = std::vector<float>;

TEST_F(ShardRows, AreAnsweredInTheOrderOfTheirNumbers) {
  make(true);
  EXPECT_EQ(pulled(0, {3, 0, 3}), (Floats{30, 0, 30}));
  EXPECT_EQ(pulled(0, {}), Floats{});
  EXPECT_EQ(state->counters().rows_pulled, 3u);
}

// Slots have rows 1 and 2, then 2 twice and 3: what was before each update comes back, also of rows that both changed.
TEST_F(ShardRows, OfEarlierVersionsAreThoseBeforeTheUpdates) {
  make(true);
  ASSERT_FALSE(push(0, 0, {1, 2}, 2));
  ASSERT_FALSE(push(0, 1, {2}, 4));
  ASSERT_FALSE(push(1, 0, {2, 3}, 2));
  ASSERT_FALSE(push(1, 1, {2}, 2));
  EXPECT_EQ(state->version(), 2u);
  EXPECT_EQ(pulled(2, {0, 1, 2, 3}), (Floats{0, 11, 25, 31}));
  EXPECT_EQ(pulled(1, {3, 2, 1, 0}), (Floats{30, 23, 11, 0}));
  EXPECT_EQ(pulled(0, {0, 1, 2, 3}), (Floats{0, 10, 20, 30}));
  ASSERT_FALSE(pull(1, {}));  // the whole
  EXPECT_TRUE(
      bitwise_equal(std::get<Put>(out.front().message).tensor, Tensor::of<float>(Shape{4, 1}, {0, 11, 23, 30})));
}

TEST_F(ShardRows, OfALaterVersionWaitForIt) {
  make(false);
  EXPECT_EQ(pulled(1, {1}), Floats{});
  EXPECT_EQ(state->waiting().parked, 1u);
  ASSERT_FALSE(push(0, 0, {1}, 2));
  ASSERT_FALSE(push(0, 1, {1}, 2));
  ASSERT_EQ(out.size(), 3u);  // both slots are staged
  EXPECT_EQ(std::get<Put>(out.back().message).tensor.item<float>(), 12);
}

TEST_F(ShardRows, ThatTheSliceDoesNotHaveAreRefused) {
  make(true);
  EXPECT_EQ(pull(0, Tensor::vector<std::uint32_t>({4})).code(), Code::invalid_argument);
  EXPECT_EQ(pull(0, Tensor::vector<std::int64_t>({-1})).code(), Code::invalid_argument);
  EXPECT_EQ(pull(0, Tensor::vector<float>({1})).code(), Code::invalid_argument);
  EXPECT_EQ(state->counters().refused, 3u);
}

}  // namespace
}  // namespace troupe::testing
