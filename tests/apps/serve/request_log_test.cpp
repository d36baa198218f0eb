#include "apps/serve/request_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <semaphore>

#include "apps/serve/rest_door.hpp"
#include "tests/actors/checkpoint/forwarding_file_system.hpp"
#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/actors/serving/served_models.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/serve/fake_servable.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/model/recorded_requests.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

constexpr const char* kPrefix = "/logs/requests";

// Appends only what a test lets through.
class HeldFiles final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    return std::make_unique<HeldFile>(ForwardingFileSystem::create(path), allowed);
  }
  std::counting_semaphore<> allowed{0};

 private:
  class HeldFile final : public WritableFile {
   public:
    HeldFile(std::unique_ptr<WritableFile> file, std::counting_semaphore<>& allowed)
        : file_(std::move(file)), allowed_(allowed) {}
    void append(std::span<const std::byte> bytes) override {
      allowed_.acquire();
      file_->append(bytes);
    }
    void sync() override { file_->sync(); }
    void close() override { file_->close(); }

   private:
    const std::unique_ptr<WritableFile> file_;
    std::counting_semaphore<>& allowed_;
  };
};

class RequestLogs : public ::testing::Test {
 protected:
  RequestLog::Options all() const { return {.prefix = kPrefix, .rate = 1}; }
  static ServedModels models() {
    static const std::atomic<bool> ready = true;
    return models_with(std::make_shared<FakeServable>(), ready);
  }
  static void ask_logged(const RequestLog& log, ServingRequest request) {
    static_cast<void>(ask(*log.logged(models()).find("m", {}), std::move(request)));
  }
  // For any reason.
  static std::uint64_t left_out(const RequestLog& log) {
    std::uint64_t out = 0;
    for (const auto& [reason, requests] : log.snapshot().left_out) out += requests;
    return out;
  }
  std::vector<std::string> names() {
    std::vector<std::string> out;
    for (const DirectoryEntry& entry : files_.list("/logs")) out.push_back(entry.name);
    return out;
  }
  std::vector<RecordedRequest> logged(const char* number) {
    return read_recorded_requests(files_, fmt::format("{}-{}.tfrecord", kPrefix, number));
  }

  MemoryFileSystem files_;
};

TEST_F(RequestLogs, HaveRequestsWithTheirAnswersAndWhoComputedThem) {
  {
    const RequestLog log(files_, all());
    const ServedModels logged = log.logged(models());
    EXPECT_TRUE(logged.ready());
    const ServableHandle handle = logged.find("m", {});
    EXPECT_EQ(handle->id(), (ServableId{"m", 3}));
    EXPECT_EQ(handle->signatures().size(), 3u);
    EXPECT_EQ(handle->signature_named(""), "serving_default");
    const ServingResult result = ask(*handle, rows_of({1, 2}));
    EXPECT_THAT(result.outputs.at("y").values<float>(), ElementsAre(2, 4));
    log.flush();
    const RequestLogSnapshot seen = log.snapshot();
    EXPECT_EQ(seen.written, 1u);
    EXPECT_EQ(seen.bytes, files_.open(std::string(kPrefix) + "-00000.tfrecord")->size());
    EXPECT_THAT(seen.left_out, ElementsAre(Pair("error", 0), Pair("format", 0), Pair("queue", 0), Pair("size", 0)));
    EXPECT_EQ(seen.errors, 0u);
    EXPECT_EQ(seen.error, "");
    EXPECT_EQ(this->logged("00000").size(), 1u);  // without the end of the log
  }
  const std::vector<RecordedRequest> found = logged("00000");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].signature, "serving_default");
  EXPECT_THAT(found[0].inputs.at("x").values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(found[0].outputs.at("y").values<float>(), ElementsAre(2, 4));
}

TEST_F(RequestLogs, LeaveOutRequestsThatFail) {
  const RequestLog log(files_, all());
  ServingRequest refused = rows_of({1, 2});
  refused.signature = "refused";
  ask_logged(log, refused);
  log.flush();
  EXPECT_EQ(log.snapshot().written + left_out(log), 0u);
  EXPECT_EQ(error_of([&] { log.logged(models()).find("other", {}); }).code(), Code::not_found);
}

TEST_F(RequestLogs, ChooseTheSameRequestsOfTheRateEachTime) {
  int tenth = 0, half = 0;
  for (std::uint64_t n = 0; n < 100000; ++n) {
    EXPECT_TRUE(is_logged(n, 1));
    half += is_logged(n, 0.5) ? 1 : 0;
    if (!is_logged(n, 0.1)) continue;
    ++tenth;
    EXPECT_TRUE(is_logged(n, 0.5));
  }
  EXPECT_NEAR(tenth, 10000, 300);
  EXPECT_NEAR(half, 50000, 500);

  RequestLog::Options options = all();
  options.rate = 0.1;
  std::uint64_t expected = 0;
  for (std::uint64_t n = 0; n < 200; ++n) expected += is_logged(n, 0.1) ? 1 : 0;
  const RequestLog log(files_, options);
  for (int i = 0; i < 200; ++i) ask_logged(log, rows_of({1, 2}));
  log.flush();
  EXPECT_EQ(log.snapshot().written, expected);
}

