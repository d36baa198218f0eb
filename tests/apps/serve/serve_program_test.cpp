// troupe-serve as a process, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/actors/serving/served_models.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/process.hpp"
#include "tests/paths.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Process;
using testing::save_version;
using testing::TemporaryDirectory;

class ServeProgram : public ::testing::Test {
 protected:
  void start(std::vector<std::string> arguments) {
    std::vector<std::string> command{
        testing::program("troupe-serve"), "--json", "--rest-port", "0", "--grpc-port", "0", "--poll", "0.05"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    server_.emplace(command);
    server_->wait_for("\"ready\"");
    const auto ready = nlohmann::json::parse(server_->out.substr(0, server_->out.find('\n')));
    EXPECT_EQ(ready.at("event"), "ready");
    if (ready.contains("rest_port")) rest_port_ = ready.at("rest_port");
  }
  std::string said(const std::string& method, const std::string& path, const std::string& body = "",
                   const std::string& headers = "") const {
    wire::RawPeer peer(rest_port_);
    peer.send(method + " " + path + " HTTP/1.1\r\nHost: models.example\r\nConnection: close\r\n" + headers +
              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return peer.all_that_comes();
  }
  std::string predicted(const std::string& where = "/v1/models/m", const std::string& headers = "") const {
    return said("POST", where + ":predict", R"({"instances": [[1, 2]]})", headers);
  }
  // Writes a version whole: it appears at once.
  void publish(const std::string& model, int version) { save_version(directory_, model, version); }
  int end() {
    server_->signal(SIGTERM);
    return server_->wait();
  }

  TemporaryDirectory directory_;
  std::optional<Process> server_;
  std::uint16_t rest_port_ = 0;
};

TEST_F(ServeProgram, ServesADirectoryAndEndsWhenAsked) {
  publish("m", 1);
  start({"--model", "m=" + directory_.file("m")});
  EXPECT_THAT(predicted(), AllOf(HasSubstr("200 OK"), HasSubstr(R"({"predictions":[{"version":1.0,"y":[1.0,2.0]}]})")));
  EXPECT_THAT(said("GET", "/v1/models/m"), HasSubstr(R"("state":"AVAILABLE")"));
  EXPECT_THAT(said("GET", "/readyz"), HasSubstr("200 OK"));
  EXPECT_THAT(said("GET", "/metrics"),
              AllOf(HasSubstr("troupe_servable_requests_total{task=\"/job:serve/task:0\",model=\"m\",version=\"1\","
                              "outcome=\"ok\"} 1\n"),
                    HasSubstr(":tensorflow:serving:request_count{model_name=\"m\",status=\"OK\",version=\"1\"} 1\n"),
                    HasSubstr("nv_inference_request_success{model=\"m\",version=\"1\"} 1\n"),
                    HasSubstr("stage=\"serialise\",le=\"+Inf\"} 1\n")));
  EXPECT_EQ(end(), 0) << server_->err;
  EXPECT_THAT(server_->err, AllOf(HasSubstr("REST at http://127.0.0.1:"), HasSubstr("m/1 is ready")));
}

TEST_F(ServeProgram, LoadsWhatIsPublishedAndTellsOfWhatCannotBe) {
  publish("m", 1);
  start({"--model", "m=" + directory_.file("m"), "--batch"});
  publish("m", 2);
  server_->wait_for("m/2 is ready");
  server_->wait_for("m/1 is unloaded");
  EXPECT_THAT(predicted(), HasSubstr(R"("version":2.0)"));
  std::filesystem::create_directories(directory_.file("m/3"));
  directory_.write("m/3/model.pb", "no model");
  server_->wait_for("m/3 is New: ");
  EXPECT_THAT(predicted(), HasSubstr(R"("version":2.0)"));
  EXPECT_THAT(server_->out, HasSubstr(R"({"event":"version","model":"m","state":"Ready","version":2})"));
  EXPECT_EQ(end(), 0) << server_->err;
}

TEST_F(ServeProgram, ReadsItsConfigurationAgain) {
  publish("a", 1);
  publish("a", 2);
  publish("b", 1);
  const auto config = [&](const std::string& text) { return directory_.write("models.txt", text); };
  const std::string a = "config { name: 'a' base_path: '" + directory_.file("a") + "' ";
  const std::string file = config("model_config_list { " + a + "} }");
  start({"--config", file});
  EXPECT_THAT(predicted("/v1/models/a"), HasSubstr(R"("version":2.0)"));
  EXPECT_THAT(predicted("/v1/models/b"), HasSubstr("404"));

  config("model_config_list { " + a + "model_version_policy { all {} } version_labels { key: 'stable' value: 1 } } " +
         "config { name: 'b' base_path: '" + directory_.file("b") + "' } }");
  server_->signal(SIGHUP);
  // The label moves to a version that is not ready yet: nothing changes until it is.
  server_->wait_for("the models stay as they are: ");
  config("model_config_list { " + a + "model_version_policy { all {} } } config { name: 'b' base_path: '" +
         directory_.file("b") + "' } }");
  server_->signal(SIGHUP);
  server_->wait_for("a/1 is ready");
  server_->wait_for("b/1 is ready");
  config("model_config_list { " + a + "model_version_policy { all {} } version_labels { key: 'stable' value: 1 } } }");
  server_->signal(SIGHUP);
  server_->wait_for("is read again", 2);
  EXPECT_THAT(predicted("/v1/models/a/labels/stable"), HasSubstr(R"("version":1.0)"));
  server_->wait_for("b/1 is unloaded");
  config("model_config_list {");
  server_->signal(SIGHUP);
  server_->wait_for("the models stay as they are: " + file + ":1:");
  EXPECT_THAT(predicted("/v1/models/a"), HasSubstr(R"("version":2.0)"));
  EXPECT_EQ(end(), 0) << server_->err;
}

TEST_F(ServeProgram, ModelsHaveTokens) {
  publish("m", 1);
  publish("n", 1);
  start({"--model", "m=" + directory_.file("m"), "--model", "n=" + directory_.file("n"), "--token", "all",
         "--model-token", "n=own"});
  EXPECT_THAT(predicted(), HasSubstr("401"));
  EXPECT_THAT(predicted("/v1/models/m", "Authorization: Bearer all\r\n"), HasSubstr("200 OK"));
  EXPECT_THAT(predicted("/v1/models/n", "Authorization: Bearer all\r\n"), HasSubstr("401"));
  EXPECT_THAT(predicted("/v1/models/n", "Authorization: Bearer own\r\n"), HasSubstr("200 OK"));
  EXPECT_EQ(end(), 0) << server_->err;
}

TEST_F(ServeProgram, AModelThatIsNotThereIsWaitedFor) {
  start({"--model", "m=" + directory_.file("m")});  // ready: it answers, if only with errors
  EXPECT_THAT(said("GET", "/readyz"), HasSubstr("503"));
  EXPECT_THAT(predicted(), AllOf(HasSubstr("503"), HasSubstr(directory_.file("m"))));
  EXPECT_THAT(server_->err, HasSubstr("model 'm' has no version that is ready"));
  publish("m", 4);
  server_->wait_for("m/4 is ready");
  EXPECT_THAT(said("GET", "/readyz"), HasSubstr("200"));
  EXPECT_EQ(end(), 0) << server_->err;
}

TEST(ServeProgramUsage, WrongUsageIsExplained) {
  Process without({testing::program("troupe-serve")});
  EXPECT_EQ(without.wait(), 2);
  EXPECT_THAT(without.err, HasSubstr("give a --model NAME=DIR"));
  Process missing({testing::program("troupe-serve"), "--config", "/nowhere/models.txt"});
  EXPECT_EQ(missing.wait(), 1);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere/models.txt"));
}

}  // namespace
}  // namespace troupe
