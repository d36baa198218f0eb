// Two processes of troupe-serve: the second serves what the first has, and goes on without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <optional>

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

class SharingServer {
 public:
  explicit SharingServer(std::vector<std::string> arguments) {
    std::vector<std::string> command{
        testing::program("troupe-serve"), "--json", "--rest-port", "0", "--no-grpc", "--poll", "0.05"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    process.emplace(command);
    process->wait_for("\"ready\"");
    port = nlohmann::json::parse(process->out.substr(0, process->out.find('\n'))).at("rest_port");
  }
  std::string predicted() const {
    const std::string body = R"({"instances": [[1, 2]]})";
    wire::RawPeer peer(port);
    peer.send("POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
    return peer.all_that_comes();
  }

  std::optional<Process> process;
  std::uint16_t port = 0;
};

TEST(ServeSharing, ASecondServerFollowsTheFirstAndGoesOnWithoutIt) {
  testing::TemporaryDirectory directory;
  save_version(directory, "m", 1);
  SharingServer first(
      {"--model", "m=" + directory.file("m"), "--share-models", "--model-token", "m=secret", "--batch"});
  save_version(directory, "z", 1);
  SharingServer second({"--model", "m=http://:secret@127.0.0.1:" + std::to_string(first.port) + "/v1/models/m/files",
                        "--model", "z=" + directory.file("z")});
  EXPECT_THAT(second.predicted(), AllOf(HasSubstr("200 OK"), HasSubstr(R"("version":1.0)")));
  save_version(directory, "m", 2);
  second.process->wait_for("m/2 is ready");
  second.process->wait_for("m/1 is unloaded");
  EXPECT_THAT(second.predicted(), HasSubstr(R"("version":2.0)"));
  first.process->signal(SIGKILL);
  EXPECT_EQ(first.process->wait(), -SIGKILL);
  // Models are looked at in the order of their names: between two versions of "z" it has looked for the first server.
  for (const int version : {2, 3}) {
    save_version(directory, "z", version);
    second.process->wait_for("z/" + std::to_string(version) + " is ready");
  }
  EXPECT_THAT(second.predicted(), AllOf(HasSubstr("200 OK"), HasSubstr(R"("version":2.0)")));
  second.process->signal(SIGTERM);
  EXPECT_EQ(second.process->wait(), 0) << second.process->err;
  EXPECT_THAT(second.process->err, Not(HasSubstr("secret")));
}

TEST(ServeSharing, IsOfServersWithRestAlone) {
  Process wrong({testing::program("troupe-serve"), "--model", "m=m", "--share-models", "--no-rest"});
  EXPECT_EQ(wrong.wait(), 2);
  EXPECT_THAT(wrong.err, HasSubstr("--share-models is for a server with REST"));
}

}  // namespace
}  // namespace troupe
