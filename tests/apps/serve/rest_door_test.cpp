// The REST door over real sockets, in front of a servable that the tests control.
#include "apps/serve/rest_door.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/serve/fake_servable.hpp"
#include "tests/patience.hpp"
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::eventually;
using testing::FakeServable;
using ::testing::HasSubstr;
using testing::kPatience;
using testing::models_with;
using ::testing::Not;
using ::testing::StartsWith;

class RestDoors : public ::testing::Test {
 protected:
  void start(RestDoor::Options options = {}) { door_.emplace(models_with(model_, ready_), std::move(options)); }
  // The whole answer.
  std::string said(const std::string& method, const std::string& path, const std::string& body = "",
                   const std::string& headers = "") const {
    wire::RawPeer peer(door_->address().port);
    peer.send(method + " " + path + " HTTP/1.1\r\nHost: models.example\r\nConnection: close\r\n" + headers +
              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return peer.all_that_comes();
  }
  std::string get(const std::string& path, const std::string& headers = "") const {
    return said("GET", path, "", headers);
  }
  std::string predict(const std::string& body, const std::string& headers = "") const {
    return said("POST", "/v1/models/m:predict", body, headers);
  }
  static void expect_answer(const std::string& answer, int status, const std::string& body) {
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + std::to_string(status) + " "));
    EXPECT_THAT(answer, EndsWith("\r\n\r\n" + body));
  }

  const std::shared_ptr<FakeServable> model_ = std::make_shared<FakeServable>();
  std::atomic<bool> ready_{true};
  std::optional<RestDoor> door_;
};

TEST_F(RestDoors, PredictsRowsAndColumns) {
  start();
  expect_answer(predict(R"({"instances":[[1,2],[3,4.5]]})"), 200, R"({"predictions":[[2.0,4.0],[6.0,9.0]]})");
  expect_answer(predict(R"({"inputs":{"x":[[1,2]]}})"), 200, R"({"outputs":[[2.0,4.0]]})");
  for (const char* path : {"/v1/models/m/versions/3:predict", "/v1/models/m/labels/stable:predict"})
    expect_answer(said("POST", path, R"({"instances":[[1,2]]})"), 200, R"({"predictions":[[2.0,4.0]]})");
}

TEST_F(RestDoors, InfersJsonAndBinary) {
  start();
  const std::string json = R"({"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]})";
  expect_answer(said("POST", "/v2/models/m/infer", json), 200,
                R"({"model_name":"m","model_version":"3","outputs":[)"
                R"({"name":"y","shape":[1,2],"datatype":"FP32","data":[2.0,4.0]}]})");
  const std::string head = R"({"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32",)"
                           R"("parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true}})";
  const float values[] = {1, 2}, twice[] = {2, 4};
  const std::string answer =
      said("POST", "/v2/models/m/versions/3/infer", head + std::string(reinterpret_cast<const char*>(values), 8),
           "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
  const std::string wanted = R"({"model_name":"m","model_version":"3","outputs":[{"name":"y","shape":[1,2],)"
                             R"("datatype":"FP32","parameters":{"binary_data_size":8}}]})";
  expect_answer(answer, 200, wanted + std::string(reinterpret_cast<const char*>(twice), 8));
  EXPECT_THAT(answer, HasSubstr("Inference-Header-Content-Length: " + std::to_string(wanted.size()) + "\r\n"));
  EXPECT_THAT(said("POST", "/v2/models/m/infer", json, "Inference-Header-Content-Length: x\r\n"),
              StartsWith("HTTP/1.1 400 "));
}

