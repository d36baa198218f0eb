// Libraries of ops, and devices of other types, on clusters of processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>

#include "tests/apps/process.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/cluster/op_libraries.hpp>
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::built_library;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::Process;
using testing::program;
using testing::TemporaryDirectory;

// Three processes of troupe-node, each with its libraries, and a client.
class NodesWithLibraries : public ::testing::Test {
 protected:
  NodesWithLibraries() { load_op_library(built_library("librelu_sigmoid.so")); }

  void start(const std::vector<std::vector<std::string>>& options) {
    std::string addresses;
    for (const int port : testing::free_ports(3))
      addresses += fmt::format("{}\"127.0.0.1:{}\"", addresses.empty() ? "" : ",", port);
    const std::string file =
        directory_.write("c.json", fmt::format(R"({{"name":"ops","token":"secret","worker":[{}]}})", addresses));
    for (int i = 0; i < 3; ++i) {
      std::vector<std::string> command = {program("troupe-node"), "--job",     "worker", "--task",
                                          std::to_string(i),      "--cluster", file};
      const auto& more = options.at(static_cast<std::size_t>(i));
      command.insert(command.end(), more.begin(), more.end());
      nodes_.try_emplace(i, command);
    }
    for (auto& [i, process] : nodes_) process.wait_for("is ready at");
    client_.join(ClusterSpec::read(file), testing::kPatience);
  }
  ~NodesWithLibraries() override {
    EXPECT_TRUE(client_.shutdown());
    for (auto& [i, process] : nodes_) process.signal(SIGTERM);
    for (auto& [i, process] : nodes_) EXPECT_EQ(process.wait(), 143) << process.err;
  }

  static std::vector<std::string> with(const std::string& library) {
    return {"--op-library", built_library("lib" + library + ".so")};
  }
  // What an op gives on worker i.
  Tensor on(int i, const char* op = "ReluSigmoid") {
    Graph graph;
    const Output x = placeholder(graph, DType::f32, {kUnknown}, "x");
    Output y;
    {
      const auto there = graph.on_device(fmt::format("/job:worker/task:{}", i));
      y = add_op(op, {x}, {}, "y");
    }
    Session session(client_, graph);
    return session.run({{x, Tensor::vector<float>({-1, 2})}}, y);
  }
  std::string refusal(int i, const char* op = "ReluSigmoid") {
    return error_of([&] { on(i, op); }).to_string();
  }

  TemporaryDirectory directory_;
  std::map<int, Process> nodes_;
  Task client_{{.name = {"client", 0}, .networked = true}};
};

TEST_F(NodesWithLibraries, RunTheirOps) {
  start({with("relu_sigmoid"), with("relu_sigmoid"), with("relu_sigmoid")});
  for (int i = 0; i < 3; ++i) {
    const Tensor y = on(i);
    EXPECT_EQ(y.values<float>()[0], 0.5f);
    EXPECT_NEAR(y.values<float>()[1], 0.88079708f, 1e-6);
  }
}

TEST_F(NodesWithLibraries, RefuseGraphsWhoseLibrariesTheyLack) {
  start({{}, with("ops_version_2"), with("ops_other_file")});
  const std::string wanted = load_op_library(built_library("librelu_sigmoid.so")).library.to_string();
  EXPECT_EQ(refusal(0), "failed_precondition: /job:worker/task:0: the graph uses op library " + wanted +
                            ", which is not loaded here: load it before, with --op-library FILE or load_op_library()");
  EXPECT_THAT(refusal(1), HasSubstr("/job:worker/task:1: the graph uses op library " + wanted +
                                    ", but version 2.0 of it is loaded here, from "));
  EXPECT_THAT(refusal(2), AllOf(HasSubstr("/job:worker/task:2: the graph uses op library " + wanted +
                                          ", but another file of that version is loaded here: "),
                                HasSubstr("load the same file everywhere")));
}

