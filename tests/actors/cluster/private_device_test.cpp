#include "troupe/actors/cluster/private_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/error_of.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/cluster/local_devices.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe::testing {
namespace {

// Occupies a stream until it is told to go on.
class Occupies final : public LocalWork {
 public:
  explicit Occupies(std::shared_future<void> until) : until_(std::move(until)) {}
  void run() override { until_.wait(); }

 private:
  const std::shared_future<void> until_;
};

class PrivateDevices : public ::testing::Test {
 protected:
  SessionOptions on(const std::shared_ptr<PrivateDevice>& device) {
    SessionOptions out;
    out.device = device;
    out.timeout = kPatience;
    return out;
  }
  std::vector<std::string> seen() {  // by introspection
    std::vector<std::string> out;
    for (const auto& device : task_.local_devices().devices()) out.push_back(device->attributes().name.to_string());
    return out;
  }

  Task task_{{.cpu_devices = 1}};
  Graph graph_;
  const Output y_ = constant(graph_, Tensor::scalar(2.0f)) + 1.0;
};

TEST_F(PrivateDevices, RunStepsWhileTheTasksOwnIsBusy) {
  std::promise<void> go_on;
  task_.device().compute().enqueue(std::make_shared<Occupies>(go_on.get_future().share()));
  {
    Session session(task_, graph_, on(std::make_shared<PrivateDevice>(task_, PrivateDeviceOptions{.threads = 1})));
    EXPECT_EQ(session.run(y_).item<float>(), 3);
  }
  go_on.set_value();
}

TEST_F(PrivateDevices, AreSeenByNobodyElsesPlacement) {
  const PrivateDevice device(task_, {.threads = 1});
  EXPECT_EQ(device.info().name.to_string(), "/job:local/task:0/device:CPU:1");
  EXPECT_EQ(task_.devices().size(), 1u);
  const Output there = graph_.output(y_.name());
  graph_.set_device(graph_.node(there.node), "/device:CPU:1");
  SessionOptions strict;
  strict.soft_placement = false;
  Session session(task_, graph_, strict);
  EXPECT_EQ(error_of([&] { session.run(there); }).code(), Code::invalid_argument);
}

TEST_F(PrivateDevices, GoWithTheirLastSessionAndTheirTensorsStay) {
  Tensor result;
  {
    Session session(task_, graph_, on(std::make_shared<PrivateDevice>(task_, PrivateDeviceOptions{.threads = 1})));
    result = session.run(y_);
    EXPECT_THAT(seen(), ::testing::Contains("/job:local/task:0/device:CPU:1"));
  }
  EXPECT_THAT(seen(), ::testing::ElementsAre("/job:local/task:0/device:CPU:0"));
  EXPECT_EQ(result.item<float>(), 3);
  const PrivateDevice next(task_, {.threads = 1});
  EXPECT_EQ(next.info().name.index, 2);  // no name twice
}

TEST_F(PrivateDevices, ATaskThatHasShutDownGetsNone) {
  ASSERT_TRUE(task_.shutdown());
  EXPECT_EQ(error_of([&] { const PrivateDevice device(task_, {}); }).code(), Code::failed_precondition);
}

}  // namespace
}  // namespace troupe::testing