TEST_F(RequestLogs, ShareTensorsAndLeaveOthersAsTheyAre) {
  const RequestLog log(files_, all());
  RequestLog::Options options = all();
  options.rate = 1e-12;
  options.prefix = "/logs/other";
  const RequestLog rare(files_, options);
  const auto model = std::make_shared<FakeServable>();
  const std::atomic<bool> ready = true;
  EXPECT_EQ(rare.logged(models_with(model, ready)).find("m", {}), model);
  EXPECT_NE(log.logged(models_with(model, ready)).find("m", {}), model);
}

TEST_F(RequestLogs, DropRequestsThatTheyCannotWriteInTime) {
  HeldFiles held(files_);
  RequestLog::Options options = all();
  options.most_waiting_bytes = 1300;  // two requests, not three
  const RequestLog log(held, options);
  for (int i = 0; i < 5; ++i) ask_logged(log, rows_of({static_cast<float>(i), 0}));
  EXPECT_EQ(log.snapshot().left_out.at("queue"), 3u);
  held.allowed.release(100);
  log.flush();
  EXPECT_EQ(log.snapshot().written, 2u);
  ask_logged(log, rows_of({7, 0}));
  ask_logged(log, {.inputs = {{"x", Tensor::zeros(DType::f32, {200, 2})}}});  // is more than may wait
  log.flush();
  EXPECT_EQ(log.snapshot().written, 3u);
  EXPECT_EQ(log.snapshot().left_out.at("queue"), 3u);
  EXPECT_EQ(log.snapshot().left_out.at("size"), 1u);
  EXPECT_EQ(left_out(log), 4u);
  std::vector<float> written;
  for (const RecordedRequest& request : logged("00000")) written.push_back(request.inputs.at("x").values<float>()[0]);
  EXPECT_THAT(written, ElementsAre(0, 1, 7));
}

TEST_F(RequestLogs, BeginNewFilesAndRemoveTheOldest) {
  RequestLog::Options options = all();
  options.most_file_requests = 2;
  options.most_files = 2;
  {
    const RequestLog log(files_, options);
    for (int i = 0; i < 5; ++i) ask_logged(log, rows_of({static_cast<float>(i), 0}));
  }
  EXPECT_THAT(names(), ElementsAre("requests-00001.tfrecord", "requests-00002.tfrecord"));
  EXPECT_EQ(logged("00001").size(), 2u);
  EXPECT_EQ(logged("00002").at(0).inputs.at("x").values<float>()[0], 4);
  // The next run goes on behind, and uses its empty file again.
  for (int run = 0; run < 3; ++run) RequestLog(files_, options).flush();
  EXPECT_THAT(names(), ElementsAre("requests-00002.tfrecord", "requests-00003.tfrecord"));
  EXPECT_EQ(logged("00002").size(), 1u);

  options.prefix = "/logs/small";
  options.most_file_requests = options.most_files = 10;
  options.most_file_bytes = 450;
  {
    const RequestLog log(files_, options);
    for (int i = 0; i < 3; ++i) ask_logged(log, rows_of({1, 2}));
    ask_logged(log, {.inputs = {{"x", Tensor::zeros(DType::f32, {50, 2})}}});
    log.flush();
    EXPECT_EQ(log.snapshot().written, 3u);
    EXPECT_EQ(log.snapshot().left_out.at("size"), 1u);
    EXPECT_EQ(left_out(log), 1u);
  }
  for (const char* number : {"00000", "00001"}) {
    const auto bytes = files_.open(fmt::format("/logs/small-{}.tfrecord", number))->size();
    EXPECT_TRUE(bytes > 0 && bytes <= 450) << bytes;
  }
}

TEST_F(RequestLogs, EndAtAnErrorAndSayIt) {
  const RequestLog log(files_, all());
  ask_logged(log, rows_of({1, 2}));
  log.flush();
  files_.full_at = files_.operations();
  for (int i = 0; i < 2; ++i) {
    ask_logged(log, rows_of({1, 2}));
    log.flush();
    files_.full_at = MemoryFileSystem::kNever;
  }
  const RequestLogSnapshot seen = log.snapshot();
  EXPECT_EQ(seen.written, 1u);
  EXPECT_EQ(seen.left_out.at("error"), 2u);
  EXPECT_EQ(left_out(log), 2u);
  EXPECT_EQ(seen.errors, 1u);
  EXPECT_THAT(seen.error, StartsWith("request log '/logs/requests': "));
}

