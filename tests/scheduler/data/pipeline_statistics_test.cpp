// What stages count while readers make batches.
#include "troupe/scheduler/data/pipeline_statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include <troupe/scheduler/data/pipeline_source.hpp>

namespace troupe::testing {
namespace {

using data::Element;
using data::ElementContext;
using data::Pipeline;
using ::testing::ElementsAre;

std::string made_by(const std::string& stage, std::uint64_t elements) { return fmt::format("{} {}", stage, elements); }

std::vector<std::string> counts_of(const PipelineSource& source) {
  std::vector<std::string> out;
  for (const StageFigures& stage : source.statistics().snapshot()) out.push_back(made_by(stage.name, stage.elements));
  return out;
}

Pipeline with_doubles(const Pipeline& from) {
  return from.map("double", from.schema(), [](const Element& e, const ElementContext&) -> Element {
    return {Tensor::scalar(2 * e[0].item<std::int64_t>())};
  });
}

void read_epoch(const PipelineSource& source, std::uint32_t epoch) {
  const auto reader = source.open({.batch = 4});
  std::vector<UnmadeBatch> unmade;
  for (std::uint64_t step = 0; auto batch = reader->begin(epoch, step, 0); ++step) unmade.push_back(std::move(*batch));
  std::vector<std::jthread> threads;
  for (std::size_t first = 0; first < 3; ++first)
    threads.emplace_back([&, first] {
      for (std::size_t i = first; i < unmade.size(); i += 3) reader->make(std::move(unmade[i]));
    });
}

TEST(PipelineStatistics, CountsTheElementsOfEachStageInTheOrderOfTheDescription) {
  const PipelineSource table(with_doubles(data::range(0, 300)).shuffle(1).take(200).batch(4));
  const PipelineSource stream(
      with_doubles(
          data::range(0, 300).filter("half", [](const Element& e) { return e[0].item<std::int64_t>() % 2 == 0; }))
          .shuffle(1, {.buffer = 9})
          .take(100)
          .batch(4));
  for (const std::uint32_t epoch : {0u, 1u}) {
    read_epoch(table, epoch);
    read_epoch(stream, epoch);
    const std::uint64_t times = epoch + 1;
    EXPECT_THAT(counts_of(table), ElementsAre(made_by("range", 200 * times), made_by("map double", 200 * times),
                                              made_by("shuffle", 200 * times), made_by("take 200", 200 * times),
                                              made_by("batch 4", 50 * times)));
    // Blocks of 9: the first 108 of those kept, whose last is number 214.
    EXPECT_THAT(counts_of(stream), ElementsAre(made_by("range", 215 * times), made_by("filter half", 108 * times),
                                               made_by("map double", 100 * times), made_by("shuffle", 100 * times),
                                               made_by("take 100", 100 * times), made_by("batch 4", 25 * times)));
  }
}

TEST(PipelineStatistics, LiveAsLongAsAReader) {
  std::unique_ptr<BatchReader> table, stream;
  {
    const auto all = [](const Element&) { return true; };
    const PipelineSource numbers(with_doubles(data::range(0, 9)).batch(3)), kept(data::range(0, 9).filter("all", all));
    table = numbers.open({.batch = 3});
    stream = kept.open({.batch = 3});
  }
  EXPECT_EQ(table->read(0, 2, 0)->components[0].data<std::int64_t>()[2], 16);
  EXPECT_EQ(stream->read(0, 2, 0)->components[0].data<std::int64_t>()[2], 8);
}

TEST(PipelineStatistics, CountsTheElementsOfSeveralInputs) {
  const Pipeline other = data::range(0, 50, 1, "other");
  const PipelineSource table(data::zip({data::range(0, 4).concatenate(data::range(0, 100)), other}).window(2, 2));
  read_epoch(table, 0);
  EXPECT_THAT(counts_of(table), ElementsAre(made_by("range", 4), made_by("range", 44), made_by("concatenate", 48),
                                            made_by("range", 48), made_by("zip", 48), made_by("window 2 shift 2", 24)));
}

TEST(PipelineStatistics, NamesTheStageThatTakesMostTime) {
  const auto slow = [](const Element& e, const ElementContext&) -> Element {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    while (std::chrono::steady_clock::now() < end) {
    }
    return e;
  };
  const auto keep = [](const Element&) { return true; };
  const Pipeline numbers = data::range(0, 400);
  for (const Pipeline& pipeline : {numbers.map("slow", numbers.schema(), slow).shuffle(1).batch(4),
                                   numbers.map("slow", numbers.schema(), slow).filter("all", keep).shuffle(1)}) {
    const PipelineSource source(pipeline);
    EXPECT_FALSE(slowest_stage(source.statistics().snapshot()));
    read_epoch(source, 0);
    const auto stages = source.statistics().snapshot();
    const auto slowest = slowest_stage(stages);
    ASSERT_TRUE(slowest);
    EXPECT_EQ(slowest->name, "map slow");
    EXPECT_GT(slowest->share, 0.5);
    EXPECT_LE(slowest->share, 1);
    EXPECT_GE(stages[1].busy_ns, 5u * 61 * 20'000);  // measured: the first 16, then 6 that stand for 61 each
  }
}

// Busies itself for so long.
Element busy_for(std::chrono::microseconds time, const Element& e) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
  return e;
}

TEST(StageTimes, AreThoseOfOneThreadAndOfAllElements) {
  using std::chrono::microseconds;
  const Pipeline numbers = data::range(0, 400);
  const auto busy = [](microseconds time) {
    return [time](const Element& e, const ElementContext&) { return busy_for(time, e); };
  };
  const PipelineSource source(numbers.map("slow", numbers.schema(), busy(microseconds(20)))
                                  .filter("all", [](const Element& e) { return !busy_for(microseconds(1), e).empty(); })
                                  .map("slower", numbers.schema(), busy(microseconds(40))));
  const auto reader = source.open({.batch = 100});
  reader->read(0, 0, 0);
  const auto before = std::chrono::steady_clock::now();
  std::vector<StageTimes::Entry> entries;
  {
    const StageTimes times;
    std::jthread([&] { source.open({.batch = 100})->read(0, 0, 0); }).join();  // not measured
    EXPECT_TRUE(times.entries().empty());
    reader->read(0, 1, 0);
    entries = times.entries();
  }
  const auto took = std::chrono::steady_clock::now() - before;
  reader->read(0, 2, 0);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].stage, "map slow");
  EXPECT_GE(entries[0].time, microseconds(100 * 20));
  EXPECT_EQ(entries[1].stage, "filter all");
  EXPECT_GE(entries[1].time, microseconds(100 * 1));
  EXPECT_EQ(entries[2].stage, "map slower");
  EXPECT_GE(entries[2].time, microseconds(100 * 40));
  EXPECT_LE(entries[0].time + entries[1].time + entries[2].time, took);
}

