// Gradients of a step leave while it still computes: a kernel is held, and what came before it has reached the other
// task.
#include <gtest/gtest.h>

#include <caf/send.hpp>
#include <future>

#include "tests/actors/task_cluster.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/session/group.hpp>
#include <troupe/actors/wire/cork.hpp>
#include <troupe/graph/training/all_reduce.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using testing::kPatience;

// An op that takes long: until the test lets it go.
class Gate {
 public:
  void pass() {
    const wire::Cork* const cork = wire::Cork::current();
    held_back = cork && !cork->empty();
    reached_.set_value();
    released_.get_future().wait_for(kPatience);
  }
  bool wait_until_reached() { return reached_.get_future().wait_for(kPatience) == std::future_status::ready; }
  void release() { released_.set_value(); }
  bool held_back = false;  // frames of its thread wait for more

 private:
  std::promise<void> reached_, released_;
};

// A shard that notes what is pushed to it.
class NotingShard final : public Counted<ShardActor> {
 public:
  using Notes = std::vector<std::promise<Push>>;  // by slice
  NotingShard(caf::actor_config& config, std::shared_ptr<ActorRecord> record, std::shared_ptr<Notes> notes)
      : Counted(config, std::move(record)), notes_(std::move(notes)) {}
  behavior_type make_behavior() override {
    return {[](const JobRoutes&) {},
            [](const Outbound&) {},
            [](const Inbound<Joined>&) {},
            [](const Inbound<Pull>&) {},
            [this](const Inbound<Push>& m) { notes_->at(m.frame.slice).set_value(m.frame); },
            [](const Inbound<Commit>&) {},
            [](const Inbound<Fence>&) {},
            [](const Inbound<Save>&) {},
            [](const Inbound<BarrierOpen>&) {},
            [](const Inbound<JobFailed>&) {},
            [](const PeerUp&) {},
            [](const PeerDown&) {},
            [](const Tick&) {},
            [](const ProvenanceRequest&) { return Reply(); },
            [this](const Stop&) { quit(); }};
  }

 private:
  const std::shared_ptr<Notes> notes_;
};

class Departures : public ::testing::Test {
 protected:
  Departures() {
    ops->add(Op("Held")
                 .input("x", DType::f32)
                 .output("y", DType::f32)
                 .shape([](ShapeContext& c) { c.set_output(0, c.input(0)); })
                 .stateful());
    std::vector<TaskOptions> two;
    for (const TaskName& name : {worker, other}) {
      TaskOptions& options = two.emplace_back(TaskOptions{.name = name, .ops = ops});
      options.register_kernels = [this](KernelRegistry& kernels) {
        kernels.add({.op = "Held", .device_type = "CPU", .dtypes = {}, .make = [this](const KernelInit&) -> Kernel {
                       return [this](KernelContext& context) {
                         gate.pass();
                         context.set_output(0, context.input(0));
                       };
                     }});
      };
    }
    tasks.start(std::move(two));
  }
  Output held(Output x) {
    const Node& node =
        graph.add({.op = "Held", .name = "held", .inputs = {x}, .attributes = {{"_cost_ns", std::int64_t{1'000'000}}}});
    return graph.output(node);
  }

  const TaskName worker{"worker", 0}, other{"worker", 1};
  std::shared_ptr<OpRegistry> ops = std::make_shared<OpRegistry>(standard_ops());
  Gate gate;
  testing::TaskCluster tasks;
  Graph graph{*ops};
  Output x = placeholder(graph, DType::f32, {4}, "x");
};

TEST_F(Departures, TheLastLayersGradientIsPushedBeforeTheFirstLayersIsComputed) {
  auto notes = std::make_shared<NotingShard::Notes>(2);
  auto last = notes->at(1).get_future(), first = notes->at(0).get_future();
  const ShardActor shard =
      tasks[1].system().spawn<NotingShard>(tasks[1].actors().add(ActorKind::shard, "notes"), notes);
  caf::anon_send(tasks[1].handles().node, JobRoutes{shard, {}, {}});

  const auto push = [&](Output gradient, std::int64_t slice) {
    return graph
        .add({.op = "Push",
              .name = fmt::format("push_{}", slice),
              .inputs = {gradient},
              .attributes = {{"T", DType::f32}, {"slice", slice}, {"shard", std::int64_t{0}}}})
        .id;
  };
  const Output gradient = neg(x, "gradient");
  const int of_last = push(gradient, 1), of_first = push(held(gradient), 0);
  Session session(tasks[0], graph, {.shards = {other}});
  const Callable step = session.callable({x}, {}, {Output{&graph, of_last, 0}, Output{&graph, of_first, 0}});
  auto running = step.async({Tensor::vector<float>({1, 2, 3, 4})});
  EXPECT_TRUE(gate.wait_until_reached());
  EXPECT_FALSE(gate.held_back);
  ASSERT_EQ(last.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(first.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  gate.release();
  EXPECT_EQ(first.wait_for(kPatience), std::future_status::ready);
  running.get();
  EXPECT_EQ(last.get().gradient.data<float>()[3], -4);
  caf::anon_send(tasks[1].handles().node, JobRoutes{});
  caf::anon_send(shard, Stop{});
}

TEST_F(Departures, TheLastLayersGradientIsReducedBeforeTheFirstLayersIsComputed) {
  const Output gradient = neg(x, "gradient");
  const Output last = all_reduce(gradient, {.reduction = "sum", .name = "last"});
  const Output first = all_reduce(held(gradient), {.reduction = "sum", .name = "first"});
  // Groups must be made on both ranks at once.
  auto opening = std::async(std::launch::async, [&] {
    return std::make_unique<CollectiveGroup>(tasks[1], "g", std::vector{worker, other});
  });
  CollectiveGroup group(tasks[0], "g", {worker, other});
  const auto others = opening.get();
  Session here(tasks[0], graph), there(tasks[1], graph);
  const RunOptions options{.timeout = kPatience, .training = {.step = 0, .group = group.id()}};
  const Tensor ones = Tensor::vector<float>({1, 1, 1, 1});
  const Callable step = here.callable({x}, {last, first});
  auto running = step.async({ones}, options);
  EXPECT_TRUE(gate.wait_until_reached());
  EXPECT_FALSE(gate.held_back);
  // The other rank has no more of this step: its sum needs what this rank has made before the held kernel.
  EXPECT_EQ(there.callable({x}, {last})({ones}, options)[0].data<float>()[0], -2);
  EXPECT_EQ(running.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  others->fail(Error(Code::cancelled, "the test is over"));
  gate.release();
  EXPECT_THROW(running.get(), Error);
}

}  // namespace
}  // namespace troupe
