// The device of GPUs on a driver that only simulates them: order, memory, errors. That CUDA does what the simulation does is for machines with a GPU.
#include "devices/cuda/cuda_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "devices/cuda/cuda_events.hpp"
#include "tests/devices/simulated_cuda.hpp"

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kCompute = 0, kToHost = 1, kFromHost = 2;

AllocationLabel label() { return {.op = "MatMul", .node = "dense/matmul"}; }

class CudaDeviceTest : public ::testing::Test {
 protected:
  ~CudaDeviceTest() override {
    for (std::size_t i = 0; i < 3; ++i) driver_->hold(driver_->stream(i), false);
  }
  static Tensor ramp(std::int64_t count, float first = 0) {
    Tensor t(DType::f32, Shape{count});
    for (float& v : t.mutable_values<float>()) v = first++;
    return t;
  }
  // Runs `work` on the device's launching thread, and waits for that.
  template <class Fn>
  auto launching(Fn work) {
    struct Run final : LocalWork {
      explicit Run(std::function<void()> f) : fn(std::move(f)) {}
      void run() override { fn(); }
      std::function<void()> fn;
    };
    std::packaged_task<std::invoke_result_t<Fn>()> task(std::move(work));
    auto future = task.get_future();
    device_->compute().enqueue(std::make_shared<Run>([&task] { task(); }));
    return future.get();
  }
  Tensor in(const Tensor& t, CudaDevice& device) {
    std::promise<Tensor> there;
    device.copy_in(t, [&](Tensor copy, Error error) {
      EXPECT_FALSE(error) << error.message();
      there.set_value(std::move(copy));
    });
    return there.get_future().get();
  }
  Tensor in(const Tensor& t) { return in(t, *device_); }
  static std::future<Tensor> out_later(const Tensor& t, CudaDevice& device) {
    auto there = std::make_shared<std::promise<Tensor>>();
    auto future = there->get_future();
    device.copy_to_host(t, [there](Tensor copy, Error error) {
      if (error)
        there->set_exception(std::make_exception_ptr(error));
      else
        there->set_value(std::move(copy));
    });
    return future;
  }
  Tensor out(const Tensor& t) { return out_later(t, *device_).get(); }
  // y = x, by a kernel.
  void copy_kernel(const Tensor& x, Tensor& y) {
    driver_->launch(device_->stream(), [from = x.raw(), to = y.mutable_raw(), bytes = x.num_bytes()] { std::memcpy(to, from, bytes); });
  }

  std::shared_ptr<SimulatedCuda> driver_ = std::make_shared<SimulatedCuda>(2, std::size_t{64} << 20);
  std::unique_ptr<CudaDevice> device_ = make_cuda_device(driver_, 0, {.name = DeviceName::parse("/job:test/task:0/device:GPU:0")}, label);
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  EXPECT_EQ(device_->attributes().type, "GPU");
  EXPECT_EQ(device_->attributes().memory_bytes, std::uint64_t{64} << 20);
  EXPECT_FALSE(device_->attributes().synchronous);
  EXPECT_EQ(device_->properties().name, "Simulated 0");
  EXPECT_EQ(device_->allocator().space(), (MemorySpace{MemorySpace::Kind::cuda, 0}));
}

TEST_F(CudaDeviceTest, TensorsGoThereAndBack) {
  for (std::int64_t count : {0, 1, 17, 100000}) {
    const Tensor there = in(ramp(count));
    EXPECT_EQ(there.space(), device_->allocator().space());
    const Tensor back = out(there);
    EXPECT_TRUE(bitwise_equal(back, ramp(count))) << count;
    EXPECT_TRUE(back.space().on_host());
  }
}

TEST_F(CudaDeviceTest, WhatIsThereAlreadyStays) {
  const Tensor there = in(ramp(4));
  EXPECT_EQ(in(there).raw(), there.raw());
  EXPECT_EQ(launching([&] { return device_->upload(there); }).raw(), there.raw());
  const Tensor host = ramp(4);
  EXPECT_EQ(out(host).raw(), host.raw());
}

