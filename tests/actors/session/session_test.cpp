#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/scoped_actor.hpp>

#include "tests/actors/task_cluster.hpp"
#include "tests/error_of.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/optimizers/updates.hpp>

namespace troupe {
namespace {

using ::testing::ContainsRegex;
using testing::error_of;
using ::testing::HasSubstr;

using namespace std::chrono_literals;

TEST(Session, RunsAGraphWithFeedsAndFetches) {
  Graph g;
  Output x = placeholder(g, DType::f32, {kUnknown, 2}, "x");
  Output w = constant(g, Tensor::of<float>({2, 1}, {1, 2}));
  Output y = matmul(x, w) + 1.0;
  Session session(g);
  EXPECT_EQ(session.run({{x, Tensor::of<float>({1, 2}, {3, 4})}}, y).item<float>(), 12.0f);
  // Any edge can be fed, also a constant.
  EXPECT_EQ(
      session.run({{x, Tensor::of<float>({1, 2}, {3, 4})}, {w, Tensor::of<float>({2, 1}, {0, 0})}}, y).item<float>(),
      1.0f);
  // Two fetches of one tensor, and a fed tensor fetched.
  const Tensor fed = Tensor::of<float>({1, 2}, {1, 1});
  auto results = session.run({{x, fed}}, {y, y, x});
  EXPECT_EQ(results[0].item<float>(), 4.0f);
  EXPECT_TRUE(bitwise_equal(results[2], fed));
}

TEST(Session, KeepsVariablesBetweenSteps) {
  Graph g;
  VariableRef v = variable(g, {.name = "v", .initial_value = constant(g, 10.0f)});
  Output bump = v.assign_add(constant(g, 1.0f));
  Output init = initializer(g);
  Session session(g);
  const Error uninitialized = error_of([&] { session.run(v.read()); });
  EXPECT_EQ(uninitialized.code(), Code::failed_precondition);
  EXPECT_NE(uninitialized.message().find("variable 'v' is not initialized"), std::string::npos)
      << uninitialized.message();
  session.run_targets({init});
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(session.run(bump).item<float>(), 10.0f + static_cast<float>(i));
  EXPECT_EQ(session.run(v.read()).item<float>(), 110.0f);
}

TEST(Session, MisuseIsAClearError) {
  Graph g;
  Output x = placeholder(g, DType::f32, {2}, "x");
  Output y = relu(x);
  Output table = placeholder(g, DType::f32, {3, 1}, "table");
  Output ids = placeholder(g, DType::i32, {1}, "ids");
  Output rows = gather(table, ids, {.name = "rows"});
  Session session(g);
  EXPECT_NE(error_of([&] { session.run(y); }).message().find("Placeholder 'x' must be fed"), std::string::npos);
  EXPECT_EQ(error_of([&] {
              session.run({{x, Tensor::vector<double>({1, 2})}}, y);
            }).message(),
            "feed 'x' must be f32[2], not f64[2]");
  EXPECT_EQ(error_of([&] {
              session.run({{x, Tensor::vector<float>({1})}}, y);
            }).message(),
            "feed 'x' must be f32[2], not f32[1]");
  const Error at_run = error_of([&] {
    session.run({{table, Tensor::of<float>({3, 1}, {1, 2, 3})}, {ids, Tensor::vector<std::int32_t>({7})}}, rows);
  });
  EXPECT_EQ(at_run.code(), Code::invalid_argument);
  EXPECT_NE(at_run.message().find("Gather 'rows' on /job:local/task:0/device:CPU:0"), std::string::npos)
      << at_run.message();
  EXPECT_EQ(error_of([&] {
              session.run({{x, Tensor()}}, y);
            }).message(),
            "feed 'x' is a Tensor without a value: it must be f32[2]");
  EXPECT_EQ(error_of([&] {
              session.run({{x, Tensor::vector<float>({1, 2})}}, std::vector<Output>{y}, {}, {.timeout = -1ns});
            }).message(),
            "a timeout of -1 ns is negative: 0 means none");
  // The process and the session are alive.
  EXPECT_EQ(session.run({{x, Tensor::vector<float>({-1, 2})}}, y).data<float>()[1], 2.0f);
  session.close();
  EXPECT_EQ(error_of([&] { session.run({{x, Tensor::vector<float>({-1, 2})}}, y); }).code(), Code::failed_precondition);
}

TEST(Session, OutputsOfAnotherGraphAreRefused) {
  Graph g, other;
  Output x = placeholder(g, DType::f32, {}, "x");
  Output y = relu(x, "y");
  Output a = placeholder(other, DType::f32, {}, "a");
  Output b = -a;
  Session session(g);
  const Tensor one = Tensor::scalar(1.0f);
  EXPECT_EQ(error_of([&] {
              session.run({{x, one}}, b);
            }).message(),
            "fetch 'Neg' belongs to another graph: create a session for that graph");
  EXPECT_EQ(error_of([&] {
              session.run({{a, one}}, y);
            }).message(),
            "feed 'a' belongs to another graph: create a session for that graph");
  EXPECT_THAT(error_of([&] {
                session.run({{x, one}}, {y}, {b});
              }).message(),
              HasSubstr("target 'Neg' belongs to another graph"));
  EXPECT_THAT(error_of([&] { session.explain({x}, {b}); }).message(), HasSubstr("belongs to another graph"));
  EXPECT_EQ(session.run({{x, one}}, y).item<float>(), 1.0f);
}

TEST(Session, AFallBackToAnotherDeviceIsToldOnce) {
  Task task({.threads = 1, .gpus = {.count = 0}});
  Graph g;
  Output x = placeholder(g, DType::f32, {2}, "x");
  Output y, z;
  {
    const auto device = g.on_device("gpu:0");
    y = relu(x, "y");
    z = -y;
  }
  const Tensor fed = Tensor::vector<float>({1, 2});
  std::vector<std::string> told;
  Session session(task, g, {.on_warning = [&](const std::string& text) { told.push_back(text); }});
  session.run({{x, fed}}, y);
  session.run({{x, fed}}, z);
  EXPECT_THAT(told, ::testing::ElementsAre("'y' requests /device:GPU:0, which is missing or cannot run it: it runs on "
                                           "/job:local/task:0/device:CPU:0; GPUs of this task: switched off"));
  Session by_default(task, g);
  ::testing::internal::CaptureStderr();
  by_default.run({{x, fed}}, z);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("warning: 'Neg' requests /device:GPU:0"));
  Session strict(task, g, {.soft_placement = false});
  EXPECT_THAT(error_of([&] { strict.run({{x, fed}}, z); }).message(), HasSubstr("there is no device /device:GPU:0"));
}

TEST(Session, CanBeExtended) {
  Graph g;
  Output x = constant(g, 2.0f);
  Session session(g);
  Output y = x * 3.0;
  EXPECT_NE(error_of([&] { session.run(y); }).message().find("extend"), std::string::npos);
  session.extend(g);
  EXPECT_EQ(session.run(y).item<float>(), 6.0f);
  Graph other;
  constant(other, 1);
  constant(other, 1);
  EXPECT_EQ(error_of([&] { session.extend(other); }).code(), Code::invalid_argument);
  // By a graph that was made of it, whose outputs are known from then on.
  const auto more = g.clone();
  Output z = -more->output(y.name());
  EXPECT_THAT(error_of([&] { session.run(z); }).message(), HasSubstr("belongs to another graph"));
  session.extend(*more);
  EXPECT_EQ(session.run(z).item<float>(), -6.0f);
  EXPECT_EQ(session.run(y).item<float>(), 6.0f);
}

TEST(Session, AFunctionalIfRunsEndToEndWithItsGradient) {
  Graph g;
  Output cond = placeholder(g, DType::boolean, {}, "cond");
  Output x = placeholder(g, DType::f64, {}, "x");
  Output y = if_else(
      cond, {x}, [](Graph&, const Outputs& in) { return Outputs{in[0] * in[0]}; },
      [](Graph&, const Outputs& in) { return Outputs{in[0] * 3.0}; })[0];
  const std::vector<Output> ys{y}, xs{x};
  Output dx = gradients(ys, xs)[0].dense;
  Session session(g);
  const Tensor five = Tensor::scalar(5.0);
  auto yes = session.run({{cond, Tensor::scalar(true)}, {x, five}}, {y, dx});
  EXPECT_EQ(yes[0].item<double>(), 25.0);
  EXPECT_EQ(yes[1].item<double>(), 10.0);
  auto no = session.run({{cond, Tensor::scalar(false)}, {x, five}}, {y, dx});
  EXPECT_EQ(no[0].item<double>(), 15.0);
  EXPECT_EQ(no[1].item<double>(), 3.0);
}

TEST(Session, ManyStepsMayBeInFlight) {
  Graph g;
  Output x = placeholder(g, DType::i64, {}, "x");
  Output y = x + x;
  Session session(g);
  const Callable call = session.callable({x}, {y});
  constexpr int kSteps = 2000;
  std::vector<std::promise<StepResult>> done(kSteps);
  for (int i = 0; i < kSteps; ++i)
    call.start({Tensor::scalar<std::int64_t>(i)}, {},
               [&done, i](StepResult r) { done[static_cast<std::size_t>(i)].set_value(std::move(r)); });
  for (int i = 0; i < kSteps; ++i)
    EXPECT_EQ(done[static_cast<std::size_t>(i)].get_future().get().fetches[0].item<std::int64_t>(), 2 * i);
}

TEST(Session, StepsOfOneDeviceRunInTheOrderTheyWereStarted) {
  Graph g;
  VariableRef v = variable(g, {.name = "v", .initial_value = constant(g, 0.0f)});
  Output x = placeholder(g, DType::f32, {}, "x");
  Output sum = v.assign(v.read() * 0.5 + x);
  Output init = initializer(g);
  Session session(g);
  session.run_targets({init});
  const Callable call = session.callable({x}, {sum});
  ASSERT_TRUE(call.in_order());
  std::vector<std::future<std::vector<Tensor>>> steps;
  for (int i = 0; i < 500; ++i) steps.push_back(call.async({Tensor::scalar(static_cast<float>(i % 7))}));
  float expected = 0;
  for (int i = 0; i < 500; ++i) {
    expected = expected * 0.5f + static_cast<float>(i % 7);
    ASSERT_EQ(steps[static_cast<std::size_t>(i)].get()[0].item<float>(), expected) << i;
  }
}

TEST(Session, AStepThatEndsAfterItsDeadlineSaysSo) {
  Graph g;
  Output x = placeholder(g, DType::f32, {}, "x");
  Output y = -x;
  Session session(g);
  const auto run = [&](std::chrono::nanoseconds timeout) {
    session.run({{x, Tensor::scalar(1.0f)}}, std::vector<Output>{y}, {}, {.timeout = timeout});
  };
  const Error late = error_of([&] { run(1ns); });
  EXPECT_EQ(late.code(), Code::deadline_exceeded);
  EXPECT_THAT(late.message(), HasSubstr("after its deadline"));
  EXPECT_FALSE(error_of([&] { run(testing::kPatience); }));
  Session hasty(g, {.timeout = 1ns});
  EXPECT_EQ(error_of([&] { hasty.run({{x, Tensor::scalar(1.0f)}}, y); }).code(), Code::deadline_exceeded);
}

TEST(Session, StepsWithADeadlineAreInNoOrder) {
  Graph g;
  Output x = placeholder(g, DType::f32, {}, "x");
  Output y = -x;
  Session session(g, {.timeout = testing::kPatience});
  EXPECT_FALSE(session.callable({x}, {y}).in_order());
  EXPECT_FALSE(Callable().in_order());
}

TEST(Session, AFutureHasTheErrorOfItsStep) {
  Graph g;
  VariableRef v = variable(g, {.name = "v", .shape = {2}});
  Session session(g);
  auto step = session.callable({}, {v.read()}).async({});
  try {
    step.get();
    ADD_FAILURE() << "an uninitialised variable was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::failed_precondition) << error.message();
  }
}

const ActorRecord& actor_of_kind(Task& task, const std::string& kind) {
  for (const auto& record : task.actors().actors())
    if (record->kind == kind) return *record;
  fail(Code::not_found, "no {}", kind);
}

TEST(Session, AGraphOfOneSegmentRunsPastTheScheduler) {
  Task task({.threads = 1});
  Graph g;
  Output x = placeholder(g, DType::f32, {2}, "x");
  Output y = relu(x) + 1.0;
  Session session(task, g, {.optimize = false});
  const Callable call = session.callable({x}, {y});
  call({Tensor::vector<float>({1, 2})});
  const ActorRecord& scheduler = actor_of_kind(task, "scheduler");
  const ActorRecord& device = actor_of_kind(task, "device");
  const std::uint64_t asked = scheduler.messages_in, before = device.messages_in, nodes = device.nodes_run;
  for (int i = 0; i < 10; ++i) call({Tensor::vector<float>({1, 2})});
  EXPECT_EQ(scheduler.messages_in, asked);
  EXPECT_EQ(device.messages_in, before + 10);
  EXPECT_GE(device.nodes_run, nodes + 9 * 3);  // the last one may be counted in a moment
  // A deadline is kept by the scheduler.
  call({Tensor::vector<float>({1, 2})}, {.timeout = testing::kPatience});
  EXPECT_GT(scheduler.messages_in, asked);
}

TEST(Session, WithoutCountersNothingIsCounted) {
  Task task({.threads = 1, .counters = false});
  Graph g;
  Output x = placeholder(g, DType::f32, {}, "x");
  Output y = relu(x);
  Session session(task, g);
  EXPECT_EQ(session.run({{x, Tensor::scalar(-2.0f)}}, y).item<float>(), 0.0f);
  EXPECT_EQ(actor_of_kind(task, "device").messages_in, 0u);
  EXPECT_EQ(actor_of_kind(task, "device").nodes_run, 0u);
}

// A task that takes as long to build a plan with the op Slow as the test wants.
class SlowBuildTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const OpRegistry> ops() {
    auto ops = std::make_shared<OpRegistry>(standard_ops());
    ops->add(Op("Slow").input("x", DType::f32).output("y", DType::f32).shape([](ShapeContext& c) {
      c.set_output(0, c.input(0));
    }));
    return ops;
  }
  void add_kernel(KernelRegistry& kernels) {
    kernels.add({.op = "Slow", .device_type = "CPU", .dtypes = {}, .make = [this](const KernelInit&) -> Kernel {
                   if (++builds == 1) begun.set_value();
                   opened.wait();
                   return [](KernelContext& c) { c.set_output(0, c.input(0)); };
                 }});
  }
  ~SlowBuildTest() override { open(); }
  void open() {
    if (!std::exchange(is_open, true)) gate.set_value();
  }
  std::future<Error> run(const Output& fetch) {
    return std::async(std::launch::async, [this, fetch] {
      return error_of([&] { session->run({{x, Tensor::scalar(1.0f)}}, fetch); });
    });
  }
  static bool ended(const std::future<Error>& run) {
    return run.wait_for(testing::kPatience) == std::future_status::ready;
  }

