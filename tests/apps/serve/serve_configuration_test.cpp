// The models of replicas behind a router, as processes, are changed at the router: by a client, and by a file.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <regex>

#include "apps/serve/proto/serving.grpc.pb.h"
#include "tests/actors/serving/served_models.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/process.hpp"
#include "tests/paths.hpp"

namespace troupe {
namespace {

namespace serving = ::tensorflow::serving;
using testing::eventually;
using ::testing::HasSubstr;
using testing::kPatience;
using testing::Process;
using testing::save_version;
using ::testing::StartsWith;
using testing::TemporaryDirectory;

class ServeConfiguration : public ::testing::Test {
 protected:
  void start() {
    file_ = write(config_of("m"));
    cluster_.emplace(std::vector<std::string>{testing::program("troupe-launch"), "--serve", "2", "--restart", "100",
                                              "--", testing::program("troupe-serve"), "--config", file_, "--rest-port",
                                              "0", "--grpc-port", "0", "--poll", "0.05", "--json"});
    cluster_->wait_for("\"rest_port\"");
    rest_port_ = port("rest");
    models_ = serving::ModelService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port("grpc")), grpc::InsecureChannelCredentials()));
  }
  std::uint16_t port(const std::string& door) const {
    std::smatch found;
    const std::regex line("\"" + door + R"(_port":(\d+))");
    EXPECT_TRUE(std::regex_search(cluster_->out, found, line)) << cluster_->out;
    return static_cast<std::uint16_t>(std::stoi(found[1]));
  }
  std::string config_of(const std::string& model) const {
    return "config { name: '" + model + "' base_path: '" + directory_.file(model) + "' } ";
  }
  std::string write(const std::string& configs) const {
    return directory_.write("models.txt", "model_config_list { " + configs + "}");
  }
  // "200" or another code.
  std::string asked(const std::string& model) const {
    wire::RawPeer peer(rest_port_);
    const std::string body = R"({"instances": [[1, 2]]})";
    peer.send("POST /v1/models/" + model + ":predict HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
    return peer.all_that_comes().substr(9, 3);
  }
  // "0 " or code and message.
  std::string configure(const std::string& model, const std::string& label = "") {
    serving::ReloadConfigRequest request;
    serving::ModelConfig& config = *request.mutable_config()->mutable_model_config_list()->add_config();
    config.set_name(model);
    config.set_base_path(directory_.file(model));
    if (!label.empty()) (*config.mutable_version_labels())[label] = 9;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    serving::ReloadConfigResponse response;
    const grpc::Status status = models_->HandleReloadConfigRequest(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return std::to_string(response.status().error_code()) + " " + response.status().error_message();
  }
  // The newest process of a task.
  pid_t pid(const std::string& task) {
    cluster_->read_what_came();
    const std::regex line(task + R"((?: restarted as process| is process) (\d+))");
    pid_t out = 0;
    for (std::sregex_iterator at(cluster_->err.begin(), cluster_->err.end(), line), end; at != end; ++at)
      out = std::stoi((*at)[1]);
    EXPECT_GT(out, 0) << cluster_->err;
    return out;
  }
  void end() {
    models_.reset();  // nobody listens on its connection: the door would wait for it to close
    cluster_->signal(SIGTERM);
    EXPECT_EQ(cluster_->wait(), 143) << cluster_->err;
  }

  TemporaryDirectory directory_;
  std::string file_;
  std::optional<Process> cluster_;
  std::uint16_t rest_port_ = 0;
  std::unique_ptr<serving::ModelService::Stub> models_;
};

TEST_F(ServeConfiguration, OfAClientHoldsForAllReplicasAndThoseThatComeBack) {
  save_version(directory_, "m", 1);
  save_version(directory_, "n", 1);
  start();
  EXPECT_EQ(asked("m"), "200");
  EXPECT_THAT(configure("m", "stable"), HasSubstr("label 'stable' cannot name version 9"));
  EXPECT_THAT(configure("m", "stable"), StartsWith("9 replica "));
  EXPECT_EQ(asked("m"), "200");

  EXPECT_EQ(configure("n"), "0 ");
  EXPECT_EQ(asked("m"), "404");
  cluster_->wait_for("n/1 is ready", 2);
  EXPECT_TRUE(eventually([&] { return asked("n") == "200"; }));
  // A process that starts again reads of "m" in its file: it is asked for nothing before it has "n".
  kill(pid("serve/1"), SIGKILL);
  cluster_->wait_for("m/1 is ready", 3);
  EXPECT_TRUE(eventually([&] {
    cluster_->read_what_came();
    EXPECT_EQ(asked("m"), "404");
    EXPECT_EQ(asked("n"), "200");
    std::size_t times = 0;
    for (std::size_t at = 0; (at = cluster_->err.find("n/1 is ready", at)) != std::string::npos; ++at) ++times;
    return times == 3;
  })) << cluster_->err;
  kill(pid("serve/0"), SIGKILL);
  EXPECT_TRUE(eventually([&] { return asked("n") == "200"; }));
  EXPECT_EQ(asked("m"), "404");
  cluster_->wait_for("n/1 is ready", 4);
  end();
}

TEST_F(ServeConfiguration, OfAFileIsReadAgainByTheRouter) {
  save_version(directory_, "m", 1);
  save_version(directory_, "n", 1);
  start();
  const pid_t router = pid("router/0");
  write(config_of("n"));
  kill(router, SIGHUP);
  cluster_->wait_for(file_ + " is read again");
  EXPECT_EQ(asked("m"), "404");
  EXPECT_TRUE(eventually([&] { return asked("n") == "200"; }));
  write("config { ");
  kill(router, SIGHUP);
  cluster_->wait_for("the models stay as they are: " + file_ + ":1:");
  write("config { name: 'n' base_path: '" + directory_.file("n") + "' version_labels { key: 'old' value: 7 } }");
  kill(router, SIGHUP);
  cluster_->wait_for("the replicas have not all taken the models: replica ");
  EXPECT_EQ(asked("n"), "200");
  kill(pid("serve/0"), SIGHUP);
  cluster_->wait_for("a router has configured them: send SIGHUP to the router");
  end();
}

}  // namespace
}  // namespace troupe
