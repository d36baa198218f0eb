#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/placement/placement.hpp>

namespace troupe {
namespace {

const TaskName kWorker{"worker", 0};

DeviceInfo device(const TaskName& task, const std::string& type, int index, std::set<std::string> kernels) {
  return {.name = DeviceName::of(task, type, index), .type = type, .memory = 1 << 30, .kernels = std::move(kernels)};
}

// Two tasks; the worker has a GPU that cannot do Sub.
std::vector<DeviceInfo> devices() {
  const std::set<std::string> cpu = {
      "Add:f32",      "Sub:f32", "Neg:f32",           "Identity:f32", "ReadVariable:f32", "AssignVariable:f32",
      "ApplySGD:f32", "Neg:f64", "RandomUniform:f32", "NoOp"};
  return {device({"ps", 0}, "CPU", 0, cpu), device(kWorker, "CPU", 0, cpu),
          device(kWorker, "GPU", 0, {"Add:f32", "Neg:f32", "Identity:f32", "NoOp"})};
}

std::string placed(const Graph& g, bool soft = true) {
  auto out = place(g, devices(), {.client = kWorker, .soft = soft});
  std::string text;
  for (int id = 0; id < out->size(); ++id) text += out->node(id).name + " " + out->node(id).device + "\n";
  return text;
}
std::string refused(const Graph& g, bool soft = true) {
  return error_of([&] { placed(g, soft); });
}

TEST(Placement, TheDefaultIsTheFirstDeviceOfTheClientsTaskThatHasTheKernelAcceleratorsFirst) {
  GraphBuilder b;
  Output x = b.placeholder("x");
  b.add("Neg", "n", {x});
  b.add("Sub", "s", {x, x});
  EXPECT_EQ(placed(b.g),
            "x /job:worker/task:0/device:GPU:0\n"
            "n /job:worker/task:0/device:GPU:0\n"
            "s /job:worker/task:0/device:CPU:0\n");
  EXPECT_EQ(default_devices(devices(), kWorker), std::vector<std::string>{"/job:worker/task:0/device:GPU:0"});
  EXPECT_EQ(default_devices(devices(), {"ps", 0}), std::vector<std::string>{"/job:ps/task:0/device:CPU:0"});
}

TEST(Placement, TypesOfPlugInsAreAcceleratorsToo) {
  GraphBuilder b;
  Output x = b.placeholder("x");
  b.add("Neg", "n", {x});
  b.add("Sub", "s", {x, x});
  b.add("Neg", "second", {x}, {}, "TPU:1");
  b.add("Sub", "missing_kernel", {x, x}, {}, "TPU");
  std::vector<DeviceInfo> all = devices();
  all.back() = device(kWorker, "TPU", 0, all.back().kernels);
  all.push_back(device(kWorker, "TPU", 1, all.back().kernels));
  const auto out = place(b.g, all, {.client = kWorker});
  const auto where = [&](const char* node) { return out->get(node).device; };
  EXPECT_EQ(where("n"), "/job:worker/task:0/device:TPU:0");
  EXPECT_EQ(where("s"), "/job:worker/task:0/device:CPU:0");
  EXPECT_EQ(where("second"), "/job:worker/task:0/device:TPU:1");
  EXPECT_EQ(where("missing_kernel"), "/job:worker/task:0/device:CPU:0");
}

// Otherwise a misspelt type would quietly be the CPU.
TEST(Placement, ATypeThatNoDeviceHasIsRefusedUnlessItIsCpuOrGpu) {
  GraphBuilder b;
  b.add("NoOp", "n", {}, {}, "TPU:0");
  EXPECT_EQ(refused(b.g),
            "invalid_argument: NoOp 'n': there is no device /device:TPU:0; available: "
            "/job:worker/task:0/device:GPU:0, "
            "/job:worker/task:0/device:CPU:0, /job:ps/task:0/device:CPU:0");
}

TEST(Placement, RequestsAreMetWhereTheyCanBe) {
  GraphBuilder b;
  b.add("Placeholder", "anywhere", {}, {{"T", DType::f32}, {"shape", Shape{}}});
  b.add("NoOp", "ps", {}, {}, "/job:ps");
  b.add("NoOp", "gpu", {}, {}, "GPU:0");
  b.add("NoOp", "full", {}, {}, "/job:worker/task:0/device:CPU:0");
  EXPECT_EQ(placed(b.g),
            "anywhere /job:worker/task:0/device:GPU:0\n"
            "ps /job:ps/task:0/device:CPU:0\n"
            "gpu /job:worker/task:0/device:GPU:0\n"
            "full /job:worker/task:0/device:CPU:0\n");
  EXPECT_EQ(place(b.g, devices(), {.client = kWorker})->dump(),
            "anywhere = Placeholder() T=f32 shape=[] -> f32[] @ /job:worker/task:0/device:GPU:0\n"
            "ps = NoOp() @ /job:ps/task:0/device:CPU:0\n"
            "gpu = NoOp() @ /job:worker/task:0/device:GPU:0\n"
            "full = NoOp() @ /job:worker/task:0/device:CPU:0\n");
}

// So the initial value of a variable is made where the variable is.
TEST(Placement, ConstantsAndRandomValuesOfConstantShapeGoToTheirConsumers) {
  GraphBuilder b;
  const Output dims = b.constant("dims", Tensor::vector<std::int64_t>({2}));
  const Output drawn = b.add("RandomUniform", "drawn", {dims}, {{"T", DType::f32}});
  b.add("AssignVariable", "assign", {b.variable("w", Shape{2}, "/job:ps"), drawn});
  const Output here = b.constant("here", Tensor::vector<std::int64_t>({2}));
  const Output both = b.add("RandomUniform", "both", {here}, {{"T", DType::f32}});
  b.add("Neg", "n", {both}, {}, "/job:ps");
  b.add("Neg", "m", {both}, {}, "/job:worker/device:CPU:0");
  EXPECT_EQ(placed(b.g),
            "dims /job:ps/task:0/device:CPU:0\n"
            "drawn /job:ps/task:0/device:CPU:0\n"
            "w /job:ps/task:0/device:CPU:0\n"
            "assign /job:ps/task:0/device:CPU:0\n"
            "here /job:worker/task:0/device:CPU:0\n"
            "both /job:worker/task:0/device:CPU:0\n"
            "n /job:ps/task:0/device:CPU:0\n"
            "m /job:worker/task:0/device:CPU:0\n");
}

TEST(Placement, ColocationIsTransitiveInAnyOrder) {
  GraphBuilder b;
  b.g.add({.op = "NoOp", .name = "a", .colocate_with = "b"});
  b.g.add({.op = "NoOp", .name = "b", .colocate_with = "c"});
  b.g.add({.op = "NoOp", .name = "c", .device = "/job:ps"});
  b.g.add({.op = "NoOp", .name = "d", .device = "CPU:0", .colocate_with = "b"});
  EXPECT_EQ(placed(b.g),
            "a /job:ps/task:0/device:CPU:0\n"
            "b /job:ps/task:0/device:CPU:0\n"
            "c /job:ps/task:0/device:CPU:0\n"
            "d /job:ps/task:0/device:CPU:0\n");
}

TEST(Placement, ConflictsNameTheNodesAndWhatTheyAskFor) {
  GraphBuilder b;
  Output w = b.variable("w", Shape{}, "/job:ps");
  b.add("ReadVariable", "r", {w}, {{"T", DType::f32}}, "/job:worker");
  EXPECT_EQ(refused(b.g), "invalid_argument: cannot colocate 'w' (/job:ps) with 'r' (/job:worker)");

  GraphBuilder c;
  c.g.add({.op = "NoOp", .name = "a", .colocate_with = "nobody"});
  EXPECT_EQ(refused(c.g), "not_found: NoOp 'a': cannot be colocated with 'nobody', which is not in the graph");
}

TEST(Placement, SoftPlacementFallsBackToADeviceOfTheSameTask) {
  GraphBuilder b;
  b.add("NoOp", "no_gpu_there", {}, {}, "/job:ps/device:GPU:0");
  b.add("NoOp", "no_such_index", {}, {}, "GPU:7");
  Output x = b.placeholder("x");
  b.add("Sub", "no_kernel_there", {x, x}, {}, "GPU:0");
  EXPECT_EQ(placed(b.g),
            "no_gpu_there /job:ps/task:0/device:CPU:0\n"
            "no_such_index /job:worker/task:0/device:GPU:0\n"
            "x /job:worker/task:0/device:CPU:0\n"
            "no_kernel_there /job:worker/task:0/device:CPU:0\n");
  EXPECT_EQ(refused(b.g, false),
            "invalid_argument: NoOp 'no_gpu_there': there is no device /job:ps/device:GPU:0; available: "
            "/job:worker/task:0/device:GPU:0, /job:worker/task:0/device:CPU:0, /job:ps/task:0/device:CPU:0");
}

TEST(Placement, WhatNothingCanRunIsRefusedWithTheReason) {
  GraphBuilder b;
  Output x = b.add("Placeholder", "x", {}, {{"T", DType::f64}, {"shape", Shape{}}});
  b.add("Sub", "s", {x, x}, {}, "/job:ps");
  EXPECT_EQ(refused(b.g), "invalid_argument: Sub 's': /job:ps/task:0/device:CPU:0 has no kernel Sub:f64");

  GraphBuilder c;
  c.add("NoOp", "n", {}, {}, "/job:ps/task:7");
  EXPECT_NE(refused(c.g).find("NoOp 'n': there is no device /job:ps/task:7; available: /job:worker"),
            std::string::npos);

  GraphBuilder d;
  Output y = d.placeholder("y");
  Output n = d.add("Neg", "n", {y}, {}, "GPU:0");
  d.g.add({.op = "Sub", .name = "s", .inputs = {n, y}, .colocate_with = "n"});
  EXPECT_EQ(refused(d.g, false),
            "invalid_argument: Sub 's': /job:worker/task:0/device:GPU:0 has no kernel Sub:f32 (it shares its "
            "device with 'n')");
  EXPECT_NE(placed(d.g).find("s /job:worker/task:0/device:CPU:0"), std::string::npos);

  EXPECT_EQ(error_of([&] {
              place(b.g, devices(), {.client = {"chief", 0}});
            }).find("invalid_argument: task /job:chief/task:0 of the session has no device; available: /job:ps"),
            0u);
}

TEST(Placement, IfGoesWhereItsBranchesCanRun) {
  auto body = std::make_shared<Graph>();
  Output arg = body->output(
      body->add({.op = "Arg", .name = "x", .attributes = {{"T", DType::f32}, {"index", std::int64_t{0}}}}));
  const Node& sub = body->add({.op = "Sub", .name = "s", .inputs = {arg, arg}});
  GraphBuilder b;
  b.g.add_function({.name = "f", .body = body, .arguments = {{0, 0}}, .results = {{sub.id, 0}}});
  Output flag = b.constant("flag", Tensor::scalar(true));
  Output x = b.placeholder("x");
  b.add("If", "if", {flag, x},
        {{"Tout", std::vector<DType>{DType::f32}},
         {"then_branch", FunctionName{"f"}},
         {"else_branch", FunctionName{"f"}}},
        "GPU:0");
  EXPECT_NE(placed(b.g).find("if /job:worker/task:0/device:CPU:0"), std::string::npos);
  EXPECT_EQ(refused(b.g, false),
            "invalid_argument: If 'if': /job:worker/task:0/device:GPU:0 has no kernel for a branch");
}

// A Feed, a Neg on the GPU, a Fetch, and, if `elsewhere`, a node on the CPU.
std::string fed_and_fetched(bool elsewhere, DType dtype = DType::f32) {
  GraphBuilder b;
  b.g.add(
      {.op = "Feed", .name = "other", .attributes = {{"T", dtype}, {"index", std::int64_t{1}}, {"shape", Shape{}}}});
  Output x = b.add("Feed", "x", {}, {{"T", DType::f32}, {"index", std::int64_t{0}}, {"shape", Shape{}}}, "GPU:0");
  Output n = b.add("Neg", "n", {x}, {}, "GPU:0");
  b.g.add(
      {.op = "Fetch", .name = "f", .inputs = {n}, .attributes = {{"index", std::int64_t{0}}}, .colocate_with = "n"});
  if (elsewhere) b.add("Sub", "s", {n, n});
  return placed(b.g);
}

TEST(Placement, FeedsAndFetchesStayOnTheClientsCpu) {
  EXPECT_EQ(fed_and_fetched(true),
            "other /job:worker/task:0/device:CPU:0\n"
            "x /job:worker/task:0/device:CPU:0\n"
            "n /job:worker/task:0/device:GPU:0\n"
            "f /job:worker/task:0/device:CPU:0\n"
            "s /job:worker/task:0/device:CPU:0\n");
}

TEST(Placement, FeedsAndFetchesOfAGraphOnOneDeviceGoThereUnlessTheyAreStrings) {
  EXPECT_EQ(fed_and_fetched(false),
            "other /job:worker/task:0/device:GPU:0\n"
            "x /job:worker/task:0/device:GPU:0\n"
            "n /job:worker/task:0/device:GPU:0\n"
            "f /job:worker/task:0/device:GPU:0\n");
  EXPECT_EQ(fed_and_fetched(false, DType::string),
            "other /job:worker/task:0/device:CPU:0\n"
            "x /job:worker/task:0/device:CPU:0\n"
            "n /job:worker/task:0/device:GPU:0\n"
            "f /job:worker/task:0/device:CPU:0\n");
}

TEST(Placement, LightNodesFollowTheirNeighbours) {
  GraphBuilder b;
  Output c = b.constant("c", 1);
  Output both = b.constant("both", 1);
  Output n = b.add("Neg", "n", {c}, {}, "GPU:0");
  b.add("Identity", "i", {n});
  b.add("Neg", "m", {both}, {}, "GPU:0");
  b.add("Neg", "k", {both}, {}, "CPU:0");
  EXPECT_EQ(placed(b.g),
            "c /job:worker/task:0/device:GPU:0\n"
            "both /job:worker/task:0/device:GPU:0\n"  // is needed on two devices
            "n /job:worker/task:0/device:GPU:0\n"
            "i /job:worker/task:0/device:GPU:0\n"
            "m /job:worker/task:0/device:GPU:0\n"
            "k /job:worker/task:0/device:CPU:0\n");
}

TEST(Placement, TheReportListsNodesByDevice) {
  GraphBuilder b;
  b.add("NoOp", "a", {}, {}, "/job:ps");
  b.add("NoOp", "b");
  EXPECT_EQ(placement_report(*place(b.g, devices(), {.client = kWorker})),
            "/job:ps/task:0/device:CPU:0: 1 nodes\n  NoOp 'a'\n"
            "/job:worker/task:0/device:GPU:0: 1 nodes\n  NoOp 'b'\n");
  EXPECT_EQ(placement_report(b.g), "not placed: 1 nodes\n  NoOp 'b'\n/job:ps: 1 nodes\n  NoOp 'a'\n");
}

}  // namespace
}  // namespace troupe
