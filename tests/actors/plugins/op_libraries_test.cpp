#include "troupe/actors/cluster/op_libraries.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "messages/proto/graph.pb.h"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/eager/function.hpp>
#include <troupe/actors/training/job_settings.hpp>
#include <troupe/graph/formats/serialize_proto.hpp>
#include <troupe/graph/gradients/tape.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::built_library;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const LoadedOps& example() { return load_op_library(built_library("librelu_sigmoid.so")); }
const LoadedOps& faulty() { return load_op_library(built_library("libops_faulty.so")); }

std::string refusal(const std::string& path) {
  return error_of([&] { load_op_library(path); }).to_string();
}
std::string refusal_of(const std::string& library) { return refusal(built_library("libops_" + library + ".so")); }
std::string place(const std::string& library) {
  return std::filesystem::absolute(built_library(library)).lexically_normal().string();
}

const Tensor kX = Tensor::vector<float>({-1, 0, 0.5f, 2});
const std::vector<float> kY = {0.5f, 0.5f, 0.62245933f, 0.88079708f};  // of Python's math.exp
const std::vector<float> kDx = {0, 0, 0.23500371f, 0.10499359f};       // y (1 - y) where x > 0
const std::vector<float> kDdx = {0, 0, -0.05755652f, -0.07996250f};    // y (1 - y) (1 - 2 y)

void expect_near(const Tensor& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.num_elements(), std::ssize(wanted));
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got.values<float>()[i], wanted[i], 1e-6) << i;
}

TEST(OpLibraries, GiveOpsToGraphsAndTasksThatExist) {
  Task task({.threads = 1});
  Graph graph;
  const Output x = constant(graph, kX);
  const LoadedOps& loaded = example();
  EXPECT_EQ(loaded.library.name, "relu_sigmoid");
  EXPECT_EQ(loaded.library.version, "1.0");
  EXPECT_EQ(loaded.library.sha256.size(), 64u);
  EXPECT_TRUE(loaded.ops.contains("ReluSigmoid"));
  const Output y = add_op("ReluSigmoid", {x});
  const Output dx = gradients(std::vector{y}, std::vector{x})[0].dense;
  const Output ddx = gradients(std::vector{dx}, std::vector{x})[0].dense;
  Session session(task, graph);
  const std::vector<Tensor> found = session.run({}, {y, dx, ddx});
  expect_near(found[0], kY);
  expect_near(found[1], kDx);
  expect_near(found[2], kDdx);
}

TEST(OpLibraries, GiveOpsToEagerModeTapesAndTracedFunctions) {
  Eager eager;
  example();
  const Output x = constant(eager, kX);
  GradientTape outer;
  outer.watch(x);
  Output y, dx;
  {
    GradientTape inner;
    inner.watch(x);
    y = add_op("ReluSigmoid", {x});
    dx = inner.gradient(y, x);
  }
  expect_near(y.value(), kY);
  expect_near(dx.value(), kDx);
  // The outer tape has seen what the library's gradient function did.
  expect_near(outer.gradient(dx, x).value(), kDdx);

  const auto body = [](const Outputs& in) {
    GradientTape tape;
    tape.watch(in[0]);
    const Output y = add_op("ReluSigmoid", {in[0]});
    return Outputs{y, tape.gradient(y, in[0])};
  };
  TracedFunction traced(eager, body);
  const Outputs results = traced({x});
  expect_near(results[0].value(), kY);
  expect_near(results[1].value(), kDx);
}

// The tapes that the program's functions pause and tell are those that the library's code does.
TEST(OpLibraries, KnowTheTapesOfTheProgram) {
  faulty();
  const auto twice = [](const Outputs& in) {
    GradientTape outer;
    outer.watch(in[0]);
    Output dx;
    {
      GradientTape inner;
      inner.watch(in[0]);
      dx = inner.gradient(add_op("SaysItsGradients", {in[0]}), in[0]);
    }
    return Outputs{dx, outer.gradient(dx, in[0])};
  };
  Eager eager;
  const Output x = constant(eager, kX);
  TracedFunction traced(eager, twice);
  for (const Outputs& results : {twice({x}), traced({x})}) {
    expect_near(results[0].value(), {-1, 0, 0.5f, 2});
    expect_near(results[1].value(), {7, 7, 7, 7});
  }
}

