// troupe-top records servers while clients ask them: requests are in the trace, from the door to the kernels.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "apps/serve/proto/serving.grpc.pb.h"
#include "apps/serve/tensor_proto.hpp"
#include "tests/actors/serving/served_models.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/process.hpp"
#include "tests/paths.hpp"

namespace troupe {
namespace {

namespace serving = ::tensorflow::serving;
using testing::Process;
using testing::program;
using testing::save_version;
using testing::TemporaryDirectory;

constexpr const char* kRestTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kGrpcTrace = "4bf92f3577b34da6a3ce929d0e0e4736";

std::string traceparent(const char* trace) { return fmt::format("00-{}-b7ad6b7169203331-01", trace); }

// Ask both doors of a server for model "m", again and again.
class TracedClients {
 public:
  TracedClients(std::uint16_t rest_port, std::uint16_t grpc_port)
      : rest_([this, rest_port] { ask_rest(rest_port); }), grpc_([this, grpc_port] { ask_grpc(grpc_port); }) {}
  ~TracedClients() {
    over_ = true;
    rest_.join();
    grpc_.join();
  }
  TracedClients(const TracedClients&) = delete;
  TracedClients& operator=(const TracedClients&) = delete;

 private:
  void ask_rest(std::uint16_t port) const {
    const std::string body = R"({"instances": [[1, 2]]})";
    while (!over_) {
      wire::RawPeer peer(port);
      peer.send(
          fmt::format("POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nConnection: close\r\ntraceparent: {}\r\n"
                      "Content-Length: {}\r\n\r\n{}",
                      traceparent(kRestTrace), body.size(), body));
      EXPECT_THAT(peer.all_that_comes(), ::testing::HasSubstr("200 OK"));
    }
  }
  void ask_grpc(std::uint16_t port) const {
    const auto stub = serving::PredictionService::NewStub(
        grpc::CreateChannel(fmt::format("127.0.0.1:{}", port), grpc::InsecureChannelCredentials()));
    serving::PredictRequest request;
    request.mutable_model_spec()->set_name("m");
    to_tensor_proto(Tensor::of<float>({1, 2}, {3, 4}), (*request.mutable_inputs())["x"]);
    while (!over_) {
      grpc::ClientContext context;
      context.AddMetadata("traceparent", traceparent(kGrpcTrace));
      serving::PredictResponse response;
      const grpc::Status status = stub->Predict(&context, request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
    }
  }

  std::atomic<bool> over_{false};
  std::thread rest_, grpc_;
};

class ServedTrace : public ::testing::Test {
 protected:
  // Starts a server of model "m", and clients.
  void start(std::vector<std::string> command) {
    save_version(directory_, "m", 3);
    for (const char* more : {"--json", "--rest-port", "0", "--grpc-port", "0", "--batch"}) command.emplace_back(more);
    command.insert(command.end(), {"--model", "m=" + directory_.file("m")});
    server_.emplace(command);
    server_->wait_for("\"rest_port\"");
    clients_.emplace(port("rest_port"), port("grpc_port"));
  }
  // The words that the pattern finds in what the server has said.
  std::vector<std::string> told(const std::string& pattern) const {
    std::smatch found;
    if (std::regex_search(server_->err, found, std::regex(pattern))) return {found.begin() + 1, found.end()};
    ADD_FAILURE() << pattern << " is not in:\n" << server_->err;
    return {};
  }
  // Records, has the file checked, and reads it.
  void record(const std::vector<std::string>& whom, const std::vector<std::string>& conditions) {
    const std::string path = directory_.file("trace.json");
    std::vector<std::string> command{program("troupe-top")};
    command.insert(command.end(), whom.begin(), whom.end());
    command.insert(command.end(), {"--trace", path, "--steps", "20"});
    // A task that has just come is skipped until the others know its address.
    ASSERT_TRUE(testing::eventually([&] {
      Process top(command);
      EXPECT_EQ(top.wait(), 0) << top.err;
      return top.err.find("is skipped") == std::string::npos;
    }));
    command = {"/usr/bin/python3", testing::source_file("tools/check_trace.py"), path, "--steps", "20"};
    command.insert(command.end(), conditions.begin(), conditions.end());
    Process check(command);
    EXPECT_EQ(check.wait(), 0) << check.err;
    const auto json = nlohmann::json::parse(std::ifstream(path));
    std::map<std::pair<int, int>, std::string> threads;
    for (const auto& event : json.at("traceEvents")) {
      if (event["name"] == "process_name") tasks_[event["pid"]] = event["args"]["name"];
      if (event["name"] == "thread_name") threads[{event["pid"], event["tid"]}] = event["args"]["name"];
    }
    for (const auto& event : json.at("traceEvents")) {
      if (event.value("cat", "") != "request") continue;
      std::string door = threads.at({event["pid"], event["tid"]});
      door = door.substr(0, door.find(" ("));
      EXPECT_EQ(event["args"]["model"], "m");
      EXPECT_EQ(event["args"]["version"], "3");
      EXPECT_EQ(event["args"]["signature"], "predict");
      EXPECT_TRUE(event["args"].contains("queue_us") && event["args"].contains("batch_us"));
      EXPECT_LE(event["args"]["run_us"], event["dur"]);
      seen_[tasks_.at(event["pid"])][door].insert(event["args"]["trace_id"].get<std::string>());
    }
  }
  void end(int code) {
    clients_.reset();
    server_->signal(SIGTERM);
    EXPECT_EQ(server_->wait(), code) << server_->err;
  }

