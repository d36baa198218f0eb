// Doors in front of models whose requests are logged.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/serve/doors.hpp"
#include "apps/serve/grpc_door.hpp"
#include "apps/serve/proto/serving.grpc.pb.h"
#include "apps/serve/request_log.hpp"
#include "apps/serve/rest_door.hpp"
#include "apps/serve/tensor_proto.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/serve/fake_servable.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/model/recorded_requests.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string rest_said(std::uint16_t port, const std::string& method, const std::string& path,
                      const std::string& body = "") {
  wire::RawPeer peer(port);
  peer.send(method + " " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " +
            std::to_string(body.size()) + "\r\n\r\n" + body);
  return peer.all_that_comes();
}

TEST(RequestLogOfDoors, HasTheRequestsOfBoth) {
  const TemporaryDirectory directory;
  const std::atomic<bool> ready = true;
  const RequestLog log(posix_file_system(), {.prefix = directory.file("log"), .rate = 1});
  const ServedModels models = log.logged(models_with(std::make_shared<FakeServable>(), ready));
  const RestDoor rest(models, {});
  const GrpcDoor door(models, {});

  EXPECT_THAT(rest_said(rest.address().port, "POST", "/v1/models/m:predict", R"({"instances":[[1,2]]})"),
              StartsWith("HTTP/1.1 200 "));

  namespace serving = ::tensorflow::serving;
  const auto stub = serving::PredictionService::NewStub(
      grpc::CreateChannel(door.address().to_string(), grpc::InsecureChannelCredentials()));
  serving::PredictRequest request;
  request.mutable_model_spec()->set_name("m");
  to_tensor_proto(Tensor::of<float>({1, 2}, {3, 4}), (*request.mutable_inputs())["x"]);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  serving::PredictResponse response;
  const grpc::Status status = stub->Predict(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();

  log.flush();
  const auto found = read_recorded_requests(posix_file_system(), directory.file("log-00000.tfrecord"));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].inputs.at("x").values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(found[1].inputs.at("x").values<float>(), ElementsAre(3, 4));
  EXPECT_THAT(found[1].outputs.at("y").values<float>(), ElementsAre(6, 8));
}

TEST(RequestLogOfDoors, IsAmongTheMetrics) {
  const TemporaryDirectory directory;
  const std::atomic<bool> ready = true;
  Task task({.name = {"serve", 0}, .threads = 1});
  ServeReport report(false);
  ServeOptions options{.rest_port = 0, .grpc_port = 0};
  const auto open = [&] {
    return std::make_unique<Doors>(options, models_with(std::make_shared<FakeServable>(), ready), task, report);
  };
  auto doors = open();
  std::uint16_t port = doors->ready_event().at("rest_port");
  EXPECT_THAT(rest_said(port, "GET", "/metrics"), Not(HasSubstr("request_log")));
  doors.reset();

  options.request_log = {.prefix = directory.file("log"), .rate = 1};
  doors = open();
  port = doors->ready_event().at("rest_port");
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(rest_said(port, "POST", "/v1/models/m:predict", R"({"instances":[[1,2]]})"),
                StartsWith("HTTP/1.1 200 "));
  std::string seen;  // the log writes on a thread of its own
  EXPECT_TRUE(eventually([&] {
    seen = rest_said(port, "GET", "/metrics");
    return seen.find("troupe_request_log_requests_total{task=\"/job:serve/task:0\"} 2\n") != std::string::npos;
  })) << seen;
  const auto bytes = posix_file_system().open(directory.file("log-00000.tfrecord"))->size();
  EXPECT_THAT(seen,
              AllOf(HasSubstr("# TYPE troupe_request_log_requests_total counter\n"),
                    HasSubstr("troupe_request_log_bytes_total{task=\"/job:serve/task:0\"} " + std::to_string(bytes)),
                    HasSubstr("troupe_request_log_left_out_total{task=\"/job:serve/task:0\",reason=\"queue\"} 0\n"),
                    HasSubstr("troupe_request_log_errors_total{task=\"/job:serve/task:0\"} 0\n")));
  doors.reset();
  EXPECT_TRUE(eventually([&] { return !task.introspection().view().snapshot().tasks.at(0).snapshot->request_log; }));
}

}  // namespace
}  // namespace troupe::testing
