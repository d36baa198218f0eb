// The CPU.
#include "tests/kernels/kernel_target.hpp"
#include <troupe/devices/cpu/cpu_device.hpp>

namespace troupe::testing {

const KernelTarget& kernel_target() {
  static const KernelTarget target{
      .type = "CPU", .device = [](int threads) -> std::shared_ptr<Device> {
        return make_cpu_device({.name = DeviceName::parse("/job:test/task:0/device:CPU:0"), .threads = threads});
      }};
  return target;
}

}  // namespace troupe::testing
