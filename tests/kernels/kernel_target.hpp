// What the tests of kernels are about: each of their programs answers with another device, and has the same tests.
//   test_kernels           the CPU
//   test_emulated_kernels  the GPU's kernels on the host (emulated_cuda)
//   test_gpu_kernels       the GPU of this machine; without one its tests are skipped
//   test_eager_kernels     the CPU, each kernel also called in eager mode (tests/actors/eager/eager_target.cpp)
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/devices/kernel.hpp>

namespace troupe::testing {

struct KernelCall;

struct KernelTarget {
  std::string type;      // of its devices: "CPU", "GPU"
  std::string why_none;  // "": there is one
  std::function<std::shared_ptr<Device>(int threads)> device;
  std::function<void(KernelRegistry&)> register_kernels;
  // Runs the same call in another way, which must make the same bits; nullopt: it does not take it.
  std::function<std::optional<std::vector<Tensor>>(const KernelCall&)> again;
  std::function<void()> close;  // ends the device, before the libraries that it uses end with the process

  bool on_host() const { return type == "CPU"; }
};
const KernelTarget& kernel_target();

// The kernels of the target, and those of the CPU.
KernelRegistry all_kernels();
// A device of the target; null if there is none. One of a CPU has so many threads; a GPU is the same in each call.
std::shared_ptr<Device> test_device(int threads = 1);

// What of a test ran where, since the last call of start_counting(). A node whose op has no kernel on the target is
// placed on the CPU, as by soft placement.
struct Placed {
  int on_target = 0;
  std::string on_cpu;  // "MatMul:i32, Div:i32"
};
void start_counting();
const Placed& counted();
void count_placed(const std::string& kernel, bool on_target);

}  // namespace troupe::testing

// At the beginning of a test that is about the CPU alone, and why.
#define TROUPE_CPU_ONLY(why) \
  if (!::troupe::testing::kernel_target().on_host()) GTEST_SKIP() << "CPU only: " << why