  std::atomic<int> builds = 0;
  bool is_open = false;
  std::promise<void> begun, gate;
  std::shared_future<void> opened = gate.get_future().share();
  std::shared_ptr<const OpRegistry> registry = ops();
  Task task{{.threads = 1, .ops = registry, .register_kernels = [this](KernelRegistry& k) { add_kernel(k); }}};
  Graph graph{*registry};
  Output x = placeholder(graph, DType::f32, Shape{}, "x");
  Output y = x + 1.0;
  Output z = x * 2.0;
  Output slow = add_op("Slow", {x});
  std::unique_ptr<Session> session = std::make_unique<Session>(task, graph);
};

TEST_F(SlowBuildTest, StepsRunWhileAnotherSignatureIsBuilt) {
  EXPECT_FALSE(run(y).get());
  auto building = run(slow);
  begun.get_future().wait();
  auto known = run(y);
  EXPECT_TRUE(ended(known)) << "a signature that is there";
  auto other = run(z);
  EXPECT_TRUE(ended(other)) << "a new one";
  auto same = run(slow);
  EXPECT_EQ(building.wait_for(0s), std::future_status::timeout);
  open();
  for (const auto& [which, one] :
       {std::pair("building", &building), {"known", &known}, {"other", &other}, {"same", &same}})
    EXPECT_FALSE(one->get()) << which;
  EXPECT_EQ(builds, 1) << "those that want the same signature wait for the first";
}

