#include "troupe/actors/serving/model_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/actors/serving/served_models.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/introspection/metrics.hpp>
#include <troupe/actors/model/publication.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::chrono::milliseconds kPoll{5};

class ModelServers : public ::testing::Test {
 protected:
  ModelServer& serve(std::vector<ServedModel> models, ServableManager::Options manager = {}) {
    server_ = std::make_unique<ModelServer>(task_, ModelServerOptions{.manager = manager, .poll = kPoll, .threads = 1});
    server_->configure(std::move(models));
    return *server_;
  }
  ServedModel times() const { return {.name = "times", .path = directory_.file("times")}; }
  bool is(std::int64_t version, ServableState state) const {
    for (const auto& s : server_->status("times"))
      if (s.id.version == version) return s.state == state;
    return false;
  }

  // Returns when the source has looked at "times" again, and the manager has acted on it: at "zoo" it looks after that.
  void pass_by(const ModelServer& server) {
    server.await_ready("zoo", kPatience);
    save_version(directory_, "zoo", ++zoo_);
    EXPECT_TRUE(eventually([&] { return server.find("zoo")->id().version == zoo_; }));
  }

  const TemporaryDirectory directory_;
  Task task_;
  std::unique_ptr<ModelServer> server_;
  int zoo_ = 1;
};

