#include "troupe/actors/training/job_links.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/send.hpp>

#include "tests/actors/steps/step_testing.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/cluster/peer_actor.hpp>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using testing::error_of;

// Links of a shard's task to another shard and two workers, and what leaves through them.
class JobLinksTest : public ::testing::Test {
 protected:
  JobLinksTest() {
    for (const TaskName& task : {shard_task(1), worker_task(0), worker_task(1)}) {
      PeerActorImpl::Links to;
      to.send = [this, task](const Frame& frame) {
        sent.emplace_back(task.to_string(), frame);
        return Error();
      };
      peers.push_back(system.caf->spawn<PeerActorImpl>(system.registry.add(ActorKind::peer, task.to_string()), task,
                                                       std::move(to)));
      links.up(PeerUp{task, peers.back(), {}});
    }
    links.set(JobRoutes{caf::actor_cast<ShardActor>(peers[0]), {}, {}, 7});  // only Tell sees what it gets
  }
  ~JobLinksTest() override {
    for (const PeerActor& peer : peers) caf::anon_send(peer, Stop{});
    links.clear();
    system.run();
  }

  struct Tell {
    JobLinksTest& test;
    void operator()(const PeerActor& peer, Outbound message) const { caf::anon_send(peer, std::move(message)); }
    void operator()(const PeerActor& peer, const caf::message& message) const {
      test.shared.push_back(message.get(0));
      caf::anon_send(caf::actor_cast<caf::actor>(peer), message);
    }
    template <class Actor, class F>
    void operator()(const Actor&, Inbound<F> message) const {
      test.own.push_back(fmt::format("{} from {}", type_name<F>(), message.from.to_string()));
    }
  };
  std::vector<std::string> receivers() const {
    std::vector<std::string> out;
    for (const auto& [task, frame] : sent) out.push_back(fmt::format("{} {}", task, kind_name(frame)));
    return out;
  }

  testing::SteppedSystem system;
  JobLinks links{shard_task(0)};
  std::vector<PeerActor> peers;
  std::vector<std::pair<std::string, Frame>> sent;
  std::vector<const void*> shared;  // where the messages for several peers lie
  std::vector<std::string> own;
};

TEST_F(JobLinksTest, AFrameForShardsGoesToAllOfThemWithTheNumberOfTheJob) {
  links.deliver({Destination::shards(), Commit{3, 0, {0, 1}}}, Tell{*this});
  EXPECT_THAT(receivers(), ElementsAre("/job:ps/task:1 Commit"));
  EXPECT_EQ(std::get<Commit>(sent.at(0).second).job, 7u);
  EXPECT_THAT(own, ElementsAre("Commit from /job:ps/task:0"));
}

TEST_F(JobLinksTest, AFrameForEveryoneIsOneMessage) {
  links.deliver({Destination::everyone(), JobFailed{Error(Code::internal, "x")}}, Tell{*this});
  EXPECT_EQ(sent.size(), 3u);
  ASSERT_EQ(shared.size(), 3u);
  EXPECT_EQ(shared[1], shared[0]);
  EXPECT_EQ(shared[2], shared[0]);
  for (const auto& [task, frame] : sent) EXPECT_EQ(std::get<JobFailed>(frame).job, 7u) << task;
  EXPECT_EQ(own.size(), 1u);
}

TEST_F(JobLinksTest, AFrameForOneTaskIsNotCopied) {
  Frame frame = Commit{3, 0, {0, 1, 2}};
  const std::uint32_t* const slots = std::get<Commit>(frame).slots.data();
  const std::uint32_t* came = nullptr;
  PeerActorImpl::Links to;
  to.send = [&](const Frame& f) {
    came = std::get<Commit>(f).slots.data();
    return Error();
  };
  peers.push_back(system.caf->spawn<PeerActorImpl>(system.registry.add(ActorKind::peer, "2"), worker_task(2), to));
  links.up(PeerUp{worker_task(2), peers.back(), {}});
  links.deliver({Destination::worker(2), std::move(frame)}, Tell{*this});
  EXPECT_EQ(came, slots);
}

TEST_F(JobLinksTest, AFrameThatNobodyOnTheOwnTaskTakesIsRefusedByName) {
  const Error error = error_of([&] { links.deliver({Destination::shards(), EpochDone{}}, Tell{*this}); });
  EXPECT_EQ(error.code(), Code::internal);
  EXPECT_EQ(error.message(), "/job:ps/task:0 sent its own shard a EpochDone, which it does not accept");
}

}  // namespace
}  // namespace troupe
