// The protocols of all actors: the whole system in one place.
//
//   client --ExecuteSegment--> device                       (a graph that is one segment on one device of the task)
//   client --RunStep--> scheduler --ExecuteSegment--> device
//                        |     ^                        |
//                        |     +-----SegmentDone--------+----Put----> rendezvous, or peer of the consumer's task
//                        +--Await--> rendezvous --Delivered--> scheduler
//   device --Contribute--> collective ==CollectivePart==> collective of another rank;  collective --Put--> rendezvous
//   peer of another task ==frames==> peer here --Inbound<...>--> scheduler, collective, input, feed, shard,
//   coordinator, worker; Put --> rendezvous
//
//   training loop --AskBatch--> feed ==WantBatch==> input of another task, or of this one
//   input --BeginBatch--> reader --MakeBatch--> maker --BatchReady--> input ==BatchMade==> feed --> training loop
//
//   door --RouteRequest--> router ==AskModel==> replica of another task ==ModelAnswer==> router --> door
//   door --ReconfigureModels--> router ==ConfigureModels==> replicas ==ModelsConfigured==> router --> door
//
// One actor of each kind per task, except: a device actor per device, a partition actor per (registered graph, device),
// a peer per remote task. Everything is a message; state belongs to one actor. Frames (messages/frames.hpp) travel
// inside a task as Inbound<frame>, with their sender, and leave it as Outbound{frame} to a peer.
#pragma once

#include <caf/replies_to.hpp>
#include <caf/response_type.hpp>
#include <caf/typed_actor.hpp>
#include <memory>

#include <troupe/messages/caf/types.hpp>
#include <troupe/messages/pending_answer.hpp>

