// Routers and replicas: tasks of one process, over real sockets.
#include "troupe/actors/serving/router.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/actors/serving/served_models.hpp"
#include "tests/actors/task_cluster.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/serving/replica.hpp>
#include <troupe/actors/serving/replica_state.hpp>
#include <troupe/actors/serving/traced_requests.hpp>
#include <troupe/actors/trace/trace_file.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Routers : public ::testing::Test {
 protected:
  static constexpr std::size_t kReplicas = 2;  // serve/0, serve/1, router/0

  struct Served {
    // `complete`: called before the models of a router's configuration are tried or taken.
    Served(
        Task& task, std::vector<ServedModel> models, std::function<void()> complete = [] {})
        : completing(std::move(complete)),
          server(task,
                 ModelServerOptions{
                     .poll = std::chrono::milliseconds(5), .threads = 1, .on_state = [this](auto&) { refresh(); }}) {
      server.configure(std::move(models));
      server.await_decided(kPatience);
      auto made = std::make_unique<Replica>(task, server, [this](std::vector<ServedModel> given) {
        completing();
        return given;
      });
      {
        const std::lock_guard lock(mutex);
        replica = std::move(made);
      }
      refresh();
    }
    ~Served() {
      const std::unique_ptr<Replica> ends = [this] {
        const std::lock_guard lock(mutex);
        return std::move(replica);
      }();
    }
    void refresh() {
      const std::lock_guard lock(mutex);
      if (replica) replica->refresh();
    }
    std::mutex mutex;
    std::unique_ptr<Replica> replica;
    std::function<void()> completing;
    ModelServer server;
  };

  void start(const std::optional<BatchQueue::Options>& batching = {}, std::function<void()> on_change = nullptr) {
    for (std::size_t i = 0; i < kReplicas; ++i)
      served_.push_back(std::make_unique<Served>(
          cluster_[i],
          std::vector<ServedModel>{{.name = "times", .path = directory_.file("times"), .batching = batching}}));
    router_.emplace(cluster_[kReplicas], RequestRouter::Options{.patience = 100 * kMillisecond}, std::move(on_change));
    ASSERT_TRUE(router_->await_ready(kPatience));
    // Each has told of its model.
    ASSERT_TRUE(eventually([&] { return router_->serving("times") == kReplicas; }));
  }
  ServedModel model(const std::string& name) const { return {.name = name, .path = directory_.file(name)}; }
  std::future<Error> configure(const std::vector<ServedModel>& models) {
    auto promise = std::make_shared<std::promise<Error>>();
    router_->configure(models, [promise](const Error& error) { promise->set_value(error); });
    return promise->get_future();
  }
  static Error ended(std::future<Error> configuring) {
    if (configuring.wait_for(kPatience) == std::future_status::ready) return configuring.get();
    return {Code::internal, "it does not end"};
  }
  std::string name_at(std::size_t replica) const {
    const std::vector<ServedModel> models = served_[replica]->server.models();
    return models.size() == 1 ? models.front().name : std::to_string(models.size()) + " models";
  }
  // Requests that each replica has answered.
  std::uint64_t answered(std::size_t replica) const {
    const ClusterSnapshot all = cluster_[replica].introspection().view().snapshot();
    for (const TaskReport& report : all.tasks)
      if (report.task == cluster_[replica].name().to_string() && report.snapshot)
        for (const ServableSnapshot& seen : report.snapshot->servables)
          if (const auto ok = seen.requests.find("ok"); ok != seen.requests.end()) return ok->second;
    return 0;
  }

  const TemporaryDirectory directory_;
  const TaskCluster cluster_{std::vector<TaskName>{{"serve", 0}, {"serve", 1}, {"router", 0}}};
  std::vector<std::unique_ptr<Served>> served_;
  std::optional<Router> router_;
};

