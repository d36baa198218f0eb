// Tasks with simulated GPUs (tests/devices/simulated_plugin.cpp) that exchange tensors past the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <mutex>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/devices/collective/collective_testing.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/session/group.hpp>
#include <troupe/devices/collective/communicator.hpp>
#include <troupe/devices/plugin.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::JobTasks;
using testing::random_tensor;

GpuOptions gpus(int count, bool nccl = true, bool deterministic = true) {
  return {.count = count,
          .deterministic = deterministic,
          .nccl = nccl,
          .plugin = testing::built_library("libsimulated_gpu.so")};
}

// What came of a training with all-reduce, and how the gradients travelled.
struct Outcome {
  std::vector<std::string> hashes;  // by rank: of the parameters, or an error
  std::vector<std::string> exchange;
};

Outcome train(JobTasks& tasks, const std::function<void(const TaskName&, TrainingOptions&)>& change = {}) {
  static const DataSplits data = draw_digits({.train = 192, .test = 30});
  Outcome out;
  std::mutex mutex;
  out.hashes = tasks.run([&](Task& task) {
    Model model(
        {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)},
        Shape{28, 28, 1}, DType::u8);
    model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}), task);
    TrainingOptions options{.mode = AllReduceMode{}, .epochs = 2, .batch = 16};
    options.on_event = [&](const JobEvent& event) {
      const std::lock_guard lock(mutex);
      if (event.kind == "exchange") out.exchange.push_back(event.text);
    };
    if (change) change(task.name(), options);
    model.fit(data, options);
    return model.params_sha256();
  });
  return out;
}

std::vector<std::string> all(std::size_t ranks, const std::string& hash) {
  return std::vector<std::string>(ranks, hash);
}

TEST(GpuCollectives, TrainingHasTheBitsOfTheRing) {
  for (const int ranks : {2, 3}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    const auto n = static_cast<std::size_t>(ranks);
    JobTasks cpus(0, ranks, {}, std::vector(n, gpus(0))), with_gpus(0, ranks, {}, std::vector(n, gpus(1))),
        staged(0, ranks, {}, std::vector(n, gpus(1, false)));
    const Outcome expected = train(cpus), got = train(with_gpus), through_host = train(staged);
    EXPECT_EQ(expected.hashes[0].size(), 64u) << expected.hashes[0];
    EXPECT_EQ(expected.hashes, all(n, expected.hashes[0]));
    EXPECT_TRUE(expected.exchange.empty());
    EXPECT_EQ(got.hashes, expected.hashes);
    EXPECT_EQ(got.exchange, std::vector<std::string>{"tensors go from GPU to GPU over NCCL 1.2.3"});
    EXPECT_EQ(through_host.hashes, expected.hashes);
    EXPECT_EQ(
        through_host.exchange,
        std::vector<std::string>{"tensors go through the host: rank 0 (/job:worker/task:0): NCCL is switched off"});
  }
}

TEST(GpuCollectives, OneTaskWithoutAGpuMakesAllUseTheRing) {
  JobTasks cpus(0, 3, {}, {gpus(0), gpus(0), gpus(0)}), mixed(0, 3, {}, {gpus(1), gpus(0), gpus(1)});
  const Outcome expected = train(cpus), got = train(mixed);
  EXPECT_EQ(got.hashes, expected.hashes);
  EXPECT_EQ(got.exchange,
            std::vector<std::string>{"tensors go through the host: rank 1 (/job:worker/task:1) has no GPU"});
}

TEST(GpuCollectives, InAnyOrderAllRanksStillHaveTheSameParameters) {
  JobTasks tasks(0, 3, {}, std::vector(3, gpus(1, true, false)));
  const Outcome got = train(tasks);
  EXPECT_EQ(got.hashes[0].size(), 64u) << got.hashes[0];
  EXPECT_EQ(got.hashes, all(3, got.hashes[0]));
  EXPECT_EQ(got.exchange, std::vector<std::string>{"tensors go from GPU to GPU over NCCL 1.2.3, in any order"});
}

// The next job has a group, and communicators, of its own.
TEST(GpuCollectives, AJobThatFailedLeavesNothingBehind) {
  JobTasks tasks(0, 2, {}, {gpus(1), gpus(1)});
  const Outcome expected = train(tasks);
  std::atomic<bool> stop = false;
  const Outcome stopped = train(tasks, [&](const TaskName& name, TrainingOptions& options) {
    if (name.index != 1) return;
    options.stop = &stop;
    options.on_progress = [&](const StepProgress& at) {
      if (at.step >= 3) stop = true;
    };
  });
  for (const std::string& error : stopped.hashes)
    EXPECT_THAT(error, HasSubstr("stop")) << "rank " << (&error - stopped.hashes.data());
  EXPECT_EQ(train(tasks).hashes, expected.hashes);
}

