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
                                                       {"/job:ps/task:1/CPU:2", "/job:ps/task:1/device:CPU:2"},
                                                       {"", ""}};
  for (const auto& [given, name] : forms) EXPECT_EQ(DeviceName::parse(given).to_string(), name) << given;
}

TEST(DeviceName, RefusesTypesThatNoDeviceHas) {
  const std::pair<const char*, const char*> wrong[] = {
      {"banana", "banana"}, {"cuda:0", "cuda"}, {"/device:TPU:0", "TPU"}, {"/job:ps/task:0/device:CP:0", "CP"}};
  for (const auto& [given, type] : wrong)
    EXPECT_EQ(error_of([&] { DeviceName::parse(given); }).to_string(),
              fmt::format("invalid_argument: device '{}': unknown device type '{}'; expected CPU or GPU, as in "
                          "\"GPU:0\" or \"/job:worker/task:1/device:CPU:0\"",
                          given, type));
}

}  // namespace
}  // namespace troupe
