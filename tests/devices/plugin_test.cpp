#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/paths.hpp"
#include <troupe/devices/plugin.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Plugin, IsOpenedOnce) {
  const PluginResult first = open_cuda_plugin(testing::built_library("libsimulated_gpu.so")),
                     second = open_cuda_plugin(testing::built_library("libsimulated_gpu.so"));
  ASSERT_TRUE(first.plugin) << first.why_not;
  EXPECT_EQ(first.plugin, second.plugin);
  EXPECT_EQ(first.plugin->type(), "GPU");
  EXPECT_EQ(first.plugin->count(), 2);
}

// Whose library allocates, and who runs: each has the other's errors and labels.
TEST(Plugin, ErrorsAndLabelsCrossTheBoundary) {
  const PluginResult opened = open_cuda_plugin(testing::built_library("libsimulated_gpu.so"));
  ASSERT_TRUE(opened.plugin) << opened.why_not;
  const auto device =
      opened.plugin->make(0, {.name = DeviceName::parse("/job:a/task:0/device:GPU:0"), .memory_limit = 1 << 20});
  struct Source final : AllocationSource {
    AllocationLabel allocating() const override { return {.op = "MatMul", .node = "layer"}; }
  } source;
  const AllocationScope scope(source);
  const Tensor held = device->allocator().tensor(DType::f32, Shape{1000});
  try {
    device->allocator().tensor(DType::f32, Shape{1 << 20});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    EXPECT_THAT(error.message(), HasSubstr("of MatMul 'layer'"));
  }
}

TEST(Plugin, WhatIsNoneIsRefusedWithTheReason) {
  EXPECT_THAT(open_cuda_plugin("/no/such/library.so").why_not, HasSubstr("no /no/such/library.so"));
  const PluginResult other = open_cuda_plugin("/proc/self/exe");
  EXPECT_FALSE(other.plugin);
  EXPECT_FALSE(other.why_not.empty());
}

TEST(Plugin, TheBuildIsPartOfTheAbi) {
  EXPECT_THAT(plugin_abi(), StartsWith("troupe "));
  EXPECT_THAT(plugin_abi(), HasSubstr("g++"));
}

}  // namespace
}  // namespace troupe