TEST_F(RequestLogs, TellTheirErrorsOverHttp) {
  Task task({.name = {"serve", 0}, .threads = 1});
  const RequestLog log(files_, all());
  task.introspection().set_request_log([&] { return log.snapshot(); });
  const RestDoor door(log.logged(models()), {.snapshot = [&] { return task.introspection().view().snapshot(); }});
  const auto said = [&](const char* path) {
    wire::RawPeer peer(door.address().port);
    peer.send(fmt::format("GET {} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", path));
    return peer.all_that_comes();
  };
  files_.full_at = files_.operations();
  ask_logged(log, rows_of({1, 2}));
  log.flush();
  EXPECT_THAT(said("/metrics"),
              AllOf(HasSubstr("troupe_request_log_errors_total{task=\"/job:serve/task:0\"} 1\n"),
                    HasSubstr("troupe_request_log_left_out_total{task=\"/job:serve/task:0\",reason=\"error\"} 1\n"),
                    HasSubstr("troupe_request_log_requests_total{task=\"/job:serve/task:0\"} 0\n")));
  EXPECT_THAT(said("/snapshot"), HasSubstr(R"("error":"request log '/logs/requests': )"));
  task.introspection().set_request_log(nullptr);
}

TEST_F(RequestLogs, MayEndBeforeRequestsDo) {
  const auto model = std::make_shared<FakeServable>();
  const std::atomic<bool> ready = true;
  ServingRequest request = rows_of({1, 2});
  request.signature = "held";
  std::future<ServingResult> answer;
  ServableHandle handle;
  {
    const RequestLog log(files_, all());
    handle = log.logged(models_with(model, ready)).find("m", {});
    answer = begin(*handle, request);
  }
  const FakeServable::Held held = model->take();
  held.done(FakeServable::twice(held.request));
  const ServingResult result = answer.get();
  EXPECT_THAT(result.outputs.at("y").values<float>(), ElementsAre(2, 4));
  EXPECT_TRUE(result.outputs.at("y").unique());  // not kept to be written
  EXPECT_TRUE(logged("00000").empty());
}

TEST_F(RequestLogs, RefuseOptionsThatCannotBeMet) {
  const auto refuses = [&](const char* prefix, double rate, std::size_t files, const char* why) {
    const Error error =
        error_of([&] { RequestLog(files_, {.prefix = prefix, .rate = rate, .most_files = files}).flush(); });
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_THAT(error.message(), HasSubstr(why));
  };
  refuses("", 1, 1, "give the beginning of its files' names");
  refuses("/logs/", 1, 1, "give the beginning of its files' names");
  for (const double rate : {0.0, -1.0, 1.5, std::nan("")}) refuses(kPrefix, rate, 1, "above 0 and at most 1");
  refuses(kPrefix, 1, 0, "limits must be at least 1");
  files_.create("/file");
  EXPECT_THAT(error_of([&] { RequestLog(files_, {.prefix = "/file/x"}).flush(); }).message(), HasSubstr("/file"));
}

// Files are written beside the versions of a model: the next version is warmed up with them.
TEST(RequestLogsOnDisk, WarmUpAModel) {
  const TemporaryDirectory directory;
  save_version(directory, "times", 1);
  Task task;
  ModelServer server(task, {.poll = std::chrono::milliseconds(5), .threads = 1});
  server.configure({{.name = "times", .path = directory.file("times")}});
  server.await_ready("times", kPatience);
  {
    const RequestLog log(posix_file_system(), {.prefix = directory.file("log"), .rate = 1});
    const ServableHandle handle = log.logged(ServedModels::of(server)).find("times", {});
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(ask(*handle, rows_of({1, 2})).error);
  }
  std::filesystem::rename(directory.file("log-00000.tfrecord"), directory.file("times/recorded_requests.tfrecord"));
  save_version(directory, "times", 2);
  EXPECT_TRUE(eventually([&] { return server.find("times")->id().version == 2; }));
}

// As TensorFlow reads them, with TensorFlow Serving's messages.
TEST(RequestLogsOnDisk, AreReadByTensorflow) {
  const char* given = std::getenv("TROUPE_TENSORFLOW_PYTHON");
  const std::string python = given ? given : source_file("build/python/bin/python3");
  const std::string script = python + " " + source_file("tests/apps/serve/read_request_log.py");
  if (!std::filesystem::exists(python) || std::system((script + " 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no TensorFlow with tensorflow-serving-api (pip install --no-deps) in build/python";
  const TemporaryDirectory directory;
  {
    const RequestLog log(posix_file_system(), {.prefix = directory.file("log"), .rate = 1});
    const std::atomic<bool> ready = true;
    const ServedModels models = log.logged(models_with(std::make_shared<FakeServable>(), ready));
    for (const float x : {1.0f, 2.0f}) static_cast<void>(ask(*models.find("m", {}), rows_of({x, 0.5f})));
  }
  const std::string out = directory.file("out"), errors = directory.file("errors");
  EXPECT_EQ(std::system((script + " " + directory.file("log-00000.tfrecord") + " >" + out + " 2>" + errors).c_str()), 0)
      << content_of(errors);
  EXPECT_EQ(content_of(out),
            "m 3 serving_default 1.0 x=[[1.0, 0.5]] y=[[2.0, 1.0]]\n"
            "m 3 serving_default 1.0 x=[[2.0, 0.5]] y=[[4.0, 1.0]]\n");
}

}  // namespace
}  // namespace troupe::testing