TEST_F(SlowBuildTest, ClosingTheSessionEndsACallThatWaitsForABuild) {
  auto building = run(slow);
  begun.get_future().wait();
  auto closing = std::async(std::launch::async, [&] { session.reset(); });
  ASSERT_TRUE(ended(building));
  EXPECT_EQ(building.get().message(), "the session is closed");
  EXPECT_EQ(closing.wait_for(testing::kPatience), std::future_status::ready);
  open();
  closing.get();
  EXPECT_TRUE(task.shutdown());
}

TEST(Session, ExplainTellsPassesPlacementAndPlans) {
  Task task({.cpu_devices = 2, .threads = 1});
  Graph g;
  Output x = placeholder(g, DType::f32, {2}, "x");
  Output y = relu(x + constant(g, 1.0f) * 2.0, "y");
  Output z;
  {
    const auto device = g.on_device("/device:CPU:1");
    z = tanh(y, "z");
  }
  Session session(task, g);
  const std::string text = session.explain({x}, {z});
  EXPECT_THAT(text, ContainsRegex("pass fold_constants: [0-9]+ -> [0-9]+ nodes in [0-9]+\\.[0-9]+ ms\n"));
  EXPECT_THAT(text, HasSubstr("/device:CPU:1\n"));
  for (const char* device : {"CPU:0", "CPU:1"})
    EXPECT_THAT(text, HasSubstr(fmt::format("plan for /job:local/task:0/device:{}: ", device)));
  EXPECT_THAT(text, HasSubstr("Tanh 'z'"));
  EXPECT_THAT(text, HasSubstr("segment 0 waits for 0"));
  EXPECT_THAT(text, HasSubstr("memory: peak "));
}