TEST_F(Routers, AnswerAsOneServer) {
  save_version(directory_, "times", 3);
  start();
  EXPECT_TRUE(router_->ready());
  EXPECT_THAT(router_->models(), ElementsAre("times"));
  const ServableHandle handle = router_->find("times");
  EXPECT_EQ(handle->id(), (ServableId{"times", 3}));
  EXPECT_EQ(handle->signature_named(""), "predict");
  EXPECT_EQ(handle->signatures().at("predict").inputs.at("x").shape, (Shape{kUnknown, 2}));
  for (int i = 0; i < 6; ++i) {
    const ServingResult result = ask(*handle, rows_of({1, 2, 3, 4}));
    ASSERT_FALSE(result.error) << result.error.message();
    EXPECT_THAT(result.outputs.at("y").values<float>(), ElementsAre(3, 6, 9, 12));
  }
  EXPECT_TRUE(eventually([&] { return answered(0) == 3 && answered(1) == 3; })) << answered(0) << " " << answered(1);
  EXPECT_EQ(router_->status("times").front().state, ServableState::ready);
  EXPECT_EQ(error_of([&] { router_->find("none"); }).code(), Code::not_found);
  EXPECT_EQ(error_of([&] { static_cast<void>(router_->status("none")); }).code(), Code::not_found);
}

TEST_F(Routers, PassOnWhatIsWrongWithARequest) {
  save_version(directory_, "times", 1);
  start();
  const ServableHandle handle = router_->find("times");
  EXPECT_EQ(ask(*handle, {}).error.code(), Code::invalid_argument);
  ServingRequest request = rows_of({1, 2});
  request.outputs = {"z"};
  EXPECT_EQ(ask(*handle, request).error.code(), Code::not_found);
  request.outputs = {"y"};
  EXPECT_EQ(ask(*handle, request).outputs.size(), 1u);
  request = rows_of({1, 2});
  request.signature = "none";
  EXPECT_EQ(ask(*handle, request).error.code(), Code::not_found);
  request = rows_of({1, 2});
  request.deadline = 1;
  EXPECT_EQ(ask(*handle, request).error.code(), Code::deadline_exceeded);
}

TEST_F(Routers, KeepKeysTogether) {
  save_version(directory_, "times", 1);
  start();
  const ServableHandle handle = router_->find("times");
  for (int i = 0; i < 8; ++i) {
    ServingRequest request = rows_of({1, 2});
    request.key = "a user";
    EXPECT_FALSE(ask(*handle, request).error);
  }
  EXPECT_TRUE(eventually([&] { return answered(0) + answered(1) == 8; }));
  EXPECT_TRUE(answered(0) == 0 || answered(1) == 0);
}

TEST_F(Routers, SendWhatALostReplicaHadToAnother) {
  save_version(directory_, "times", 2);
  start(BatchQueue::Options{.most_rows = 8, .timeout = 3600 * kSecond});  // requests wait until there are eight rows
  const ServableHandle handle = router_->find("times");
  std::vector<std::future<ServingResult>> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(begin(*handle, rows_of({1, 2, 3, 4})));  // two with each replica
  const auto waiting = [&](std::size_t replica) {
    const ClusterSnapshot all = cluster_[replica].introspection().view().snapshot();
    for (const TaskReport& report : all.tasks)
      if (report.task == cluster_[replica].name().to_string() && report.snapshot)
        for (const ServableSnapshot& seen : report.snapshot->servables) return seen.waiting_rows;
    return std::uint64_t{0};
  };
  EXPECT_TRUE(eventually([&] { return waiting(0) == 4 && waiting(1) == 4; }));
  served_[0].reset();
  cluster_[0].shutdown();
  for (auto& answer : answers) {
    ASSERT_EQ(answer.wait_for(kPatience), std::future_status::ready);
    const ServingResult result = answer.get();
    EXPECT_FALSE(result.error) << result.error.message();
  }
  EXPECT_TRUE(eventually([&] { return answered(1) == 4; })) << answered(1);
}

