// What the GPU's kernels work out on the host: it needs no GPU, and no CUDA toolkit.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <troupe/graph/optimizers/schedules.hpp>
#include <troupe/kernels/common/row_groups.hpp>
#include <troupe/kernels/cuda/reduce_plan.hpp>
#include <troupe/kernels/cuda/schedule_of.hpp>
#include <troupe/kernels/cuda/softmax_grid.hpp>
#include <troupe/kernels/cuda/sweep.hpp>

namespace troupe::testing {
namespace {

using Dims = std::vector<CudaReduceDim>;

ReduceLayout layout_of(const Dims& dims) { return reduce_layout(dims.data(), static_cast<int>(dims.size())); }

TEST(CudaReducePlan, MergesNeighboursAndDropsOnes) {
  const ReduceLayout x = layout_of({{2, true}, {1, false}, {3, true}, {4, false}, {1, true}, {5, false}, {6, true}});
  EXPECT_TRUE(x.inner_reduced);
  EXPECT_EQ(x.inner, 6);
  EXPECT_EQ(x.kept.count, 1);
  EXPECT_EQ(x.kept.all[0].size, 20);
  EXPECT_EQ(x.kept.all[0].stride, 6);
  EXPECT_EQ(x.reduced.count, 1);
  EXPECT_EQ(x.reduced.all[0].size, 6);
  EXPECT_EQ(x.reduced.all[0].stride, 120);
  EXPECT_EQ(x.results(), 20);
  EXPECT_EQ(x.terms(), 36);
}

TEST(CudaReducePlan, OfOneElementHasOneTerm) {
  for (const Dims& dims : {Dims{}, Dims{{1, true}}, Dims{{1, false}, {1, true}}}) {
    SCOPED_TRACE(::testing::Message() << dims.size() << " dimensions");
    const ReduceLayout x = layout_of(dims);
    EXPECT_EQ(x.results(), 1);
    EXPECT_EQ(x.terms(), 1);
    EXPECT_EQ(reduce_grid(x, DType::f32).units, 1);
  }
  const ReduceLayout nothing = reduce_layout_of_nothing(7);
  EXPECT_EQ(nothing.results(), 7);
  EXPECT_EQ(nothing.terms(), 0);
  EXPECT_EQ(reduce_grid(nothing, DType::f32).units, 7);
}

TEST(CudaReducePlan, ChunksCoverAllTermsAndNoneIsEmpty) {
  const std::vector<std::int64_t> sizes{
      2, 3, 7, 8, 31, 32, 33, 256, 1000, 4096, 70'001, std::int64_t{1} << 22, std::int64_t{3} << 31};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i8})
    for (const std::int64_t a : sizes)
      for (const std::int64_t b : sizes)
        for (const bool inner : {true, false}) {
          const ReduceLayout x = layout_of({{a, !inner}, {b, inner}});
          const ReduceGrid g = reduce_grid(x, dtype);
          SCOPED_TRACE(::testing::Message() << a << ' ' << b << ' ' << inner << ' ' << static_cast<int>(dtype));
          EXPECT_EQ(x.inner % g.vector, 0);
          EXPECT_EQ(g.across & (g.across - 1), 0);
          EXPECT_TRUE(g.across <= 32 || (inner && g.across == kReduceThreads));
          EXPECT_GE(g.chunks * g.chunk_terms, x.terms());
          EXPECT_LT((g.chunks - 1) * g.chunk_terms, x.terms());
          if (inner) {
            EXPECT_EQ(g.chunk_terms % g.vector, 0);
          } else {
            EXPECT_GE(g.tiles * g.across * g.vector, x.inner);
            EXPECT_LT((g.tiles - 1) * g.across * g.vector, x.inner);
          }
          EXPECT_EQ(g.units, x.kept.combinations * g.tiles * g.chunks);
          EXPECT_EQ(reduce_partials(x, g), x.results() * g.chunks);
          EXPECT_LE(g.chunks, 2048);
        }
}

TEST(CudaReducePlan, LongSumsKeepManyBlocksBusyAndShortOnesNeedOneKernel) {
  EXPECT_GE(reduce_grid(layout_of({{std::int64_t{1} << 28, true}}), DType::f32).units, 1000);
  EXPECT_GE(reduce_grid(layout_of({{std::int64_t{1} << 22, true}, {64, false}}), DType::f32).units, 1000);
  EXPECT_EQ(reduce_grid(layout_of({{1000, true}}), DType::f32).chunks, 1);
  EXPECT_EQ(reduce_grid(layout_of({{128, true}, {512, false}}), DType::f32).chunks, 1);
}

TEST(CudaSoftmaxGrid, ThreadsHoldTheirRowsOrReadThemTwice) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (std::int64_t width = 1; width < 20'000; ++width) {
      const SoftmaxGrid g = softmax_grid(dtype, width);
      ASSERT_EQ(width % g.vector, 0) << width;
      ASSERT_TRUE(g.across <= 32 || g.across == 256 || g.across == 1024) << width;
      ASSERT_EQ(g.across & (g.across - 1), 0) << width;
      if (g.vectors > 0) {
        ASSERT_GE(std::int64_t{g.vector} * g.across * g.vectors, width) << name(dtype) << ' ' << width;
      } else {
        ASSERT_EQ(g.across, 1024) << name(dtype) << ' ' << width;
        ASSERT_GT(width, dtype == DType::f32 ? 4096 : 1024) << name(dtype) << ' ' << width;
      }
    }
  EXPECT_GT(softmax_grid(DType::f32, 16384).vectors, 0);
}

TEST(CudaSweep, BlocksFindTheirTensors) {
  SweepTable<2> table;
  std::vector<std::int64_t> counts{1, 0, kSweepElements, kSweepElements + 1, 0, 10 * kSweepElements, 5};
  int x = 0;
  std::vector<std::int64_t> owners;  // of each block: the tensor's number of elements
  for (const std::int64_t count : counts) {
    ASSERT_TRUE(table.add({&x, &x}, count)) << count;
    for (std::int64_t done = 0; done < count; done += kSweepElements) owners.push_back(count);
  }
  ASSERT_EQ(table.blocks, std::ssize(owners));
  EXPECT_EQ(table.size, 5);
  for (std::int64_t b = 0; b < table.blocks; ++b) {
    const auto& entry = table.entries[table.entry_of(b)];
    EXPECT_EQ(entry.count, owners[static_cast<std::size_t>(b)]) << b;
    EXPECT_LT((b - entry.first_block) * kSweepElements, entry.count) << b;
  }
}

TEST(CudaSweep, ATableThatIsFullTakesNoMore) {
  SweepTable<4> table;
  EXPECT_LE(sizeof table, 3900u);  // beside other arguments, in 4 KiB
  for (int i = 0; i < SweepTable<4>::kEntries; ++i) ASSERT_TRUE(table.add({}, 1)) << i;
  EXPECT_FALSE(table.add({}, 1));
  EXPECT_TRUE(table.add({}, 0));
  EXPECT_EQ(table.blocks, SweepTable<4>::kEntries);
  SweepTable<1> large;
  EXPECT_TRUE(large.add({}, kSweepBlocks * kSweepElements));
  EXPECT_FALSE(large.add({}, 1));
}

TEST(CudaRowGroups, PutsPositionsOfOneRowTogetherInOrder) {
  const std::vector<std::int64_t> rows{5, 2, 5, 9, 2, 5};
  const RowGroups groups = group_rows(rows);
  EXPECT_EQ(groups.rows, (std::vector<std::int64_t>{2, 5, 9}));
  EXPECT_EQ(groups.order, (std::vector<std::int64_t>{1, 4, 0, 2, 5, 3}));
  EXPECT_EQ(groups.begins, (std::vector<std::int64_t>{0, 2, 5, 6}));
  const Tensor packed = groups.packed();
  const auto values = packed.values<std::int64_t>();
  EXPECT_EQ(std::vector<std::int64_t>(values.begin(), values.end()),
            (std::vector<std::int64_t>{0, 2, 5, 6, 1, 4, 0, 2, 5, 3, 2, 5, 9}));
  EXPECT_EQ(group_rows({}).begins, std::vector<std::int64_t>{0});
}

TEST(CudaRowGroups, ManyRowsAreSortedStably) {
  std::mt19937_64 draws(2);
  for (const std::int64_t range : {std::int64_t{1}, std::int64_t{300}, std::int64_t{20000}, std::int64_t{1} << 62}) {
    std::vector<std::int64_t> rows(3000);
    for (std::int64_t& row : rows)
      row = static_cast<std::int64_t>(draws() % static_cast<std::uint64_t>(range)) - range / 3;
    std::vector<std::int64_t> order(rows.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::int64_t i) { return rows[static_cast<std::size_t>(i)]; });
    EXPECT_EQ(group_rows(rows).order, order) << range;
  }
}

TEST(CudaSchedule, GivesTheRatesOfTheSchedule) {
  const std::vector<Schedule> all{
      0.1,
      Schedule(0.1).after_warm_up(5),
      schedules::Step{.rate = 0.5, .factor = 0.3, .every = 7},
      Schedule(schedules::Piecewise{.rates = {1, 0.5, 0.25}, .from = {3, 20}}).after_warm_up(2),
      schedules::Piecewise{.rates = {2}, .from = {}},
      schedules::Exponential{.rate = 0.2, .factor = 0.9, .every = 10},
      Schedule(schedules::Cosine{.rate = 1, .end = 0.1, .steps = 30}).after_warm_up(4),
      schedules::Polynomial{.rate = 1, .end = 0.01, .power = 2, .steps = 25},
      schedules::Mean{.start = 5, .every = 3},
  };
  for (const Schedule& schedule : all) {
    const auto on_gpu = cuda_schedule(schedule);
    ASSERT_TRUE(on_gpu) << schedule.to_string();
    for (std::int64_t t = 0; t < 50; ++t)
      EXPECT_EQ(schedule_rate(*on_gpu, t), schedule.rate(t)) << schedule.to_string() << ' ' << t;
    EXPECT_TRUE(std::isnan(schedule_rate(*on_gpu, -1))) << schedule.to_string();
  }
}

TEST(CudaSchedule, WithMoreChangesThanAKernelTakesIsNone) {
  schedules::Piecewise many{.rates = {1}, .from = {}};
  for (int i = 0; i < CudaSchedule::kMostChanges; ++i) {
    many.rates.push_back(1.0 / (i + 2));
    many.from.push_back(10 * (i + 1));
  }
  const auto full = cuda_schedule(Schedule(many));
  ASSERT_TRUE(full);
  for (std::int64_t t = 0; t < 700; ++t) ASSERT_EQ(schedule_rate(*full, t), Schedule(many).rate(t)) << t;
  many.rates.push_back(0.001);
  many.from.push_back(10'000);
  EXPECT_FALSE(cuda_schedule(Schedule(many)));
}

}  // namespace
}  // namespace troupe::testing