// Of another device, for example.
TEST(OpLibraries, KeepTheirKernelsWhereATaskHasMore) {
  example();
  KernelRegistry kernels;
  kernels.add({"ReluSigmoid", "TPU", {DType::f32}, [](const KernelInit&) -> Kernel { return nullptr; }});
  kernels.set_reuse("ReluSigmoid", "TPU", Reuse::in_place);
  EXPECT_TRUE(kernels.supports("ReluSigmoid", "TPU", DType::f32));
  EXPECT_TRUE(kernels.supports("ReluSigmoid", "CPU", DType::f64));
  EXPECT_EQ(kernels.reuse("ReluSigmoid", "TPU"), Reuse::in_place);
  EXPECT_EQ(kernels.reuse("ReluSigmoid", "CPU"), Reuse::none);
  EXPECT_EQ(error_of([&] { kernels.get("ReluSigmoid", "TPU", DType::f64); }).message(),
            "op ReluSigmoid has no TPU kernel for f64; available: TPU:f32, CPU:f32, CPU:f64");
}

TEST(OpLibraries, AreLoadedOnce) {
  const LoadedOps& loaded = example();
  EXPECT_EQ(&example(), &loaded);
  const testing::TemporaryDirectory directory;
  std::filesystem::copy_file(built_library("librelu_sigmoid.so"), directory.file("copy.so"));
  EXPECT_EQ(&load_op_library(directory.file("copy.so")), &loaded);
}

TEST(OpLibraries, TakeTheDtypesThatTheyName) {
  example();
  Graph graph;
  EXPECT_EQ(error_of([&] {
              add_op("ReluSigmoid", {constant(graph, Tensor::vector<std::int32_t>({1}))}, {}, "y");
            }).to_string(),
            "invalid_argument: ReluSigmoid 'y': input 'x' is i32, but must be f32 or f64: use cast()");
  EXPECT_THAT(error_of([&] { add_op("ReluSigmoidd", {constant(graph, kX)}); }).to_string(),
              HasSubstr("there is no op 'ReluSigmoidd'; did you mean ReluSigmoid"));
}

// ---- refused -------------------------------------------------------------------------------------------------------

TEST(OpLibrariesRefused, AFileThatIsNotThere) {
  EXPECT_EQ(refusal("/no/such/ops.so"),
            "not_found: op library /no/such/ops.so: there is no such file, or it cannot be read");
}

TEST(OpLibrariesRefused, NoPath) {
  EXPECT_EQ(refusal(""), "not_found: op library : there is no such file, or it cannot be read");
}

TEST(OpLibrariesRefused, NoNameOrVersion) {
  EXPECT_EQ(refusal_of("no_name"),
            "invalid_argument: op library " + place("libops_no_name.so") + ": TROUPE_OP_LIBRARY() gives it no name");
  EXPECT_EQ(refusal_of("no_version"), "invalid_argument: op library " + place("libops_no_version.so") +
                                          ": TROUPE_OP_LIBRARY() gives it no version");
}

TEST(OpLibrariesRefused, WhatIsNoLibrary) {
  const testing::TemporaryDirectory directory;
  const std::string text = directory.write("ops.so", "no library");
  EXPECT_THAT(refusal(text), AllOf(StartsWith("invalid_argument: op library " + text + ": it cannot be opened: "),
                                   HasSubstr("file too short")));
  EXPECT_EQ(refusal_of("no_library"), "invalid_argument: op library " + place("libops_no_library.so") +
                                          ": it is no library of ops: TROUPE_OP_LIBRARY() in one of its sources makes "
                                          "it one");
}