TEST_F(Routers, CancelAndGiveUp) {
  save_version(directory_, "times", 2);
  start(BatchQueue::Options{.most_rows = 8, .timeout = 3600 * kSecond});
  const ServableHandle handle = router_->find("times");
  std::shared_ptr<ServingCall> call;
  auto cancelled = begin(*handle, rows_of({1, 2}), &call);
  call->cancel();
  EXPECT_EQ(cancelled.get().error.code(), Code::cancelled);
  ServingRequest late = rows_of({1, 2});
  late.deadline = steady_now_ns() + 30 * kMillisecond;
  EXPECT_EQ(ask(*handle, late).error.code(), Code::deadline_exceeded);
  served_.clear();  // both: nobody is left
  const ServingResult nobody = ask(*handle, rows_of({1, 2}));
  EXPECT_EQ(nobody.error.code(), Code::unavailable);
  EXPECT_GT(nobody.retry_after_ms, 0);
}

TEST_F(Routers, FollowReplicasToNewVersions) {
  save_version(directory_, "times", 1);
  start();
  save_version(directory_, "times", 2);
  EXPECT_TRUE(eventually([&] { return router_->find("times")->id().version == 2; }));
  const ServingResult result = ask(*router_->find("times"), rows_of({1, 2}));
  EXPECT_THAT(result.outputs.at("version").values<float>(), ElementsAre(2));
}

TEST_F(Routers, FinishWhatADrainedReplicaHas) {
  save_version(directory_, "times", 2);
  start();
  std::atomic<bool> over = false;
  std::atomic<int> failed = 0, asked = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i)
    clients.emplace_back([&] {
      while (!over) {
        if (ask(*router_->find("times"), rows_of({1, 2})).error) ++failed;
        ++asked;
      }
    });
  EXPECT_TRUE(served_[0]->replica->drain(std::chrono::milliseconds(0), kPatience));
  served_[0].reset();
  const int before = asked;
  EXPECT_TRUE(eventually([&] { return asked > before + 50; }));
  over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed, 0);
}

TEST_F(Routers, ConfigureAllReplicas) {
  save_version(directory_, "times", 1);
  save_version(directory_, "other", 2);
  start();
  EXPECT_TRUE(served_[0]->replica->change([] {}));
  const Error error = ended(configure({model("other")}));
  ASSERT_FALSE(error) << error.message();
  EXPECT_EQ(name_at(0), "other");
  EXPECT_EQ(name_at(1), "other");
  // Doors know of it by then.
  EXPECT_THAT(router_->models(), ElementsAre("other"));
  EXPECT_EQ(error_of([&] { router_->find("times"); }).code(), Code::not_found);
  EXPECT_TRUE(eventually([&] { return router_->serving("other") == kReplicas; }));
  EXPECT_THAT(ask(*router_->find("other"), rows_of({1, 2})).outputs.at("y").values<float>(), ElementsAre(2, 4));
  EXPECT_FALSE(ended(configure({model("other")})));                  // the same once more
  EXPECT_FALSE(served_[0]->replica->change([] { ADD_FAILURE(); }));  // it would serve others than the other one
  ServedModel wrong = model("other");
  wrong.versions = LatestVersions{0};
  EXPECT_EQ(ended(configure({wrong})).code(), Code::invalid_argument);
}

TEST_F(Routers, ChangeNothingIfAReplicaRefuses) {
  save_version(directory_, "times", 1);
  start();
  served_[1]->completing = [] { fail(Code::not_found, "no batching file"); };
  Error error = ended(configure({model("other")}));
  EXPECT_EQ(error.code(), Code::not_found);
  EXPECT_THAT(error.message(), HasSubstr("replica 1: no batching file; no replica has changed"));
  served_[1]->completing = [] {};
  ServedModel labelled = model("times");
  labelled.labels["stable"] = 7;
  error = ended(configure({labelled}));
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_THAT(error.message(), HasSubstr("label 'stable' cannot name version 7"));
  EXPECT_EQ(name_at(0), "times");
  EXPECT_EQ(router_->serving("times"), kReplicas);
}

