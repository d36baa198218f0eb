#include "troupe/scheduler/data/pipeline_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/error_of.hpp"
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe::testing {
namespace {

using data::Element;
using data::Pipeline;
using Numbers = std::vector<std::int64_t>;

std::optional<Numbers> numbers_of(BatchReader& reader, std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) {
  const auto batch = reader.read(epoch, step, slot);
  if (!batch) return std::nullopt;
  const auto values = batch->components.at(0).values<std::int64_t>();
  EXPECT_EQ(std::ssize(values), batch->examples);
  return Numbers(values.begin(), values.end());
}

Pipeline in_order(const Pipeline& pipeline) {
  return pipeline.filter("all", [](const Element&) { return true; });
}

// Slots get what those of a data set in memory get, for every number of examples, and whatever was read before.
TEST(PipelineSource, SlotsHaveTheExamplesOfADataSetInMemory) {
  for (std::int64_t n = 1; n < 30; ++n) {
    Tensor values(DType::i64, Shape{n});
    for (std::int64_t i = 0; i < n; ++i) values.mutable_data<std::int64_t>()[i] = 10 * i;
    const TensorDataset memory({{"number", values}});
    const PipelineSource table(data::range(0, 10 * n, 10)), stream(in_order(data::range(0, 10 * n, 10)));
    EXPECT_EQ(table.examples(), static_cast<std::uint64_t>(n));
    EXPECT_EQ(stream.examples(), std::nullopt);
    for (const LastStep last : {LastStep::drop, LastStep::keep, LastStep::pad}) {
      for (const std::uint32_t slots : {2u, 1u}) {
        const BatchPlan plan{.batch = 3, .slots = slots, .shuffle = false, .last = last};
        const auto expected = memory.open(plan), from_table = table.open(plan), from_stream = stream.open(plan);
        for (const std::uint64_t step : {0u, 1u, 4u, 2u, 2u, 3u, 0u, 5u, 6u, 9u, 2u})
          for (std::uint32_t slot = slots; slot-- > 0;) {
            SCOPED_TRACE(fmt::format("{} {} {} {}", n, name(last), step, slot));
            const auto wanted = numbers_of(*expected, 1, step, slot);
            EXPECT_EQ(numbers_of(*from_table, 1, step, slot), wanted);
            EXPECT_EQ(numbers_of(*from_stream, 1, step, slot), wanted);
          }
      }
    }
  }
}

// Numbers from 0 that are read in order, though it is known how many there are.
class CountedNumbers final : public data::ElementSource {
 public:
  explicit CountedNumbers(std::int64_t count) : count_(count) {}
  std::uint64_t splits() const override { return 1; }
  std::optional<std::uint64_t> size() const override { return static_cast<std::uint64_t>(count_); }
  std::string in_order_because() const override { return "'numbers.gz' is compressed"; }
  std::unique_ptr<data::ElementCursor> open(std::uint64_t) const override {
    class Cursor final : public data::ElementCursor {
     public:
      explicit Cursor(std::int64_t count) : count_(count) {}
      bool next(std::vector<Tensor>& element) override {
        if (at_ == count_) return false;
        element = {Tensor::scalar(at_++)};
        return true;
      }
      std::uint64_t position() const override { return static_cast<std::uint64_t>(at_); }
      void seek(std::uint64_t position) override { at_ = static_cast<std::int64_t>(position); }

     private:
      std::int64_t count_, at_ = 0;
    };
    return std::make_unique<Cursor>(count_);
  }

 private:
  std::int64_t count_;
};

TEST(PipelineSource, AStreamMayKnowItsSize) {
  const Pipeline numbers =
      data::from_source("numbers", {{"number", DType::i64, {}}}, std::make_shared<const CountedNumbers>(7));
  EXPECT_EQ(numbers.forward_because(), "stage 'numbers' reads its files in order: 'numbers.gz' is compressed");
  const PipelineSource source(numbers.shuffle(3).batch(2));
  EXPECT_EQ(source.examples(), 7u);
  const BatchPlan plan{.batch = 2, .slots = 1, .last = LastStep::keep};
  EXPECT_EQ(steps_per_epoch(source, plan), 4u);
  const auto reader = source.open(plan);
  Numbers all;
  for (std::uint64_t step = 0; step < 4; ++step) {
    const auto numbers_of_step = numbers_of(*reader, 0, step, 0).value();
    all.insert(all.end(), numbers_of_step.begin(), numbers_of_step.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(all, (Numbers{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(numbers_of(*reader, 0, 4, 0), std::nullopt);
}

TEST(PipelineSource, AReaderOfAStreamGoesBackAndToOtherEpochs) {
  const PipelineSource source(in_order(data::range(0, 3000)).shuffle(4, {.buffer = 50}));
  const BatchPlan plan{.batch = 2, .slots = 3};
  const auto straight = source.open(plan), jumping = source.open(plan);
  for (const std::uint32_t epoch : {0u, 1u}) {
    std::vector<Numbers> all;
    while (const auto numbers = numbers_of(*straight, epoch, all.size(), 1)) all.push_back(*numbers);
    ASSERT_EQ(all.size(), 500u);
    for (const std::uint64_t step : {499u, 3u, 200u, 199u, 0u, 64u, 63u, 300u})
      EXPECT_EQ(numbers_of(*jumping, epoch, step, 1), all[step]) << step;
  }
}

// Batches made on other threads, each from what begin() noted, are those of read(); memory in use is not written.
TEST(PipelineSource, SeveralThreadsMakeTheBatchesThatOneBegins) {
  Tensor values(DType::i64, Shape{600});
  for (std::int64_t i = 0; i < 600; ++i) values.mutable_data<std::int64_t>()[i] = 7 * i;
  const TensorDataset memory({{"number", values}});
  const PipelineSource table(data::range(0, 600).shuffle(1)), stream(in_order(data::range(0, 600)).shuffle(2));
  EXPECT_TRUE(memory.addressable() && table.addressable() && !stream.addressable());
  for (const BatchSource* source : {static_cast<const BatchSource*>(&memory), static_cast<const BatchSource*>(&table),
                                    static_cast<const BatchSource*>(&stream)}) {
    const BatchPlan plan{.batch = 5, .slots = 2, .in_use = 2};
    const auto reader = source->open(plan), other = source->open(plan);
    std::vector<UnmadeBatch> unmade;
    std::vector<Numbers> expected;
    for (const std::uint32_t epoch : {0u, 1u})
      for (std::uint64_t step = 0; auto batch = reader->begin(epoch, step, 1); ++step) {
        EXPECT_EQ(batch->examples, 5);
        unmade.push_back(std::move(*batch));
        expected.push_back(*numbers_of(*other, epoch, step, 1));
      }
    ASSERT_EQ(unmade.size(), 120u);
    std::vector<Batch> made(unmade.size());
    std::vector<std::jthread> threads;
    for (std::size_t first = 0; first < 3; ++first)
      threads.emplace_back([&, first] {
        for (std::size_t i = first; i < unmade.size(); i += 3) made[i] = reader->make(std::move(unmade[i]));
      });
    threads.clear();
    for (std::size_t i = 0; i < made.size(); ++i) {
      const auto got = made[i].components.at(0).values<std::int64_t>();
      EXPECT_EQ(Numbers(got.begin(), got.end()), expected[i]) << i;
    }
  }
}

// What is pure waits for make(): only the examples of a slot that is made are mapped, also behind other stages.
TEST(PipelineSource, MapsTheExamplesOfASlotOnlyAndWhenTheyAreMade) {
  std::atomic<int> mapped = 0;
  const auto counted = [&](const Pipeline& pipeline) {
    return pipeline.map("count", pipeline.schema(), [&](const Element& e, const data::ElementContext& context) {
      ++mapped;
      return Element{Tensor::scalar(e[0].item<std::int64_t>() + static_cast<std::int64_t>(1000 * context.number))};
    });
  };
  const Pipeline renamed = in_order(data::range(0, 99, 1, "other"));
  const std::vector<Pipeline> pipelines = {
      counted(in_order(data::range(0, 40))),
      counted(in_order(data::range(0, 40))).shuffle(1, {.buffer = 16}).take(38).skip(2).shard(1, 0).repeat(2),
      data::zip({counted(in_order(data::range(0, 40))), renamed}),
      counted(data::range(0, 40)).concatenate(in_order(data::range(0, 9))),
      data::sample({counted(in_order(data::range(0, 40)))}, {1}, 4)};
  for (const Pipeline& pipeline : pipelines) {
    SCOPED_TRACE(pipeline.describe());
    const PipelineSource source(pipeline);
    const auto reader = source.open({.batch = 3, .slots = 4});
    mapped = 0;
    auto first = reader->begin(0, 0, 1), second = reader->begin(0, 2, 3);
    EXPECT_EQ(mapped, 0);
    ASSERT_TRUE(first && second);
    const Batch made = reader->make(UnmadeBatch(*second));
    EXPECT_EQ(mapped, 3);
    EXPECT_TRUE(bitwise_equal(made.components[0], reader->read(0, 2, 3)->components[0]));
    EXPECT_EQ(mapped, 6);
  }
  // Stages that look at elements need the results.
  const PipelineSource looks(counted(data::range(0, 40)).filter("all", [](const Element&) { return true; }));
  mapped = 0;
  const auto reader = looks.open({.batch = 3, .slots = 4});
  EXPECT_TRUE(reader->begin(0, 0, 0));
  EXPECT_EQ(mapped, 12);
}

TEST(PipelineSource, AFailureInAStepLeavesTheOthers) {
  std::atomic<bool> fails = false;
  const auto check = [&](const Element& e) {
    if (fails && e[0].item<std::int64_t>() == 7) fail(Code::unavailable, "not now");
    return true;
  };
  const PipelineSource source(data::range(0, 40).filter("flaky", check));
  for (const std::uint32_t slots : {1u, 2u}) {
    const auto reader = source.open({.batch = 2, .slots = slots}), other = source.open({.batch = 2, .slots = slots});
    for (std::uint64_t step = 0; const auto wanted = numbers_of(*other, 0, step, 0); ++step) {
      fails = true;
      if (step == 6 / (2 * slots)) {
        EXPECT_EQ(error_of([&] { reader->read(0, step, 0); }).code(), Code::unavailable);
      }
      fails = false;
      EXPECT_EQ(numbers_of(*reader, 0, step, 0), wanted) << step;
    }
  }
}

TEST(PipelineSource, AnEpochThatIsOverStaysOver) {
  const PipelineSource source(data::sample({data::range(0, 3), data::range(100, 200)}, {1, 1}, 2));
  for (const std::uint32_t slots : {1u, 2u}) {
    const auto reader = source.open({.batch = 1, .slots = slots});
    std::uint64_t steps = 0;
    while (reader->read(0, steps, 0)) ++steps;
    EXPECT_LT(steps, 30u);
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(reader->read(0, steps, slots - 1));
  }
}

TEST(PipelineSource, MakesTheBatchesOfItsLastStage) {
  const Pipeline lengths = data::range(1, 5).map(
      "ones", {{"ones", DType::i64, Shape{kUnknown}}}, [](const Element& e, const data::ElementContext&) -> Element {
        Tensor ones(DType::i64, Shape{e[0].item<std::int64_t>()});
        std::fill_n(ones.mutable_data<std::int64_t>(), ones.num_elements(), 1);
        return {ones};
      });
  const PipelineSource source(lengths.padded_batch(2));
  EXPECT_EQ(source.schema()[0].shape, Shape{kUnknown});
  const auto reader = source.open({.batch = 2});
  EXPECT_TRUE(bitwise_equal(reader->read(0, 0, 0)->components[0], Tensor::of<std::int64_t>(Shape{2, 2}, {1, 0, 1, 1})));
  EXPECT_EQ(source.batch(), 2);
  EXPECT_EQ(PipelineSource(lengths).batch(), std::nullopt);
  EXPECT_EQ(source.open({.batch = 3})->read(0, 0, 0)->components[0].shape(), (Shape{3, 3}));  // as evaluation does
  EXPECT_EQ(error_of([&] { source.open({.batch = 2, .slots = 0}); }).code(), Code::invalid_argument);
}

// Batches of like lengths, of the buckets' sizes, padded to the longest in each.
TEST(PipelineSource, BucketsAreBatchesOfTheirOwn) {
  const Pipeline words = data::range(0, 10).map(
      "word", {{"ids", DType::i64, Shape{kUnknown}}}, [](const Element& e, const data::ElementContext&) -> Element {
        Tensor ids(DType::i64, Shape{1 + e[0].item<std::int64_t>() % 4});
        std::fill_n(ids.mutable_data<std::int64_t>(), ids.num_elements(), e[0].item<std::int64_t>());
        return {ids};
      });
  // Lengths 1 2 3 4 1 2 3 4 1 2: at most 2, of numbers 0 1 4 5 8 9; and longer ones, of 2 3 6 7.
  const Pipeline batches =
      words.bucketed_batch("ids", {.boundaries = {3}, .sizes = {3, 2}, .padding = {Tensor::scalar<std::int64_t>(-1)}});
  EXPECT_THAT(batches.forward_because(), ::testing::HasSubstr("sorts elements by their length"));
  const PipelineSource source(batches);
  EXPECT_EQ(source.schema(), words.schema());
  EXPECT_EQ(source.examples(), std::nullopt);
  EXPECT_EQ(source.batch(), std::nullopt);
  const auto reader = source.open({.batch = 7});
  const Batch first = *reader->read(0, 0, 0), second = *reader->read(0, 1, 0);
  EXPECT_EQ(first.examples, 2);
  EXPECT_TRUE(bitwise_equal(first.components[0], Tensor::of<std::int64_t>(Shape{2, 4}, {2, 2, 2, -1, 3, 3, 3, 3})));
  EXPECT_EQ(second.examples, 3);
  EXPECT_TRUE(bitwise_equal(second.components[0], Tensor::of<std::int64_t>(Shape{3, 2}, {0, -1, 1, 1, 4, -1})));
  EXPECT_EQ(reader->read(0, 2, 0)->components[0].data<std::int64_t>()[0], 6);
  EXPECT_EQ(reader->read(0, 3, 0)->examples, 3);
  EXPECT_FALSE(reader->read(0, 4, 0));
  const auto slots = source.open({.batch = 1, .slots = 3}), padded = source.open({.slots = 3, .last = LastStep::pad});
  EXPECT_TRUE(bitwise_equal(slots->read(0, 0, 1)->components[0], second.components[0]));
  EXPECT_FALSE(slots->read(0, 1, 0));
  EXPECT_TRUE(bitwise_equal(padded->read(0, 1, 1)->components[0], first.components[0]));
}

TEST(PipelineSource, ABatchInUseIsNotWrittenAgain) {
  const PipelineSource source(data::range(0, 100));
  const auto reader = source.open({.batch = 2, .in_use = 2});
  const auto kept = reader->read(0, 0, 0);
  const void* const first = kept->components[0].raw();
  for (std::uint64_t step = 1; step < 6; ++step) EXPECT_NE(reader->read(0, step, 0)->components[0].raw(), first);
  EXPECT_EQ(kept->components[0].data<std::int64_t>()[1], 1);
}

}  // namespace
}  // namespace troupe::testing
