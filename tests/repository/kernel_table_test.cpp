#include "tests/repository/kernel_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
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
  file << std::ifstream(testing::source_file("docs/reference/ops.md")).rdbuf();
  EXPECT_EQ(kernel_table(standard_ops(), kernels_with(testing::built_library("libemulated_gpu.so"))), file.str())
      << "kernels were added or removed: cmake --build build/release --target reference";
}

// What the emulated GPU is tested with is what a GPU has.
TEST(KernelTable, TheEmulatedGpuHasTheKernelsOfTheReal) {
  if (!std::filesystem::exists(testing::built_library("libtroupe_cuda.so")))
    GTEST_SKIP() << "the library for NVIDIA's GPUs has not been built";
  EXPECT_EQ(kernels_with(testing::built_library("libtroupe_cuda.so")).list("GPU"),
            kernels_with(testing::built_library("libemulated_gpu.so")).list("GPU"));
}

// "MatMul:i32" for a dtype of the attribute that selects the kernel, "NoOp" for an op that has none.
std::string row(const OpDef& op, DType dtype) {
  return op.kernel_type.empty() ? op.name : fmt::format("{}:{}", op.name, name(dtype));
}

// The dtypes that a graph may have nodes of.
std::vector<DType> admitted(const OpDef& op) {
  if (op.kernel_type.empty()) return {DType::invalid};
  const std::vector<DType>& allowed = op.find_attr(op.kernel_type)->allowed;
  return allowed.empty() ? kTensorTypes : allowed;
}

TEST(KernelTable, EveryDtypeThatAnOpAdmitsHasAKernelOnTheCpu) {
  KernelRegistry kernels;
  register_all_kernels(kernels);
  for (const std::string& name : standard_ops().names()) {
    const OpDef& op = standard_ops().get(name);
    if (!op.has_kernel()) {
      EXPECT_EQ(kernels.find(name, "CPU", DType::f32), nullptr) << name << " has a role, and a kernel too";
      continue;
    }
    for (DType dtype : admitted(op))
      EXPECT_TRUE(kernels.supports(name, "CPU", dtype)) << "no kernel for " << row(op, dtype);
    if (op.precision == PrecisionClass::sensitive) continue;
    for (DType dtype : {DType::f16, DType::bf16})
      EXPECT_TRUE(kernels.supports(name, "CPU", dtype)) << "mixed precision wants " << row(op, dtype);
  }
}

// Kernels ahead of their ops, to be finished or removed: none may be added unseen.
TEST(KernelTable, GraphsReachAllKernels) {
  KernelRegistry kernels;
  register_all_kernels(kernels);
  std::set<std::string> unreached;
  for (const std::string& kernel : kernels.list("CPU")) unreached.insert(kernel);
  for (const std::string& name : standard_ops().names()) {
    unreached.erase(name);  // any dtype will do
    const OpDef& op = standard_ops().get(name);
    for (DType dtype : admitted(op)) unreached.erase(row(op, dtype));
  }
  EXPECT_THAT(unreached, ::testing::IsEmpty());
}

OpRegistry two_ops() {
  OpRegistry ops;
  ops.add(Op("First")
              .input("x", "T")
              .input_list("axes", DType::i64, "N")
              .output("y", "T")
              .type("T")
              .attr("N", AttrType::integer)
              .attr("mode", std::string("sum"))
              .attr("size", AttrType::integers));
  ops.add(Op("Second"));
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
  EXPECT_THAT(table, ::testing::HasSubstr(
                         "| First | floats i8 i32 string | floats i32 | i8 string |\n| Second | any | any |  |\n"));
  EXPECT_THAT(table, ::testing::HasSubstr(
                         "\nFirst(x: T, axes...: i64) -> (y: T), mode: string = 'sum', size: integers\nSecond()\n"));
}

}  // namespace
}  // namespace troupe::repository
