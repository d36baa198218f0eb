// Tables of which workers pull the rows of their batch: the same bits in every mode, however rows are dealt out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/actors/training/job_tasks.hpp"
#include "tests/actors/training/table_job.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/values.hpp>

namespace troupe {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::TableJob;
using testing::TableProgram;

// Memory of this process, at most so far.
std::int64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

class Tables : public ::testing::Test {
 protected:
  struct Result {
    std::string hash;
    std::vector<EpochLogs> epochs;
  };
  static Result run(TableJob job, Task& task) {
    Result result;
    TrainingState state;
    job.options.on_epoch = [&](const EpochLogs& epoch) { result.epochs.push_back(epoch); };
    result.hash = run_table_job(job, task, state).params_sha256;
    return result;
  }
  static Result local(TableJob job, int slots) {
    job.options.mode = LocalMode{.slots = slots};
    Task task({.threads = 1});
    return run(job, task);
  }
  static Result cluster(TableJob job, const JobMode& mode, int ps, int workers) {
    job.options.mode = mode;
    testing::JobTasks tasks(ps, workers);
    Result chief;
    const std::vector<std::string> errors = tasks.run([&](Task& task) {
      Result result = run(job, task);
      if (task.name() == TaskName{"worker", 0}) chief = std::move(result);
      return std::string();
    });
    EXPECT_THAT(errors, Each(""));
    return chief;
  }
  static void expect_same(const Result& got, const Result& expected) {
    EXPECT_EQ(got.hash, expected.hash);
    ASSERT_EQ(got.epochs.size(), expected.epochs.size());
    for (std::size_t i = 0; i < got.epochs.size(); ++i)
      EXPECT_EQ(got.epochs[i].figures, expected.epochs[i].figures) << i;
  }

  const JobMode two_slots = SyncMode{.slots = 2};
  const TensorDataset train = testing::table_examples(200), test = testing::table_examples(37);
  const TrainingOptions options{.epochs = 2, .batch = 20, .evaluation_batch = 16};
};

TEST_F(Tables, HaveTheSameBitsAndFiguresInEveryMode) {
  const TableJob job{.train = train, .evaluation = &test, .options = options};
  const Result two = local(job, 2);
  EXPECT_LT(two.epochs[1]["val_error"], two.epochs[0]["val_error"]);
  for (const auto& [mode, ps, workers] :
       std::initializer_list<std::tuple<JobMode, int, int>>{{two_slots, 1, 2},
                                                            {two_slots, 2, 2},
                                                            {two_slots, 2, 3},
                                                            {SspMode{.staleness = 0, .slots = 2}, 3, 1},
                                                            {AllReduceMode{}, 0, 2}}) {
    SCOPED_TRACE(fmt::format("{} with {} and {}", name(mode), ps, workers));
    expect_same(cluster(job, mode, ps, workers), two);
  }
}

TEST_F(Tables, OfOneAsynchronousWorkerHaveTheBitsOfOneSlot) {
  const TableJob job{.train = train, .options = options};
  EXPECT_EQ(cluster(job, AsyncMode{}, 2, 1).hash, local(job, 1).hash);
}

TEST_F(Tables, HaveTheSameBitsWhenUpdatesChangeAllRows) {
  const TableProgram program{.optimizer =
                                 optimizers::Momentum{.learning_rate = 0.05, .slot_updates = SlotUpdates::exact}};
  const TableJob job{.program = program, .train = train, .options = options};
  const Result two = local(job, 2);
  EXPECT_NE(two.hash, local({.program = TableProgram{.optimizer = optimizers::Momentum{.learning_rate = 0.05}},
                             .train = train,
                             .options = options},
                            2)
                          .hash);
  expect_same(cluster(job, two_slots, 2, 2), two);
}

TEST_F(Tables, OfSixteenBitsHaveTheSameBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const TableJob job{.program = TableProgram{.dtype = dtype}, .train = train, .options = options};
    expect_same(cluster(job, two_slots, 2, 2), local(job, 2));
  }
}

TEST_F(Tables, OfMicroBatchesHaveTheSameBits) {
  TableJob job{.train = train, .options = options};
  job.options.micro_batches = 2;
  expect_same(cluster(job, two_slots, 2, 2), local(job, 2));
}

// A save by two shards, resumed by one, three, and one process, and the reverse.
TEST_F(Tables, ResumeOnAnyNumberOfShards) {
  TableJob whole{.train = train, .options = options};
  const std::string undisturbed = local(whole, 2).hash;
  for (const int saved_by : {0, 2})
    for (const int resumed_by : {0, 1, 3}) {
      SCOPED_TRACE(fmt::format("{} to {}", saved_by, resumed_by));
      const testing::TemporaryDirectory directory;
      TableJob job = whole;
      job.options.checkpoint = directory.file("saved");
      const auto go = [&](int ps, int epochs) {
        job.options.epochs = epochs;
        return ps == 0 ? local(job, 2).hash : cluster(job, two_slots, ps, 2).hash;
      };
      go(saved_by, 1);
      EXPECT_EQ(go(resumed_by, 2), undisturbed);
    }
}