// A task with an op that says that it runs and waits to be let through.
class GateTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const OpRegistry> ops() {
    auto ops = std::make_shared<OpRegistry>(standard_ops());
    ops->add(Op("Gate")
                 .input("x", DType::f32)
                 .output("y", DType::f32)
                 .shape([](ShapeContext& c) { c.set_output(0, c.input(0)); })
                 .stateful());
    return ops;
  }
  void add_kernel(KernelRegistry& kernels) {
    kernels.add({.op = "Gate", .device_type = "CPU", .dtypes = {}, .make = [this](const KernelInit&) -> Kernel {
                   return [this](KernelContext& c) {
                     ++entered;
                     inside.set_value();
                     gate.get_future().wait();
                     c.set_output(0, c.input(0));
                   };
                 }});
  }
  std::future<StepResult> start(StepId* step = nullptr) {
    auto promise = std::make_shared<std::promise<StepResult>>();
    auto future = promise->get_future();
    const StepId id =
        call.start({Tensor::scalar(1.0f)}, {}, [promise](StepResult r) { promise->set_value(std::move(r)); });
    if (step) *step = id;
    return future;
  }

  std::atomic<int> entered = 0;
  std::promise<void> inside, gate;
  std::shared_ptr<const OpRegistry> registry = ops();
  Task task{{.threads = 1, .ops = registry, .register_kernels = [this](KernelRegistry& k) { add_kernel(k); }}};
  Graph graph{*registry};
  Output x = placeholder(graph, DType::f32, Shape{}, "x");
  Output y = add_op("Gate", {x}) + 1.0;
  std::unique_ptr<Session> session = std::make_unique<Session>(task, graph);
  Callable call = session->callable({x}, {y});
};

