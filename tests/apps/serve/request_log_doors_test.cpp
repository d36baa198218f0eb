// Doors in front of models whose requests are logged.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include "apps/serve/grpc_door.hpp"
#include "apps/serve/proto/serving.grpc.pb.h"
#include "apps/serve/request_log.hpp"
#include "apps/serve/rest_door.hpp"
#include "apps/serve/tensor_proto.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/serve/fake_servable.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/recorded_requests.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

TEST(RequestLogOfDoors, HasTheRequestsOfBoth) {
  const TemporaryDirectory directory;
  const std::atomic<bool> ready = true;
  const RequestLog log(posix_file_system(), {.prefix = directory.file("log"), .rate = 1});
  const ServedModels models = log.logged(models_with(std::make_shared<FakeServable>(), ready));
  const RestDoor rest(models, {});
  const GrpcDoor door(models, {});

  const std::string body = R"({"instances":[[1,2]]})";
  wire::RawPeer peer(rest.address().port);
  peer.send("POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " +
            std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_THAT(peer.all_that_comes(), StartsWith("HTTP/1.1 200 "));

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

}  // namespace
}  // namespace troupe::testing