TEST_F(NodesWithLibraries, TellTheErrorsOfTheirKernels) {
  load_op_library(built_library("libops_faulty.so"));
  start({with("ops_faulty"), {}, {}});
  EXPECT_EQ(refusal(0, "BadKernel"),
            "internal: BadKernel 'y' on /job:worker/task:0/device:CPU:0: op library faulty 2.1: there is no element 7");
}

TEST(ProgramsWithLibraries, EndWithTheReasonIfOneCannotBeLoaded) {
  Process ops({program("troupe-mnist"), "--op-library", "/no/such/ops.so"});
  EXPECT_EQ(ops.wait(), 1);
  EXPECT_THAT(ops.err, HasSubstr("op library /no/such/ops.so: there is no such file, or it cannot be read"));
  Process devices({program("troupe-mnist"), "--device-library", "/no/such/tpu.so"});
  EXPECT_EQ(devices.wait(), 1);
  EXPECT_THAT(devices.err, HasSubstr("device library /no/such/tpu.so: no /no/such/tpu.so"));
}

// A saved model names the libraries of its graph.
TEST(ProgramsWithLibraries, ReadSavedModels) {
  const LoadedOps& loaded = load_op_library(built_library("librelu_sigmoid.so"));
  const auto graph = std::make_shared<Graph>();
  add_op("ReluSigmoid", {placeholder(*graph, DType::f32, {kUnknown}, "x")}, {}, "y");
  SavedModel model;
  model.graph = graph;
  model.signatures["predict"] = {.inputs = {{"x", {"x", DType::f32, Shape{kUnknown}}}},
                                 .outputs = {{"y", {"y", DType::f32, Shape{kUnknown}}}}};
  const TemporaryDirectory directory;
  const std::string path = directory.file("model");
  save_model(posix_file_system(), path, model);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{program("troupe-model"), "info", path}, {program("troupe-checkpoint"), "ls", path}}) {
    Process without(command);
    EXPECT_EQ(without.wait(), 1) << command[0];
    EXPECT_THAT(without.err, AllOf(HasSubstr("the graph uses op library " + loaded.library.to_string()),
                                   HasSubstr("with --op-library FILE")));
    std::vector<std::string> with = command;
    with.insert(with.end(), {"--op-library", loaded.path});
    Process process(with);
    EXPECT_EQ(process.wait(), 0) << process.err;
    EXPECT_THAT(process.out, HasSubstr("predict"));
  }
}

std::string trained_parameters(std::vector<std::string> command, const std::vector<std::string>& more = {}) {
  for (const char* option : {"--json", "--model", "mlp", "--digits", "200,50", "--epochs", "1", "--batch", "20",
                             "--threads", "1", "--gpus", "0", "--replicas", "2"})
    command.push_back(option);
  command.insert(command.end(), more.begin(), more.end());
  Process process(command);
  EXPECT_EQ(process.wait(), 0) << process.err;
  const std::string key = "\"params_sha256\":\"";
  const auto found = process.out.rfind(key);
  return found == process.out.npos ? "none in " + process.out : process.out.substr(found + key.size(), 64);
}

TEST(ProgramsWithLibraries, TrainOnDevicesOfAnyTypeToTheBitsOfTheCpu) {
  const std::vector<std::string> tpus = {"--device-library", built_library("libsimulated_tpu.so")};
  const std::string cpu = trained_parameters({program("troupe-mnist")});
  EXPECT_THAT(cpu, MatchesRegex("[0-9a-f]{64}"));
  EXPECT_EQ(trained_parameters({program("troupe-mnist")}, tpus), cpu);
  std::vector<std::string> on_cluster = tpus;
  on_cluster.insert(on_cluster.end(), {"--mode", "sync"});
  EXPECT_EQ(trained_parameters({program("troupe-launch"), "--ps", "1", "--workers", "2", "--", program("troupe-mnist")},
                               on_cluster),
            cpu);
}

}  // namespace
}  // namespace troupe