TEST_F(ModelServers, ServeTheNewestVersionAndAnswerByName) {
  save_version(directory_, "times", 2);
  save_version(directory_, "times", 10);
  const ModelServer& server = serve({times()});
  server.await_ready("times", kPatience);
  EXPECT_TRUE(server.ready());
  const ServableHandle handle = server.find("times");
  EXPECT_EQ(handle->id(), (ServableId{"times", 10}));
  EXPECT_EQ(handle->signature_named(""), "predict");
  const ServingResult result = ask(*handle, rows_of({1, 2, 3, 4}));
  ASSERT_FALSE(result.error) << result.error.message();
  EXPECT_THAT(result.outputs.at("y").values<float>(), ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(result.outputs.at("version").values<float>(), ElementsAre(10, 10));
  ServingRequest one = rows_of({1, 2});
  one.outputs = {"y"};
  EXPECT_EQ(ask(*handle, one).outputs.size(), 1u);
}

TEST_F(ModelServers, FollowWhatIsPublished) {
  FileSystem& files = posix_file_system();
  const auto publish = [&] {
    publish_version(files, directory_.file("times"), {}, [&](const std::string& path) {
      save_model(files, path, times_model(static_cast<float>(std::stoi(path.substr(path.rfind('/') + 1)))));
    });
  };
  publish();
  const ModelServer& server = serve({times()});
  server.await_ready("times", kPatience);
  publish();
  EXPECT_TRUE(eventually([&] { return is(2, ServableState::ready); }));
  EXPECT_TRUE(eventually([&] {  // the label follows the version
    try {
      return server.find("times", {.label = "canary"})->id().version == 2;
    } catch (const Error&) {
      return false;
    }
  }));
  EXPECT_EQ(server.find("times")->id().version, 1);
  EXPECT_EQ(server.find("times", {.label = "stable"})->id().version, 1);
  const auto labelled = [&] {
    const ClusterSnapshot snapshot = task_.introspection().view().snapshot();
    for (const ServableSnapshot& seen : snapshot.tasks.front().snapshot->servables)
      if (seen.version == 2) return seen.labels;
    return std::vector<std::string>();
  };
  EXPECT_TRUE(eventually([&] { return labelled() == std::vector<std::string>{"canary"}; }));
  promote(files, directory_.file("times"));
  EXPECT_TRUE(eventually([&] { return server.find("times")->id().version == 2; }));
  EXPECT_TRUE(eventually([&] { return is(1, ServableState::unloaded); }));
  rollback(files, directory_.file("times"));
  EXPECT_TRUE(eventually([&] { return server.find("times")->id().version == 1; }));
  EXPECT_TRUE(eventually([&] { return is(2, ServableState::unloaded); }));
}

TEST_F(ModelServers, CountWhatRequestsTookAndHowTheyEnded) {
  save_version(directory_, "times", 1);
  ServedModel model = times();
  model.batching = BatchQueue::Options{.most_rows = 4};
  const ModelServer& server = serve({model});
  server.await_ready("times", kPatience);
  {
    const ServableHandle handle = server.find("times");
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(ask(*handle, rows_of({1, 2, 3, 4})).error);
    EXPECT_TRUE(ask(*handle, {}).error);
  }
  const ClusterSnapshot snapshot = task_.introspection().view().snapshot();
  const auto& servables = snapshot.tasks.front().snapshot->servables;
  ASSERT_EQ(servables.size(), 1u);
  const ServableSnapshot& seen = servables.front();
  EXPECT_EQ(seen.model, "times");
  EXPECT_EQ(seen.state, "Ready");
  EXPECT_EQ(seen.in_flight, 0u);
  EXPECT_EQ(seen.waiting_rows, 0u);
  EXPECT_THAT(seen.requests, ElementsAre(Pair("invalid_argument", 1u), Pair("ok", 3u)));
  for (const char* stage : {"queue", "batch", "run", "total"}) EXPECT_EQ(seen.stages.at(stage).count, 3u) << stage;
  EXPECT_GE(seen.stages.at("total").sum_ns, seen.stages.at("queue").sum_ns + seen.stages.at("run").sum_ns);
  EXPECT_THAT(seen.batches, ElementsAre(0u, 3u));  // of two rows each
  EXPECT_EQ(seen.batch_rows, 6u);
  EXPECT_THAT(to_metrics(snapshot),
              AllOf(HasSubstr("troupe_servable_batch_rows_bucket{task=\"/job:local/task:0\",model=\"times\",version="
                              "\"1\",le=\"2\"} 3\n"),
                    HasSubstr("stage=\"queue\",le=\"+Inf\"} 3\n"),
                    HasSubstr(":tensorflow:serving:request_count{model_name=\"times\",status=\"INVALID_ARGUMENT\","
                              "version=\"1\"} 1\n"),
                    HasSubstr("nv_inference_exec_count{model=\"times\",version=\"1\"} 3\n")));
}

TEST_F(ModelServers, TellWhenAModelHasAVersionOrAReasonWhyNot) {
  save_version(directory_, "times", 1);
  std::mutex mutex;
  std::vector<std::string> states;
  server_ = std::make_unique<ModelServer>(
      task_, ModelServerOptions{.poll = kPoll, .threads = 1, .on_state = [&](const ServableManager::Status& status) {
                                  const std::lock_guard lock(mutex);
                                  states.push_back(status.id.to_string() + " " + std::string(name(status.state)));
                                }});
  server_->configure({times(), {.name = "none", .path = directory_.file("none")}});
  EXPECT_TRUE(server_->await_decided(kPatience));
  EXPECT_FALSE(server_->ready());
  EXPECT_THAT(error_of([&] { server_->find("none"); }).message(), HasSubstr("there is nothing here"));
  server_.reset();  // tells of the end, too
  EXPECT_THAT(states, ElementsAre("times/1 Loading", "times/1 Ready", "times/1 Quiescing", "times/1 Unloading",
                                  "times/1 Unloaded"));
}

TEST_F(ModelServers, RefuseRequestsThatDoNotFit) {
  save_version(directory_, "times", 1);
  const ModelServer& server = serve({times()});
  server.await_ready("times", kPatience);
  const ServableHandle handle = server.find("times");
  const auto code = [&](ServingRequest request) { return ask(*handle, std::move(request)).error.code(); };
  ServingRequest request = rows_of({1, 2});
  request.signature = "other";
  EXPECT_EQ(code(request), Code::not_found);
  request = rows_of({1, 2});
  request.outputs = {"z"};
  EXPECT_EQ(code(request), Code::not_found);
  EXPECT_EQ(code({}), Code::invalid_argument);
  EXPECT_EQ(code({.inputs = {{"x", Tensor::of<float>({1, 3}, {1, 2, 3})}}}), Code::invalid_argument);
  EXPECT_EQ(code({.inputs = {{"x", Tensor::of<double>({1, 2}, {1, 2})}}}), Code::invalid_argument);
  request = rows_of({1, 2});
  request.inputs["w"] = Tensor::scalar(1.0f);
  EXPECT_EQ(code(request), Code::invalid_argument);
  request = rows_of({1, 2});
  request.deadline = 1;
  EXPECT_EQ(code(request), Code::deadline_exceeded);
  EXPECT_EQ(error_of([&] { server.find("none"); }).code(), Code::not_found);
  EXPECT_EQ(error_of([&] { server.find("times", {.version = 7}); }).code(), Code::not_found);
  EXPECT_EQ(error_of([&] { static_cast<void>(server.status("none")); }).code(), Code::not_found);
}

TEST_F(ModelServers, SwapVersionsUnderRequestsWithoutAFailure) {
  save_version(directory_, "times", 1);
  const ModelServer& server = serve({times()});
  server.await_ready("times", kPatience);
  std::atomic<bool> over = false;
  std::atomic<int> asked = 0, wrong = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back([&] {
      while (!over) {
        const ServableHandle handle = server.find("times");
        const ServingResult result = ask(*handle, rows_of({1, 2}));
        const auto version = static_cast<float>(handle->id().version);
        if (result.error || result.outputs.at("y").values<float>()[1] != 2 * version ||
            result.outputs.at("version").values<float>()[0] != version)
          ++wrong;
        ++asked;
      }
    });
  for (int version = 2; version <= 6; ++version) {
    save_version(directory_, "times", version);
    EXPECT_TRUE(
        eventually([&] { return is(version, ServableState::ready) && !is(version - 1, ServableState::ready); }));
  }
  EXPECT_TRUE(eventually([&] { return asked > 100; }));
  over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(eventually([&] { return is(5, ServableState::unloaded); }));
}

TEST_F(ModelServers, KeepAVersionUntilItsLastHandleIsGone) {
  save_version(directory_, "times", 1);
  const ModelServer& server = serve({times()});
  server.await_ready("times", kPatience);
  ServableHandle old = server.find("times");
  save_version(directory_, "times", 2);
  EXPECT_TRUE(eventually([&] { return is(2, ServableState::ready) && is(1, ServableState::quiescing); }));
  EXPECT_EQ(server.find("times")->id().version, 2);
  EXPECT_THAT(ask(*old, rows_of({1, 2})).outputs.at("y").values<float>(), ElementsAre(1, 2));
  EXPECT_TRUE(is(1, ServableState::quiescing));
  old = nullptr;
  EXPECT_TRUE(eventually([&] { return is(1, ServableState::unloaded); }));
}

TEST_F(ModelServers, AVersionThatIsWantedAgainMeanwhileIsKeptToo) {
  for (const int version : {1, 2}) save_version(directory_, "times", version);
  save_version(directory_, "zoo", 1);
  ServedModel both = times(), second = times();
  both.versions = AllVersions{};
  second.versions = SpecificVersions{{2}};
  both.batching = second.batching = BatchQueue::Options{.timeout = 0};
  const ServedModel zoo{.name = "zoo", .path = directory_.file("zoo")};
  ModelServer& server = serve({both, zoo});
  EXPECT_TRUE(eventually([&] { return is(1, ServableState::ready) && is(2, ServableState::ready); }));
  ServableHandle old = server.find("times", {.version = 1});
  server.configure({second, zoo});
  EXPECT_TRUE(eventually([&] { return is(1, ServableState::quiescing); }));
  server.configure({both, zoo});
  EXPECT_TRUE(eventually([&] { return is(1, ServableState::ready); }));
  server.configure({second, zoo});
  EXPECT_TRUE(eventually([&] { return is(1, ServableState::quiescing); }));
  pass_by(server);
  EXPECT_TRUE(is(1, ServableState::quiescing));
  EXPECT_THAT(ask(*old, rows_of({1, 2})).outputs.at("y").values<float>(), ElementsAre(1, 2));
  old = nullptr;
  EXPECT_TRUE(eventually([&] { return is(1, ServableState::unloaded); }));
}

TEST_F(ModelServers, APathThatCannotBeReadAnyMoreChangesNothing) {
  save_version(directory_, "times", 1);
  save_version(directory_, "zoo", 1);
  const ModelServer& server = serve({times(), {.name = "zoo", .path = directory_.file("zoo")}});
  server.await_ready("times", kPatience);
  std::filesystem::rename(directory_.file("times"), directory_.file("away"));
  pass_by(server);
  EXPECT_TRUE(is(1, ServableState::ready));
  EXPECT_THAT(ask(*server.find("times"), rows_of({1, 2})).outputs.at("y").values<float>(), ElementsAre(1, 2));
}

TEST_F(ModelServers, KeepTheReadyVersionBesideOneThatFails) {
  save_version(directory_, "times", 1);
  std::filesystem::create_directories(directory_.file("times/2"));
  directory_.write("times/2/metadata.json", "not a model");
  const ModelServer& server = serve({{.name = "times", .path = directory_.file("times"), .versions = AllVersions{}}},
                                    {.attempts = 2, .first_pause = kMillisecond});
  EXPECT_TRUE(eventually([&] { return is(2, ServableState::error) && is(1, ServableState::ready); }));
  EXPECT_EQ(server.find("times")->id().version, 1);
  EXPECT_THAT(server.status("times")[1].error.message(), HasSubstr("times/2"));
  save_version(directory_, "good", 2);
  posix_file_system().exchange(directory_.file("times/2"), directory_.file("good/2"));
  server_->retry({"times", 2});
  EXPECT_TRUE(eventually([&] { return is(2, ServableState::ready); }));
}

TEST_F(ModelServers, SayWhyAModelHasNoVersion) {
  const ModelServer& server = serve({times()});
  EXPECT_FALSE(server.ready());
  EXPECT_TRUE(eventually([&] {
    const Error why = error_of([&] { server.find("times"); });
    return why.code() == Code::unavailable && why.message().find("there is nothing here") != std::string::npos;
  }));
  EXPECT_EQ(error_of([&] { server.await_ready("times", kPoll); }).code(), Code::deadline_exceeded);
  save_version(directory_, "times", 3);
  server.await_ready("times", kPatience);
}

TEST_F(ModelServers, LabelsNameVersionsThatAreReady) {
  for (const int version : {1, 2}) save_version(directory_, "times", version);
  ServedModel model = times();
  model.versions = AllVersions{};
  model.labels = {{"stable", 1}, {"canary", 2}};
  ModelServer& server = serve({model});
  EXPECT_TRUE(eventually([&] { return is(1, ServableState::ready) && is(2, ServableState::ready); }));
  EXPECT_EQ(server.find("times", {.label = "stable"})->id().version, 1);
  EXPECT_EQ(server.find("times", {.label = "canary"})->id().version, 2);
  model.labels["stable"] = 3;
  EXPECT_EQ(error_of([&] { server.configure({model}); }).code(), Code::failed_precondition);
  EXPECT_EQ(server.find("times", {.label = "stable"})->id().version, 1);
  model.labels["stable"] = 2;
  server.configure({model});
  EXPECT_EQ(server.find("times", {.label = "stable"})->id().version, 2);
}

TEST_F(ModelServers, ConfigurationsThatDoNotFitChangeNothing) {
  save_version(directory_, "times", 1);
  ModelServer& server = serve({times()});
  server.await_ready("times", kPatience);
  const auto code = [&](std::vector<ServedModel> models) {
    return error_of([&] { server.configure(std::move(models)); }).code();
  };
  EXPECT_EQ(code({{.name = "", .path = "a"}}), Code::invalid_argument);
  EXPECT_EQ(code({{.name = "a", .path = ""}}), Code::invalid_argument);
  EXPECT_EQ(code({times(), times()}), Code::invalid_argument);
  EXPECT_EQ(code({{.name = "a", .path = "a", .batching = BatchQueue::Options{.most_rows = 0}}}),
            Code::invalid_argument);
  EXPECT_EQ(server.models().size(), 1u);
  EXPECT_EQ(server.find("times")->id().version, 1);
}

TEST_F(ModelServers, AModelThatIsNotConfiguredAnyMoreIsUnloaded) {
  save_version(directory_, "times", 1);
  save_version(directory_, "more", 1);
  ModelServer& server = serve({times(), {.name = "more", .path = directory_.file("more")}});
  server.await_ready("times", kPatience);
  server.await_ready("more", kPatience);
  server.configure({{.name = "more", .path = directory_.file("more")}});
  EXPECT_EQ(error_of([&] { server.find("times"); }).code(), Code::not_found);
  EXPECT_TRUE(eventually([&] {
    for (const auto& s : server.status())
      if (s.id.model == "times" && s.state != ServableState::unloaded) return false;
    return true;
  }));
  EXPECT_EQ(server.find("more")->id().version, 1);
}

TEST_F(ModelServers, UnloadWhatALoaderThatFailedHad) {
  save_version(directory_, "times", 1);
  ServedModel model = times();
  model.batching = BatchQueue::Options{.timeout = 0};
  ModelServer& server = serve({model});
  for (const bool before : {true, false}) {
    server.await_ready("times", kPatience);
    if (before) {
      EXPECT_EQ(task_.actors().send_stray("loader", Stray::kill), 1);
      EXPECT_TRUE(eventually([&] { return task_.actors().send_stray("loader", Stray::unknown) == 0; }));
      EXPECT_FALSE(ask(*server.find("times"), rows_of({1, 2})).error);  // the version goes on
    } else {
      EXPECT_TRUE(task_.actors().fail_next("loader"));  // as it is told to unload
    }
    server.configure({});
    EXPECT_TRUE(eventually(
        [&] { return server.status().empty() || server.status().front().state == ServableState::unloaded; }));
    EXPECT_TRUE(eventually([&] { return task_.actors().send_stray("batcher", Stray::unknown) == 0; }));
    server.configure({model});
    EXPECT_TRUE(eventually([&] { return is(1, ServableState::ready); }));
    EXPECT_FALSE(ask(*server.find("times"), rows_of({1, 2})).error);
  }
}

TEST_F(ModelServers, DoNotLoadWhatDoesNotFitIntoMemory) {
  save_version(directory_, "times", 1);
  const ModelServer& server = serve({times()}, {.memory = 10});
  EXPECT_TRUE(
      eventually([&] { return error_of([&] { server.find("times"); }).message().find("needs") != std::string::npos; }));
}

}  // namespace
}  // namespace troupe::testing
