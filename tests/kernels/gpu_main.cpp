// The tests of kernels on a device that may be missing, and that does not have every kernel: tests are skipped by name,
// and say why. Exit code 77: there is no device.
#include <gtest/gtest.h>

#include "tests/kernels/kernel_target.hpp"

namespace troupe::testing {
namespace {

class Skips final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override {
    start_counting();
    if (!kernel_target().why_none.empty()) GTEST_SKIP() << kernel_target().why_none;
  }
  // A test that ran nothing on the device says nothing of it.
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (!test.result()->Passed() || counted().on_target > 0) return;
    GTEST_SKIP() << (counted().on_cpu.empty() ? "runs no kernel"
                                              : "without a kernel for GPUs, placed on the CPU: " + counted().on_cpu);
  }
};

}  // namespace
}  // namespace troupe::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::UnitTest::GetInstance()->listeners().Append(new troupe::testing::Skips);
  const int result = RUN_ALL_TESTS();
  if (const auto& close = troupe::testing::kernel_target().close) close();
  return result == 0 && !troupe::testing::kernel_target().why_none.empty() ? 77 : result;
}