TEST(OpLibrariesRefused, AnotherInterfaceOrTroupe) {
  EXPECT_EQ(refusal_of("old_interface"),
            "failed_precondition: op library " + place("libops_old_interface.so") +
                ": it has version 999 of the interface of op libraries, this program 1: build it again with the "
                "headers of Troupe " TROUPE_VERSION);
  EXPECT_THAT(refusal_of("old_troupe"),
              AllOf(StartsWith("failed_precondition: op library " + place("libops_old_troupe.so") +
                               ": it was built for 'Troupe 0.0.9, "),
                    HasSubstr("this program is 'Troupe " TROUPE_VERSION ", "),
                    HasSubstr("build it again with the headers of Troupe " TROUPE_VERSION)));
}

TEST(OpLibrariesRefused, NamesThatAreTaken) {
  example();
  EXPECT_EQ(refusal_of("relu"),
            "already_exists: op library relu 1.0: Troupe has an op Relu of its own: rename the library's");
  EXPECT_EQ(refusal_of("same_op"),
            "already_exists: op library copy 1.0: op library relu_sigmoid has an op ReluSigmoid too: rename one of "
            "them");
  EXPECT_THAT(refusal_of("version_2"),
              AllOf(StartsWith("already_exists: op library relu_sigmoid 2.0: relu_sigmoid 1.0 (SHA-256 "),
                    HasSubstr("of the same name is loaded from " + example().path +
                              ", and stays: start the program "
                              "again")));
}

TEST(OpLibrariesRefused, WhatALibraryDoesWrong) {
  EXPECT_EQ(refusal_of("throwing"), "internal: op library licensed 3.0: the license has ended");
  EXPECT_EQ(refusal_of("undeclared"),
            "invalid_argument: op library undeclared 1.0: op Undeclared: 'x' uses type attribute 'T', which is not "
            "declared");
  EXPECT_EQ(refusal_of("kernel_of_another"),
            "invalid_argument: op library foreign 1.0: op Relu is not one of the library, which must add it before its "
            "kernel");
  EXPECT_EQ(library_of("Undeclared"), nullptr);
}

// ---- faults of ops -------------------------------------------------------------------------------------------------

class FaultsOfLibraries : public ::testing::Test {
 protected:
  FaultsOfLibraries() { faulty(); }
  std::string in_graph(const char* op, Attributes attributes = {}) {
    return error_of([&] {
             Graph graph;
             const Output y = add_op(op, {constant(graph, kX)}, std::move(attributes), "y");
             Session(task_, graph, {.optimize = false}).run({}, y);
           })
        .to_string();
  }
  std::string at_once(const char* op) {
    return error_of([&] { static_cast<void>(add_op(op, {constant(eager_, kX)}).value()); }).to_string();
  }
  Task task_{{.threads = 1}};
  Eager eager_;
};

TEST_F(FaultsOfLibraries, OfKernelsNameLibraryAndNode) {
  EXPECT_EQ(in_graph("BadKernel"),
            "internal: BadKernel 'y' on /job:local/task:0/device:CPU:0: op library faulty 2.1: there is no element 7");
  EXPECT_THAT(at_once("BadKernel"), AllOf(StartsWith("internal: BadKernel(f32[4]) at op_libraries_test.cpp:"),
                                          HasSubstr("op library faulty 2.1: there is no element 7")));
  EXPECT_THAT(in_graph("UnknownException"), HasSubstr("UnknownException 'y' on /job:local/task:0/device:CPU:0: op "
                                                      "library faulty 2.1: "));
  EXPECT_THAT(in_graph("BadFactory", {{"size", std::int64_t{3}}}),
              HasSubstr("BadFactory 'y' on /job:local/task:0/device:CPU:0: op library faulty 2.1: size is 3, and must "
                        "be even"));
}

TEST_F(FaultsOfLibraries, OfShapesAndGradientsNameLibraryAndNode) {
  EXPECT_EQ(in_graph("BadShape"),
            "invalid_argument: BadShape 'y': op library faulty 2.1: x is [4], and must be a matrix");
  EXPECT_THAT(at_once("BadShape"), HasSubstr("op library faulty 2.1: x is [4], and must be a matrix"));
  Graph graph;
  const Output x = constant(graph, kX), y = add_op("BadGradient", {x}, {}, "y");
  EXPECT_THAT(error_of([&] { gradients(std::vector{y}, std::vector{x}); }).to_string(),
              HasSubstr("op library faulty 2.1: has none yet"));
}