TEST_F(CudaDeviceTest, AStringIsRefused) {
  std::promise<Error> refused;
  device_->copy_in(Tensor::scalar<std::string>("a"), [&](Tensor, Error error) { refused.set_value(std::move(error)); });
  EXPECT_THAT(refused.get_future().get().message(), HasSubstr("strings cannot be on"));
}

TEST_F(CudaDeviceTest, ACopyToTheHostComesAfterTheKernelsBeforeIt) {
  driver_->hold(driver_->stream(kCompute), true);
  const Tensor x = in(ramp(1000, 5));
  Tensor y = device_->allocator().tensor(DType::f32, Shape{1000});
  copy_kernel(x, y);
  auto copied = out_later(y, *device_);
  driver_->hold(driver_->stream(kCompute), false);
  EXPECT_TRUE(bitwise_equal(copied.get(), ramp(1000, 5)));
}

TEST_F(CudaDeviceTest, KernelsAfterAnUploadSeeIt) {
  for (const std::int64_t n : {1000, 100'000}) {
    driver_->hold(driver_->stream(kFromHost), true);
    const Tensor x = launching([&] { return device_->upload(ramp(n, 7)); });
    Tensor y = device_->allocator().tensor(DType::f32, Shape{n});
    copy_kernel(x, y);
    auto copied = out_later(y, *device_);
    driver_->hold(driver_->stream(kFromHost), false);
    EXPECT_TRUE(bitwise_equal(copied.get(), ramp(n, 7)));
  }
}

TEST_F(CudaDeviceTest, ASmallUploadDoesNotWaitForTensorsOnTheirWay) {
  driver_->hold(driver_->stream(kFromHost), true);
  std::promise<void> arrived;
  device_->copy_in(ramp(100'000), [&](Tensor, Error) { arrived.set_value(); });
  const Tensor x = launching([&] { return device_->upload(ramp(1000, 7)); });
  EXPECT_TRUE(bitwise_equal(launching([&] { return device_->read(x); }), ramp(1000, 7)));
  driver_->hold(driver_->stream(kFromHost), false);
  arrived.get_future().get();
}

// The next one must not be written over what the first reads from, while the stream has not got there.
TEST_F(CudaDeviceTest, SmallUploadsUnderWayKeepWhatTheyReadFrom) {
  driver_->hold(driver_->stream(kCompute), true);
  const auto [first, second] = launching([&] { return std::pair(device_->upload(ramp(1000, 1)), device_->upload(ramp(1000, 2))); });
  driver_->hold(driver_->stream(kCompute), false);
  EXPECT_TRUE(bitwise_equal(out(first), ramp(1000, 1)));
  EXPECT_TRUE(bitwise_equal(out(second), ramp(1000, 2)));
}

// A tensor that was uploaded, and is let go while the kernel that reads it waits: the next upload must not take its memory.
TEST_F(CudaDeviceTest, AnUploadDoesNotOverwriteWhatKernelsHaveYetToRead) {
  driver_->hold(driver_->stream(kCompute), true);
  Tensor y = device_->allocator().tensor(DType::f32, Shape{1000});
  Tensor x = in(ramp(1000, 1));
  copy_kernel(x, y);
  x = Tensor();
  const Tensor next = in(ramp(1000, 2));
  auto copied = out_later(y, *device_);
  driver_->hold(driver_->stream(kCompute), false);
  EXPECT_TRUE(bitwise_equal(copied.get(), ramp(1000, 1)));
}

// What is not pinned is copied to memory that is, which the next upload must not get before the GPU has read it.
TEST_F(CudaDeviceTest, UploadsUnderWayKeepWhatTheyReadFrom) {
  driver_->hold(driver_->stream(kFromHost), true);
  const auto [first, second] = launching([&] { return std::pair(device_->upload(ramp(100'000, 1)), device_->upload(ramp(100'000, 2))); });
  driver_->hold(driver_->stream(kFromHost), false);
  EXPECT_TRUE(bitwise_equal(out(first), ramp(100'000, 1)));
  EXPECT_TRUE(bitwise_equal(out(second), ramp(100'000, 2)));
}

TEST_F(CudaDeviceTest, MemoryOfCopiesIsUsedAgainOnceTheStreamHasGotPast) {
  const auto reached = [&] {
    std::promise<void> there;
    device_->compute().record()->on_reached([&] { there.set_value(); });
    there.get_future().get();
  };
  const void* first = nullptr;
  {
    const Tensor x = in(ramp(1000));
    first = x.raw();
  }
  reached();
  EXPECT_EQ(in(ramp(1000)).raw(), first);
  const std::size_t before = driver_->bytes_allocated();
  for (int i = 0; i < 100; ++i) {
    in(ramp(1000));
    reached();
  }
  EXPECT_LE(driver_->bytes_allocated(), before + 4096);
}

TEST_F(CudaDeviceTest, MemoryOfCopiesComesBackThoughNoWorkComes) {
  for (int i = 0; i < 2000; ++i) {  // 125 MiB of a GPU that has 64
    in(ramp(16 << 10));
    launching([] {});
    driver_->synchronize();
  }
  EXPECT_LE(driver_->bytes_allocated(), std::size_t{40} << 20);
}

TEST_F(CudaDeviceTest, WhatIsKeptForResultsServesCopiesAndTheOtherWayRound) {
  device_->allocator().tensor(DType::f32, Shape{10, 1 << 20});  // 40 of 64 MiB, kept
  in(ramp(10 << 20));
  std::promise<void> reached;
  device_->compute().record()->on_reached([&] { reached.set_value(); });
  reached.get_future().get();
  EXPECT_NO_THROW(device_->allocator().tensor(DType::f32, Shape{10, 1 << 20}));
}

TEST_F(CudaDeviceTest, TheLimitIsOfResultsAndCopiesTogether) {
  const auto device = make_cuda_device(driver_, 1, {.name = DeviceName::parse("/job:test/task:0/device:GPU:1"), .memory_limit = std::uint64_t{32} << 20}, label);
  const Tensor held = in(ramp(4 << 20), *device);  // 16 MiB
  const Tensor fits = device->allocator().tensor(DType::f32, Shape{2 << 20});
  try {
    device->allocator().tensor(DType::f32, Shape{5 << 20});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    EXPECT_THAT(error.message(), HasSubstr("the limit is 32.00 MiB"));
  }
}

TEST_F(CudaDeviceTest, ReadWaitsForTheStream) {
  driver_->hold(driver_->stream(kCompute), true);
  const Tensor x = in(ramp(10, 3));
  Tensor y = device_->allocator().tensor(DType::f32, Shape{10});
  copy_kernel(x, y);
  auto value = std::async(std::launch::async, [&] { return launching([&] { return device_->read(y); }); });
  driver_->hold(driver_->stream(kCompute), false);
  EXPECT_TRUE(bitwise_equal(value.get(), ramp(10, 3)));
}

TEST_F(CudaDeviceTest, EventsAreReachedInOrder) {
  driver_->hold(driver_->stream(kCompute), true);
  std::promise<void> last;
  std::mutex mutex;
  std::vector<int> order;
  for (int i = 0; i < 20; ++i)
    device_->compute().record()->on_reached([&, i] {
      const std::lock_guard lock(mutex);
      order.push_back(i);
      if (i == 19) last.set_value();
    });
  EXPECT_TRUE(order.empty());
  driver_->hold(driver_->stream(kCompute), false);
  last.get_future().get();
  std::vector<int> expected(20);
  for (int i = 0; i < 20; ++i) expected[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(order, expected);
}

TEST_F(CudaDeviceTest, EventsAreUsedAgain) {
  for (int i = 0; i < 200; ++i) out(in(ramp(10)));
  EXPECT_LE(driver_->events_made(), 8u);
}

TEST_F(CudaDeviceTest, OutOfMemoryNamesTheLargestTensors) {
  Allocator& memory = device_->allocator();
  const Tensor large = memory.tensor(DType::f32, Shape{10, 1 << 20});
  try {
    memory.tensor(DType::f32, Shape{20, 1 << 20});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    EXPECT_THAT(error.message(), HasSubstr("f32[10,1048576], 40.00 MiB, of MatMul 'dense/matmul'"));
  }
}

TEST_F(CudaDeviceTest, CachedMemoryIsGivenBackBeforeItIsShort) {
  Allocator& memory = device_->allocator();
  memory.tensor(DType::f32, Shape{10, 1 << 20});  // 40 of 64 MiB, kept
  EXPECT_GT(memory.stats().cached_bytes, 0u);
  EXPECT_NO_THROW(memory.tensor(DType::f32, Shape{12, 1 << 20}));
}

TEST_F(CudaDeviceTest, AGpuThatIsLostSaysSoAndNothingHangs) {
  const Tensor x = in(ramp(100));
  driver_->lose();
  std::promise<void> reached;
  device_->compute().record()->on_reached([&] { reached.set_value(); });
  reached.get_future().get();
  EXPECT_THAT(device_->failure().message(), HasSubstr("/job:test/task:0/device:GPU:0 is lost: cudaSimulated: an illegal memory access"));
  EXPECT_THROW(out(x), Error);
  EXPECT_THROW(launching([&] { return device_->upload(ramp(3)); }), Error);
  EXPECT_THROW(launching([&] { return device_->read(x); }), Error);
  device_->shutdown();
}

TEST_F(CudaDeviceTest, ACopyUnderWayWhenTheGpuIsLostFails) {
  const Tensor x = in(ramp(100));
  driver_->hold(driver_->stream(kToHost), true);
  auto copied = out_later(x, *device_);
  driver_->lose();
  driver_->hold(driver_->stream(kToHost), false);
  EXPECT_THROW(copied.get(), Error);
  EXPECT_TRUE(device_->failure());
}

Error no_row(const CudaFault& fault) {
  return {Code::invalid_argument, fmt::format("index {} (element {}) is not in [0, {})", fault.value, fault.element, fault.bound)};
}
constexpr const char* kNoRow = "MatMul 'dense/matmul' on /job:test/task:0/device:GPU:0: index 12 (element 3) is not in [0, 10)";

class CudaFaultsTest : public CudaDeviceTest {
 protected:
  // A kernel that looks at its data, and finds something or not. On the launching thread.
  void looking_kernel(bool finds) {
    driver_->launch(device_->stream(), [site = device_->fault_site(no_row), finds] {
      if (finds && site.fault->site == 0) *site.fault = {.site = site.site, .value = 12, .element = 3, .bound = 10};
    });
  }
  static std::shared_ptr<Event> awaited(std::shared_ptr<Event> event) {
    std::promise<void> there;
    event->on_reached([&] { there.set_value(); });
    there.get_future().get();
    return event;
  }
};

// Many steps are launched before the first has run.
TEST_F(CudaFaultsTest, AFaultBelongsToTheWorkThatHadIt) {
  driver_->hold(driver_->stream(kCompute), true);
  const auto events = launching([&] {
    std::vector<std::shared_ptr<Event>> made;
    for (int i = 0; i < 6; ++i) {
      looking_kernel(i == 1 || i == 4);
      made.push_back(device_->compute().record());
    }
    return made;
  });
  driver_->hold(driver_->stream(kCompute), false);
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(awaited(events[i])->error().message(), i == 1 || i == 4 ? kNoRow : "") << i;
  EXPECT_EQ(events[1]->error().code(), Code::invalid_argument);
}

TEST_F(CudaFaultsTest, WhatIsMadeOfBadDataDoesNotLeave) {
  Tensor y = in(ramp(10));
  std::vector<std::future<Tensor>> before, after, next;
  std::promise<Error> handed_before, handed_after;
  driver_->hold(driver_->stream(kCompute), true);
  launching([&] {
    looking_kernel(false);
    before.push_back(out_later(y, *device_));
    device_->hand_over(y, [&](Tensor, Error error) { handed_before.set_value(std::move(error)); });
    looking_kernel(true);
    for (int i = 0; i < 2; ++i) after.push_back(out_later(y, *device_));
    device_->hand_over(y, [&](Tensor t, Error error) {
      EXPECT_FALSE(t.valid());
      handed_after.set_value(std::move(error));
    });
    device_->compute().record();
    looking_kernel(false);
    next.push_back(out_later(y, *device_));
  });
  driver_->hold(driver_->stream(kCompute), false);
  EXPECT_TRUE(bitwise_equal(before[0].get(), ramp(10)));
  EXPECT_FALSE(handed_before.get_future().get());
  for (auto& copy : after) {
    try {
      copy.get();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), kNoRow);
    }
  }
  EXPECT_EQ(handed_after.get_future().get().message(), kNoRow);
  EXPECT_TRUE(bitwise_equal(next[0].get(), ramp(10)));
}

TEST_F(CudaFaultsTest, AValueThatIsReadIsNotMadeOfBadData) {
  const Tensor y = in(ramp(10));
  EXPECT_THROW(launching([&] {
                 looking_kernel(true);
                 return device_->read(y);
               }),
               Error);
  const auto end = launching([&] { return device_->compute().record(); });
  EXPECT_EQ(awaited(end)->error().message(), kNoRow);
  EXPECT_TRUE(bitwise_equal(launching([&] { return device_->read(y); }), ramp(10)));
}

// Kernels that change variables see it on the GPU itself.
TEST_F(CudaFaultsTest, KernelsAfterAFaultSeeItUntilTheWorkEnds) {
  std::vector<bool> seen;
  const auto looks = [&] { driver_->launch(device_->stream(), [&, word = device_->fault()] { seen.push_back(word->site != 0); }); };
  const auto end = launching([&] {
    looks();
    looking_kernel(true);
    looks();
    device_->compute().record();
    looks();
    return device_->compute().record();
  });
  awaited(end);
  EXPECT_EQ(seen, (std::vector<bool>{false, true, false}));
}

TEST_F(CudaFaultsTest, WorkThatLooksAtNoDataCostsNoCopies) {
  launching([&] { looking_kernel(false); });
  awaited(launching([&] { return device_->compute().record(); }));
  EXPECT_EQ(driver_->copies(), 1u);
  for (int i = 0; i < 5; ++i) awaited(launching([&] { return device_->compute().record(); }));
  EXPECT_EQ(driver_->copies(), 1u);
}

class CudaRecorderTest : public CudaFaultsTest {};

TEST_F(CudaRecorderTest, WhatIsRecordedRunsWhenItIsLaunched) {
  const Tensor x = in(ramp(100, 1)), other = in(ramp(100, 50));
  const auto recorder = launching([&] { return std::shared_ptr<WorkRecorder>(device_->make_recorder()); });
  Tensor inside, outside;
  const auto recording = launching([&] {
    inside = recorder->memory().tensor(DType::f32, Shape{100});
    outside = device_->allocator().tensor(DType::f32, Shape{100});
    driver_->launch(device_->stream(), [to = outside.mutable_raw()] { std::memset(to, 0, 400); });
    recorder->begin();
    Tensor between = device_->allocator().tensor(DType::f32, Shape{100});
    copy_kernel(inside, between);
    copy_kernel(between, outside);
    return recorder->end();
  });
  EXPECT_TRUE(bitwise_equal(out(outside), Tensor::zeros(DType::f32, Shape{100})));
  for (const Tensor& fed : {x, other}) {
    launching([&] {
      recorder->copy(fed, inside);
      recording->launch({});
    });
    EXPECT_TRUE(bitwise_equal(out(outside), out(fed)));
  }
  EXPECT_EQ(device_->recording_stats().recordings, 1u);
  EXPECT_EQ(device_->recording_stats().launches, 2u);
  EXPECT_EQ(driver_->graphs_launched(), 2u);
}

// Memory of a recording is nobody else's, until the recording and its recorder are gone.
TEST_F(CudaRecorderTest, MemoryStaysReserved) {
  auto recorder = launching([&] { return std::shared_ptr<WorkRecorder>(device_->make_recorder()); });
  const void* where = nullptr;
  auto recording = launching([&] {
    recorder->begin();
    Tensor y = device_->allocator().tensor(DType::f32, Shape{100});
    where = y.raw();
    copy_kernel(y, y);
    return recorder->end();
  });
  const auto new_memory = [&] { return launching([&] { return static_cast<const void*>(device_->allocator().tensor(DType::f32, Shape{100}).raw()); }); };
  EXPECT_NE(new_memory(), where);
  recorder.reset();
  EXPECT_NE(new_memory(), where);
  const std::uint64_t in_use = device_->allocator().stats().bytes_in_use;
  recording.reset();
  EXPECT_LT(device_->allocator().stats().bytes_in_use, in_use);
  EXPECT_EQ(driver_->graphs_alive(), 0u);
}

TEST_F(CudaRecorderTest, OtherStreamsGoOnWhileKernelsAreRecorded) {
  const Tensor x = in(ramp(100, 3));
  const auto recorder = launching([&] { return std::shared_ptr<WorkRecorder>(device_->make_recorder()); });
  launching([&] { recorder->begin(); });
  EXPECT_TRUE(bitwise_equal(out(x), ramp(100, 3)));
  EXPECT_TRUE(bitwise_equal(out(in(ramp(10, 4))), ramp(10, 4)));
  awaited(device_->compute().record());
  launching([&] { recorder->end(); });
}

TEST_F(CudaRecorderTest, AnUploadWhileKernelsAreRecordedStaysThere) {
  const auto recorder = launching([&] { return std::shared_ptr<WorkRecorder>(device_->make_recorder()); });
  Tensor y;
  const auto recording = launching([&] {
    y = device_->allocator().tensor(DType::f32, Shape{100});
    recorder->begin();
    const Tensor x = device_->upload(ramp(100, 8));
    copy_kernel(x, y);
    return recorder->end();
  });
  for (int i = 0; i < 3; ++i) {
    awaited(launching([&] { return device_->compute().record(); }));
    const Tensor taken = in(ramp(100, 77));
    launching([&] { recording->launch({}); });
    EXPECT_TRUE(bitwise_equal(out(y), ramp(100, 8)));
  }
}

TEST_F(CudaRecorderTest, AValueOnTheHostIsRefusedAndTheDeviceGoesOn) {
  const Tensor x = in(ramp(100, 3));
  const auto recorder = launching([&] { return std::shared_ptr<WorkRecorder>(device_->make_recorder()); });
  launching([&] {
    recorder->begin();
    EXPECT_THROW(device_->read(x), Error);
    EXPECT_THROW(device_->not_recorded("this"), Error);
    recorder->cancel();
    device_->not_recorded("this");
  });
  EXPECT_TRUE(bitwise_equal(launching([&] { return device_->read(x); }), ramp(100, 3)));
}

TEST_F(CudaRecorderTest, ACaptureThatFailsLeavesTheDeviceAsItWas) {
  const Tensor x = in(ramp(100, 3));
  Tensor y = device_->allocator().tensor(DType::f32, Shape{100});
  const auto recorder = launching([&] { return std::shared_ptr<WorkRecorder>(device_->make_recorder()); });
  driver_->fail_captures(1);
  launching([&] {
    recorder->begin();
    copy_kernel(x, y);
    EXPECT_THROW(recorder->end(), Error);
    copy_kernel(x, y);  // one by one
  });
  EXPECT_TRUE(bitwise_equal(out(y), ramp(100, 3)));
  EXPECT_FALSE(device_->failure());
  const auto recording = launching([&] {
    recorder->begin();
    copy_kernel(x, y);
    return recorder->end();
  });
  driver_->fail_graph_launches(1);
  launching([&] {
    EXPECT_THROW(recording->launch({}), Error);
    recording->launch({});
  });
  EXPECT_EQ(driver_->graphs_launched(), 1u);
}

TEST_F(CudaRecorderTest, RandomnessIsThatOfTheLaunch) {
  const auto recorder = launching([&] { return std::shared_ptr<WorkRecorder>(device_->make_recorder()); });
  EXPECT_EQ(launching([&] { return device_->recorded_random(); }), nullptr);
  std::vector<RandomKey> drawn;
  const auto recording = launching([&] {
    recorder->begin();
    driver_->launch(device_->stream(), [&drawn, key = device_->recorded_random()] { drawn.push_back(*key); });
    return recorder->end();
  });
  driver_->hold(driver_->stream(kCompute), true);
  launching([&] {
    for (std::uint32_t i = 0; i < 3; ++i) recording->launch({.seed = 1, .step = i, .slot = 10 + i});
  });
  const auto end = device_->compute().record();
  driver_->hold(driver_->stream(kCompute), false);
  awaited(end);
  EXPECT_EQ(drawn, (std::vector<RandomKey>{{1, 0, 10}, {1, 1, 11}, {1, 2, 12}}));
}

// The word that faults are left in is the same in each launch.
TEST_F(CudaRecorderTest, FaultsBelongToTheLaunchThatHadThem) {
  const auto recorder = launching([&] { return std::shared_ptr<WorkRecorder>(device_->make_recorder()); });
  bool bad = false;  // what the kernel looks at, when it runs
  const auto recording = launching([&] {
    recorder->begin();
    driver_->launch(device_->stream(), [&bad, site = device_->fault_site(no_row)] {
      if (bad) *site.fault = {.site = site.site, .value = 12, .element = 3, .bound = 10};
    });
    return recorder->end();
  });
  awaited(launching([&] { return device_->compute().record(); }));
  driver_->hold(driver_->stream(kCompute), true);
  std::vector<std::shared_ptr<Event>> events;
  for (int i = 0; i < 6; ++i)
    events.push_back(launching([&, i] {
      driver_->launch(device_->stream(), [&bad, i] { bad = i % 2 == 1; });
      recording->launch({});
      return device_->compute().record();
    }));
  driver_->hold(driver_->stream(kCompute), false);
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(awaited(events[i])->error().message(), i % 2 == 1 ? kNoRow : "") << i;
}

TEST_F(CudaRecorderTest, NothingIsRecordedIfThatIsSwitchedOff) {
  const auto device = make_cuda_device(driver_, 1, {.name = DeviceName::parse("/job:test/task:0/device:GPU:1"), .recordings = false}, label);
  EXPECT_EQ(device->make_recorder(), nullptr);
}

TEST_F(CudaDeviceTest, GpusHandTensorsToEachOther) {
  const auto other = make_cuda_device(driver_, 1, {.name = DeviceName::parse("/job:test/task:0/device:GPU:1")}, label);
  driver_->hold(driver_->stream(kCompute), true);
  const Tensor x = in(ramp(1000, 9));
  Tensor y = device_->allocator().tensor(DType::f32, Shape{1000});
  copy_kernel(x, y);
  std::promise<Tensor> handed;
  device_->hand_over(y, [&](Tensor same, Error) { handed.set_value(std::move(same)); });
  driver_->hold(driver_->stream(kCompute), false);
  const Tensor there = in(handed.get_future().get(), *other);
  EXPECT_EQ(there.space().ordinal, 1);
  EXPECT_EQ(driver_->peer_copies(), 1u);
  EXPECT_TRUE(bitwise_equal(out_later(there, *other).get(), ramp(1000, 9)));
}

TEST_F(CudaDeviceTest, WorkThatHasNotBegunIsDroppedAtShutdownAndEventsStillEnd) {
  std::promise<Tensor> copied;
  const Tensor x = in(ramp(10));
  device_->copy_to_host(x, [&](Tensor copy, Error) { copied.set_value(std::move(copy)); });
  device_->shutdown();
  EXPECT_TRUE(bitwise_equal(copied.get_future().get(), ramp(10)));
  device_->shutdown();
}

TEST_F(CudaDeviceTest, KeepsWhatKernelsWantKept) {
  struct Kept {
    explicit Kept(CudaDevice& device) : ordinal(device.ordinal()) {}
    int ordinal;
    int uses = 0;
  };
  EXPECT_EQ(++device_->state<Kept>().uses, 1);
  EXPECT_EQ(++device_->state<Kept>().uses, 2);
  EXPECT_EQ(device_->state<Kept>().ordinal, 0);
}

}  // namespace
}  // namespace troupe::testing
