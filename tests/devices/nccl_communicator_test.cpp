// Communicators of GPUs on an NCCL and a CUDA that are only simulated: what is sent where, in which order it is added,
// and what becomes of it when something goes wrong. That NCCL does what the simulation does is for machines with
// several GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/devices/collective/collective_testing.hpp"
#include "tests/devices/simulated_nccl.hpp"
#include <troupe/devices/cuda/nccl_communicator.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

AllocationLabel no_label() { return {}; }

using Result = std::pair<std::vector<Tensor>, Error>;

// One GPU for each rank, all of this process.
class Communicators : public ::testing::Test {
 protected:
  ~Communicators() override { nccl->hold(false); }

  void make(std::size_t ranks, bool deterministic = true) {
    for (std::size_t r = 0; r < ranks; ++r)
      devices.push_back(make_cuda_device(
          cuda, static_cast<int>(r),
          {.name = DeviceName::of({"test", static_cast<int>(r)}, "GPU", 0), .deterministic = deterministic}, no_label,
          {.nccl = nccl, .sum = simulated_sum(cuda), .load_sum = [this] { ++sums_loaded; }}));
  }
  // These ranks of `ranks`; the others do not come.
  void join(std::initializer_list<std::uint32_t> who, std::uint32_t ranks) {
    const CommunicatorId id = devices[0]->communicators()->make_id();
    ends.resize(ranks);
    joined.resize(ranks);
    for (const std::uint32_t r : who) {
      auto told = std::make_shared<std::promise<Error>>();
      joined[r] = told->get_future();
      ends[r] =
          devices[r]->communicators()->join({id, ranks, r}, [told](Error error) { told->set_value(std::move(error)); });
    }
  }
  void join_all(std::uint32_t ranks, bool deterministic = true) {
    make(ranks, deterministic);
    const CommunicatorId id = devices[0]->communicators()->make_id();
    for (std::uint32_t r = 0; r < ranks; ++r) {
      auto told = std::make_shared<std::promise<Error>>();
      joined.push_back(told->get_future());
      ends.push_back(devices[r]->communicators()->join({id, ranks, r},
                                                       [told](Error error) { told->set_value(std::move(error)); }));
    }
    for (auto& told : joined) EXPECT_EQ(told.get().message(), "") << "rank " << (&told - joined.data());
  }
  Tensor in(const Tensor& t, std::size_t rank) {
    std::promise<Tensor> there;
    devices[rank]->copy_in(t, [&](Tensor copy, Error error) {
      EXPECT_FALSE(error) << error.message();
      there.set_value(std::move(copy));
    });
    return there.get_future().get();
  }
  Tensor out(const Tensor& t, std::size_t rank) {
    std::promise<Tensor> there;
    devices[rank]->copy_to_host(t, [&](Tensor copy, Error error) {
      EXPECT_FALSE(error) << error.message();
      there.set_value(std::move(copy));
    });
    return there.get_future().get();
  }
  std::future<Result> run(std::uint32_t rank, const CollectiveSpec& spec, Tensor local) {
    auto promise = std::make_shared<std::promise<Result>>();
    ends[rank]->run(spec, std::move(local), [promise](std::vector<Tensor> tensors, Error error) {
      promise->set_value({std::move(tensors), std::move(error)});
    });
    return promise->get_future();
  }
  static CollectiveSpec sum_of(const Tensor& t, Reduction reduction = Reduction::sum, const std::string& name = "x") {
    return {.reduction = reduction, .dtype = t.dtype(), .shape = t.shape(), .name = name};
  }
  // All ranks together; what each has in the end, on the host.
  std::vector<std::vector<Tensor>> run_all(const CollectiveSpec& spec, const std::vector<Tensor>& locals) {
    std::vector<std::future<Result>> running;
    for (std::uint32_t r = 0; r < ends.size(); ++r)
      running.push_back(run(r, spec, locals[r].valid() ? in(locals[r], r) : Tensor()));
    std::vector<std::vector<Tensor>> all;
    for (std::uint32_t r = 0; r < ends.size(); ++r) {
      SCOPED_TRACE(::testing::Message() << "rank " << r);
      Result result = running[r].get();
      EXPECT_EQ(result.second.message(), "");
      auto& mine = all.emplace_back();
      for (const Tensor& t : result.first) {
        EXPECT_EQ(t.space(), devices[r]->allocator().space());
        mine.push_back(out(t, r));
      }
    }
    return all;
  }

  std::shared_ptr<SimulatedCuda> cuda = std::make_shared<SimulatedCuda>(8);
  std::shared_ptr<SimulatedNccl> nccl = std::make_shared<SimulatedNccl>(cuda);
  std::atomic<int> sums_loaded{0};
  std::vector<std::unique_ptr<CudaDevice>> devices;
  std::vector<std::shared_ptr<DeviceCommunicator>> ends;
  std::vector<std::future<Error>> joined;
};

