#include "tests/kernels/kernel_target.hpp"

#include <troupe/kernels/kernels.hpp>

namespace troupe::testing {
namespace {

Placed placed;

}  // namespace

KernelRegistry all_kernels() {
  KernelRegistry registry;
  register_all_kernels(registry);
  if (kernel_target().register_kernels) kernel_target().register_kernels(registry);
  return registry;
}

std::shared_ptr<Device> test_device(int threads) {
  return kernel_target().why_none.empty() ? kernel_target().device(threads) : nullptr;
}

void start_counting() { placed = {}; }
const Placed& counted() { return placed; }
void count_placed(const std::string& kernel, bool on_target) {
  if (on_target)
    ++placed.on_target;
  else if (placed.on_cpu.find(kernel) == std::string::npos)
    placed.on_cpu += (placed.on_cpu.empty() ? "" : ", ") + kernel;
}

}  // namespace troupe::testing