// Its program configures it otherwise, as at its start. It is not asked for that.
TEST_F(Routers, ConfigureReplicasThatComeBack) {
  save_version(directory_, "times", 1);
  save_version(directory_, "times", 2);
  save_version(directory_, "other", 1);
  std::atomic<bool> watching = false;
  std::atomic<int> wrong = 0, changes = 0;
  start({}, [&] {
    if (!watching) return;
    ++changes;
    for (const std::string& name : router_->models()) wrong += name != "times" ? 1 : 0;
  });
  ServedModel both = model("times");
  both.versions = AllVersions{};
  Error error = ended(configure({both}));
  ASSERT_FALSE(error) << error.message();
  const auto ready = [](const ServableManager::Status& one) { return one.state == ServableState::ready; };
  for (const auto& served : served_)
    ASSERT_TRUE(eventually([&] { return std::ranges::count_if(served->server.status("times"), ready) == 2; }));
  both.labels["stable"] = 1;
  error = ended(configure({both}));
  ASSERT_FALSE(error) << error.message();
  watching = true;
  served_[1].reset();
  // Also version 2 of "times", of which the label says 1: who comes takes it all the same.
  std::vector<ServedModel> own{model("other"), model("times")};
  served_[1] = std::make_unique<Served>(cluster_[1], own);
  EXPECT_TRUE(eventually([&] { return name_at(1) == "times"; }));
  EXPECT_TRUE(eventually([&] { return router_->serving("times") == kReplicas; }));
  watching = false;
  EXPECT_GT(changes, 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(router_->find("times", {.label = "stable"})->id().version, 1);
  EXPECT_EQ(served_[1]->server.labels("times").at("stable"), 1);
}

TEST_F(Routers, DoNotAskReplicasThatHaveNotTakenTheConfiguration) {
  save_version(directory_, "times", 1);
  start();
  ASSERT_FALSE(ended(configure({model("times")})));
  served_[1].reset();
  std::promise<void> told, go;
  served_[1] = std::make_unique<Served>(cluster_[1], std::vector<ServedModel>{model("times")},
                                        [&told, held = go.get_future().share()] {
                                          told.set_value();
                                          held.wait();
                                        });
  ASSERT_EQ(told.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(router_->serving("times"), 1u);
  const ServableHandle handle = router_->find("times");
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(ask(*handle, rows_of({1, 2})).error);
  EXPECT_EQ(answered(0), 6u);
  go.set_value();
  EXPECT_TRUE(eventually([&] { return router_->serving("times") == kReplicas; }));
}

TEST_F(Routers, LearnTheConfigurationFromReplicas) {
  save_version(directory_, "times", 1);
  save_version(directory_, "other", 1);
  start();
  ASSERT_FALSE(ended(configure({model("other")})));
  router_.reset();
  served_[1].reset();
  served_[1] = std::make_unique<Served>(cluster_[1], std::vector<ServedModel>{model("times")});
  EXPECT_EQ(name_at(1), "times");
  router_.emplace(cluster_[kReplicas]);
  EXPECT_TRUE(eventually([&] { return name_at(1) == "other"; }));
  EXPECT_TRUE(eventually([&] { return router_->serving("other") == kReplicas; }));
  EXPECT_THAT(router_->models(), ElementsAre("other"));
}

TEST_F(Routers, ConfigureOnceAtATimeAndAnswerWhenTheyEnd) {
  save_version(directory_, "times", 1);
  start();
  std::promise<void> go;
  served_[1]->completing = [held = go.get_future().share()] { held.wait(); };
  std::future<Error> first = configure({model("times")});
  EXPECT_EQ(ended(configure({model("other")})).code(), Code::aborted);
  router_.reset();
  EXPECT_EQ(ended(std::move(first)).code(), Code::unavailable);
  go.set_value();
  EXPECT_EQ(name_at(0), "times");
}

TEST_F(Routers, ARequestLeadsToThatOfItsReplicaAndToItsStep) {
  save_version(directory_, "times", 2);
  start();
  Trace& router = cluster_[kReplicas].actors().trace();
  const TracedDoor door(&router, "REST");
  for (std::size_t i = 0; i < cluster_.size(); ++i) cluster_[i].actors().trace().start();
  // The last ones: a replica that has answered may still have to tell of the arrow when the recording ends, but not of
  // those before.
  constexpr int kRequests = 4, kLast = static_cast<int>(kReplicas);
  for (int i = 0; i < kRequests + kLast; ++i) {
    const ServableHandle handle = router_->find("times");
    ServingRequest request = rows_of({1, 2});
    request.trace = fmt::format("00-{:032x}-b7ad6b7169203331-01", i + 1);
    const auto traced = door.arrival();
    ASSERT_TRUE(traced);
    traced->start(*handle, request);
    const ServingResult result = ask(*handle, std::move(request));
    EXPECT_FALSE(result.error) << result.error.message();
    traced->end(result);
  }
  std::vector<AlignedTrace> traces;
  for (std::size_t i = 0; i < cluster_.size(); ++i) {
    Trace& trace = cluster_[i].actors().trace();
    trace.stop();
    traces.push_back({{.task = cluster_[i].name().to_string(), .recording = trace.take()}});
  }
  const auto json = nlohmann::json::parse(make_trace_file(traces, "test").json);
  EXPECT_EQ(json.at("otherData").at("lost_arrows"), 0);
  std::map<std::string, std::vector<nlohmann::json>> slices;  // by category
  for (const auto& event : json.at("traceEvents"))
    if (event["ph"] == "X") slices[event["cat"]].push_back(event);
  // By what an arrow leads from, a slice of the other category, of this task or another.
  const auto leads = [&](const nlohmann::json& from, const std::string& to) {
    std::vector<nlohmann::json> out;
    const auto in = [](const nlohmann::json& end, const nlohmann::json& slice) {
      const double at = end["ts"], begin = slice["ts"], length = slice["dur"];
      return end["pid"] == slice["pid"] && end["tid"] == slice["tid"] && begin <= at && at <= begin + length + 5e-4;
    };
    for (const auto& begin : json.at("traceEvents"))
      for (const auto& end : json.at("traceEvents"))
        if (begin["ph"] == "s" && end["ph"] == "f" && begin["id"] == end["id"] && in(begin, from))
          for (const auto& slice : slices[to])
            if (in(end, slice)) out.push_back(slice);
    return out;
  };
  std::set<std::string> followed;
  std::set<int> replicas;
  for (const auto& request : slices["request"]) {
    if (request["pid"] != static_cast<int>(kReplicas) + 1) continue;
    const auto there = leads(request, "request");
    ASSERT_EQ(there.size(), 1u);
    EXPECT_EQ(there[0]["args"]["trace_id"], request["args"]["trace_id"]);
    EXPECT_EQ(there[0]["args"]["version"], "2");
    replicas.insert(there[0]["pid"].get<int>());
    if (leads(there[0], "step").size() == 1) followed.insert(request["args"]["trace_id"]);
  }
  EXPECT_EQ(replicas.size(), kReplicas);
  for (int i = 0; i < kRequests; ++i) EXPECT_TRUE(followed.contains(fmt::format("{:032x}", i + 1))) << i;
}

TEST(ReplicaStates, ComeBackFromTheirText) {
  ReplicaState state;
  ReplicaState::Model& model = state.models["m"];
  model.labels = {{"stable", 3}};
  model.why = Error(Code::unavailable, "it is being loaded");
  model.versions.push_back(
      {.status = {.id = {"m", 3}, .state = ServableState::ready, .bytes = 7, .error = Error(Code::data_loss, "once")},
       .signatures = {{"predict",
                       {.inputs = {{"x", {"x:0", DType::bf16, Shape{kUnknown, 2}}}},
                        .outputs = {{"y", {"y:0", DType::string, Shape::unknown_rank()}}}}}}});
  const ReplicaState back = parse_replica_state(to_json(state));
  EXPECT_EQ(to_json(back), to_json(state));
  EXPECT_EQ(back.models.at("m").versions.front().signatures, model.versions.front().signatures);
  EXPECT_EQ(back.models.at("m").why.message(), "it is being loaded");
  for (const char* text :
       {"", "[", "[1]", R"({"m": 1})", R"({"m": {"labels": {}, "why": {"code": 99, "message": ""}}})"})
    EXPECT_EQ(error_of([&] { parse_replica_state(text); }).code(), Code::data_loss) << text;
}

}  // namespace
}  // namespace troupe::testing