// The contract of devices/collective/collective.hpp, which the ring keeps too
// (tests/scheduler/collective/rank_operation_test.cpp).
TEST_F(Communicators, AnAllReduceHasTheBitsOfTheRing) {
  for (const std::uint32_t ranks : {2u, 3u, 5u}) {
    devices.clear(), ends.clear(), joined.clear();
    join_all(ranks);
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64})
      for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max})
        // Gathered whole; in parts; with a last part that is shorter, or empty.
        for (const std::int64_t n : {1, 3, 70, 2048, 9000, 16385}) {
          std::vector<Tensor> locals;
          for (std::uint32_t r = 0; r < ranks; ++r) locals.push_back(random_tensor(dtype, {n}, r + 10));
          const Tensor expected = reduced_by_hand(locals, reduction);
          for (const auto& result : run_all(sum_of(locals[0], reduction), locals)) {
            ASSERT_EQ(result.size(), 1u) << ranks << " " << name(dtype) << " " << name(reduction) << " " << n;
            ASSERT_TRUE(bitwise_equal(result[0], expected))
                << ranks << " " << name(dtype) << " " << name(reduction) << " " << n;
          }
        }
  }
}

TEST_F(Communicators, PartsTravelStraightToTheRankThatAddsThem) {
  join_all(4);
  const Tensor large = random_tensor(DType::f32, {8192}, 1), small = random_tensor(DType::f32, {100}, 1);
  run_all(sum_of(large), {large, large, large, large});
  EXPECT_EQ(nccl->counts().sends, 4u * 3u);
  EXPECT_EQ(nccl->counts().gathers, 4u);
  run_all(sum_of(small), {small, small, small, small});
  EXPECT_EQ(nccl->counts().sends, 4u * 3u) << "a small one is gathered whole";
  EXPECT_EQ(nccl->counts().gathers, 8u);
  EXPECT_EQ(nccl->counts().all_reduces, 0u);
}

TEST_F(Communicators, InAnyOrderNcclAddsExceptForWhatItDoesNotPromise) {
  join_all(3, false);
  std::vector<Tensor> locals, whole;
  for (unsigned r = 0; r < 3; ++r) {
    locals.push_back(random_tensor(DType::f32, {9000}, r));
    whole.push_back(random_tensor(DType::i32, {9000}, r));
  }
  Tensor expected = locals[2].clone();
  for (std::int64_t i = 0; i < 9000; ++i)
    expected.mutable_data<float>()[i] =
        ((expected.data<float>()[i] + locals[1].data<float>()[i]) + locals[0].data<float>()[i]) / 3;
  for (const auto& result : run_all(sum_of(locals[0], Reduction::mean), locals))
    EXPECT_TRUE(bitwise_equal(result.at(0), expected));
  EXPECT_EQ(nccl->counts().all_reduces, 3u);
  for (const auto& result : run_all(sum_of(locals[0], Reduction::max), locals))
    EXPECT_TRUE(bitwise_equal(result.at(0), reduced_by_hand(locals, Reduction::max)));
  for (const auto& result : run_all(sum_of(whole[0], Reduction::mean), whole))
    EXPECT_TRUE(bitwise_equal(result.at(0), reduced_by_hand(whole, Reduction::mean)));
  EXPECT_EQ(nccl->counts().all_reduces, 3u) << "a maximum that may leave out NaN, and integers' mean";
}

TEST_F(Communicators, BroadcastsAndAllGathers) {
  join_all(3);
  for (const std::int64_t n : {0, 1, 5, 1000}) {
    const Tensor root = random_tensor(DType::f32, {n}, 7);
    for (const auto& result :
         run_all({.kind = CollectiveKind::broadcast, .root = 1, .dtype = DType::f32, .shape = {n}, .name = "b"},
                 {Tensor(), root, Tensor()}))
      EXPECT_TRUE(bitwise_equal(result.at(0), root)) << n;
    std::vector<Tensor> locals;
    for (unsigned r = 0; r < 3; ++r) locals.push_back(random_tensor(DType::f32, {n}, r));
    for (const auto& result :
         run_all({.kind = CollectiveKind::all_gather, .dtype = DType::f32, .shape = {n}, .name = "g"}, locals)) {
      ASSERT_EQ(result.size(), 3u) << n;
      for (std::size_t r = 0; r < 3; ++r) EXPECT_TRUE(bitwise_equal(result[r], locals[r])) << n;
    }
  }
}