namespace troupe {

struct JobRoutes;  // below
struct ServingRoutes;

// Whether actors with this interface handle the message.
template <class Actor, class Message>
inline constexpr bool takes = caf::response_type<typename Actor::signatures, Message>::valid;

// The local end of the link to another task. Sends frames over it; passes received frames to the actors they are for.
using PeerActor = caf::typed_actor<caf::reacts_to<Outbound>, caf::reacts_to<FrameCame>, caf::reacts_to<LinkLost>,
                                   caf::reacts_to<JobRoutes>, caf::reacts_to<ServingRoutes>, caf::reacts_to<Stop>>;

// A link to another task is up.
struct PeerUp {
  using local_message = void;
  TaskName task;
  PeerActor peer;
  Incarnation incarnation;
};

// Observers of the tasks that can be reached.
using PeerObserver = caf::typed_actor<caf::reacts_to<PeerUp>, caf::reacts_to<PeerDown>>;

// Destinations of received frames, which the node tells to peers.
using StepFrameSink = caf::typed_actor<caf::reacts_to<Inbound<StepStart>>, caf::reacts_to<Inbound<StepDone>>,
                                       caf::reacts_to<Inbound<StepAbort>>>;

// Matches tensors that cross devices with their consumers.
using RendezvousActor = caf::typed_actor<caf::reacts_to<Put>, caf::reacts_to<Await>, caf::reacts_to<EndStep>,
                                         caf::reacts_to<EndSession>, caf::reacts_to<Stop>>;

// This task's place in groups of tasks that run collectives.
using CollectiveActor =
    caf::typed_actor<caf::replies_to<OpenGroup>::with<GroupOpened>, caf::reacts_to<CloseGroup>,
                     caf::reacts_to<Contribute>, caf::reacts_to<DevicesDone>, caf::reacts_to<Inbound<CollectivePart>>,
                     caf::reacts_to<PeerUp>, caf::reacts_to<PeerDown>, caf::reacts_to<Tick>, caf::reacts_to<Stop>>;

// Introduces neighbours that were spawned after the scheduler.
struct MeetAt {
  using local_message = void;
  RendezvousActor rendezvous;
  CollectiveActor collective;
};

// Dispatches segments topologically: keeps the ready counts of all steps in flight on the task.
using SchedulerActor =
    StepFrameSink::extend<caf::reacts_to<MeetAt>, caf::reacts_to<RunStep>, caf::reacts_to<CancelStep>,
                          caf::reacts_to<SegmentDone>, caf::reacts_to<Delivered>, caf::reacts_to<Landed>,
                          caf::reacts_to<StepFailed>, caf::reacts_to<CallResource>,
                          caf::replies_to<AddGraph>::with<Reply>, caf::replies_to<LendGraph>::with<GraphLent>,
                          caf::reacts_to<DropGraph>, caf::replies_to<CloseSessionRequest>::with<Reply>,
                          caf::reacts_to<Tick>, caf::reacts_to<PeerUp>, caf::reacts_to<PeerDown>, caf::reacts_to<Stop>>;

// Runs segments on its device's streams. Its mailbox is the device's compute stream.
using DeviceActor = caf::typed_actor<caf::reacts_to<ExecuteSegment>, caf::reacts_to<Stop>>;

// Compiles and keeps one partition of a registered graph.
using PartitionActor = caf::typed_actor<caf::replies_to<BuildPlan>::with<Built>, caf::reacts_to<Stop>>;

// A shard: a slice of the parameters and their optimizer slots.
using ShardActor =
    caf::typed_actor<caf::reacts_to<JobRoutes>, caf::reacts_to<Outbound>, caf::reacts_to<Inbound<Joined>>,
                     caf::reacts_to<Inbound<Pull>>, caf::reacts_to<Inbound<Push>>, caf::reacts_to<Inbound<Commit>>,
                     caf::reacts_to<Inbound<Fence>>, caf::reacts_to<Inbound<Save>>,
                     caf::reacts_to<Inbound<BarrierOpen>>, caf::reacts_to<Inbound<JobFailed>>, caf::reacts_to<PeerUp>,
                     caf::reacts_to<PeerDown>, caf::reacts_to<Tick>, caf::replies_to<ProvenanceRequest>::with<Reply>,
                     caf::reacts_to<Stop>>;

// Membership, tokens, barriers and the global step of a training job.
using CoordinatorActor =
    caf::typed_actor<caf::reacts_to<JobRoutes>, caf::reacts_to<Inbound<Join>>, caf::reacts_to<Inbound<Leave>>,
                     caf::reacts_to<Inbound<TakeToken>>, caf::reacts_to<Inbound<TokenDone>>,
                     caf::reacts_to<Inbound<Staged>>, caf::reacts_to<Inbound<Saved>>, caf::reacts_to<Inbound<Barrier>>,
                     caf::reacts_to<PeerUp>, caf::reacts_to<PeerDown>, caf::reacts_to<PeerSuspected>,
                     caf::reacts_to<Tick>, caf::reacts_to<Stop>>;

// A worker's place in a training job: carries frames of the training loop to the coordinator and its replies back.
using WorkerActor = caf::typed_actor<caf::reacts_to<Outbound>, caf::reacts_to<Inbound<Joined>>,
                                     caf::reacts_to<Inbound<Token>>, caf::reacts_to<Inbound<EpochDone>>,
                                     caf::reacts_to<Inbound<Commit>>, caf::reacts_to<Inbound<Fence>>,
                                     caf::reacts_to<Inbound<BarrierOpen>>, caf::reacts_to<Inbound<JobFailed>>,
                                     caf::reacts_to<PeerUp>, caf::reacts_to<PeerDown>, caf::reacts_to<Stop>>;

// Makes numbered batches for the workers' feeds.
using InputActor =
    caf::typed_actor<caf::reacts_to<ServeFeeds>, caf::reacts_to<EndService>, caf::reacts_to<Inbound<OpenFeed>>,
                     caf::reacts_to<Inbound<WantBatch>>, caf::reacts_to<Inbound<CloseFeed>>, caf::reacts_to<BatchReady>,
                     caf::reacts_to<PeerUp>, caf::reacts_to<PeerDown>, caf::reacts_to<Stop>>;
// Does the part of making batches that goes in order: reading.
using ReaderActor = caf::typed_actor<caf::reacts_to<GoOnFrom>, caf::reacts_to<BeginBatch>, caf::reacts_to<Stop>>;
// Does the rest; there are several.
using MakerActor = caf::typed_actor<caf::reacts_to<MakeBatch>, caf::reacts_to<Stop>>;
// Introduces the input actor of the same task.
struct MeetInput {
  using local_message = void;
  InputActor input;
};
// Answers requests that routers of other tasks send on.
using ReplicaSink =
    caf::typed_actor<caf::reacts_to<Inbound<WantModels>>, caf::reacts_to<Inbound<AskModel>>,
                     caf::reacts_to<Inbound<DropModelRequest>>, caf::reacts_to<Inbound<ConfigureModels>>>;
// Sends requests to replicas.
using RouterSink = caf::typed_actor<caf::reacts_to<Inbound<ReplicaModels>>, caf::reacts_to<Inbound<ModelAnswer>>,
                                    caf::reacts_to<Inbound<ModelsConfigured>>>;
// Destinations of frames about models on this task. Without one they are dropped: set them before the task joins.
struct ServingRoutes {
  using local_message = void;
  ReplicaSink replica;
  RouterSink router;
};
// Fetches the batches of a training loop.
using FeedActor =
    caf::typed_actor<caf::reacts_to<MeetInput>, caf::reacts_to<GoOnFrom>, caf::reacts_to<AskBatch>,
                     caf::reacts_to<DropBatch>, caf::reacts_to<EndFeed>, caf::reacts_to<Inbound<BatchMade>>,
                     caf::reacts_to<PeerUp>, caf::reacts_to<PeerDown>, caf::reacts_to<Stop>>;

// The reply to a Leave.
inline Joined left(const Leave& leave, std::uint64_t job) {
  return {.incarnation = leave.incarnation, .job = job, .error = Error(Code::cancelled, "the task has left the job")};
}

// Destinations of a training job's frames on this task. Frames for an actor that does not exist yet are kept; frames of
// earlier jobs are dropped. `job` 0: the task is joining and does not know the number yet. `joining` is the incarnation
// in the task's Join: an answer to another Join is not for these actors.
struct JobRoutes {
  using local_message = void;
  ShardActor shard;
  CoordinatorActor coordinator;
  WorkerActor worker;
  std::uint64_t job = 0;
  Incarnation joining;
  FeedActor feed = {};  // takes batches of any job
};

// A query from outside, by a client that knows the token (actors/wire/ask.hpp).
struct Asked {
  using local_message = void;
  std::string text;
  std::shared_ptr<PendingAnswer> answer;
};
// Answers introspection queries.
using IntrospectorActor = caf::typed_actor<caf::reacts_to<Asked>, caf::reacts_to<Stop>>;

// Requests from other tasks, over CAF. A HelloRequest comes with the caller's NodeActor.
using NodeActor = caf::typed_actor<caf::replies_to<HelloRequest, caf::strong_actor_ptr>::with<Reply>,
                                   caf::replies_to<RegisterGraphRequest>::with<Reply>,
                                   caf::replies_to<CloseSessionRequest>::with<Reply>,
                                   caf::replies_to<ResetContainerRequest>::with<Reply>>;

// The task's own interface to its node: the directory of peers.
struct Observe {
  using local_message = void;
  PeerObserver observer;
};
// The link to the task is lost. Observers get PeerDown, unless the task has reconnected: then they have already
// received it.
struct PeerLost {
  using local_message = void;
  TaskName task;
  PeerActor peer;
  Error reason;
  bool left = false;
};
// Answered when observers have received all earlier news of peers.
struct SyncObservers {
  using local_message = void;
};
using LocalNodeActor =
    NodeActor::extend<caf::reacts_to<PeerUp>, caf::reacts_to<PeerLost>, caf::reacts_to<PeerSuspected>,
                      caf::reacts_to<Observe>, caf::replies_to<SyncObservers>::with<Reply>, caf::reacts_to<Asked>,
                      caf::reacts_to<JoinCluster>, caf::reacts_to<JobRoutes>, caf::reacts_to<ServingRoutes>,
                      caf::reacts_to<DropGraph>, caf::reacts_to<Stop>>;

}  // namespace troupe