TEST_F(GateTest, ACancelledDirectStepStopsOrNeverBegins) {
  StepId running, queued;
  auto first = start(&running);
  inside.get_future().wait();
  auto second = start(&queued);
  session->cancel(queued);
  session->cancel(running);
  gate.set_value();
  for (const auto& [which, answer] : {std::pair("first", &first), {"second", &second}}) {
    SCOPED_TRACE(which);
    const StepResult result = answer->get();
    EXPECT_EQ(result.error.code(), Code::cancelled);
    EXPECT_NE(result.error.message().find("was cancelled by its client"), std::string::npos) << result.error.message();
  }
  EXPECT_EQ(entered, 1);
}

TEST_F(GateTest, ClosingTheSessionCancelsItsDirectSteps) {
  auto running = start();
  inside.get_future().wait();
  auto queued = start();
  session->close();
  gate.set_value();
  for (const auto& [which, answer] : {std::pair("running", &running), {"queued", &queued}})
    EXPECT_EQ(answer->get().error.message(), "the session was closed") << which;
  EXPECT_EQ(entered, 1);
}

// A client that waits runs its step itself on an idle device: what others do to it stays the same.
TEST_F(GateTest, AStepOnItsClientsThreadIsCancelledWithItsSession) {
  auto call_here = std::async(std::launch::async, [&] { return error_of([&] { call({Tensor::scalar(1.0f)}); }); });
  inside.get_future().wait();
  auto queued = start();
  session->close();
  gate.set_value();
  EXPECT_EQ(call_here.get().message(), "the session was closed");
  EXPECT_EQ(queued.get().error.message(), "the session was closed");
  EXPECT_EQ(entered, 1);
}

TEST_F(GateTest, AShutdownWaitsForAStepOnItsClientsThread) {
  auto call_here = std::async(std::launch::async, [&] { return call({Tensor::scalar(1.0f)}); });
  inside.get_future().wait();
  std::string left;
  EXPECT_FALSE(task.shutdown(1ms, &left));
  EXPECT_NE(left.find("a kernel on"), std::string::npos) << left;
  gate.set_value();
  EXPECT_EQ(call_here.get().at(0).item<float>(), 2.0f);
  EXPECT_TRUE(task.shutdown());
}

TEST(Session, AClientThatWaitsRunsItsStepItself) {
  auto ops = std::make_shared<OpRegistry>(standard_ops());
  ops->add(Op("Here")
               .input("x", DType::f32)
               .output("y", DType::f32)
               .shape([](ShapeContext& c) { c.set_output(0, c.input(0)); })
               .stateful());
  std::thread::id ran_on;
  Task task({.threads = 1, .ops = ops, .register_kernels = [&](KernelRegistry& kernels) {
               kernels.add({.op = "Here", .device_type = "CPU", .dtypes = {}, .make = [&](const KernelInit&) -> Kernel {
                              return [&](KernelContext& c) {
                                ran_on = std::this_thread::get_id();
                                c.set_output(0, c.input(0));
                              };
                            }});
             }});
  Graph graph(*ops);
  const Output y = add_op("Here", {constant(graph, 1.0f)});
  Session session(task, graph);
  const Callable call = session.callable({}, {y});
  // A new device is idle in a moment.
  EXPECT_TRUE(testing::eventually([&] {
    call({});
    return ran_on == std::this_thread::get_id();
  }));
  call.async({}).get();
  EXPECT_NE(ran_on, std::this_thread::get_id()) << "a thread of the device";
}