TEST(StageTimes, LeaveOutOtherStages) {
  using std::chrono::microseconds;
  StageCounter outer("outer"), inner("inner");
  const StageTimes times;
  const auto begin = std::chrono::steady_clock::now();
  timed(&outer, 17, [&] {
    timed(&inner, 17, [&] { return busy_for(microseconds(200), {}); });
    timed(&inner, 17, [&] { return busy_for(microseconds(200), {}); });
    return busy_for(microseconds(100), {});
  });
  const auto took = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(times.entries().size(), 2u);
  EXPECT_EQ(times.entries()[0].stage, "inner");
  EXPECT_GE(times.entries()[0].time, microseconds(400));
  EXPECT_EQ(times.entries()[1].stage, "outer");
  EXPECT_GE(times.entries()[1].time, microseconds(100));
  EXPECT_LE(times.entries()[0].time + times.entries()[1].time, took);
  StageFigures figures;
  outer.snapshot(figures);
  EXPECT_EQ(figures.busy_ns, 0u) << "element 17 does not stand for others";
}

// A split whose elements leave out damaged records.
class Damaged final : public data::ElementSource {
 public:
  std::uint64_t splits() const override { return 1; }
  std::unique_ptr<data::ElementCursor> open(std::uint64_t) const override { return std::make_unique<Cursor>(); }
  std::uint64_t skipped() const override { return 3; }

 private:
  class Cursor final : public data::ElementCursor {
   public:
    bool next(Element& element) override {
      element = {Tensor::scalar(std::string(100, 'x'))};
      return at_++ < 20;
    }
    std::uint64_t position() const override { return at_; }
    void seek(std::uint64_t position) override { at_ = position; }

   private:
    std::uint64_t at_ = 0;
  };
};

TEST(PipelineStatistics, TellsOfBuffersAndDamagedRecords) {
  const PipelineSource source(
      data::from_source("lines", {{"line", DType::string, Shape{}}}, std::make_shared<Damaged>())
          .shuffle(1, {.buffer = 8}));
  {
    const auto reader = source.open({.batch = 2});
    reader->read(0, 0, 0);
    EXPECT_EQ(source.statistics().snapshot()[1].held_bytes, 800u);
    reader->read(0, 8, 0);  // the last block has four
    EXPECT_EQ(source.statistics().snapshot()[1].held_bytes, 400u);
  }
  EXPECT_EQ(source.statistics().snapshot()[1].held_bytes, 0u);
  EXPECT_EQ(source.statistics().snapshot()[0].skipped_records, 3u);
  EXPECT_EQ(source.statistics().snapshot()[1].skipped_records, 0u);
}

}  // namespace
}  // namespace troupe::testing