TEST(GpuCollectives, ATaskThatIsLostIsNamed) {
  JobTasks tasks(0, 3, {}, std::vector(3, gpus(1)));
  const Outcome got = train(tasks, [&](const TaskName& name, TrainingOptions& options) {
    if (name.index != 1) return;
    options.on_progress = [&](const StepProgress& at) {
      if (at.step == 3) tasks[1].shutdown();
    };
  });
  for (const std::size_t r : {0u, 2u}) EXPECT_THAT(got.hashes[r], HasSubstr("/job:worker/task:1")) << "rank " << r;
}

// ---- The calls that programs make ----------------------------------------------------------------------------------

class GpuGroups : public ::testing::Test {
 protected:
  const std::vector<TaskName> kRanks = {{"worker", 0}, {"worker", 1}, {"worker", 2}};

  // What each rank's body came to: the message of its error, or "".
  std::vector<std::string> run(const std::function<void(CollectiveGroup&, Device&)>& body,
                               const CollectiveGroupOptions& options = {}) {
    return tasks.run([&](Task& task) -> std::string {
      CollectiveGroup group(task, "test", kRanks, options);
      EXPECT_EQ(group.join_devices(), "tensors go from GPU to GPU over NCCL 1.2.3");
      body(group, *group.device());
      return "";
    });
  }
  static Tensor in(const Tensor& t, Device& device) {
    std::promise<Tensor> there;
    device.copy_in(t, [&](Tensor copy, Error) { there.set_value(std::move(copy)); });
    return there.get_future().get();
  }
  static Tensor out(const Tensor& t, Device& device) {
    EXPECT_EQ(t.space(), device.allocator().space());
    std::promise<Tensor> there;
    device.copy_to_host(t, [&](Tensor copy, Error) { there.set_value(std::move(copy)); });
    return there.get_future().get();
  }

  JobTasks tasks{0, 3, {}, std::vector(3, gpus(1))};
};

TEST_F(GpuGroups, EveryCollectiveOnAllRanksBesideThoseOfTheHost) {
  std::vector<Tensor> locals;
  for (unsigned r = 0; r < 3; ++r) locals.push_back(random_tensor(DType::f32, {9000}, r));
  const Tensor expected = testing::reduced_by_hand(locals, Reduction::mean);
  EXPECT_EQ(
      run([&](CollectiveGroup& group, Device& device) {
        for (int round = 0; round < 3; ++round) {
          EXPECT_TRUE(bitwise_equal(
              out(group.all_reduce(in(locals[group.rank()], device), Reduction::mean, "x"), device), expected))
              << "round " << round;
          EXPECT_TRUE(bitwise_equal(group.all_reduce(locals[group.rank()], Reduction::mean, "x on the host"), expected))
              << "round " << round;
        }
        EXPECT_TRUE(bitwise_equal(out(group.broadcast(in(locals[group.rank()], device), 1, "b"), device), locals[1]));
        const auto every = group.all_gather(in(locals[group.rank()], device), "g");
        ASSERT_EQ(every.size(), 3u);
        for (std::size_t r = 0; r < 3; ++r)
          EXPECT_TRUE(bitwise_equal(out(every[r], device), locals[r])) << "rank " << r;
        group.barrier("end");
      }),
      std::vector<std::string>(3));
}

// In the words of the ring.
TEST_F(GpuGroups, ARankThatDisagreesIsAnErrorOnEveryRank) {
  for (const std::string& error : run([](CollectiveGroup&group, Device&device) {
         group.all_reduce(in(Tensor::zeros(DType::f32, {group.rank() == 2 ? 11 : 10}), device), Reduction::sum, "x");
       }))
    EXPECT_THAT(error, AllOf(HasSubstr("all_reduce sum of f32[10] 'x'"), HasSubstr("f32[11]"),
                             HasSubstr("/job:worker/task:2")));
}