TEST_F(RestDoors, AnswersAreOfTheTraceOfTheirRequests) {
  start();
  const std::string trace = "0af7651916cd43dd8448eb211c80319c", caller = "00-" + trace + "-b7ad6b7169203331-01";
  const std::string headers = "Traceparent: " + caller + "\r\ntracestate: vendor=1\r\n";
  for (const char* body :
       {R"({"instances":[[1,2]]})", "not JSON", R"({"signature_name":"refused","instances":[[1,2]]})"}) {
    const std::string answer = predict(body, headers);
    EXPECT_THAT(answer, AllOf(HasSubstr("traceparent: 00-" + trace + "-"), HasSubstr("tracestate: vendor=1\r\n"),
                              Not(HasSubstr(caller))));
  }
  EXPECT_THAT(predict(R"({"instances":[[1,2]]})", "traceparent: 00-" + trace + "\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), Not(HasSubstr("traceparent"))));
  auto answer = std::async(std::launch::async,
                           [&] { return predict(R"({"signature_name":"held","instances":[[1,2]]})", headers); });
  ASSERT_TRUE(eventually([&] { return model_->held() == 1; }));
  const FakeServable::Held held = model_->take();
  held.done(FakeServable::twice(held.request));
  ASSERT_THAT(held.request.trace, StartsWith("00-" + trace + "-"));
  EXPECT_THAT(answer.get(), HasSubstr("traceparent: " + held.request.trace + "\r\n"));
}

TEST_F(RestDoors, DescribesModels) {
  start({.snapshot = [] { return ClusterSnapshot{.tasks = {{.task = "/job:serve/task:0"}}}; }});
  expect_answer(get("/v1/models/m"), 200,
                R"({"model_version_status":[{"state":"END","status":{"error_code":"DATA_LOSS",)"
                R"("error_message":"damaged"},"version":"2"},)"
                R"({"state":"AVAILABLE","status":{"error_code":"OK","error_message":""},"version":"3"}]})");
  EXPECT_THAT(get("/v1/models/m/versions/3"), Not(HasSubstr("damaged")));
  EXPECT_THAT(get("/v1/models/m/labels/stable"), Not(HasSubstr("damaged")));
  EXPECT_THAT(get("/v1/models/m/versions/9"), StartsWith("HTTP/1.1 404 "));
  const std::string metadata = get("/v1/models/m/metadata");
  EXPECT_THAT(metadata, HasSubstr(R"("model_spec":{"name":"m","signature_name":"","version":"3"})"));
  EXPECT_THAT(metadata, HasSubstr(R"("x":{"dtype":"DT_FLOAT","name":"x:0","tensor_shape":{"dim":[)"
                                  R"({"name":"","size":"-1"},{"name":"","size":"2"}],"unknown_rank":false}})"));
  expect_answer(get("/v2/models/m"), 200,
                R"({"inputs":[{"datatype":"FP32","name":"x","shape":[-1,2]}],"name":"m",)"
                R"("outputs":[{"datatype":"FP32","name":"y","shape":[-1,2]}],"platform":"troupe","versions":["3"]})");
  EXPECT_THAT(get("/v2"), HasSubstr(R"("extensions":["binary_tensor_data"])"));
  for (const char* path : {"/v2/models/m/ready", "/v2/health/live", "/healthz", "/readyz", "/v2/health/ready"})
    EXPECT_THAT(get(path), StartsWith("HTTP/1.1 200 ")) << path;
  for (const char* path : {"/metrics", "/monitoring/prometheus/metrics"})
    EXPECT_THAT(get(path), EndsWith("troupe_up{task=\"/job:serve/task:0\"} 0\n"));
  EXPECT_THAT(get("/snapshot"), HasSubstr(R"("task":"/job:serve/task:0")"));
  EXPECT_THAT(get("/"), AllOf(HasSubstr("Content-Security-Policy: default-src 'none'"), HasSubstr("<h1>Models")));
  ready_ = false;
  for (const char* path : {"/readyz", "/v2/health/ready"}) EXPECT_THAT(get(path), StartsWith("HTTP/1.1 503 ")) << path;
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(RestDoors, ErrorsHaveTensorFlowServingsStatuses) {
  start({.most_bytes = 100});
  struct Case {
    const char *method, *path, *body;
    int status;
    const char* message;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"POST", "/v1/models/m:predict", R"({"instances":[["a",1]]})", 400, "instances[0][0]"},
           {"POST", "/v1/models/m:predict", R"({"signature_name":"s","instances":[[1,2]]})", 404, "signature 's'"},
           {"POST", "/v1/models/other:predict", R"({"instances":[[1,2]]})", 404, "model 'other'"},
           {"POST", "/v1/models/m/versions/9:predict", R"({"instances":[[1,2]]})", 404, "no version 9"},
           {"POST", "/v1/models/m:classify", "{}", 501, "send the features to :predict"},
           {"GET", "/v1/models/m:predict", "", 405, "send POST"},
           {"POST", "/v1/models/m", "", 405, "send GET"},
           {"GET", "/v1/models/", "", 404, "paths are"},
           {"GET", "/v1/models/m/versions/x", "", 404, "a version is a number"},
           {"GET", "/metrics", "", 404, "no metrics"},
           {"GET", "/", "", 404, "paths are"},
           {"POST", "/v1/models/m:predict", R"({"signature_name":"refused","instances":[[1,2]]})", 503, "full"}}) {
    const std::string answer = said(c.method, c.path, c.body);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + std::to_string(c.status) + " ")) << c.path;
    EXPECT_THAT(answer, HasSubstr(R"({"error":")")) << c.path;
    EXPECT_THAT(answer, HasSubstr(c.message)) << c.path;
    EXPECT_EQ(answer.find("Retry-After: 2\r\n") != std::string::npos, c.status == 503) << c.path;
  }
  EXPECT_THAT(predict(std::string(101, ' ')), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(predict("{}", "Content-Encoding: gzip\r\n"), StartsWith("HTTP/1.1 501 "));
  EXPECT_THAT(predict(R"({"instances":[[1,2]]})", "X-Request-Timeout: soon\r\n"), HasSubstr("seconds above 0"));
  EXPECT_EQ(rest_status_of(Code::cancelled), 499);
  EXPECT_EQ(rest_status_of(Code::failed_precondition), 400);
  EXPECT_EQ(rest_status_of(Code::resource_exhausted), 429);
  EXPECT_EQ(rest_status_of(Code::deadline_exceeded), 504);
}

TEST_F(RestDoors, TokensAreOfModels) {
  start({.tokens = {{"m", "secret"}, {"", "other"}}});
  const std::string body = R"({"instances":[[1,2]]})";
  EXPECT_THAT(predict(body), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(predict(body, "Authorization: Bearer other\r\n"), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(predict(body, "Authorization: Bearer secret\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(get("/v2"), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(get("/v2", "Authorization: Bearer other\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(RestDoors, ADeadlineIsPassedOn) {
  start();
  auto asked = std::async(std::launch::async, [&] {
    return predict(R"({"signature_name":"held","instances":[[1,2]]})", "X-Request-Timeout: 1000\r\n");
  });
  EXPECT_TRUE(eventually([&] { return model_->held() == 1; }));
  const FakeServable::Held held = model_->take();
  const auto now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  EXPECT_GT(held.request.deadline, now);
  EXPECT_LE(held.request.deadline, now + 1000 * kSecond);
  held.done({.error = Error(Code::deadline_exceeded, "too late")});
  expect_answer(asked.get(), 504, R"({"error":"too late"})");
}

TEST_F(RestDoors, AClientThatGoesCancels) {
  start();
  {
    wire::RawPeer peer(door_->address().port);
    const std::string body = R"({"signature_name":"held","instances":[[1,2]]})";
    peer.send("POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
    EXPECT_TRUE(eventually([&] { return model_->held() == 1; }));
    EXPECT_EQ(model_->cancelled(), 0);
  }
  EXPECT_TRUE(eventually([&] { return model_->cancelled() == 1; }));
}

TEST_F(RestDoors, BodiesShareABudgetOfMemory) {
  start({.most_bytes = 1000, .memory = 1500});
  const auto padded = [](std::size_t bytes) {
    std::string body = R"({"instances":[[1,2]]})";
    return body + std::string(bytes - body.size(), ' ');
  };
  {
    wire::RawPeer holds(door_->address().port);
    holds.send("POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n");
    const std::string goes_on = "HTTP/1.1 100 Continue\r\n\r\n";  // its memory is counted by now
    EXPECT_EQ(holds.bytes(goes_on.size()), goes_on);
    holds.send("half");
    EXPECT_THAT(predict(padded(600)), StartsWith("HTTP/1.1 503 "));
    EXPECT_THAT(predict(padded(400)), StartsWith("HTTP/1.1 200 "));
  }
  EXPECT_TRUE(eventually([&] { return predict(padded(600)).starts_with("HTTP/1.1 200 "); }));
}

TEST_F(RestDoors, DrainFinishesWhatIsInFlight) {
  start();
  auto asked =
      std::async(std::launch::async, [&] { return predict(R"({"signature_name":"held","instances":[[1,2]]})"); });
  EXPECT_TRUE(eventually([&] { return model_->held() == 1; }));
  wire::RawPeer probe(door_->address().port);
  EXPECT_FALSE(door_->drain(std::chrono::nanoseconds(0)));
  const FakeServable::Held held = model_->take();
  held.done(FakeServable::twice(held.request));
  expect_answer(asked.get(), 200, R"({"predictions":[[2.0,4.0]]})");
  EXPECT_TRUE(door_->drain(kPatience));
}

}  // namespace
}  // namespace troupe
