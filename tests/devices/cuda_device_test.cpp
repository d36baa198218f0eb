// The device of GPUs on a driver that only simulates them: order, memory, loss. That CUDA does what the simulation does
// is for machines with a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/devices/cuda_device_testing.hpp"
#include <troupe/devices/cuda/cuda_device.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

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
    EXPECT_EQ(there.space(), device_->allocator().space()) << count;
    const Tensor back = out(there);
    EXPECT_TRUE(bitwise_equal(back, ramp(count))) << count;
    EXPECT_TRUE(back.space().on_host()) << count;
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
  EXPECT_THAT(refused.get_future().get().message(), HasSubstr("string tensors cannot be copied to"));
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
    EXPECT_TRUE(bitwise_equal(copied.get(), ramp(n, 7))) << n;
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
  const auto [first, second] =
      launching([&] { return std::pair(device_->upload(ramp(1000, 1)), device_->upload(ramp(1000, 2))); });
  driver_->hold(driver_->stream(kCompute), false);
  EXPECT_TRUE(bitwise_equal(out(first), ramp(1000, 1)));
  EXPECT_TRUE(bitwise_equal(out(second), ramp(1000, 2)));
}

// A tensor that was uploaded, and is let go while the kernel that reads it waits: the next upload must not take its
// memory.
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
  const auto [first, second] =
      launching([&] { return std::pair(device_->upload(ramp(100'000, 1)), device_->upload(ramp(100'000, 2))); });
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
  const auto device = make_cuda_device(
      driver_, 1, {.name = DeviceName::parse("/job:test/task:0/device:GPU:1"), .memory_limit = std::uint64_t{32} << 20},
      kernel_label);
  const Tensor held = in(ramp(4 << 20), *device);  // 16 MiB
  const Tensor fits = device->allocator().tensor(DType::f32, Shape{2 << 20});
  try {
    device->allocator().tensor(DType::f32, Shape{5 << 20});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    EXPECT_THAT(error.message(), HasSubstr("8.00 MiB in use in 1 buffers, the limit is 32.00 MiB"));
    EXPECT_THAT(error.message(), HasSubstr("In addition: 16.00 MiB in 1 buffers (f32[4194304], 16.00 MiB, of MatMul "
                                           "'dense/matmul') of copies to this GPU"));
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
      {
        const std::lock_guard lock(mutex);
        order.push_back(i);
      }
      if (i == 19) last.set_value();  // then the test may end, and the mutex with it
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
  EXPECT_THAT(device_->failure().message(),
              HasSubstr("/job:test/task:0/device:GPU:0 is lost: cudaSimulated: an illegal memory access"));
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

TEST_F(CudaDeviceTest, GpusHandTensorsToEachOther) {
  const auto other =
      make_cuda_device(driver_, 1, {.name = DeviceName::parse("/job:test/task:0/device:GPU:1")}, kernel_label);
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

TEST_F(CudaDeviceTest, WhatAnotherGpuHandsOverDoesNotWaitForTheHost) {
  const auto other =
      make_cuda_device(driver_, 1, {.name = DeviceName::parse("/job:test/task:0/device:GPU:1")}, kernel_label);
  const Tensor x = in(ramp(1000, 9), *other);
  driver_->hold(driver_->stream(kFromHost), true);
  EXPECT_TRUE(bitwise_equal(out(in(x)), ramp(1000, 9)));
  EXPECT_EQ(driver_->peer_copies(), 1u);
}

TEST_F(CudaDeviceTest, WorkThatHasNotBegunIsDroppedAtShutdownAndEventsStillEnd) {
  std::promise<Tensor> copied;
  const Tensor x = in(ramp(10));
  device_->copy_to_host(x, [&](Tensor copy, Error) { copied.set_value(std::move(copy)); });
  device_->shutdown();
  EXPECT_TRUE(bitwise_equal(copied.get_future().get(), ramp(10)));
  device_->shutdown();
}

TEST_F(CudaDeviceTest, WhatKernelsUseLivesUntilTheyHaveRun) {
  auto plan = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = plan;
  driver_->hold(driver_->stream(kCompute), true);
  const auto end = launching([&] {
    device_->keep(std::exchange(plan, nullptr));
    return device_->compute().record();
  });
  EXPECT_FALSE(seen.expired());
  driver_->hold(driver_->stream(kCompute), false);
  awaited(end);
  EXPECT_TRUE(seen.expired());
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
