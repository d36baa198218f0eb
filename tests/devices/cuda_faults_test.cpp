// What kernels find in their data becomes the error of the work that they were launched for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/devices/cuda_device_testing.hpp"

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

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
  for (std::size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(awaited(events[i])->error().message(), i == 1 || i == 4 ? kNoRow : "") << i;
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
    SCOPED_TRACE(::testing::Message() << "copy " << (&copy - after.data()));
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
  const auto looks = [&] {
    driver_->launch(device_->stream(), [&, word = device_->fault()] { seen.push_back(word->site != 0); });
  };
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

TEST_F(CudaFaultsTest, WorkFailsIfThereIsNoMemoryToSeeWhatItFoundAndTheDeviceGoesOn) {
  driver_->refuse_pinned(true);
  const auto event = launching([&] {
    looking_kernel(false);
    return device_->compute().record();
  });
  EXPECT_THAT(awaited(event)->error().message(), HasSubstr("out of memory"));
  EXPECT_FALSE(device_->failure());
  driver_->refuse_pinned(false);
  EXPECT_FALSE(awaited(launching([&] {
                 looking_kernel(false);
                 return device_->compute().record();
               }))->error());
}

TEST_F(CudaFaultsTest, WorkThatLooksAtNoDataCostsNoCopies) {
  launching([&] { looking_kernel(false); });
  awaited(launching([&] { return device_->compute().record(); }));
  EXPECT_EQ(driver_->copies(), 1u);
  for (int i = 0; i < 5; ++i) awaited(launching([&] { return device_->compute().record(); }));
  EXPECT_EQ(driver_->copies(), 1u);
}

}  // namespace
}  // namespace troupe::testing