TEST(Session, ClientsOfOneDeviceTakeTurns) {
  Graph g;
  VariableRef v = variable(g, {.name = "v", .initial_value = constant(g, std::int64_t{0})});
  Output next = v.assign_add(constant(g, std::int64_t{1}));
  Output init = initializer(g);
  Session session(g);
  session.run_targets({init});
  const Callable call = session.callable({}, {next});
  constexpr int kClients = 3, kSteps = 400;
  std::vector<std::future<std::vector<std::int64_t>>> clients;
  for (int i = 0; i < kClients; ++i)
    clients.push_back(std::async(std::launch::async, [&, pipelined = i == 0] {
      std::vector<std::int64_t> seen;
      for (int step = 0; step < kSteps; ++step)
        seen.push_back((pipelined ? call.async({}).get() : call({})).at(0).item<std::int64_t>());
      return seen;
    }));
  std::vector<std::int64_t> all;
  for (auto& client : clients) {
    const std::vector<std::int64_t> seen = client.get();
    EXPECT_TRUE(std::ranges::is_sorted(seen));
    all.insert(all.end(), seen.begin(), seen.end());
  }
  std::ranges::sort(all);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<std::int64_t>(i) + 1);
}

TEST_F(GateTest, AQueuedDirectStepIsAnsweredWhenTheTaskShutsDown) {
  auto running = start();
  inside.get_future().wait();
  auto queued = start();
  std::string left;
  EXPECT_FALSE(task.shutdown(1ms, &left));
  EXPECT_NE(left.find("a kernel on"), std::string::npos) << left;
  gate.set_value();
  EXPECT_FALSE(running.get().error);
  EXPECT_TRUE(task.shutdown());
  queued.get();  // answered: run, or dropped
}

TEST(Session, AGraphSpreadsOverTheDevicesOfATask) {
  Task task({.cpu_devices = 3, .threads = 1});
  Graph g;
  Output x = placeholder(g, DType::f32, {4}, "x");
  Output total = x;
  for (int round = 0; round < 5; ++round)
    for (int d = 0; d < 3; ++d) {
      auto scope = g.on_device(fmt::format("CPU:{}", d));
      total = total + static_cast<double>(d);
    }
  Session session(task, g);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(session.run({{x, Tensor::vector<float>({1, 2, 3, 4})}}, total).data<float>()[3], 19.0f) << "step " << i;
}

TEST(Session, OnATaskThatHasShutDownIsAClearError) {
  Task task({.threads = 1});
  Graph g;
  Output x = placeholder(g, DType::f32, {}, "x");
  Output y = relu(x);
  Session session(task, g);
  const Callable call = session.callable({x}, {y});
  EXPECT_EQ(call({Tensor::scalar(2.0f)})[0].item<float>(), 2.0f);
  EXPECT_TRUE(task.shutdown());
  EXPECT_EQ(error_of([&] { call({Tensor::scalar(2.0f)}); }).code(), Code::cancelled);
  EXPECT_EQ(error_of([&] { session.callable({x}, {x}); }).code(), Code::unavailable);
  session.cancel(StepId{1});
  session.close();  // at once: there is nobody to ask
}

// ---- Several tasks, in one process but over real sockets -----------------------------------------------------------

class TasksTest : public ::testing::Test {
 protected:
  void start(const std::vector<TaskName>& names, std::uint64_t memory_limit = 0) {
    std::vector<TaskOptions> options;
    for (const TaskName& name : names) options.push_back({.name = name, .memory_limit = memory_limit});
    tasks.start(std::move(options));
  }

  testing::TaskCluster tasks;
};

TEST_F(TasksTest, AGraphPlacedByHandOverThreeTasksGivesTheSameValuesAsOnOne) {
  start({{"worker", 0}, {"worker", 1}, {"ps", 0}});
  const auto build = [](Graph& g, bool placed) {
    const auto on = [&](const char* device) { return placed ? std::string(device) : std::string(); };
    Output x = placeholder(g, DType::f32, {2, 2}, "x");
    Output a, b, c;
    {
      auto scope = g.on_device(on("/job:worker/task:1"));
      a = add_op("Identity", {matmul(x, x)}, {}, "a");
    }
    {
      auto scope = g.on_device(on("/job:ps/task:0"));
      b = add_op("Identity", {a + x}, {}, "b");
    }
    {
      auto scope = g.on_device(on("/job:worker/task:0"));
      c = add_op("Identity", {b * a}, {}, "c");
    }
    return Outputs{x, a, b, c};
  };
  Graph one, three;
  const Outputs local = build(one, false), remote = build(three, true);
  Session on_one(one), on_three(tasks[0], three);
  const Tensor x = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  const auto expected = on_one.run({{local[0], x}}, {local[1], local[2], local[3]});
  for (int i = 0; i < 50; ++i) {
    const auto got = on_three.run({{remote[0], x}}, {remote[1], remote[2], remote[3]});
    for (std::size_t k = 0; k < 3; ++k) EXPECT_TRUE(bitwise_equal(got[k], expected[k])) << k;
  }
  // A feed on an edge that would be computed, and consumed, remotely.
  const Tensor a = Tensor::of<float>({2, 2}, {9, 8, 7, 6});
  const auto fed_here = on_one.run({{local[0], x}, {local[1], a}}, local[3]);
  const auto fed_there = on_three.run({{remote[0], x}, {remote[1], a}}, remote[3]);
  EXPECT_TRUE(bitwise_equal(fed_here, fed_there));
}

