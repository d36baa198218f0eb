// The gRPC door over real sockets, with clients made of the same schemas.
#include "apps/serve/grpc_door.hpp"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "apps/serve/proto/inference.grpc.pb.h"
#include "apps/serve/proto/serving.grpc.pb.h"
#include "apps/serve/tensor_proto.hpp"
#include "tests/actors/wire/certificates.hpp"
#include "tests/apps/serve/fake_servable.hpp"
#include "tests/error_of.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"

namespace troupe::testing {
namespace {

namespace serving = ::tensorflow::serving;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string said(const grpc::Status& status) {
  return status.ok() ? "ok" : std::string(name(static_cast<Code>(status.error_code()))) + ": " + status.error_message();
}

grpc::ByteBuffer buffer_of(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

std::string bytes_of(grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string out;
  for (const grpc::Slice& slice : slices) out.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return out;
}

class GrpcDoors : public ::testing::Test {
 protected:
  void start(GrpcDoor::Options options = {}) {
    ServedModels models = models_with(model_, ready_);
    models.configure = [this](std::vector<ServedModel> given, std::function<void(const Error&)> done) {
      if (given.front().path == "refused") return done(Error(Code::failed_precondition, "refused"));
      configured_ = std::move(given);
      if (configured_.front().path == "held") return configuring_.set_value(std::move(done));
      done({});
    };
    door_.emplace(std::move(models), std::move(options));
    connect(grpc::InsecureChannelCredentials());
  }
  void connect(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetSslTargetNameOverride("server");
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(door_->address().to_string(), credentials, arguments);
    predictions_ = serving::PredictionService::NewStub(channel_);
    model_service_ = serving::ModelService::NewStub(channel_);
    inference_ = ::inference::GRPCInferenceService::NewStub(channel_);
  }
  static serving::PredictRequest request_of(std::initializer_list<float> x, const std::string& signature = "") {
    serving::PredictRequest out;
    out.mutable_model_spec()->set_name("m");
    out.mutable_model_spec()->set_signature_name(signature);
    to_tensor_proto(Tensor::of<float>({static_cast<std::int64_t>(x.size()) / 2, 2}, x), (*out.mutable_inputs())["x"]);
    return out;
  }
  grpc::Status predict(const serving::PredictRequest& request, serving::PredictResponse* response = nullptr) {
    grpc::ClientContext context;
    patient(context);
    serving::PredictResponse ignored;
    return predictions_->Predict(&context, request, response != nullptr ? response : &ignored);
  }
  static void patient(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
  }
  // A unary call whose bytes are given, and those of its answer.
  std::pair<grpc::Status, std::string> called(const std::string& method, const std::string& bytes) {
    grpc::ClientContext context;
    patient(context);
    grpc::GenericStub stub(channel_);
    const grpc::ByteBuffer request = buffer_of(bytes);
    grpc::ByteBuffer response;
    std::promise<grpc::Status> over;
    stub.UnaryCall(&context, method, {}, &request, &response,
                   [&](grpc::Status status) { over.set_value(std::move(status)); });
    const grpc::Status status = over.get_future().get();
    return {status, status.ok() ? bytes_of(response) : ""};
  }
  // "serving", "not_serving", or the error's code: HealthCheckRequest.service is 1, HealthCheckResponse.status is 1.
  std::string health(const std::string& service) {
    const auto [status, bytes] = called("/grpc.health.v1.Health/Check", field(1, service));
    if (!status.ok()) return std::string(name(static_cast<Code>(status.error_code())));
    return bytes == std::string("\x08\x01") ? "serving" : bytes == std::string("\x08\x02") ? "not_serving" : bytes;
  }
  static std::string field(int number, const std::string& text) {
    if (text.empty()) return "";
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(text.size()) + text;
  }

  const std::shared_ptr<FakeServable> model_ = std::make_shared<FakeServable>();
  std::atomic<bool> ready_{true};
  std::vector<ServedModel> configured_;
  std::promise<std::function<void(const Error&)>> configuring_;
  std::optional<GrpcDoor> door_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<serving::PredictionService::Stub> predictions_;
  std::unique_ptr<serving::ModelService::Stub> model_service_;
  std::unique_ptr<::inference::GRPCInferenceService::Stub> inference_;
};

TEST_F(GrpcDoors, AnswersAreOfTheTraceOfTheirRequests) {
  start();
  const std::string trace = "0af7651916cd43dd8448eb211c80319c", caller = "00-" + trace + "-b7ad6b7169203331-01";
  const auto answered = [&](const std::string& parent, const std::string& signature) {
    grpc::ClientContext context;
    patient(context);
    context.AddMetadata("traceparent", parent);
    context.AddMetadata("tracestate", "vendor=1");
    serving::PredictResponse response;
    static_cast<void>(predictions_->Predict(&context, request_of({1, 2}, signature), &response));
    std::string out;
    for (const char* name : {"traceparent", "tracestate"})
      if (const auto found = context.GetServerInitialMetadata().find(name);
          found != context.GetServerInitialMetadata().end())
        out += std::string(found->second.data(), found->second.size()) + ";";
    return out;
  };
  for (const char* signature : {"", "none", "refused"})
    EXPECT_THAT(answered(caller, signature),
                AllOf(StartsWith("00-" + trace + "-"), ::testing::EndsWith("-01;vendor=1;"), Not(HasSubstr(caller))));
  EXPECT_EQ(answered("00-" + trace, ""), "");
  auto answer = std::async(std::launch::async, [&] { return answered(caller, "held"); });
  ASSERT_TRUE(eventually([&] { return model_->held() == 1; }));
  const FakeServable::Held held = model_->take();
  held.done(FakeServable::twice(held.request));
  EXPECT_EQ(answer.get(), held.request.trace + ";vendor=1;");
}

TEST_F(GrpcDoors, Predict) {
  start();
  serving::PredictResponse response;
  ASSERT_EQ(said(predict(request_of({1, 2, 3, 4}), &response)), "ok");
  std::uint64_t repeated = 0;
  EXPECT_THAT(from_tensor_proto(response.outputs().at("y"), "y", repeated).values<float>(), ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(response.model_spec().name(), "m");
  EXPECT_EQ(response.model_spec().version().value(), 3);
  EXPECT_EQ(response.model_spec().signature_name(), "serving_default");
  serving::PredictRequest request = request_of({1, 2});
  request.mutable_model_spec()->mutable_version()->set_value(3);
  EXPECT_EQ(said(predict(request)), "ok");
  request.mutable_model_spec()->set_version_label("stable");
  EXPECT_EQ(said(predict(request)), "ok");
  request.mutable_model_spec()->set_version_label("canary");
  EXPECT_EQ(said(predict(request)), "not_found: no label 'canary'");
  request.mutable_model_spec()->mutable_version()->set_value(7);
  EXPECT_EQ(said(predict(request)), "not_found: no version 7");
  request.mutable_model_spec()->set_name("other");
  EXPECT_EQ(said(predict(request)), "not_found: there is no model 'other'");
  request = request_of({1, 2});
  request.mutable_inputs()->at("x").set_dtype(::tensorflow::DT_RESOURCE);
  EXPECT_THAT(said(predict(request)), StartsWith("unimplemented: inputs[x]"));
  request.mutable_inputs()->at("x").set_dtype(::tensorflow::DT_DOUBLE);
  EXPECT_THAT(said(predict(request)), StartsWith("invalid_argument: inputs[x]"));
}

TEST_F(GrpcDoors, ErrorsHaveTheirCodesAndSayWhenToAskAgain) {
  start();
  grpc::ClientContext context;
  patient(context);
  serving::PredictResponse response;
  const grpc::Status status = predictions_->Predict(&context, request_of({1, 2}, "refused"), &response);
  EXPECT_EQ(said(status), "unavailable: the queue is full");
  EXPECT_EQ(context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms")->second, "1500");
  for (const char* method : {"Classify", "Regress", "MultiInference"})
    EXPECT_THAT(said(called(std::string("/tensorflow.serving.PredictionService/") + method, "").first),
                StartsWith("unimplemented: classify, regress"));
  EXPECT_THAT(said(called("/tensorflow.serving.PredictionService/Predict", "\x0a\xff").first), Not(StartsWith("ok")));
}

TEST_F(GrpcDoors, DeadlinesAndCancellationsReachTheServable) {
  start();
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::hours(1));
    serving::PredictResponse response;
    std::promise<grpc::Status> over;
    const serving::PredictRequest request = request_of({1, 2}, "held");
    predictions_->async()->Predict(&context, &request, &response,
                                   [&](grpc::Status status) { over.set_value(std::move(status)); });
    ASSERT_TRUE(eventually([&] { return model_->held() == 1; }));
    const FakeServable::Held held = model_->take();
    const Nanoseconds left = held.request.deadline - steady_now_ns();
    EXPECT_LT(left, 3700 * kSecond);  // gRPC rounds it
    EXPECT_GT(left, 3500 * kSecond);
    context.TryCancel();
    EXPECT_EQ(over.get_future().get().error_code(), grpc::CANCELLED);
    EXPECT_TRUE(eventually([&] { return model_->cancelled() == 1; }));
  }
  EXPECT_EQ(said(predict(request_of({1, 2}))), "ok");
  grpc::ClientContext without;  // a deadline
  serving::PredictResponse response;
  std::promise<void> over;
  const serving::PredictRequest request = request_of({1, 2}, "held");
  predictions_->async()->Predict(&without, &request, &response, [&](const grpc::Status&) { over.set_value(); });
  ASSERT_TRUE(eventually([&] { return model_->held() == 1; }));
  const FakeServable::Held held = model_->take();
  EXPECT_EQ(held.request.deadline, BatchQueue::kNever);
  held.done(FakeServable::twice(held.request));
  over.get_future().get();
}

TEST_F(GrpcDoors, TellOfModels) {
  start();
  grpc::ClientContext metadata_context, no_field_context;
  serving::GetModelMetadataRequest request;
  serving::GetModelMetadataResponse metadata;
  request.mutable_model_spec()->set_name("m");
  EXPECT_THAT(said(predictions_->GetModelMetadata(&no_field_context, request, &metadata)),
              StartsWith("invalid_argument: metadata_field is empty"));
  request.add_metadata_field("signature_def");
  ASSERT_EQ(said(predictions_->GetModelMetadata(&metadata_context, request, &metadata)), "ok");
  serving::SignatureDefMap signatures;
  ASSERT_TRUE(metadata.metadata().at("signature_def").UnpackTo(&signatures));
  const ::tensorflow::TensorInfo& x = signatures.signature_def().at("serving_default").inputs().at("x");
  EXPECT_EQ(x.dtype(), ::tensorflow::DT_FLOAT);
  EXPECT_EQ(x.tensor_shape().dim(0).size(), -1);
  EXPECT_EQ(x.tensor_shape().dim(1).size(), 2);
  EXPECT_EQ(metadata.model_spec().version().value(), 3);

  grpc::ClientContext all_context, one_context, none_context;
  serving::GetModelStatusRequest ask;
  serving::GetModelStatusResponse status;
  ask.mutable_model_spec()->set_name("m");
  ASSERT_EQ(said(model_service_->GetModelStatus(&all_context, ask, &status)), "ok");
  ASSERT_EQ(status.model_version_status_size(), 2);
  EXPECT_EQ(status.model_version_status(0).state(), serving::ModelVersionStatus::END);
  EXPECT_EQ(status.model_version_status(0).status().error_code(), grpc::DATA_LOSS);
  EXPECT_EQ(status.model_version_status(1).state(), serving::ModelVersionStatus::AVAILABLE);
  ask.mutable_model_spec()->mutable_version()->set_value(3);
  status.Clear();
  ASSERT_EQ(said(model_service_->GetModelStatus(&one_context, ask, &status)), "ok");
  EXPECT_EQ(status.model_version_status_size(), 1);
  ask.mutable_model_spec()->mutable_version()->set_value(9);
  EXPECT_EQ(said(model_service_->GetModelStatus(&none_context, ask, &status)), "not_found: model 'm' has no version 9");
}

TEST_F(GrpcDoors, TakeANewConfiguration) {
  start();
  const auto reloaded = [&](const serving::ReloadConfigRequest& request) {
    grpc::ClientContext context;
    serving::ReloadConfigResponse response;
    const grpc::Status status = model_service_->HandleReloadConfigRequest(&context, request, &response);
    return said(status) + " " + std::to_string(response.status().error_code()) + " " +
           response.status().error_message();
  };
  serving::ReloadConfigRequest request;
  EXPECT_EQ(reloaded(request), "ok 3 the configuration lists no models");
  serving::ModelConfig& model = *request.mutable_config()->mutable_model_config_list()->add_config();
  model.set_name("n");
  EXPECT_EQ(reloaded(request), "ok 3 model 1 ('n'): it has no base_path");
  model.set_base_path("refused");
  EXPECT_EQ(reloaded(request), "ok 9 refused");
  model.set_base_path("dir");
  (*model.mutable_version_labels())["stable"] = 4;
  EXPECT_EQ(reloaded(request), "ok 0 ");
  ASSERT_EQ(configured_.size(), 1u);
  EXPECT_EQ(configured_.front().labels.at("stable"), 4);
  // One that is answered later, on another thread, holds up none of gRPC's: its clients go on.
  model.set_base_path("held");
  auto later = std::async(std::launch::async, [&] { return reloaded(request); });
  const auto done = configuring_.get_future().get();
  EXPECT_EQ(said(predict(request_of({1, 2}))), "ok");
  done(Error(Code::unavailable, "replica 1: silent"));
  EXPECT_EQ(later.get(), "ok 14 replica 1: silent");
}

TEST_F(GrpcDoors, SpeakTheOpenInferenceProtocol) {
  start();
  ::inference::ModelInferRequest request;
  request.set_model_name("m");
  request.set_model_version("3");
  request.set_id("an id");
  auto& x = *request.add_inputs();
  x.set_name("x");
  x.set_datatype("FP32");
  x.add_shape(1);
  x.add_shape(2);
  x.mutable_contents()->add_fp32_contents(1);
  x.mutable_contents()->add_fp32_contents(2.5);
  request.add_outputs()->set_name("y");
  const auto infer = [&](::inference::ModelInferResponse& response) {
    grpc::ClientContext context;
    patient(context);
    return said(inference_->ModelInfer(&context, request, &response));
  };
  ::inference::ModelInferResponse response;
  ASSERT_EQ(infer(response), "ok");
  EXPECT_EQ(response.id(), "an id");
  EXPECT_EQ(response.model_version(), "3");
  EXPECT_EQ(response.outputs(0).name(), "y");
  const float expected[] = {2, 5};
  EXPECT_EQ(response.raw_output_contents(0), std::string(reinterpret_cast<const char*>(expected), sizeof expected));
  request.set_model_version("three");
  EXPECT_EQ(infer(response), "invalid_argument: model version 'three': a version is a number");
  request.set_model_version("");
  (*request.mutable_parameters())["timeout"].set_string_param("soon");
  EXPECT_THAT(infer(response), HasSubstr("microseconds are expected"));
  (*request.mutable_parameters())["timeout"].set_int64_param(50'000'000);
  EXPECT_EQ(infer(response), "ok");

  grpc::ClientContext a, b, c, d, e;
  ::inference::ServerReadyResponse server_ready;
  ASSERT_EQ(said(inference_->ServerReady(&a, {}, &server_ready)), "ok");
  EXPECT_TRUE(server_ready.ready());
  ready_ = false;
  ASSERT_EQ(said(inference_->ServerReady(&b, {}, &server_ready)), "ok");
  EXPECT_FALSE(server_ready.ready());
  ::inference::ModelReadyRequest ask;
  ::inference::ModelReadyResponse model_ready;
  ask.set_name("none");
  ASSERT_EQ(said(inference_->ModelReady(&c, ask, &model_ready)), "ok");
  EXPECT_FALSE(model_ready.ready());
  ::inference::ModelMetadataRequest of;
  ::inference::ModelMetadataResponse metadata;
  of.set_name("m");
  ASSERT_EQ(said(inference_->ModelMetadata(&d, of, &metadata)), "ok");
  EXPECT_EQ(metadata.inputs(0).datatype(), "FP32");
  EXPECT_THAT(metadata.versions(), ElementsAre("3"));
  ::inference::ServerLiveResponse live;
  ASSERT_EQ(said(inference_->ServerLive(&e, {}, &live)), "ok");
  EXPECT_TRUE(live.live());
}

TEST_F(GrpcDoors, TellTheirHealthToThoseWhoAskAndWatch) {
  start();
  door_->refresh_health({"m", "none"});
  for (const char* name : {"", "m", "tensorflow.serving.PredictionService", "inference.GRPCInferenceService"})
    EXPECT_EQ(health(name), "serving") << name;
  EXPECT_EQ(health("none"), "not_serving");
  EXPECT_EQ(health("unknown"), "not_found");

  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  patient(context);
  grpc::GenericStub stub(channel_);
  const auto watch = stub.PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
  const auto next = [&] {
    void* tag = nullptr;
    bool good = false;
    return queue.Next(&tag, &good) && good;
  };
  watch->StartCall(nullptr);
  ASSERT_TRUE(next());
  watch->Write(buffer_of(field(1, "m")), nullptr);
  ASSERT_TRUE(next());
  grpc::ByteBuffer told;
  watch->Read(&told, nullptr);
  ASSERT_TRUE(next());
  EXPECT_EQ(bytes_of(told), "\x08\x01");
  watch->Read(&told, nullptr);
  EXPECT_TRUE(door_->drain(std::chrono::milliseconds(1)) || true);  // the watch itself is cut off
  ASSERT_TRUE(next());
  EXPECT_EQ(bytes_of(told), "\x08\x02");
  context.TryCancel();
  grpc::Status status;
  watch->Finish(&status, nullptr);
  next();
  queue.Shutdown();
  while (next()) {
  }
}

TEST_F(GrpcDoors, ListTheirServices) {
  start();
  // ServerReflectionRequest.list_services is 7.
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  patient(context);
  grpc::GenericStub stub(channel_);
  const auto call =
      stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  const auto next = [&] {
    void* tag = nullptr;
    bool good = false;
    return queue.Next(&tag, &good) && good;
  };
  call->StartCall(nullptr);
  ASSERT_TRUE(next());
  call->Write(buffer_of(field(7, "*")), nullptr);
  ASSERT_TRUE(next());
  grpc::ByteBuffer told;
  call->Read(&told, nullptr);
  ASSERT_TRUE(next());
  const std::string names = bytes_of(told);
  for (const char* service : {"tensorflow.serving.PredictionService", "tensorflow.serving.ModelService",
                              "inference.GRPCInferenceService", "grpc.health.v1.Health"})
    EXPECT_THAT(names, HasSubstr(service));
  context.TryCancel();
  queue.Shutdown();
}

TEST_F(GrpcDoors, NeedTokensOfModels) {
  start({.tokens = {{"", "all"}, {"m", "own"}}});
  const auto with = [&](const std::string& header) {
    grpc::ClientContext context;
    patient(context);
    if (!header.empty()) context.AddMetadata("authorization", header);
    serving::PredictResponse response;
    return said(predictions_->Predict(&context, request_of({1, 2}), &response));
  };
  EXPECT_THAT(with(""), StartsWith("unauthenticated: model 'm' needs a token"));
  EXPECT_THAT(with("Bearer all"), StartsWith("unauthenticated"));
  EXPECT_THAT(with("own"), StartsWith("unauthenticated"));
  EXPECT_EQ(with("Bearer own"), "ok");
  EXPECT_THAT(said(called("/tensorflow.serving.ModelService/HandleReloadConfigRequest", "").first),
              StartsWith("unauthenticated"));
  EXPECT_THAT(said(called("/tensorflow.serving.ModelService/GetModelStatus", field(1, field(1, "m"))).first),
              StartsWith("unauthenticated"));
  EXPECT_THAT(said(called("/inference.GRPCInferenceService/ModelMetadata", field(1, "m")).first),
              StartsWith("unauthenticated"));
  EXPECT_EQ(health(""), "serving");  // for load balancers
}

TEST_F(GrpcDoors, EncryptAndAskForCertificates) {
  const TemporaryDirectory directory;
  Authority authority(directory.path(), "ca");
  const TlsFiles server = authority.issue("server"), client = authority.issue("client");
  start({.tls = server});
  EXPECT_THAT(said(predict(request_of({1, 2}))), Not("ok"));  // in clear
  const auto content = [](const std::string& path) { return content_of(path); };
  connect(grpc::SslCredentials({.pem_root_certs = content(server.ca)}));
  EXPECT_THAT(said(predict(request_of({1, 2}))), Not("ok"));  // without a certificate
  connect(grpc::SslCredentials({.pem_root_certs = content(server.ca),
                                .pem_private_key = content(client.key),
                                .pem_cert_chain = content(client.certificate)}));
  EXPECT_EQ(said(predict(request_of({1, 2}))), "ok");
  TlsFiles open = server;
  open.ca.clear();
  start({.tls = open});
  connect(grpc::SslCredentials({.pem_root_certs = content(server.ca)}));
  EXPECT_EQ(said(predict(request_of({1, 2}))), "ok");
  TlsFiles missing = server;
  missing.key = directory.file("none.key");
  EXPECT_THAT(error_of([&] { GrpcDoor(models_with(model_, ready_), {.tls = missing}); }).to_string(),
              HasSubstr("none.key"));
}

TEST_F(GrpcDoors, RefuseMessagesThatAreTooLarge) {
  start({.most_bytes = 1000});
  EXPECT_EQ(said(predict(request_of({1, 2}))), "ok");
  serving::PredictRequest request = request_of({1, 2});
  request.mutable_inputs()->at("x").mutable_tensor_content()->resize(2000);
  EXPECT_THAT(said(predict(request)), StartsWith("resource_exhausted"));
}

TEST_F(GrpcDoors, FinishWhatTheyHaveWhenTheyEnd) {
  start();
  grpc::ClientContext context;
  patient(context);
  serving::PredictResponse response;
  std::promise<grpc::Status> over;
  const serving::PredictRequest request = request_of({1, 2}, "held");
  predictions_->async()->Predict(&context, &request, &response,
                                 [&](grpc::Status status) { over.set_value(std::move(status)); });
  ASSERT_TRUE(eventually([&] { return model_->held() == 1; }));
  auto drained = std::async(std::launch::async, [&] { return door_->drain(kPatience); });
  EXPECT_TRUE(eventually([&] {
    connect(grpc::InsecureChannelCredentials());
    return predict(request_of({1, 2})).error_code() == grpc::UNAVAILABLE;
  }));
  const FakeServable::Held held = model_->take();
  held.done(FakeServable::twice(held.request));
  EXPECT_EQ(said(over.get_future().get()), "ok");
  EXPECT_TRUE(drained.get());
}

TEST_F(GrpcDoors, CutOffWhatTakesLonger) {
  start();
  grpc::ClientContext context;
  patient(context);
  serving::PredictResponse response;
  std::promise<grpc::Status> over;
  const serving::PredictRequest request = request_of({1, 2}, "held");
  predictions_->async()->Predict(&context, &request, &response,
                                 [&](grpc::Status status) { over.set_value(std::move(status)); });
  ASSERT_TRUE(eventually([&] { return model_->held() == 1; }));
  EXPECT_FALSE(door_->drain(std::chrono::milliseconds(10)));
  EXPECT_FALSE(over.get_future().get().ok());
  EXPECT_EQ(model_->cancelled(), 1);
}

TEST_F(GrpcDoors, AnswerManyAtOnce) {
  start();
  std::atomic<int> good = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      for (int k = 0; k < 50; ++k)
        if (predict(request_of({1, 2})).ok()) ++good;
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 400);
}

TEST_F(GrpcDoors, NameAnAddressThatIsTaken) {
  start();
  const std::uint16_t port = door_->address().port;
  EXPECT_THAT(error_of([&] { GrpcDoor(models_with(model_, ready_), {.port = port}); }).to_string(),
              AllOf(StartsWith("unavailable: "), HasSubstr(":" + std::to_string(port))));
}

}  // namespace
}  // namespace troupe::testing