// Rows drawn one by one have the bits of those drawn together; what was never updated is in no hash.
TEST_F(Tables, OnDemandHaveTheSameBitsInEveryMode) {
  const TableJob job{
      .program = TableProgram{.on_demand = true}, .train = train, .evaluation = &test, .options = options};
  const Result two = local(job, 2), whole = local({.train = train, .evaluation = &test, .options = options}, 2);
  EXPECT_NE(two.hash, whole.hash);
  EXPECT_EQ(two.epochs[1].figures, whole.epochs[1].figures);
  for (const auto& [mode, ps, workers] : std::initializer_list<std::tuple<JobMode, int, int>>{
           {two_slots, 1, 2}, {two_slots, 2, 3}, {AllReduceMode{}, 0, 2}}) {
    SCOPED_TRACE(fmt::format("{} with {} and {}", name(mode), ps, workers));
    expect_same(cluster(job, mode, ps, workers), two);
  }
  EXPECT_EQ(cluster(job, AsyncMode{}, 2, 1).hash, local(job, 1).hash);
}

TEST_F(Tables, OnDemandResumeOnAnyNumberOfShards) {
  const TableJob whole{.program = TableProgram{.on_demand = true}, .train = train, .options = options};
  const std::string undisturbed = local(whole, 2).hash;
  for (const int resumed_by : {1, 2, 3}) {
    const testing::TemporaryDirectory directory;
    TableJob job = whole;
    job.options.checkpoint = directory.file("saved");
    job.options.epochs = 1;
    cluster(job, two_slots, 2, 2);
    const auto load = [&](const ValueChoice& choice) {
      return load_values(posix_file_system(), job.options.checkpoint, choice);
    };
    EXPECT_THAT(testing::error_of([&] { load({}); }).message(),
                HasSubstr("only the rows that were trained are stored"));
    EXPECT_EQ(load({.except = {"*table*"}}).count("out/w"), 1u);
    job.options.epochs = 2;
    EXPECT_EQ(cluster(job, two_slots, resumed_by, 2).hash, undisturbed) << resumed_by;
  }
}

// 120 GB if all rows were there.
TEST_F(Tables, OnDemandTakeTheMemoryOfTheRowsThatWereUpdated) {
  const TableJob job{
      .program = TableProgram{.on_demand = true, .rows = 1'000'000'000}, .train = train, .options = options};
  const std::int64_t before = peak_kib();
  const std::string hash = cluster(job, two_slots, 2, 2).hash;
  EXPECT_LT(peak_kib() - before, 256 << 10);  // all four tasks are in this process
  EXPECT_EQ(cluster(job, two_slots, 1, 1).hash, hash);
}

// The chief has no parameters to read but by rows.
TEST_F(Tables, MayBeAllThereIs) {
  const Program program = [](ProgramContext& c) -> ProgramOutputs {
    const VariableRef table =
        c.variable("table", {.shape = Shape{5000, 8}, .on_demand = true}, initializers::random_uniform());
    const Output y = mean(gather(table.read(), c["tags"]), {1, 2});
    return {.objectives = {{.loss = mean(squared_difference(y, reshape(c["y"], Shape{kUnknown}))),
                            .optimizer = optimizers::Adam{.learning_rate = 0.01}}}};
  };
  const TableJob job{.program = program, .train = train, .options = options};
  EXPECT_EQ(cluster(job, two_slots, 2, 2).hash, local(job, 2).hash);
}

TEST_F(Tables, OnDemandMustBeReadByLookupsAndUpdatedLazily) {
  const auto refused = [&](const Program& program) {
    TableJob job{.program = program, .train = train, .options = options};
    job.options.mode = SyncMode{};
    testing::JobTasks tasks(1, 1);
    return tasks.run([&](Task& task) { return run(job, task).hash; });
  };
  EXPECT_THAT(
      refused(TableProgram{.optimizer = optimizers::Momentum{.slot_updates = SlotUpdates::exact}, .on_demand = true}),
      Each(HasSubstr("must update rows lazily")));
  EXPECT_THAT(refused([](ProgramContext& c) {
                ProgramOutputs out = TableProgram{.on_demand = true}(c);
                const VariableRef table = c.variable("tags/table", {.shape = Shape{3000, 16}, .on_demand = true},
                                                     initializers::random_normal());
                out.objectives[0].loss = out.objectives[0].loss + mean(table.read());
                return out;
              }),
              Each(HasSubstr("only lookups of its rows may read it")));
}

}  // namespace
}  // namespace troupe
