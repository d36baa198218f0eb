// A server whose versions are found and made by the program: in memory, without a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "tests/actors/serving/served_models.hpp"
#include "tests/error_of.hpp"

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::hours kNotAgain{1};

class MemorySource final : public VersionSource {
 public:
  FoundVersions look(const ServedModel& model) override {
    const std::lock_guard lock(mutex_);
    if (const auto error = errors_.find(model.name); error != errors_.end()) throw error->second;
    return models_[model.name];
  }
  void set(const std::string& model, std::vector<std::int64_t> versions) {
    FoundVersions found;
    for (const std::int64_t version : versions)
      found.versions.push_back({.version = version, .path = "memory " + std::to_string(version)});
    set(model, std::move(found));
  }
  void set(const std::string& model, FoundVersions found) {
    const std::lock_guard lock(mutex_);
    errors_.erase(model);
    models_[model] = std::move(found);
  }
  void fail(const std::string& model, const Error& error) {
    const std::lock_guard lock(mutex_);
    errors_[model] = error;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, FoundVersions> models_;
  std::map<std::string, Error> errors_;
};

// Makes times_model() of the version, and may be told to fail.
class TimesLoader final : public ModelLoader {
 public:
  ServableModel load(const std::string& model, const FoundVersion& version) override {
    const std::lock_guard lock(mutex_);
    loaded_.push_back(model + " " + version.path);
    if (error_) throw error_;
    SavedModel made = times_model(static_cast<float>(version.version));
    return {.model = {.graph = made.graph, .signatures = made.signatures},
            .warm_up = warm_up_,
            .warm_up_file = "requests in memory"};
  }
  void fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    error_ = error;
  }
  void warm_up(std::vector<ServingRequest> requests) {
    const std::lock_guard lock(mutex_);
    warm_up_ = std::move(requests);
  }
  std::vector<std::string> loaded() {
    const std::lock_guard lock(mutex_);
    return loaded_;
  }

 private:
  std::mutex mutex_;
  Error error_{};
  std::vector<ServingRequest> warm_up_;
  std::vector<std::string> loaded_;
};

class OwnSources : public ::testing::Test {
 protected:
  OwnSources() {
    source_->set("times", {1});
    source_->set("zoo", {zoo_});
  }
  ModelServer& serve(ServedModel times = {.name = "times"}, ServableManager::Options manager = {}) {
    server_ = std::make_unique<ModelServer>(
        task_,
        ModelServerOptions{.manager = manager, .poll = kNotAgain, .threads = 1, .source = source_, .loader = loader_});
    server_->configure({std::move(times), {.name = "zoo"}});
    return *server_;
  }
  std::int64_t served() const {
    try {
      return server_->find("times")->id().version;
    } catch (const Error&) {
      return -1;
    }
  }
  std::string why_none() const {
    return error_of([&] { server_->find("times"); }).message();
  }
  // Returns when the source has looked at "times", and the manager has acted on it: at "zoo" it looks after that.
  void look() {
    source_->set("zoo", {++zoo_});
    server_->look_now();
    EXPECT_TRUE(eventually([&] {
      try {
        return server_->find("zoo")->id().version == zoo_;
      } catch (const Error&) {
        return false;
      }
    }));
  }

  Task task_;
  const std::shared_ptr<MemorySource> source_ = std::make_shared<MemorySource>();
  const std::shared_ptr<TimesLoader> loader_ = std::make_shared<TimesLoader>();
  std::unique_ptr<ModelServer> server_;
  std::int64_t zoo_ = 1;
};

TEST_F(OwnSources, AddAndTakeAwayVersionsAtOnce) {
  ModelServer& server = serve();
  server.await_ready("times", kPatience);
  EXPECT_EQ(served(), 1);
  source_->set("times", {1, 2});
  server.look_now();
  EXPECT_TRUE(eventually([&] { return served() == 2; }));
  EXPECT_THAT(ask(*server.find("times"), rows_of({1, 2})).outputs.at("y").values<float>(), ElementsAre(2, 4));
  source_->set("times", std::vector<std::int64_t>{});
  server.look_now();
  EXPECT_TRUE(eventually([&] { return served() == -1; }));
  EXPECT_TRUE(eventually([&] { return why_none().find("the source has no version of it") != std::string::npos; }))
      << why_none();
  source_->set("times", {3});
  server.look_now();
  EXPECT_TRUE(eventually([&] { return served() == 3; }));
}

