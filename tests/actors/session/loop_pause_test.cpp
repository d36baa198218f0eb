// Loops that pause: they give the device to other sessions, and end as if they had not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/devices/cpu/cpu_device.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/kernels/kernels.hpp>
#include <troupe/scheduler/run/executor.hpp>

namespace troupe {
namespace {

class Always final : public Pauses {
 public:
  bool wanted() override { return true; }
};

class NoOutbox final : public Outbox {
 public:
  void send(std::uint32_t, Tensor) override { FAIL(); }
  void push(const PushTarget&, Tensor, Tensor) override { FAIL(); }
  void ask(const AskTarget&, Tensor) override { FAIL(); }
  void contribute(const ContributionTarget&, Tensor) override { FAIL(); }
  void flush() override {}
};

// Runs a graph without feeds whose only segment has loops.
class PausedRun {
 public:
  explicit PausedRun(const Output& fetch) {
    register_all_kernels(kernels_);
    plan_ = build_plan(*make_callable_graph(*fetch.graph, {.fetches = {output_name(*fetch.graph, {fetch.node, 0})}}),
                       kernels_, "CPU", "/device:CPU:0");
    frame_ = std::make_unique<PlanFrame>(*plan_, std::vector<Variable*>());
  }
  // The result, and in how many pieces it ran.
  std::pair<Tensor, int> run(Pauses* pauses) {
    frame_->begin({});
    Error error = run_segment(*frame_, 0, *device_, outbox_, pauses);
    int pieces = 1;
    for (; !error && frame_->paused(); ++pieces) error = run_segment(*frame_, 0, *device_, outbox_, pauses);
    if (error) throw error;
    std::pair<Tensor, int> out{frame_->fetches[0], pieces};
    frame_->clear();
    return out;
  }
  // Runs until the first pause, and ends there.
  void abandon() {
    Always always;
    frame_->begin({});
    ASSERT_FALSE(run_segment(*frame_, 0, *device_, outbox_, &always));
    ASSERT_TRUE(frame_->paused());
    frame_->clear();
  }

 private:
  KernelRegistry kernels_;
  std::unique_ptr<const Plan> plan_;
  std::unique_ptr<PlanFrame> frame_;
  std::unique_ptr<Device> device_ =
      make_cpu_device({.name = DeviceName::parse("/job:test/task:0/device:CPU:0"), .threads = 1});
  NoOutbox outbox_;
};

// Two iterations, each a branch: the first has a loop of three, the second one of two in one of two.
Output nested(Graph& g) {
  const auto count = [](Graph& graph, std::int64_t n) { return constant(graph, n); };
  const Output x = constant(g, 1.0f);
  return for_loop(
      count(g, 2),
      [&](Output i, const Outputs& v) {
        return if_else(
            equal(i, scalar_like(i, 0)), {v[0]},
            [&](Graph& body, const Outputs& in) {
              return for_loop(count(body, 3),
                              [](Output k, const Outputs& u) { return Outputs{u[0] * 2.0 + cast(k, DType::f32)}; },
                              {in[0]});
            },
            [&](Graph& body, const Outputs& in) {
              return for_loop(count(body, 2),
                              [&](Output, const Outputs& u) {
                                return for_loop(count(*u[0].graph, 2),
                                                [&](Output k, const Outputs& w) {
                                                  return Outputs{w[0] + random_uniform(*k.graph, Shape{}) + x};
                                                },
                                                {u[0]});
                              },
                              {in[0]});
            });
      },
      {x})[0];
}

TEST(LoopPauses, ALoopGoesOnWhereItPaused) {
  Graph g;
  PausedRun run(nested(g));
  const auto [whole, once] = run.run(nullptr);
  EXPECT_EQ(once, 1);
  Always always;
  for (int round = 0; round < 2; ++round) {
    const auto [found, pieces] = run.run(&always);
    // Before each iteration of a loop but its first: 1 of the outer one, 2 of the first branch, 1 + 2 of the second.
    EXPECT_EQ(pieces, 1 + 1 + 2 + 3);
    EXPECT_TRUE(bitwise_equal(found, whole)) << found.to_string() << ", not " << whole.to_string();
    run.abandon();
  }
}

// A loop that never ends by itself would keep the only thread of the device.
TEST(LoopPauses, OtherSessionsRunBesideALoop) {
  Task task({.threads = 1, .gpus = {.count = 0}});
  Graph endless;
  const Output go = placeholder(endless, DType::boolean, Shape{});
  const Output end = while_loop([&](const Outputs&) { return go; },
                                [](const Outputs& v) { return Outputs{v[0] + 1.0}; }, {constant(endless, 0.0f)})[0];
  Session first(task, endless);
  const Callable loop = first.callable({go}, {end});
  std::promise<StepResult> ended, behind;
  const StepId running = loop.start({Tensor::scalar(true)}, {}, [&](StepResult r) { ended.set_value(std::move(r)); });
  loop.start({Tensor::scalar(false)}, {}, [&](StepResult r) { behind.set_value(std::move(r)); });

  Graph short_steps;
  const Output x = placeholder(short_steps, DType::f32, Shape{}), y = x * 3.0;
  Session second(task, short_steps);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(second.run({{x, Tensor::scalar(2.0f)}}, y).item<float>(), 6.0f);
  auto next = behind.get_future();
  EXPECT_EQ(next.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << "steps of a session stay in order";
  first.cancel(running);
  EXPECT_EQ(ended.get_future().get().error.code(), Code::cancelled);
  const StepResult result = next.get();
  EXPECT_FALSE(result.error) << result.error.message();
  EXPECT_EQ(result.fetches.at(0).item<float>(), 0.0f);
}

}  // namespace
}  // namespace troupe