TEST_F(FaultsOfLibraries, OfMissingKernelsNameThoseThereAre) {
  EXPECT_THAT(in_graph("OnlyOnTpus"), HasSubstr("OnlyOnTpus 'y'"));
  EXPECT_THAT(at_once("OnlyOnTpus"), HasSubstr("available: TPU:f32"));
}

// ---- graphs name their libraries -----------------------------------------------------------------------------------

proto::Graph message_of_example() {
  Graph graph;
  add_op("ReluSigmoid", {constant(graph, kX)}, {}, "y");
  return to_proto(graph);
}

std::string read_error(const proto::Graph& message) {
  return error_of([&] { from_proto(message); }).to_string();
}

TEST(OpLibrariesOfGraphs, AreInTheirData) {
  const OpLibraryId& id = example().library;
  const proto::Graph message = message_of_example();
  ASSERT_EQ(message.library_size(), 1);
  EXPECT_EQ(message.library(0).name(), "relu_sigmoid");
  EXPECT_EQ(message.library(0).version(), "1.0");
  EXPECT_EQ(message.library(0).sha256(), id.sha256);
  EXPECT_EQ(from_proto(message)->get("y").op->name, "ReluSigmoid");
  Graph plain;
  relu(constant(plain, kX));
  EXPECT_EQ(to_proto(plain).library_size(), 0);
}

TEST(OpLibrariesOfGraphs, AreSettingsOfATrainingJobButNotOfItsCheckpoints) {
  const LoadedOps& loaded = example();
  Graph graph;
  EXPECT_EQ(library_settings(graph), "");
  add_op("ReluSigmoid", {constant(graph, kX)});
  const std::string line = "\nop_library_relu_sigmoid=1.0 " + loaded.library.sha256;
  EXPECT_EQ(library_settings(graph), line);
  EXPECT_EQ(settings_to_keep("batch=3" + line), "batch=3\n");
}

TEST(OpLibrariesOfGraphs, AreFoundInFunctions) {
  example();
  Graph graph;
  const Output x = constant(graph, kX);
  if_else(
      constant(graph, Tensor::scalar(true)), {x},
      [](Graph&, const Outputs& in) { return Outputs{add_op("ReluSigmoid", {in[0]})}; },
      [](Graph&, const Outputs& in) { return in; });
  EXPECT_THAT(libraries_of(graph), ElementsAre(example().library));
  EXPECT_EQ(to_proto(graph).library_size(), 1);
}

TEST(OpLibrariesOfGraphs, MustBeLoadedWhereTheyAreRead) {
  const LoadedOps& loaded = example();
  const std::string digits = loaded.library.sha256.substr(0, 16);
  proto::Graph message = message_of_example();
  proto::OpLibrary& library = *message.mutable_library(0);

  library.set_name("my_ops");
  EXPECT_EQ(read_error(message), "failed_precondition: the graph uses op library my_ops 1.0 (SHA-256 " + digits +
                                     "...), which is not loaded here: load it before, with --op-library FILE or "
                                     "load_op_library()");
  library.set_name("relu_sigmoid");
  library.set_version("1.1");
  EXPECT_EQ(read_error(message), "failed_precondition: the graph uses op library relu_sigmoid 1.1 (SHA-256 " + digits +
                                     "...), but version 1.0 of it is loaded here, from " + loaded.path +
                                     ": load the same version everywhere");
  library.set_version("1.0");
  library.set_sha256(std::string(64, '0'));
  EXPECT_EQ(read_error(message),
            "failed_precondition: the graph uses op library relu_sigmoid 1.0 (SHA-256 0000000000000000...), but "
            "another file of that version is loaded here: " +
                loaded.path + " with SHA-256 " + digits + "...; load the same file everywhere");
}

}  // namespace
}  // namespace troupe