TEST_F(OwnSources, GiveTheLoaderWhatTheyHaveFound) {
  loader_->warm_up({rows_of({1, 2, 3, 4})});
  const ModelServer& server = serve();
  server.await_ready("times", kPatience);
  server.await_ready("zoo", kPatience);
  EXPECT_THAT(loader_->loaded(), ::testing::UnorderedElementsAre("times memory 1", "zoo memory 1"));
}

TEST_F(OwnSources, ChooseVersionsAndLabels) {
  source_->set("times", FoundVersions{.versions = {{.version = 3}, {.version = 1}, {.version = 2}},
                                      .labels = {{{"stable", 1}, {"canary", 2}}}});
  ModelServer& server = serve();
  EXPECT_TRUE(eventually([&] { return server.labels("times").size() == 2; }));
  EXPECT_EQ(served(), 1);
  EXPECT_EQ(server.find("times", {.label = "canary"})->id().version, 2);
  EXPECT_EQ(error_of([&] { server.find("times", {.version = 3}); }).code(), Code::not_found);
  server.configure({{.name = "times", .versions = AllVersions{}}, {.name = "zoo"}});
  EXPECT_TRUE(eventually([&] { return !error_of([&] { server.find("times", {.version = 3}); }); }));
}

TEST_F(OwnSources, ErrorsOfASourceAreTheReasonUntilItHasFoundSomethingOnce) {
  source_->fail("times", Error(Code::unavailable, "the registry is down"));
  serve();
  look();
  EXPECT_THAT(why_none(), HasSubstr("the registry is down"));
  source_->set("times", {2});
  look();
  EXPECT_TRUE(eventually([&] { return served() == 2; }));
  source_->fail("times", Error(Code::unavailable, "the registry is down"));
  look();
  EXPECT_EQ(served(), 2);
  source_->set("times", {4, 5, 4});  // as well as a wrong answer
  look();
  EXPECT_EQ(server_->status("times").size(), 1u);
  EXPECT_EQ(served(), 2);
}

TEST_F(OwnSources, VersionsThatCannotBeAreRefused) {
  source_->set("times", {4, 5, 4});
  serve();
  look();
  EXPECT_THAT(why_none(), HasSubstr("found version 4 twice, at 'memory 4' and at 'memory 4'"));
  source_->set("times", {3, -7});
  look();
  EXPECT_THAT(why_none(), HasSubstr("found version -7"));
  source_->set("times", {6});
  look();
  EXPECT_TRUE(eventually([&] { return served() == 6; }));
}

TEST_F(OwnSources, ErrorsOfALoaderAreThoseOfItsVersion) {
  loader_->fail(Error(Code::data_loss, "no weights"));
  ModelServer& server = serve({.name = "times"}, {.attempts = 2, .first_pause = kMillisecond});
  const auto failed = [&] {
    for (const auto& s : server.status())
      if (s.id.model == "times" && s.state == ServableState::error) return s.error.message();
    return std::string();
  };
  EXPECT_TRUE(eventually([&] { return !failed().empty(); }));
  EXPECT_THAT(failed(), AllOf(HasSubstr("memory 1"), HasSubstr("no weights")));
  loader_->fail({});
  loader_->warm_up({{.inputs = {{"x", Tensor::of<float>({1, 3}, {1, 2, 3})}}}});
  server.retry({"times", 1});
  EXPECT_TRUE(eventually([&] { return failed().find("requests in memory: record 1") != std::string::npos; }))
      << failed();
  loader_->warm_up({});
  server.retry({"times", 1});
  EXPECT_TRUE(eventually([&] { return served() == 1; }));
}

TEST_F(OwnSources, PathsAreNeededWhereTheyAreLookedAt) {
  ModelServer server(task_, {.threads = 1, .loader = loader_});
  EXPECT_THAT(error_of([&] { server.configure({{.name = "times"}}); }).message(), HasSubstr("has no path"));
}

}  // namespace
}  // namespace troupe::testing
