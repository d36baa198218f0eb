// What tests of the device of GPUs begin with: two simulated GPUs, and the device of the first.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <memory>
#include <utility>

#include "tests/devices/simulated_cuda.hpp"
#include <troupe/devices/cuda/cuda_device.hpp>
#include <troupe/devices/cuda/cuda_events.hpp>

namespace troupe::testing {

// The streams of the first device.
constexpr std::size_t kCompute = 0, kToHost = 1, kFromHost = 2;

inline AllocationLabel kernel_label() { return {.op = "MatMul", .node = "dense/matmul"}; }

class CudaDeviceTest : public ::testing::Test {
 protected:
  ~CudaDeviceTest() override {
    for (std::size_t i = 0; i < 4; ++i) driver_->hold(driver_->stream(i), false);
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
  static std::shared_ptr<Event> awaited(std::shared_ptr<Event> event) {
    std::promise<void> there;
    event->on_reached([&] { there.set_value(); });
    there.get_future().get();
    return event;
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
    driver_->launch(device_->stream(),
                    [from = x.raw(), to = y.mutable_raw(), bytes = x.num_bytes()] { std::memcpy(to, from, bytes); });
  }

  std::shared_ptr<SimulatedCuda> driver_ = std::make_shared<SimulatedCuda>(2, std::size_t{64} << 20);
  std::unique_ptr<CudaDevice> device_ =
      make_cuda_device(driver_, 0, {.name = DeviceName::parse("/job:test/task:0/device:GPU:0")}, kernel_label);
};

inline Error no_row(const CudaFault& fault) {
  return {Code::invalid_argument,
          fmt::format("index {} (element {}) is not in [0, {})", fault.value, fault.element, fault.bound)};
}
inline constexpr const char* kNoRow =
    "MatMul 'dense/matmul' on /job:test/task:0/device:GPU:0: index 12 (element 3) is not in [0, 10)";

// The same, with kernels that look at their data.
class CudaFaultsTest : public CudaDeviceTest {
 protected:
  // A kernel that looks at its data, and finds something or not. On the launching thread.
  void looking_kernel(bool finds) {
    driver_->launch(device_->stream(), [site = device_->fault_site(no_row), finds] {
      if (finds && site.fault->site == 0) *site.fault = {.site = site.site, .value = 12, .element = 3, .bound = 10};
    });
  }
};

}  // namespace troupe::testing
