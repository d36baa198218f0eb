// GPUs that troupe-launch finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_directory.hpp"
#include "tools/launch/gpu_share.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(VisibleGpus, AreThoseOfTheVariableOrOfTheMachine) {
  EXPECT_THAT(visible_gpus("3,GPU-0c"), ElementsAre("3", "GPU-0c"));
  EXPECT_THAT(visible_gpus(""), IsEmpty());
  const testing::TemporaryDirectory devices;
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null", "nvidia"}) devices.write(name, "");
  EXPECT_THAT(visible_gpus(std::nullopt, devices.file("")), ElementsAre("0", "1"));
  EXPECT_THAT(visible_gpus(std::nullopt, devices.file("none")), IsEmpty());
}

}  // namespace
}  // namespace troupe