TEST_F(TasksTest, TheClassicPictureVariablesOnPsAndTheProductOnAWorker) {
  start({{"worker", 0}, {"ps", 0}});
  Graph g;
  VariableRef w, b;
  {
    auto scope = g.on_device("/job:ps");
    w = variable(g, {.name = "w", .initial_value = constant(g, Tensor::of<float>({2, 1}, {2, 3}))});
    b = variable(g, {.name = "b", .initial_value = constant(g, Tensor::of<float>({1}, {1}))});
  }
  Output x = placeholder(g, DType::f32, {1, 2}, "x");
  Output s;
  {
    auto scope = g.on_device("/job:worker");
    s = bias_add(matmul(x, w.read()), b.read());
  }
  Output update;
  {
    auto scope = g.on_device("/job:ps");
    update = w.assign_add(constant(g, Tensor::of<float>({2, 1}, {1, 1})));
  }
  Output init = initializer(g);
  Session session(tasks[0], g);
  session.run_targets({init});
  EXPECT_EQ(session.run({{x, Tensor::of<float>({1, 2}, {1, 10})}}, s).item<float>(), 33.0f);
  session.run({}, {}, {update});
  EXPECT_EQ(session.run({{x, Tensor::of<float>({1, 2}, {1, 10})}}, s).item<float>(), 44.0f);
}

// The elements that have come to worker 1, which a client on worker 0 has fed.
std::int64_t count_there(Task& client, const Tensor& fed) {
  Graph g;
  const Output x = placeholder(g, DType::f32, {kUnknown}, "x");
  const auto there = g.on_device("/job:worker/task:1");
  const Output count = element_count(x);
  Session session(client, g);
  return session.run({{x, fed}}, count).item<std::int64_t>();
}

TEST_F(TasksTest, TensorsThatComeTakeMemoryThatTheDeviceKeeps) {
  start({{"worker", 0}, {"worker", 1}});
  const Tensor fed = Tensor::zeros(DType::f32, {1 << 20});
  EXPECT_EQ(count_there(tasks[0], fed), 1 << 20);
  const std::uint64_t fresh = tasks[1].device().allocator().stats().fresh;
  EXPECT_GE(tasks[1].device().allocator().stats().peak_bytes, fed.num_bytes());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(count_there(tasks[0], fed), 1 << 20) << "step " << i;
  EXPECT_LE(tasks[1].device().allocator().stats().fresh, fresh + 1);  // one may come before the last has gone
}

TEST_F(TasksTest, AMemoryLimitDoesNotEndTheConnectionOfWhoeverSendsMore) {
  start({{"worker", 0}, {"worker", 1}}, 1 << 20);
  EXPECT_EQ(count_there(tasks[0], Tensor::zeros(DType::f32, {1 << 20})), 1 << 20);
}

TEST_F(TasksTest, TheFirstErrorOfAStepReachesTheClientWithNodeDeviceAndTask) {
  start({{"worker", 0}, {"worker", 1}});
  Graph g;
  Output ids = placeholder(g, DType::i32, {1}, "ids");
  Output rows, after;
  {
    auto scope = g.on_device("/job:worker/task:1");
    rows = gather(constant(g, Tensor::of<float>({2, 1}, {1, 2})), ids, {.name = "rows"});
  }
  after = relu(rows);
  Session session(tasks[0], g);
  const Error error = error_of([&] { session.run({{ids, Tensor::vector<std::int32_t>({5})}}, after); });
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_NE(error.message().find("Gather 'rows' on /job:worker/task:1/device:CPU:0"), std::string::npos)
      << error.message();
  EXPECT_EQ(session.run({{ids, Tensor::vector<std::int32_t>({1})}}, after).item<float>(), 2.0f);
}