  const TemporaryDirectory directory_;
  std::optional<Process> server_;
  std::optional<TracedClients> clients_;
  std::map<int, std::string> tasks_;
  using TraceIds = std::set<std::string>;
  std::map<std::string, std::map<std::string, TraceIds>> seen_;  // of requests, by task and door

 private:
  std::uint16_t port(const std::string& which) const {
    std::smatch found;
    std::regex_search(server_->out, found, std::regex("\"" + which + "\":(\\d+)"));
    return static_cast<std::uint16_t>(std::stoi(found[1]));
  }
};

TEST_F(ServedTrace, HasTheRequestsOfBothDoorsThatLeadToKernels) {
  start({program("troupe-serve"), "--introspect-port", "0"});
  record(told("inspect \\S+ with a browser or troupe-top: (\\S+)"), {"--requests", "10"});
  EXPECT_EQ(seen_["/job:serve/task:0"]["REST"], TraceIds{kRestTrace});
  EXPECT_EQ(seen_["/job:serve/task:0"]["gRPC"], TraceIds{kGrpcTrace});
  end(0);
}

TEST_F(ServedTrace, LeadsThroughARouterToReplicas) {
  start({program("troupe-launch"), "--serve", "2", "--restart", "1", "--", program("troupe-serve")});
  for (const char* replica : {"/job:serve/task:0 is ready", "/job:serve/task:1 is ready"}) server_->wait_for(replica);
  std::vector<std::string> whom = told("watch the cluster with: troupe-top (\\S+) --cluster (\\S+)");
  ASSERT_EQ(whom.size(), 2u);
  whom.insert(whom.begin() + 1, "--cluster");
  record(whom, {"--tasks", "3", "--requests", "10", "--across"});
  EXPECT_EQ(seen_["/job:router/task:0"]["REST"], TraceIds{kRestTrace});
  EXPECT_EQ(seen_["/job:router/task:0"]["gRPC"], TraceIds{kGrpcTrace});
  TraceIds answered;
  for (const char* replica : {"/job:serve/task:0", "/job:serve/task:1"})
    answered.merge(TraceIds(seen_[replica]["requests of routers"]));
  EXPECT_EQ(answered, (TraceIds{kRestTrace, kGrpcTrace}));
  end(143);
}

}  // namespace
}  // namespace troupe