TEST_F(Communicators, OneRankAloneHasItsOwn) {
  join_all(1);
  const Tensor x = random_tensor(DType::f32, {9000}, 1);
  EXPECT_TRUE(bitwise_equal(run_all(sum_of(x, Reduction::mean), {x})[0].at(0), x));
  EXPECT_TRUE(bitwise_equal(
      run_all({.kind = CollectiveKind::all_gather, .dtype = DType::f32, .shape = {9000}, .name = "g"}, {x})[0].at(0),
      x));
  EXPECT_TRUE(bitwise_equal(
      run_all({.kind = CollectiveKind::broadcast, .dtype = DType::f32, .shape = {9000}, .name = "b"}, {x})[0].at(0),
      x));
}

TEST_F(Communicators, OperationsRunInTheOrderInWhichTheyAreGiven) {
  join_all(2);
  const Tensor x = random_tensor(DType::f32, {9000}, 1);
  std::vector<std::future<Result>> running;
  for (int i = 0; i < 20; ++i)
    for (const std::uint32_t r : {0u, 1u})
      running.push_back(run(r, sum_of(x, Reduction::max, fmt::format("{}", i)), in(x, r)));
  for (std::size_t i = 0; i < running.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "operation " << i);
    const Result result = running[i].get();
    ASSERT_EQ(result.second.message(), "");
    EXPECT_TRUE(bitwise_equal(out(result.first.at(0), i % 2), x));
  }
}

// Those that are given while others do not answer yet.
TEST_F(Communicators, OperationsThatWaitBeginInTheirOrder) {
  make(2);
  const CommunicatorId id = devices[0]->communicators()->make_id();
  std::mutex mutex;
  std::vector<std::string> ended;
  std::vector<std::future<void>> all;
  for (const std::uint32_t r : {0u, 1u}) {
    ends.push_back(devices[r]->communicators()->join({id, 2, r}, [](const Error&) {}));
    for (const std::int64_t n : {100, 9000, 20'000}) {
      const Tensor x = random_tensor(DType::f32, {n}, 1);
      auto done = std::make_shared<std::promise<void>>();
      all.push_back(done->get_future());
      ends[r]->run(sum_of(x), in(x, r), [&, done, r, n](const std::vector<Tensor>&, const Error& error) {
        EXPECT_EQ(error.message(), "") << "rank " << r << ", " << n << " elements";
        {
          const std::lock_guard lock(mutex);
          if (r == 0) ended.push_back(fmt::format("{}", n));
        }
        done->set_value();
      });
    }
  }
  for (auto& one : all) one.get();
  EXPECT_THAT(ended, ElementsAre("100", "9000", "20000"));
}

// NCCL may still write to it until it has been told to end.
TEST_F(Communicators, MemoryOfAnOperationThatCouldNotBeStartedIsKeptUntilTheAbort) {
  join_all(2);
  const Tensor x = random_tensor(DType::f32, {9000}, 1);
  nccl->break_network("unhandled system error");
  std::promise<std::size_t> aborts;
  ends[0]->run(sum_of(x), in(x, 0), [&](const std::vector<Tensor>&, const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("unhandled system error"));
    aborts.set_value(nccl->counts().aborts);
  });
  EXPECT_EQ(aborts.get_future().get(), 1u);
}

TEST_F(Communicators, WhoWaitsForARankThatDoesNotComeIsAborted) {
  make(3);
  join({0, 1}, 3);
  for (const std::uint32_t r : {0u, 1u}) ends[r]->abort(Error(Code::unavailable, "rank 2 was lost"));
  for (const std::uint32_t r : {0u, 1u}) {
    SCOPED_TRACE(::testing::Message() << "rank " << r);
    EXPECT_EQ(joined[r].get().message(), "rank 2 was lost");
    EXPECT_EQ(run(r, {.kind = CollectiveKind::all_gather, .dtype = DType::f32, .shape = {1}},
                  in(Tensor::vector<float>({1}), r))
                  .get()
                  .second.message(),
              "rank 2 was lost");
  }
}

