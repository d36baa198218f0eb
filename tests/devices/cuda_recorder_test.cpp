// Work of a GPU that is recorded once and launched again.
#include <gtest/gtest.h>

#include "tests/devices/cuda_device_testing.hpp"

namespace troupe::testing {
namespace {

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
    EXPECT_TRUE(bitwise_equal(out(outside), out(fed))) << fed.to_string();
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
  const auto new_memory = [&] {
    return launching(
        [&] { return static_cast<const void*>(device_->allocator().tensor(DType::f32, Shape{100}).raw()); });
  };
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
    EXPECT_TRUE(bitwise_equal(out(y), ramp(100, 8))) << "launch " << i;
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

TEST_F(CudaRecorderTest, WhatRecordedKernelsUseLivesAsLongAsTheRecording) {
  auto recorder = launching([&] { return std::shared_ptr<WorkRecorder>(device_->make_recorder()); });
  auto plan = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = plan;
  auto recording = launching([&] {
    recorder->begin();
    device_->keep(std::exchange(plan, nullptr));
    driver_->launch(device_->stream(), [] {});
    return recorder->end();
  });
  recorder.reset();
  for (int i = 0; i < 2; ++i) {
    launching([&] { recording->launch({}); });
    awaited(launching([&] { return device_->compute().record(); }));
    EXPECT_FALSE(seen.expired()) << "launch " << i;
  }
  driver_->hold(driver_->stream(kCompute), true);
  const auto end = launching([&] {
    recording->launch({});
    recording.reset();
    return device_->compute().record();
  });
  EXPECT_FALSE(seen.expired());
  driver_->hold(driver_->stream(kCompute), false);
  awaited(end);
  EXPECT_TRUE(seen.expired());
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
  for (std::size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(awaited(events[i])->error().message(), i % 2 == 1 ? kNoRow : "") << i;
}

TEST_F(CudaRecorderTest, NothingIsRecordedIfThatIsSwitchedOff) {
  const auto device = make_cuda_device(
      driver_, 1, {.name = DeviceName::parse("/job:test/task:0/device:GPU:1"), .recordings = false}, kernel_label);
  EXPECT_EQ(device->make_recorder(), nullptr);
}

}  // namespace
}  // namespace troupe::testing
