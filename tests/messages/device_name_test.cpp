#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include <troupe/messages/device_name.hpp>

namespace troupe {
namespace {

using testing::error_of;

TEST(DeviceName, TakesTheFormsThatPeopleWrite) {
  const std::pair<const char*, const char*> forms[] = {{"CPU:0", "/device:CPU:0"},
                                                       {"gpu:1", "/device:GPU:1"},
                                                       {"/GPU:*", "/device:GPU:*"},
                                                       {"GPU", "/device:GPU:*"},
                                                       {"/job:ps", "/job:ps"},
                                                       {"tpu:3", "/device:TPU:3"},
                                                       {"/device:NPU_2:*", "/device:NPU_2:*"},
                                                       {"/job:ps/task:1/CPU:2", "/job:ps/task:1/device:CPU:2"},
                                                       {"", ""}};
  for (const auto& [given, name] : forms) EXPECT_EQ(DeviceName::parse(given).to_string(), name) << given;
}

TEST(DeviceName, RefusesTypesThatNoDeviceCanHave) {
  const std::pair<const char*, const char*> wrong[] = {
      {"/job", "job"},
      {"0", "0"},
      {"my device:0", "my device"},
      {"/device:T-PU:0", "T-PU"},
      {"/job:ps/task:0/device:ABCDEFGHIJKLMNOPQ:0", "ABCDEFGHIJKLMNOPQ"}};
  for (const auto& [given, type] : wrong)
    EXPECT_EQ(error_of([&] { DeviceName::parse(given); }).to_string(),
              fmt::format("invalid_argument: device '{}': '{}' is not a type of device; expected CPU, GPU or that of a "
                          "plug-in, as in \"GPU:0\" or \"/job:worker/task:1/device:CPU:0\"",
                          given, type));
}

}  // namespace
}  // namespace troupe
