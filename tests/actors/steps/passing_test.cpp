// What goes without a hop from thread to thread: frames past their peers, actors on borrowed threads.
#include <gtest/gtest.h>

#include <atomic>
#include <caf/send.hpp>
#include <thread>

#include "tests/actors/steps/step_testing.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/cluster/peer_actor.hpp>
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/steps/borrowed_thread.hpp>
#include <troupe/actors/steps/device_work.hpp>
#include <troupe/actors/training/worker_actor.hpp>
#include <troupe/messages/codec.hpp>

namespace troupe {
namespace {

using testing::StepCluster;
using testing::SteppedSystem;

const TaskName kHere{"worker", 0};
const TaskName kThere{"worker", 1};
constexpr RendezvousKey kKey{SessionId{3}, StepId{4}, EdgeId{5}};

const ActorRecord& actor_of(const StepCluster& cluster, const std::string& kind, const TaskName& task) {
  for (const auto& record : cluster.system.registry.actors())
    if (record->kind == kind && record->name.starts_with(task.to_string())) return *record;
  throw std::runtime_error("no " + kind);
}

TEST(Passing, WhatLeavesThroughAPeerIsSentByItsSender) {
  StepCluster cluster({kHere, kThere});
  const PeerActor peer = cluster.task(kHere).peers.at(kThere);
  caf::anon_send(peer, Outbound{Barrier{7}});
  ASSERT_EQ(cluster.sent<Barrier>(kHere, kThere).size(), 1u);  // no actor has run
  EXPECT_EQ(cluster.sent<Barrier>(kHere, kThere)[0].worker, 7u);
  EXPECT_EQ(actor_of(cluster, "peer", kHere).messages_passed.load(), 1u);
  cluster.cut(kHere, kThere);
  caf::anon_send(peer, Outbound{Barrier{8}});
  cluster.system.run();
  EXPECT_EQ(cluster.sent<Barrier>(kHere, kThere).size(), 1u);  // a peer that has ended takes nothing
}

TEST(Passing, FramesOfStepsGoStraightToTheirActors) {
  StepCluster cluster({kHere, kThere});
  const ActorRecord& rendezvous = actor_of(cluster, "rendezvous", kHere);
  const ActorRecord& scheduler = actor_of(cluster, "scheduler", kHere);
  const ActorRecord& peer = actor_of(cluster, "peer", kHere);
  const std::uint64_t before = scheduler.messages_in.load(), at_peer = peer.messages_in.load();
  cluster.deliver(kThere, kHere, Put{kKey, 0, Tensor::scalar(1.0f), {}});
  cluster.deliver(kThere, kHere, StepStart{kKey.session, GraphId{1}, kKey.step, {}});
  cluster.deliver(kThere, kHere, StepDone{kKey.session, kKey.step, {}});
  cluster.deliver(kThere, kHere, StepAbort{kKey.session, kKey.step, Error(Code::cancelled, "no")});
  EXPECT_EQ(rendezvous.messages_in.load(), 1u);
  EXPECT_EQ(scheduler.messages_in.load(), before + 3);
  EXPECT_EQ(peer.messages_in.load(), at_peer);
  EXPECT_EQ(peer.messages_passed.load(), 4u);
  EXPECT_EQ(cluster.system.sent_by("peer", kHere.to_string() + " to " + kThere.to_string()), 4u);
}

TEST(Passing, FramesOfAJobWaitForTheirActorThenGoStraightToIt) {
  StepCluster cluster({kHere, kThere});
  const ActorRecord& peer = actor_of(cluster, "peer", kHere);
  auto mailbox = std::make_shared<WorkerMailbox>();
  const WorkerActor worker =
      cluster.system.caf->spawn<WorkerActorImpl>(cluster.system.registry.add(ActorKind::worker, "0"), mailbox);
  cluster.deliver(kThere, kHere, Token{.request = 1});
  cluster.deliver(kThere, kHere, Token{.request = 2});
  EXPECT_FALSE(mailbox->take({}));
  caf::anon_send(cluster.task(kHere).peers.at(kThere), JobRoutes{{}, {}, worker});
  cluster.system.run();
  const std::uint64_t at_peer = peer.messages_in.load();
  cluster.deliver(kThere, kHere, Token{.request = 3});
  cluster.system.run();
  EXPECT_EQ(peer.messages_in.load(), at_peer);
  for (std::uint64_t request : {1, 2, 3}) {
    const auto frame = mailbox->take({});
    ASSERT_TRUE(frame) << "request " << request;
    EXPECT_EQ(std::get<Token>(*frame).request, request);
  }
  caf::anon_send(cluster.task(kHere).peers.at(kThere), JobRoutes{});
  caf::anon_send(worker, Stop{});
  cluster.system.run();
}

TEST(Passing, WhatIsLeftOfAnEarlierJobIsDroppedAndWhatIsOfALaterOneWaits) {
  StepCluster cluster({kHere, kThere});
  auto mailbox = std::make_shared<WorkerMailbox>();
  const WorkerActor worker =
      cluster.system.caf->spawn<WorkerActorImpl>(cluster.system.registry.add(ActorKind::worker, "0"), mailbox);
  const PeerActor peer = cluster.task(kHere).peers.at(kThere);
  const auto route = [&](const JobRoutes& routes) {
    caf::anon_send(peer, routes);
    cluster.system.run();
  };
  const auto come = [&](std::uint64_t job) {
    cluster.deliver(kThere, kHere, Token{.request = 10 * job, .job = job});
    cluster.deliver(kThere, kHere, JobFailed{Error(Code::aborted, std::to_string(job)), job});
    cluster.system.run();
  };
  const auto taken = [&] {  // by the worker, of which job
    std::vector<std::uint64_t> out;
    while (const auto frame = mailbox->take({})) out.push_back(std::get<Token>(*frame).job);
    return out;
  };
  cluster.deliver(kThere, kHere, Joined{.job = 6, .error = {}});  // faster than the routes
  cluster.system.run();
  route({{}, {}, worker, 0});
  EXPECT_EQ(std::get<Joined>(mailbox->take({}).value_or(Token{})).job, 6u);
  come(5);  // its number is not known yet
  EXPECT_TRUE(taken().empty());
  EXPECT_NO_THROW(mailbox->check());
  route({{}, {}, worker, 6});
  for (std::uint64_t job : {5, 7}) come(job);
  EXPECT_TRUE(taken().empty());
  EXPECT_NO_THROW(mailbox->check());
  cluster.deliver(kThere, kHere, Token{.job = 6});
  cluster.system.run();
  EXPECT_EQ(taken(), std::vector<std::uint64_t>{6});
  route({});
  come(6);  // over
  route({{}, {}, worker, 0});
  EXPECT_NO_THROW(mailbox->check());
  route({{}, {}, worker, 7});
  EXPECT_TRUE(std::holds_alternative<Token>(mailbox->take({}).value()));
  EXPECT_EQ(testing::error_of([&] { mailbox->check(); }).message(), "7");
  route({});
  caf::anon_send(worker, Stop{});
  cluster.system.run();
}

TEST(Passing, AnAnswerThatOvertakesTheRoutesOfItsJoinIsKeptFromTheLastJobsActor) {
  StepCluster cluster({kHere, kThere});
  const PeerActor peer = cluster.task(kHere).peers.at(kThere);
  std::vector<std::shared_ptr<WorkerMailbox>> mailboxes;
  std::vector<WorkerActor> workers;
  for (std::uint64_t id : {1, 2}) {
    mailboxes.push_back(std::make_shared<WorkerMailbox>());
    workers.push_back(cluster.system.caf->spawn<WorkerActorImpl>(
        cluster.system.registry.add(ActorKind::worker, std::to_string(id)), mailboxes.back()));
  }
  const auto route = [&](const JobRoutes& routes) {
    caf::anon_send(peer, routes);
    cluster.system.run();
  };
  route({{}, {}, workers[0], 5, Incarnation{1}});
  cluster.deliver(kThere, kHere, Joined{.incarnation = Incarnation{2}, .job = 6, .error = {}});
  cluster.system.run();
  EXPECT_FALSE(mailboxes[0]->take({}));
  route({});
  route({{}, {}, workers[1], 0, Incarnation{2}});
  EXPECT_EQ(std::get<Joined>(mailboxes[1]->take({}).value_or(Token{})).job, 6u);
  route({});
  for (const WorkerActor& worker : workers) caf::anon_send(worker, Stop{});
  cluster.system.run();
}

// A peer of kThere whose link takes frames of one tensor of at most four bytes.
struct NarrowPeer {
  NarrowPeer() {
    PeerActorImpl::Links links;
    links.send = [this](const Frame& frame) {
      try {
        encode(frame, {.max_tensor_bytes = 4});
      } catch (...) {
        return current_error();
      }
      sent.push_back(frame);
      return Error();
    };
    links.close = [this](const Error& why) { closed.push_back(why); };
    links.collective = cluster.task(kHere).collective;
    peer = cluster.system.caf->spawn<PeerActorImpl>(cluster.system.registry.add(ActorKind::peer, "narrow"), kThere,
                                                    std::move(links));
  }
  ~NarrowPeer() { caf::anon_send(peer, Stop{}); }
  StepCluster cluster{{kHere}};
  std::vector<Frame> sent;
  std::vector<Error> closed;
  PeerActor peer;
};

const Tensor kLarge = Tensor::vector<float>({1, 2});

TEST(Passing, ATensorThatCannotTravelBecomesAnError) {
  NarrowPeer narrow;
  caf::anon_send(narrow.peer, Outbound{Put{kKey, 0, kLarge, {}}});
  ASSERT_EQ(narrow.sent.size(), 1u);
  const Error why = std::get<Put>(narrow.sent[0]).error;
  EXPECT_EQ(why.message(), "sending to /job:worker/task:1: a Put frame has a tensor of 8 bytes; the limit is 4");
  EXPECT_TRUE(narrow.closed.empty());
}

TEST(Passing, APartOfACollectiveThatCannotTravelEndsItsGroupOnBothSides) {
  NarrowPeer narrow;
  const ActorRecord& collective = actor_of(narrow.cluster, "collective", kHere);
  const std::uint64_t before = collective.messages_in.load();
  caf::anon_send(narrow.peer,
                 Outbound{CollectivePart{.group = 9, .operation = "all_reduce", .tensor = kLarge, .error = {}}});
  ASSERT_EQ(narrow.sent.size(), 1u);
  EXPECT_EQ(std::get<CollectivePart>(narrow.sent[0]).group, 9u);
  EXPECT_EQ(std::get<CollectivePart>(narrow.sent[0]).error.code(), Code::resource_exhausted);
  EXPECT_EQ(collective.messages_in.load(), before + 1);
}

TEST(Passing, AGradientThatCannotTravelEndsTheLink) {
  NarrowPeer narrow;
  for (int twice = 0; twice < 2; ++twice) caf::anon_send(narrow.peer, Outbound{Push{0, 0, 0, 0, 0, 0, kLarge, {}}});
  EXPECT_TRUE(narrow.sent.empty());
  ASSERT_EQ(narrow.closed.size(), 1u);
  EXPECT_EQ(narrow.closed[0].message(),
            "sending to /job:worker/task:1: a Push frame has a tensor of 8 bytes; the limit is 4");
}

TEST(Passing, ManyFramesOfAJobWaitForTheirActorButNotWithoutEnd) {
  NarrowPeer narrow;
  for (std::uint64_t i = 0; i < 10'000; ++i) caf::anon_send(narrow.peer, FrameCame{TakeToken{0, i}});
  EXPECT_TRUE(narrow.closed.empty());
  const Tensor gradient(DType::u8, Shape{20 << 20});
  for (int i = 0; i < 3; ++i) caf::anon_send(narrow.peer, FrameCame{Push{0, 0, 0, 0, 0, 0, gradient, {}}});
  EXPECT_TRUE(narrow.closed.empty());
  caf::anon_send(narrow.peer, FrameCame{Push{0, 0, 0, 0, 0, 0, gradient, {}}});
  ASSERT_EQ(narrow.closed.size(), 1u);
  EXPECT_EQ(narrow.closed[0].code(), Code::resource_exhausted);
  EXPECT_TRUE(gradient.unique());
}

// What a peer does on a thread of others is supervised like a handler.
TEST(Passing, APeerThatThrowsEndsItsLinkAndNotTheThreadOfItsSender) {
  for (const Frame& frame : {Frame(Barrier{7}), Frame(Leave{3})}) {
    SCOPED_TRACE(kind_name(frame));
    StepCluster cluster({kHere});
    std::vector<std::string> closed;
    PeerActorImpl::Links links;
    links.send = [](const Frame&) -> Error { fail(Code::internal, "a defect"); };
    links.close = [&](const Error& why) { closed.push_back(why.message()); };
    const auto peer = cluster.system.caf->spawn<PeerActorImpl>(cluster.system.registry.add(ActorKind::peer, "broken"),
                                                               kThere, std::move(links));
    if (std::holds_alternative<Barrier>(frame))
      EXPECT_NO_THROW(caf::anon_send(peer, Outbound{frame}));
    else
      EXPECT_NO_THROW(caf::anon_send(peer, FrameCame{frame}));  // it answers that nobody waits for a Join
    EXPECT_TRUE(closed.empty()) << "the peer fails in its own turn";
    cluster.system.run();
    EXPECT_EQ(closed, std::vector<std::string>{"peer broken: a defect"});
    caf::anon_send(peer, Stop{});
    cluster.system.run();
  }
}

class NoWork final : public DeviceWork {
  std::uint64_t execute() override { return 0; }
};

TEST(Passing, AStreamThatThrowsFailsItsDeviceAndNotTheThreadOfTheSender) {
  StepCluster cluster({kHere});
  std::vector<std::string> failures;
  cluster.system.registry.set_on_failure([&](const Error& why) { failures.push_back(why.message()); });
  cluster.device(kHere).broken = Error(Code::internal, "a defect");
  auto work = std::make_shared<NoWork>();
  const std::weak_ptr<NoWork> alive = work;
  EXPECT_NO_THROW(caf::anon_send(cluster.task(kHere).device_actors[0], ExecuteSegment{std::move(work)}));
  EXPECT_TRUE(failures.empty()) << "the device fails in its own turn";
  EXPECT_FALSE(alive.expired()) << "who waits for the work hears of the failure first";
  cluster.system.run();
  EXPECT_EQ(failures, std::vector<std::string>{"device /job:worker/task:0: a defect"});
  EXPECT_TRUE(alive.expired());
}

// Else a step that another task starts could find a scheduler that has never heard of that task.
TEST(Passing, FramesWaitUntilOthersHaveBeenToldOfTheirPeer) {
  StepCluster cluster({kHere});
  const auto& task = cluster.task(kHere);
  const ActorRecord& rendezvous = actor_of(cluster, "rendezvous", kHere);
  const std::uint64_t before = rendezvous.messages_in.load();
  PeerActorImpl::Links links;
  links.send = [](const Frame&) { return Error(); };
  links.node = task.node;
  links.rendezvous = task.rendezvous;
  const auto peer = cluster.system.caf->spawn<PeerActorImpl>(cluster.system.registry.add(ActorKind::peer, ""), kThere,
                                                             std::move(links));
  caf::anon_send(peer, FrameCame{Put{kKey, 0, kLarge, {}}});
  cluster.system.run();
  EXPECT_EQ(rendezvous.messages_in.load(), before);
  caf::anon_send(task.node, PeerUp{kThere, peer});
  cluster.system.run();
  EXPECT_EQ(rendezvous.messages_in.load(), before + 1);
}

TEST(Passing, ABorrowedThreadRunsShortActorsAndLeavesOthersToThePool) {
  StepCluster cluster({kHere});
  const auto& task = cluster.task(kHere);
  const ActorRecord& rendezvous = actor_of(cluster, "rendezvous", kHere);
  const ActorRecord& scheduler = actor_of(cluster, "scheduler", kHere);
  const ActorRecord& node = actor_of(cluster, "node", kHere);
  const std::uint64_t at_scheduler = scheduler.messages_handled.load(), at_node = node.messages_handled.load();
  BorrowedThread thread(*cluster.system.caf, ShortActors(task.scheduler, task.rendezvous, task.collective));
  thread.send(task.rendezvous, Await{{kKey}});
  thread.send(task.rendezvous, Put{kKey, 0, Tensor::scalar(1.0f), {}});
  thread.send(task.node, Observe{caf::actor_cast<PeerObserver>(task.scheduler)});
  EXPECT_EQ(rendezvous.messages_handled.load(), 0u);
  thread.run();
  EXPECT_EQ(rendezvous.messages_handled.load(), 2u);
  EXPECT_EQ(scheduler.messages_handled.load(), at_scheduler + 1);  // Delivered, which the rendezvous has sent
  EXPECT_EQ(node.messages_handled.load(), at_node);
  cluster.system.run();
  EXPECT_EQ(node.messages_handled.load(), at_node + 1);
}

TEST(Passing, AClientsThreadKeepsTheAnswersOfOtherSteps) {
  StepRequest own, other;
  int own_answers = 0, other_answers = 0;
  own.done = [&](StepResult) { ++own_answers; };
  other.done = [&](StepResult result) { other_answers += result.error.code() == Code::aborted ? 1 : 100; };
  KeptAnswers kept(&own);
  own.answer({});
  other.answer({.error = Error(Code::aborted, "so"), .fetches = {}});
  EXPECT_EQ(own_answers, 1);
  EXPECT_EQ(other_answers, 0);
  const auto answers = kept.take();
  ASSERT_EQ(answers.size(), 1u);
  answers[0]();
  EXPECT_EQ(other_answers, 1);
}

TEST(Passing, ABlockingCallRunsTheSchedulerButNoCallbackOfOthers) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {}, "x"), y = -x;
  Task task({.threads = 1});
  Session session(task, graph);
  const Callable call = session.callable({x}, {y});
  const RunOptions scheduled{.timeout =
                                 std::chrono::seconds(60)};  // past the scheduler go steps without a deadline only
  std::atomic<int> here = 0, answered = 0;
  constexpr int kSteps = 300;
  for (int i = 0; i < kSteps; ++i) {
    call.start({Tensor::scalar(1.0f)}, scheduled, [&, client = std::this_thread::get_id()](StepResult) {
      if (std::this_thread::get_id() == client) ++here;
      ++answered;
      answered.notify_all();
    });
    EXPECT_EQ(call({Tensor::scalar(2.0f)}, scheduled)[0].item<float>(), -2.0f) << "step " << i;
  }
  for (int seen = answered; seen < kSteps; seen = answered) answered.wait(seen);
  EXPECT_EQ(here, 0);
}

TEST(Passing, AfterTheTaskHasShutDownABlockingCallIsCancelled) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {}, "x"), y = -x;
  Task task({.threads = 1});
  Session session(task, graph);
  const Callable call = session.callable({x}, {y});
  ASSERT_TRUE(task.shutdown());
  try {
    call({Tensor::scalar(1.0f)}, {.timeout = std::chrono::seconds(60)});
    ADD_FAILURE() << "it has run";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::cancelled) << error.message();
  }
}

TEST(Passing, AnActorThatHasHadItsShareGoesToThePool) {
  StepCluster cluster({kHere});
  const auto& task = cluster.task(kHere);
  const ActorRecord& rendezvous = actor_of(cluster, "rendezvous", kHere);
  BorrowedThread thread(*cluster.system.caf, ShortActors(task.scheduler, task.rendezvous, task.collective));
  for (std::uint64_t step = 0; step < 250; ++step) thread.send(task.rendezvous, EndStep{kKey.session, StepId{step}});
  thread.run();
  EXPECT_LT(rendezvous.messages_handled.load(), 250u);
  cluster.system.run();
  EXPECT_EQ(rendezvous.messages_handled.load(), 250u);
}

}  // namespace
}  // namespace troupe
