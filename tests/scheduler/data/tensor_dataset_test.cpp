#include "troupe/scheduler/data/tensor_dataset.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/error_of.hpp"
#include <troupe/scheduler/data/permutation.hpp>

namespace troupe::testing {
namespace {

TensorDataset numbers(std::int64_t n) {
  std::vector<std::int64_t> x(static_cast<std::size_t>(n));
  std::iota(x.begin(), x.end(), 0);
  std::vector<std::string> words;
  for (const std::int64_t i : x) words.push_back(fmt::format("word {}", i));
  return TensorDataset({{"x", Tensor::of<std::int64_t>(Shape{n}, std::span<const std::int64_t>(x))},
                        {"word", Tensor::of<std::string>(Shape{n, 1}, std::span<const std::string>(words))}});
}

std::vector<std::int64_t> x_of(const std::optional<Batch>& batch) {
  if (!batch) return {-1};
  const auto values = batch->components[0].values<std::int64_t>();
  return {values.begin(), values.end()};
}

using Numbers = std::vector<std::int64_t>;

TEST(TensorDataset, HasTheSchemaOfItsTensors) {
  const TensorDataset source(
      {{"image", Tensor::zeros(DType::u8, Shape{3, 2, 4})}, {"label", Tensor::vector<float>({1, 2, 3})}});
  EXPECT_EQ(to_string(source.schema()), "image u8[2,4], label f32[]");
  EXPECT_EQ(source.examples(), 3u);
}

TEST(TensorDataset, SlotsOfAStepAreConsecutiveInTheOrderOfTheEpoch) {
  const TensorDataset source = numbers(20);
  const BatchPlan plan{.batch = 3, .slots = 2, .seed = 7};
  EXPECT_EQ(steps_per_epoch(source, plan), 3u);
  const auto reader = source.open(plan);
  for (const std::uint32_t epoch : {0u, 1u, 0u}) {
    const std::vector<std::uint32_t> order = permutation(7, epoch, 20);
    for (std::uint64_t step = 0; step < 3; ++step)
      for (const std::uint32_t slot : {1u, 0u}) {
        const auto begin = order.begin() + static_cast<std::ptrdiff_t>((step * 2 + slot) * 3);
        EXPECT_EQ(x_of(reader->read(epoch, step, slot)), Numbers(begin, begin + 3)) << step << " " << slot;
      }
    EXPECT_FALSE(reader->read(epoch, 3, 0));
    EXPECT_FALSE(reader->read(epoch, 3, 1));
  }
}

TEST(TensorDataset, ComponentsBelongTogether) {
  const TensorDataset source = numbers(9);
  const auto batch = source.open({.batch = 4})->read(2, 1, 0);
  for (std::int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(batch->components[1].data<std::string>()[i],
              fmt::format("word {}", batch->components[0].data<std::int64_t>()[i]));
}

TEST(TensorDataset, KeepsTheRestOfAnEpochInEvenShares) {
  const TensorDataset source = numbers(11);
  const BatchPlan plan{.batch = 3, .slots = 2, .shuffle = false, .last = LastStep::keep};
  EXPECT_EQ(steps_per_epoch(source, plan), 2u);
  const auto reader = source.open(plan);
  EXPECT_EQ(x_of(reader->read(0, 0, 1)), (Numbers{3, 4, 5}));
  EXPECT_EQ(x_of(reader->read(0, 1, 0)), (Numbers{6, 7, 8}));
  EXPECT_EQ(x_of(reader->read(0, 1, 1)), (Numbers{9, 10}));
  EXPECT_FALSE(reader->read(0, 2, 0));
  EXPECT_EQ(steps_per_epoch(numbers(7), plan), 1u);  // the seventh would leave a slot without examples
}

TEST(TensorDataset, PadsTheLastStepFromTheStart) {
  const TensorDataset source = numbers(7);
  const BatchPlan plan{.batch = 2, .slots = 2, .shuffle = false, .last = LastStep::pad};
  EXPECT_EQ(steps_per_epoch(source, plan), 2u);
  const auto reader = source.open(plan);
  EXPECT_EQ(x_of(reader->read(0, 1, 0)), (Numbers{4, 5}));
  EXPECT_EQ(x_of(reader->read(0, 1, 1)), (Numbers{6, 0}));
  EXPECT_FALSE(reader->read(0, 2, 0));
  const BatchPlan shuffled{.batch = 5, .slots = 2, .last = LastStep::pad};
  const auto other = source.open(shuffled);  // wider than the source
  const Numbers first = x_of(other->read(3, 0, 0)), second = x_of(other->read(3, 0, 1));
  Numbers all(first);
  all.insert(all.end(), second.begin(), second.end());
  for (std::size_t i = 7; i < 10; ++i) EXPECT_EQ(all[i], all[i - 7]);
}

TEST(TensorDataset, SplitsOffItsLastExamples) {
  const auto [first, last] = numbers(10).split(0.3);
  EXPECT_EQ(first.examples(), 7u);
  EXPECT_EQ(x_of(last.open({.batch = 3, .shuffle = false})->read(0, 0, 0)), (Numbers{7, 8, 9}));
  for (const double part : {0.0, 1.0, 0.01, 0.99, -1.0}) EXPECT_THROW((void)numbers(10).split(part), Error) << part;
}

TEST(TensorDataset, UsesMemoryAgainThatNobodyHolds) {
  const TensorDataset source = numbers(8);
  const auto reader = source.open({.batch = 2, .in_use = 2});
  const void* first = reader->read(0, 0, 0)->components[0].raw();
  const auto held = reader->read(0, 1, 0);
  EXPECT_EQ(reader->read(0, 2, 0)->components[0].raw(), first);
  EXPECT_NE(reader->read(0, 3, 0)->components[0].raw(), held->components[0].raw());
}

TEST(TensorDataset, RefusesTensorsThatDoNotBelongTogether) {
  const Tensor three = Tensor::vector<float>({1, 2, 3}), two = Tensor::vector<float>({1, 2});
  EXPECT_NE(error_of([&] {
              TensorDataset({{"a", three}, {"b", two}});
            })
                .message()
                .find("'b' has 2 examples, but 'a' has 3"),
            std::string::npos);
  EXPECT_THROW(TensorDataset({{"a", three}, {"a", three}}), Error);
  EXPECT_THROW(TensorDataset({{"a", Tensor::scalar(1.0F)}}), Error);
  EXPECT_THROW(TensorDataset({{"a", Tensor::zeros(DType::f32, Shape{0, 2})}}), Error);
  EXPECT_THROW(TensorDataset({}), Error);
  EXPECT_THROW((void)numbers(3).open({.batch = 0}), Error);
}

}  // namespace
}  // namespace troupe::testing