TEST_F(Communicators, AnOperationThatDoesNotEndIsAborted) {
  join_all(2);
  nccl->hold(true);
  const Tensor x = random_tensor(DType::f32, {9000}, 1);
  auto zero = run(0, sum_of(x), in(x, 0)), one = run(1, sum_of(x), in(x, 1)), behind = run(0, sum_of(x), in(x, 0));
  for (const auto& [which, running] : {std::pair("zero", &zero), {"one", &one}, {"behind", &behind}})
    EXPECT_EQ(running->wait_for(std::chrono::seconds(0)), std::future_status::timeout) << which;
  ends[0]->abort(Error(Code::unavailable, "rank 1 was lost"));
  for (const auto& [which, running] : {std::pair("zero", &zero), {"behind", &behind}})
    EXPECT_EQ(running->get().second.message(), "rank 1 was lost") << which;
  EXPECT_EQ(one.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << "nobody has told it";
  ends[1]->abort(Error(Code::cancelled, "enough"));
  EXPECT_EQ(one.get().second.message(), "enough");
  EXPECT_EQ(ends[0]->failure().message(), "rank 1 was lost");
}

TEST_F(Communicators, AnErrorThatShowsLaterEndsWhatRuns) {
  join_all(2);
  nccl->hold(true);
  const Tensor x = random_tensor(DType::f32, {100}, 1);
  auto zero = run(0, sum_of(x, Reduction::sum, "gradient"), in(x, 0));
  nccl->break_network("remote process exited or there was a network error");
  EXPECT_THAT(zero.get().second.message(),
              AllOf(HasSubstr("/job:test/task:0/device:GPU:0"), HasSubstr("there was a network error")));
}

// What is loaded at its first use may wait for all that runs, which may be an operation that waits for this rank.
TEST_F(Communicators, WhatAddsUpIsLoadedBeforeAnythingWaitsForOthers) {
  make(2);
  join({0}, 2);
  ends[0]->abort(Error(Code::cancelled, "enough"));
  joined[0].get();
  EXPECT_EQ(sums_loaded, 1);
}

TEST_F(Communicators, WhatDoesNotFitIsRefusedInWords) {
  join_all(2);
  const Tensor x = random_tensor(DType::f32, {100}, 1);
  CollectiveSpec other = sum_of(x);
  other.shape = Shape{99};
  EXPECT_THAT(run(0, other, in(x, 0)).get().second.message(),
              AllOf(HasSubstr("all_reduce sum of f32[99] 'x'"), HasSubstr("got f32[100]")));
  EXPECT_THAT(run(1, sum_of(x), x).get().second.message(), HasSubstr("not in the memory of this device"));
}

TEST_F(Communicators, ALostDeviceSaysSo) {
  join_all(2);
  const Tensor x = random_tensor(DType::f32, {9000}, 1);
  const Tensor there = in(x, 0);
  cuda->lose();
  EXPECT_THAT(run(0, sum_of(x), there).get().second.message(), HasSubstr("illegal memory access"));
  EXPECT_THAT(devices[0]->failure().message(), HasSubstr("is lost"));
}

TEST_F(Communicators, WhoHasLeftGivesNothingMore) {
  join_all(2);
  const Tensor x = random_tensor(DType::f32, {100}, 1);
  run_all(sum_of(x), {x, x});
  for (const auto& end : ends) end->leave();
  EXPECT_THAT(run(0, sum_of(x), in(x, 0)).get().second.message(), HasSubstr("has left the communicator"));
  devices.clear();
  EXPECT_EQ(nccl->counts().destroys, 2u);
  EXPECT_EQ(nccl->counts().aborts, 0u);
}

TEST_F(Communicators, DevicesEndThoughTheirCommunicatorsWereNotLeft) {
  join_all(2);
  nccl->hold(true);
  const Tensor x = random_tensor(DType::f32, {100}, 1);
  auto zero = run(0, sum_of(x), in(x, 0));
  devices.clear();
  EXPECT_THAT(zero.get().second.message(), HasSubstr("shutting down"));
  EXPECT_EQ(nccl->counts().aborts, 2u);
}

TEST_F(Communicators, MemoryGoesBack) {
  join_all(2);
  const Tensor x = random_tensor(DType::f32, {100'000}, 1);
  for (int i = 0; i < 3; ++i) run_all(sum_of(x), {x, x});
  const std::size_t after = cuda->bytes_allocated();
  for (int i = 0; i < 20; ++i) {
    run_all(sum_of(x), {x, x});
    for (const auto& device : devices) device->compute().record();  // the point from which on it is free
  }
  EXPECT_LE(cuda->bytes_allocated(), 3 * after);
}

TEST_F(Communicators, DevicesSayWhatTheyAre) {
  make(2);
  EXPECT_EQ(devices[0]->communicators()->description(), "NCCL 1.2.3");
  EXPECT_NE(devices[0]->communicators()->identity(), devices[1]->communicators()->identity());
  nccl->remove(true);
  EXPECT_THROW(devices[0]->communicators()->description(), Error);
  const auto fast = make_cuda_device(cuda, 0, {.name = DeviceName::of({"test", 0}, "GPU", 0), .deterministic = false},
                                     no_label, {.nccl = nccl});
  nccl->remove(false);
  EXPECT_EQ(fast->communicators()->description(), "NCCL 1.2.3, in any order");
  const auto off = make_cuda_device(cuda, 0, {.name = DeviceName::of({"test", 0}, "GPU", 0), .no_nccl = "it must not"},
                                    no_label, {.nccl = nccl});
  EXPECT_THROW(off->communicators()->description(), Error);
  const auto without = make_cuda_device(cuda, 0, {.name = DeviceName::of({"test", 0}, "GPU", 0)}, no_label);
  EXPECT_EQ(without->communicators(), nullptr);
}

}  // namespace
}  // namespace troupe::testing
