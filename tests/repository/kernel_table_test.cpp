#include "tests/repository/kernel_table.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/paths.hpp"
#include <troupe/devices/plugin.hpp>
#include <troupe/kernels/kernels.hpp>

namespace troupe::repository {
namespace {

KernelRegistry kernels_with(const std::string& library) {
  KernelRegistry kernels;
  register_all_kernels(kernels);
  const PluginResult gpu = open_cuda_plugin(library);
  if (!gpu.plugin) fail(Code::failed_precondition, "{}", gpu.why_not);
  gpu.plugin->register_kernels(kernels);
  return kernels;
}

TEST(KernelTable, IsCurrent) {
  std::stringstream file;
  file << std::ifstream(testing::source_file("KERNELS.md")).rdbuf();
  EXPECT_EQ(kernel_table(standard_ops(), kernels_with(testing::built_library("libemulated_gpu.so"))), file.str())
      << "kernels were added or removed: cmake --build build/release --target kernels_md";
}

// What the emulated GPU is tested with is what a GPU has.
TEST(KernelTable, TheEmulatedGpuHasTheKernelsOfTheReal) {
  if (!std::filesystem::exists(testing::built_library("libtroupe_cuda.so")))
    GTEST_SKIP() << "the library for NVIDIA's GPUs has not been built";
  EXPECT_EQ(kernels_with(testing::built_library("libtroupe_cuda.so")).list("GPU"),
            kernels_with(testing::built_library("libemulated_gpu.so")).list("GPU"));
}

OpRegistry two_ops() {
  OpRegistry ops;
  for (const char* name : {"First", "Second"}) ops.add(Op(name));
  return ops;
}
void add(KernelRegistry& kernels, const char* op, const char* device, std::vector<DType> dtypes) {
  kernels.add({op, device, std::move(dtypes), [](const KernelInit&) -> Kernel { return nullptr; }});
}

TEST(KernelTable, GroupsDtypesAndTellsWhatAGpuLacks) {
  KernelRegistry kernels;
  std::vector<DType> types{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32};
  add(kernels, "First", "GPU", types);
  types.push_back(DType::string);
  types.push_back(DType::i8);
  add(kernels, "First", "CPU", types);
  add(kernels, "Second", "CPU", {});
  add(kernels, "Second", "GPU", {});
  const std::string table = kernel_table(two_ops(), kernels);
  EXPECT_EQ(table.substr(table.find("| First")),
            "| First | floats i8 i32 string | floats i32 | i8 string |\n| Second | any | any |  |\n");
}

}  // namespace
}  // namespace troupe::repository