TEST_F(TasksTest, ATaskThatLeavesFailsTheStepsThatNeedIt) {
  start({{"worker", 0}, {"worker", 1}});
  Graph g;
  Output x = placeholder(g, DType::f32, {}, "x");
  Output y;
  {
    auto scope = g.on_device("/job:worker/task:1");
    y = relu(x);
  }
  Session session(tasks[0], g);
  EXPECT_EQ(session.run({{x, Tensor::scalar(1.0f)}}, y).item<float>(), 1.0f);
  tasks.shut_down(1);
  const Error error = error_of([&] {
    session.run({{x, Tensor::scalar(1.0f)}}, std::vector<Output>{y}, {}, {.timeout = testing::kPatience});
  });
  EXPECT_EQ(error.code(), Code::unavailable) << error.to_string();
  EXPECT_NE(error.message().find("/job:worker/task:1"), std::string::npos) << error.message();
}

TEST(Task, ThreadsAndDevicesThatCannotBeAreRefused) {
  for (const int threads : {-3, 100'000})
    EXPECT_THAT(error_of([&] { Task({.threads = threads}); }).message(), HasSubstr(fmt::format("not {}", threads)));
  EXPECT_THAT(error_of([&] { Task({.cpu_devices = 0}); }).message(), HasSubstr("not 0"));
}

TEST(Task, APeerThatNeverComesIsNamed) {
  Task task({.name = {"worker", 0}, .threads = 1, .networked = true});
  std::uint16_t nobody = 0;
  {
    Task gone({.name = {"ps", 0}, .threads = 1, .networked = true});
    nobody = gone.port();
  }
  ClusterSpec cluster{
      "test", "secret", {{{"worker", 0}, {"127.0.0.1", task.port()}}, {{"ps", 0}, {"127.0.0.1", nobody}}}};
  const Error error = error_of([&] { task.join(cluster, 300ms); });
  EXPECT_EQ(error.code(), Code::deadline_exceeded);
  EXPECT_NE(error.message().find("/job:ps/task:0"), std::string::npos) << error.message();
}

TEST(Task, RunsOpsOfTheProgramsOwn) {
  auto ops = std::make_shared<OpRegistry>(standard_ops());
  ops->add(Op("Thrice").input("x", DType::f32).output("y", DType::f32).shape([](ShapeContext& c) {
    c.set_output(0, c.input(0));
  }));
  const auto add_kernel = [](KernelRegistry& kernels) {
    kernels.add({.op = "Thrice", .device_type = "CPU", .dtypes = {}, .make = [](const KernelInit&) -> Kernel {
                   return [](KernelContext& c) { c.set_output(0, Tensor::scalar(3 * c.input(0).item<float>())); };
                 }});
  };
  Graph g(*ops);
  Output x = placeholder(g, DType::f32, Shape{}, "x");
  Output y = add_op("Thrice", {x}) + 1.0;
  Task task({.threads = 1, .ops = ops, .register_kernels = add_kernel});
  EXPECT_EQ(Session(task, g).run({{x, Tensor::scalar(2.0f)}}, y).item<float>(), 7.0f);

  Task without({.threads = 1});
  const Error unknown = error_of([&] { Session(without, g).run({{x, Tensor::scalar(2.0f)}}, y); });
  EXPECT_NE(unknown.message().find("Thrice"), std::string::npos) << unknown.to_string();
}

TEST(Task, ABusyPortIsNamed) {
  Task first({.name = {"ps", 0}, .threads = 1, .networked = true});
  const Error error = error_of([&] {
    Task second({.name = {"ps", 1}, .threads = 1, .port = first.port(), .networked = true});
  });
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_NE(error.message().find(std::to_string(first.port())), std::string::npos) << error.message();
}

TEST(Task, APeerWithoutTheTokenIsSentAway) {
  Error at_b;
  EXPECT_TRUE(testing::holds_with_more_time(500ms, [&](std::chrono::milliseconds limit) {  // to be heard in
    Task a({.name = {"ps", 0}, .threads = 1, .networked = true});
    Task b({.name = {"worker", 0}, .threads = 1, .networked = true});
    const ClusterSpec good{
        "test", "secret", {{{"ps", 0}, {"127.0.0.1", a.port()}}, {{"worker", 0}, {"127.0.0.1", b.port()}}}};
    ClusterSpec bad = good;
    bad.token = "guess";
    Error at_a;
    std::thread joiner([&] { at_a = error_of([&] { a.join(good, limit); }); });
    at_b = error_of([&] { b.join(bad, limit); });
    joiner.join();
    EXPECT_FALSE(at_a.ok());
    return at_b.code() == Code::unauthenticated;
  })) << at_b.to_string();
}

}  // namespace
}  // namespace troupe