TEST_F(GpuGroups, ARankThatDoesNotComeIsADeadlineOnTheOthers) {
  std::vector<std::string> errors;
  const auto names_rank_1 = [&](std::chrono::milliseconds limit) {  // of the others one may be late too
    std::latch given_up(2);
    errors = tasks.run([&](Task& task) {
      CollectiveGroup group(task, "test", kRanks, {.timeout = limit});
      const Error error = error_of([&] {
        group.join_devices();
        if (group.rank() == 1) return given_up.wait();  // it neither comes nor leaves
        group.all_reduce(in(Tensor::zeros(DType::f32, {10}), *group.device()), Reduction::sum, "x");
      });
      if (group.rank() != 1) given_up.count_down();
      return error.message();
    });
    const ::testing::Matcher<std::string> says = AllOf(HasSubstr("'x'"), HasSubstr("rank 1 (/job:worker/task:1)"));
    return errors[1].empty() && says.Matches(errors[0]) && says.Matches(errors[2]);
  };
  EXPECT_TRUE(testing::holds_with_more_time(std::chrono::milliseconds(500), names_rank_1)) << errors[0] << errors[2];
}

TEST_F(GpuGroups, ATaskThatShutsDownIsNamed) {
  const auto errors = run([this](CollectiveGroup& group, Device& device) {
    group.barrier("start");
    if (group.rank() == 1)
      tasks[1].shutdown();
    else
      group.all_reduce(in(Tensor::zeros(DType::f32, {10}), device), Reduction::sum, "x");
  });
  for (const std::size_t r : {0u, 2u}) EXPECT_THAT(errors[r], HasSubstr("/job:worker/task:1")) << "rank " << r;
}

TEST_F(GpuGroups, ATensorOfTheHostWhereOthersHaveOnesOfGpusIsAnErrorOnEveryRank) {
  for (const std::string& error : run([](CollectiveGroup&group, Device&device) {
         const Tensor x = Tensor::zeros(DType::f32, {10});
         group.all_reduce(group.rank() == 1 ? x : in(x, device), Reduction::sum, "x");
       }))
    EXPECT_THAT(error,
                AllOf(HasSubstr("all_reduce sum of f32[10] 'x' between devices on rank"), HasSubstr("'x' on rank 1")));
}

// GPUs of one task are ranks like any others.
void expect_sums_of_the_ring(Task& task) {
  Device* devices[] = {&task.device(1), &task.device(2)};
  ASSERT_NO_THROW(devices[0]->communicators()->description());
  const CommunicatorId id = devices[0]->communicators()->make_id();
  std::vector<std::shared_ptr<DeviceCommunicator>> ends;
  for (std::uint32_t r = 0; r < 2; ++r)
    ends.push_back(
        devices[r]->communicators()->join({id, 2, r}, [](Error error) { EXPECT_FALSE(error) << error.message(); }));
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64})
    for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max})
      for (const std::int64_t n : {3, 2048, 9001}) {
        const std::vector<Tensor> locals = {random_tensor(dtype, {n}, 1), random_tensor(dtype, {n}, 2)};
        std::vector<std::future<std::pair<Tensor, Error>>> results;
        for (std::size_t r = 0; r < 2; ++r) {
          auto result = std::make_shared<std::promise<std::pair<Tensor, Error>>>();
          results.push_back(result->get_future());
          devices[r]->copy_in(locals[r], [end = ends[r], reduction, result](Tensor there, Error) {
            const CollectiveSpec spec{
                .reduction = reduction, .dtype = there.dtype(), .shape = there.shape(), .name = "x"};
            end->run(spec, std::move(there), [result](std::vector<Tensor> tensors, Error error) {
              result->set_value({tensors.empty() ? Tensor() : tensors[0], std::move(error)});
            });
          });
        }
        for (std::size_t r = 0; r < 2; ++r) {
          const auto [there, error] = results[r].get();
          ASSERT_FALSE(error) << error.message();
          std::promise<Tensor> back;
          devices[r]->copy_to_host(there, [&](Tensor copy, Error) { back.set_value(std::move(copy)); });
          EXPECT_TRUE(bitwise_equal(back.get_future().get(), testing::reduced_by_hand(locals, reduction)))
              << name(dtype) << " " << name(reduction) << " " << n;
        }
      }
  for (const auto& end : ends) end->leave();
}

TEST(GpuCollectives, GpusOfOneTaskJoinEachOther) {
  Task task({.threads = 1, .gpus = gpus(2)});
  expect_sums_of_the_ring(task);
}

TEST(GpuCollectives, OnTwoGpusThatAreReal) {
  const PluginResult cuda = open_cuda_plugin();
  if (!cuda.plugin || cuda.plugin->count() < 2)
    GTEST_SKIP() << "needs two GPUs: " << (cuda.plugin ? cuda.plugin->description() : cuda.why_not);
  Task task({.threads = 1, .gpus = {.count = 2}});
  expect_sums_of_the_ring(task);
}

}  // namespace
}  // namespace troupe
