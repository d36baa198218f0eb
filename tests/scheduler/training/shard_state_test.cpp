#include "tests/scheduler/training/shard_fixture.hpp"

namespace troupe {
namespace {

using Shard = testing::ShardTest;
using testing::AddingStore;

TEST_F(Shard, HasTheNextVersionWhenAllSlicesOfAllSlotsAreThere) {
  make(2);
  push_all(0, 1, 6);
  EXPECT_FALSE(push(0, 0, 10, 2));
  EXPECT_EQ(state->version(), 0u);
  EXPECT_EQ(state->waiting().to_string(), "version 1: 1 of 2 staged, missing slots 0");
  EXPECT_FALSE(push(0, 0, 20, 4));
  EXPECT_EQ(state->version(), 1u);
  EXPECT_EQ(value(10), 4);
  EXPECT_EQ(value(20), 5);
  ASSERT_EQ(store.updates.size(), 2u);
  EXPECT_EQ(store.updates[0].second.step, 1u);
  EXPECT_EQ(state->counters().staged_bytes, 0u);
  EXPECT_EQ(state->counters().staged_bytes_peak, 12u);  // the first slice was gone when the last one came
}

TEST_F(Shard, AppliesASliceThatAllSlotsHaveWhileOthersAreMissing) {
  make(2);
  EXPECT_FALSE(push(0, 1, 10, 6));
  EXPECT_TRUE(store.updates.empty());
  EXPECT_FALSE(push(0, 0, 10, 2));
  ASSERT_EQ(store.updates.size(), 1u);
  EXPECT_EQ(store.updates[0].second.step, 1u);
  EXPECT_EQ(value(10), 4);
  EXPECT_EQ(state->version(), 0u);
  EXPECT_EQ(state->counters().staged_bytes, 0u);
  EXPECT_FALSE(push(0, 0, 10, 100));  // again, of what is applied
  EXPECT_EQ(state->counters().duplicates, 1u);
  EXPECT_FALSE(push(0, 1, 20, 8));
  EXPECT_FALSE(push(0, 0, 20, 2));
  EXPECT_EQ(state->version(), 1u);
  EXPECT_EQ(value(10), 4);
  EXPECT_EQ(value(20), 5);
  EXPECT_EQ(store.updates.size(), 2u);
}

TEST_F(Shard, NobodySeesASliceBeforeItsVersionIsThere) {
  make(1);
  EXPECT_FALSE(push(0, 0, 10, 5));
  EXPECT_EQ(value(10), 5);
  EXPECT_FALSE(pull(10, 0));
  EXPECT_FALSE(pull(10, 1));
  EXPECT_FALSE(pull(20, 0));
  ASSERT_EQ(said<Put>().size(), 2u);
  EXPECT_EQ(std::make_pair(said<Put>()[0].version, said<Put>()[0].tensor.item<float>()),
            std::make_pair(std::uint64_t{0}, 0.0f));
  EXPECT_EQ(said<Put>()[1].key.edge.value, 20u);
  Push last = message(0, 0, 20, 7);
  EXPECT_FALSE(push(last));
  EXPECT_FALSE(pull(10, 0));  // the version before
  ASSERT_EQ(said<Put>().size(), 4u);
  EXPECT_EQ(std::make_pair(said<Put>()[2].version, said<Put>()[2].tensor.item<float>()),
            std::make_pair(std::uint64_t{1}, 5.0f));
  EXPECT_EQ(std::make_pair(said<Put>()[3].version, said<Put>()[3].tensor.item<float>()),
            std::make_pair(std::uint64_t{0}, 0.0f));
}

TEST_F(Shard, APullOfAnUpdatedSliceWaitsIfNoOldValueIsKept) {
  make(2, false);
  EXPECT_FALSE(push(0, 0, 10, 5));
  EXPECT_FALSE(push(0, 1, 10, 5));
  EXPECT_FALSE(pull(10, 0));
  EXPECT_FALSE(push(0, 0, 20, 7));  // a slot is whole, the version is not
  EXPECT_TRUE(said<Put>().empty());
  EXPECT_EQ(state->counters().parked, 1u);
  EXPECT_FALSE(push(0, 1, 20, 7));
  ASSERT_EQ(said<Put>().size(), 1u);
  EXPECT_EQ(said<Put>()[0].version, 1u);
  EXPECT_EQ(said<Put>()[0].tensor.item<float>(), 5);
}

TEST_F(Shard, SaysStagedOncePerWholeSlot) {
  make(2);
  push_all(0, 1, 1);
  push_all(0, 1, 1);
  push_all(0, 0, 1);
  const auto staged = said<Staged>();
  ASSERT_EQ(staged.size(), 2u);
  EXPECT_EQ(std::tie(staged[0].shard, staged[0].step, staged[0].slot, staged[0].version),
            std::make_tuple(3u, 0u, 1u, 0u));
  EXPECT_EQ(std::tie(staged[1].slot, staged[1].version), std::make_tuple(0u, 1u));
}

TEST_F(Shard, DropsDuplicatesAndStalePushes) {
  make(2);
  EXPECT_FALSE(push(0, 0, 10, 1));
  EXPECT_FALSE(push(0, 0, 10, 100));
  EXPECT_EQ(state->counters().duplicates, 1u);
  EXPECT_FALSE(push(0, 0, 20, 1));
  push_all(0, 1, 1);
  EXPECT_EQ(value(10), 1);
  EXPECT_FALSE(push(0, 1, 10, 100));
  EXPECT_EQ(state->counters().stale, 1u);
  EXPECT_EQ(state->counters().staged_bytes, 0u);
  EXPECT_EQ(value(10), 1);
}

TEST_F(Shard, RefusesWhatIsWrong) {
  make(2);
  expect_refused(push(1, 0, 10, 1), Code::out_of_range, "push for step 1 at version 0, staleness is 0");
  expect_refused(push(0, 2, 10, 1), Code::invalid_argument, "slot 2 of 2");
  expect_refused(push(0, 0, 11, 1), Code::invalid_argument, "slice 11 is not on this shard");
  expect_refused(push(0, 0, 10, 1, 4), Code::invalid_argument, "worker 4 of 4");
  Push shape = message(0, 0, 10, 1);
  shape.gradient = Tensor::vector<float>({1, 2});
  expect_refused(push(shape), Code::invalid_argument, "expected [1]");
  Push dtype = message(0, 0, 10, 1);
  dtype.gradient = Tensor::vector<double>({1});
  expect_refused(push(dtype), Code::invalid_argument, "expected f32");
  Push future = message(0, 0, 10, 1);
  future.pulled_version = 1;
  expect_refused(push(future), Code::invalid_argument, "computed on version 1, but the shard is at version 0");
  expect_refused(pull(11, 0), Code::invalid_argument, "slice 11");
  expect_refused(pull(10, 0, 4), Code::invalid_argument, "worker 4");
  EXPECT_TRUE(out.empty());
}

TEST_F(Shard, RefusesAGradientOfAnotherVersion) {
  make(1);
  push_all(0, 0, 1);
  Push old = message(1, 0, 10, 1);
  old.pulled_version = 0;
  expect_refused(push(old), Code::invalid_argument, "step 1 computed on version 0");
}

TEST_F(Shard, RefusesToMixDenseAndSparse) {
  make(2);
  Push sparse = message(0, 0, 10, 1);
  sparse.gradient = Tensor::of<float>(Shape{1}, {1});
  sparse.indices = Tensor::vector<std::int64_t>({0});
  EXPECT_FALSE(push(sparse));
  EXPECT_EQ(push(0, 1, 10, 1).code(), Code::invalid_argument);
}

TEST_F(Shard, KeepsSparseGradientsSparse) {
  make(2);
  for (const std::uint32_t slot : {1u, 0u}) {
    Push sparse = message(0, slot, 10, static_cast<float>(slot));
    sparse.indices = Tensor::vector<std::int64_t>({0});
    EXPECT_FALSE(push(sparse)) << "slot " << slot;
    EXPECT_FALSE(push(0, slot, 20, 0)) << "slot " << slot;
  }
  ASSERT_EQ(store.updates.size(), 2u);
  const PushedGradient& gradient = store.updates[0].second.gradient;
  EXPECT_TRUE(bitwise_equal(gradient.values, Tensor::vector<float>({0, 0.5f})));
  EXPECT_TRUE(bitwise_equal(gradient.indices, Tensor::vector<std::int64_t>({0, 0})));
}

TEST_F(Shard, AnswersPullsAtTheirVersionInTheOrderTheyCame) {
  make(1, false);
  EXPECT_FALSE(pull(20, 1, 2));
  EXPECT_FALSE(pull(10, 1, 1));
  EXPECT_FALSE(pull(10, 0, 0));
  EXPECT_FALSE(pull(10, 2, 3));
  ASSERT_EQ(said<Put>().size(), 1u);
  EXPECT_EQ(state->waiting().to_string(),
            "version 1: 0 of 1 staged, missing slots 0; 3 pulls wait, for up to version 2");
  push_all(0, 0, 1);
  const auto puts = said<Put>();
  ASSERT_EQ(puts.size(), 3u);
  EXPECT_EQ(puts[0].version, 0u);
  EXPECT_EQ(puts[0].tensor.item<float>(), 0);  // still, after the update
  EXPECT_EQ(puts[1].key.edge.value, 20u);
  EXPECT_EQ(puts[2].key.edge.value, 10u);
  EXPECT_EQ(puts[2].tensor.item<float>(), 1);
  EXPECT_EQ(puts[2].version, 1u);
}

TEST_F(Shard, AnswersWithThePreviousVersionIfThatIsWanted) {
  make(1);
  push_all(0, 0, 1);
  EXPECT_FALSE(pull(10, 0));
  push_all(1, 0, 1);
  EXPECT_FALSE(pull(10, 1));
  EXPECT_FALSE(pull(10, 0));
  const auto puts = said<Put>();
  ASSERT_EQ(puts.size(), 3u);
  EXPECT_EQ(std::make_pair(puts[0].version, puts[0].tensor.item<float>()), std::make_pair(std::uint64_t{0}, 0.0f));
  EXPECT_EQ(std::make_pair(puts[1].version, puts[1].tensor.item<float>()), std::make_pair(std::uint64_t{1}, 1.0f));
  EXPECT_EQ(std::make_pair(puts[2].version, puts[2].tensor.item<float>()), std::make_pair(std::uint64_t{2}, 2.0f));
}

TEST_F(Shard, DropsParkedPullsOfLostWorkers) {
  make(1);
  EXPECT_FALSE(pull(10, 1, 1, 1));
  EXPECT_FALSE(pull(10, 1, 2, 2));
  state->worker_down(1);
  EXPECT_EQ(state->waiting().parked, 1u);
  push_all(0, 0, 1);
  ASSERT_EQ(said<Put>().size(), 1u);
  EXPECT_EQ(said<Put>()[0].key.step, StepId{2});
}

TEST_F(Shard, RefusesMoreParkedPullsThanAllowed) {
  ShardOptions options;
  options.max_parked = 1;
  make(options);
  EXPECT_FALSE(pull(10, 1));
  expect_refused(pull(20, 1), Code::resource_exhausted, "1 pulls are already waiting");
}

TEST_F(Shard, StagesStepsWithinTheStaleness) {
  ShardOptions options;
  options.mode = TrainingMode::bounded_staleness;
  options.staleness = 2;
  make(options);
  push_all(2, 0, 100);
  push_all(1, 0, 10);
  EXPECT_EQ(state->version(), 0u);
  EXPECT_EQ(push(3, 0, 10, 1).code(), Code::out_of_range);
  push_all(0, 0, 1);
  EXPECT_EQ(state->version(), 3u);
  EXPECT_EQ(value(10), 111);
  EXPECT_EQ(store.updates[0].second.gradient.values.item<float>(), 1);  // in the order of the steps
  EXPECT_EQ(store.updates[4].second.step, 3u);
  EXPECT_EQ(said<Staged>().back().version, 3u);
  EXPECT_EQ(state->counters().staleness[1], 1u);
  EXPECT_EQ(state->counters().staleness[2], 1u);
}

TEST_F(Shard, WithinTheStalenessASliceThatWaitedIsAppliedToTheNextVersion) {
  ShardOptions options;
  options.mode = TrainingMode::bounded_staleness;
  options.staleness = 1;
  make(options);
  EXPECT_FALSE(push(1, 0, 10, 10));
  EXPECT_TRUE(store.updates.empty());
  push_all(0, 0, 1);
  EXPECT_EQ(state->version(), 1u);
  EXPECT_EQ(store.updates.size(), 3u);
  EXPECT_EQ(store.updates[2].second.step, 2u);
  EXPECT_EQ(value(10), 11);
  EXPECT_FALSE(pull(10, 1));
  ASSERT_EQ(said<Put>().size(), 1u);
  EXPECT_EQ(said<Put>()[0].tensor.item<float>(), 1);
}

TEST_F(Shard, AnUpdateThatThrowsFailsTheShardAndItsPulls) {
  make(1);
  store.fails_on = 20;
  EXPECT_FALSE(pull(10, 1));
  EXPECT_FALSE(push(0, 0, 10, 1));
  const Error error = push(0, 0, 20, 1);
  EXPECT_EQ(error.code(), Code::internal);
  EXPECT_EQ(error.message(), "shard 3, update 1: no kernel");
  EXPECT_EQ(state->version(), 0u);
  ASSERT_EQ(said<Put>().size(), 1u);
  EXPECT_EQ(said<Put>()[0].error.message(), error.message());
  EXPECT_TRUE(said<Staged>().empty());
  EXPECT_EQ(pull(10, 0).code(), Code::internal);
  EXPECT_EQ(push(0, 0, 10, 1).code(), Code::internal);
}

TEST_F(Shard, AppliesABatchWholeAndOnce) {
  make_async();
  EXPECT_FALSE(push(7, 0, 10, 1, 1));
  EXPECT_EQ(state->version(), 0u);
  EXPECT_EQ(value(10), 0);
  EXPECT_FALSE(push(7, 0, 10, 1, 1));
  EXPECT_FALSE(push(7, 0, 20, 2, 1));
  EXPECT_EQ(state->version(), 1u);
  EXPECT_EQ(value(10), 1);
  EXPECT_EQ(value(20), 2);
  push_all(7, 0, 100, 2);
  push_all(7, 0, 100, 1);
  EXPECT_EQ(value(10), 1);
  EXPECT_EQ(state->counters().duplicates, 5u);
  ASSERT_EQ(said<Staged>().size(), 1u);
  EXPECT_EQ(said<Staged>()[0].step, 7u);
}

TEST_F(Shard, DoesNotMixTheHalvesOfTwoWorkersIntoOneBatch) {
  make_async();
  EXPECT_FALSE(push(0, 0, 10, 1, 1));
  EXPECT_FALSE(push(0, 0, 20, 100, 2));
  EXPECT_EQ(state->version(), 0u);
  EXPECT_FALSE(push(0, 0, 20, 2, 1));
  EXPECT_EQ(value(20), 2);
  EXPECT_EQ(state->counters().staged_bytes, 0u);
}

TEST_F(Shard, ForgetsIncompleteBatchesOfALostWorker) {
  make_async();
  EXPECT_FALSE(push(0, 0, 10, 1, 1));
  state->worker_down(1);
  EXPECT_EQ(state->counters().abandoned, 1u);
  EXPECT_EQ(state->counters().staged_bytes, 0u);
  push_all(0, 0, 5, 2);
  EXPECT_EQ(value(10), 5);
}

TEST_F(Shard, BoundsWhatAWorkerMayLeaveIncomplete) {
  make_async(1, false, 2);
  EXPECT_FALSE(push(0, 0, 10, 1));
  EXPECT_FALSE(push(1, 0, 10, 1));
  EXPECT_EQ(push(2, 0, 10, 1).code(), Code::resource_exhausted);
  EXPECT_FALSE(push(2, 0, 10, 1, 1));
  EXPECT_EQ(state->counters().refused, 1u);
}

TEST_F(Shard, BoundsTheGapsBetweenBatches) {
  make_async(1, false, 2);  // 4 workers: 8 batches may be out
  for (std::uint64_t batch = 0; batch < 9; ++batch) push_all(2 * batch, 0, 1);
  EXPECT_EQ(push(100, 0, 10, 1).code(), Code::out_of_range);
  EXPECT_EQ(push(~std::uint64_t{0}, 0, 10, 1).code(), Code::out_of_range);
  push_all(1, 0, 1);
  EXPECT_FALSE(push(100, 0, 10, 1));
}

TEST_F(Shard, AccumulatesBatchesIntoOneUpdate) {
  make_async(2);
  push_all(0, 0, 2, 0);
  EXPECT_EQ(state->version(), 0u);
  EXPECT_EQ(said<Staged>().size(), 1u);
  EXPECT_EQ(state->waiting().to_string(), "version 1: 1 of 2 staged");
  push_all(1, 0, 4, 1);
  EXPECT_EQ(state->version(), 1u);
  EXPECT_EQ(value(10), 3);
}

TEST_F(Shard, RecordsStalenessAndScalesTheRateByIt) {
  make_async(1, true);
  push_all(0, 0, 1, 0);
  push_all(1, 0, 1, 0);
  Push late = message(2, 0, 10, 1, 1);
  late.pulled_version = 0;
  EXPECT_FALSE(push(late));
  late = message(2, 0, 20, 1, 1);
  EXPECT_FALSE(push(late));
  EXPECT_EQ(state->counters().staleness[0], 2u);
  EXPECT_EQ(state->counters().staleness[2], 1u);
  EXPECT_EQ(store.updates.back().second.rate_scale, 0.5);
}

// ---- Packs

class PackedShard : public testing::ShardTest {
 protected:
  // [1] and [1] as one of 2 elements.
  static std::vector<SlicePack> packs() {
    return {{.id = 30, .shard = 3, .dtype = DType::f32, .elements = 2, .slices = {10, 20}}};
  }
  void make_packed(ShardOptions options) {
    options.shard = 3;
    options.workers = 4;
    state = std::make_unique<ShardState>(
        options, std::vector<SliceSpec>{{20, "b", DType::f32, Shape{1}}, {10, "a", DType::f32, Shape{1}}}, store,
        packs());
  }
  Push joined(std::uint64_t step, std::uint32_t slot, float a, float b) {
    Push push = message(step, slot, 30, 0);
    push.gradient = Tensor::vector<float>({a, b});
    return push;
  }
};

TEST_F(PackedShard, IsPushedAndPulledAsOne) {
  make_packed({.slots = 2});
  EXPECT_FALSE(pull(30, 1));
  EXPECT_FALSE(push(joined(0, 0, 1, 10)));
  EXPECT_FALSE(push(joined(0, 1, 3, 30)));
  EXPECT_EQ(value(10), 2);
  EXPECT_EQ(value(20), 20);
  EXPECT_EQ(said<Staged>().size(), 2u);  // of each slot, when whole
  ASSERT_EQ(said<Put>().size(), 1u);
  EXPECT_EQ(said<Put>()[0].version, 1u);
  EXPECT_TRUE(bitwise_equal(said<Put>()[0].tensor, Tensor::vector<float>({2, 20})));
  EXPECT_EQ(state->counters().pushes, 4u);  // counts slices
}

TEST_F(PackedShard, AnswersPullsOfItsSlicesAndOfAnEarlierVersion) {
  make_packed({.slots = 1});
  EXPECT_FALSE(push(joined(0, 0, 1, 10)));
  EXPECT_FALSE(pull(20, 1));
  EXPECT_EQ(said<Put>().at(0).tensor.item<float>(), 10);
  EXPECT_FALSE(pull(30, 0));
  EXPECT_TRUE(bitwise_equal(said<Put>().at(1).tensor, Tensor::vector<float>({0, 0})));
}

TEST_F(PackedShard, WaitsForOtherSlicesOfItsPhase) {
  store.values[25] = Tensor::vector<float>({0});
  const ShardOptions options{.shard = 3, .workers = 4, .slots = 1, .keep_previous = false};
  state = std::make_unique<ShardState>(
      options,
      std::vector<SliceSpec>{
          {10, "a", DType::f32, Shape{1}}, {20, "b", DType::f32, Shape{1}}, {25, "c", DType::f32, Shape{1}}},
      store, packs());
  EXPECT_FALSE(push(joined(0, 0, 1, 2)));
  EXPECT_FALSE(pull(30, 0));  // its values are those of version 1, which is not published
  EXPECT_TRUE(said<Put>().empty());
  EXPECT_FALSE(push(0, 0, 25, 3));
  ASSERT_EQ(said<Put>().size(), 1u);
  EXPECT_TRUE(bitwise_equal(said<Put>()[0].tensor, Tensor::vector<float>({1, 2})));
}

TEST_F(PackedShard, CountsOnce) {
  make_packed({.mode = TrainingMode::asynchronous});
  EXPECT_FALSE(push(joined(0, 0, 1, 10)));
  EXPECT_FALSE(push(joined(0, 0, 1, 10)));
  EXPECT_EQ(value(10), 1);
  EXPECT_EQ(value(20), 10);
  EXPECT_EQ(state->counters().duplicates, 2u);
}

TEST_F(PackedShard, RefusesWhatDoesNotFit) {
  make_packed({.slots = 1});
  Push longer = joined(0, 0, 1, 2);
  longer.gradient = Tensor::vector<float>({1, 2, 3});
  expect_refused(push(longer), Code::invalid_argument, "pack 30: its shape is [3], expected [2]");
  Push sparse = joined(0, 0, 1, 2);
  sparse.indices = Tensor::vector<std::int64_t>({0, 1});
  expect_refused(push(sparse), Code::invalid_argument, "pack 30: it has no sparse gradient");
  expect_refused(push(0, 0, 20, 1), Code::invalid_argument, "slice 20 (b) alone, but it travels in pack 30");
  expect_refused(pull(31, 0), Code::invalid_argument, "slice 31 is not on this shard");
  const auto with = [&](SlicePack pack) {
    ShardState state({}, {{10, "a", DType::f32, Shape{1}}, {20, "b", DType::f32, Shape{1}}}, store, {pack});
  };
  EXPECT_NO_THROW(with(packs()[0]));
  EXPECT_THROW(with({.id = 30, .dtype = DType::f32, .elements = 3, .slices = {10, 20}}), Error);
  EXPECT_THROW(with({.id = 30, .dtype = DType::f64, .elements = 2, .slices = {10, 20}}), Error);
  EXPECT_THROW(with({.id = 30, .dtype = DType::f32, .elements = 2, .slices = {10, 21}}), Error);
  EXPECT_THROW(with({.id = 30, .dtype = DType::f32, .elements = 2, .slices = {10, 10}}), Error);
  EXPECT_THROW(with({.id = 30, .dtype = DType::f32, .elements = 0, .slices = {}}), Error);
}

TEST(ShardOptions, ThatContradictEachOtherAreRefused) {
  AddingStore store;
  const std::vector<SliceSpec> slices = {{10, "a", DType::f32, Shape{1}}};
  const auto with = [&](const std::function<void(ShardOptions&)>& change, std::vector<SliceSpec> specs) {
    ShardOptions options;
    change(options);
    ShardState state(options, std::move(specs), store);
  };
  EXPECT_NO_THROW(with([](ShardOptions&) {}, slices));
  EXPECT_THROW(with([](ShardOptions& o) { o.slots = 0; }, slices), Error);
  EXPECT_THROW(with([](ShardOptions& o) { o.staleness = 1; }, slices), Error);
  EXPECT_THROW(with([](ShardOptions& o) { o.accumulate = 2; }, slices), Error);
  EXPECT_THROW(with([](ShardOptions& o) { o.mode = TrainingMode::asynchronous, o.slots = 2; }, slices), Error);
  EXPECT_THROW(with([](ShardOptions&) {}, {slices[0], slices[0]}), Error);
  EXPECT_THROW(with([](ShardOptions&) {}, {{10, "a", DType::string, Shape{1}}}), Error);
}

}  // namespace
}  // namespace troupe
