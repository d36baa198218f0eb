// Messages between the actors of one task; `local_message` marks them as such for CAF (messages/caf/types.hpp). Frames
// from other tasks arrive as Inbound<...>, with their sender.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/messages/frames.hpp>
#include <troupe/messages/local.hpp>

namespace troupe {

template <class F>
struct Inbound {
  using local_message = void;
  TaskName from;
  F frame;
  LocalHandle held = nullptr;  // while held, the sender's link counts the frame as not received
};

// A frame for the task at the other end of a peer.
struct Outbound {
  using local_message = void;
  Frame frame;
};

// Steps: client to scheduler. `work` is a StepRequest (actors/session).
struct RunStep {
  using local_message = void;
  LocalHandle work;
};
struct CancelStep {
  using local_message = void;
  SessionId session;
  StepId step;
};
// Scheduler to device; `work` runs the segment on the device's stream and then reports.
struct ExecuteSegment {
  using local_message = void;
  LocalHandle work;
};
struct SegmentDone {
  using local_message = void;
  SessionId session;
  StepId step;
  std::uint32_t partition = 0;
  std::uint32_t segment = 0;
  Error error;
};
// Scheduler to rendezvous: awaits these tensors; answered by one Delivered each.
struct Await {
  using local_message = void;
  std::vector<RendezvousKey> keys;
};
struct Delivered {
  using local_message = void;
  Put put;
};
// A tensor has arrived on the device that awaits it.
struct Landed {
  using local_message = void;
  SessionId session;
  StepId step;
  std::uint32_t partition = 0;
  std::uint32_t arrival = 0;
  Tensor tensor;
};
// A tensor of the step could not be copied to its destination.
struct StepFailed {
  using local_message = void;
  SessionId session;
  StepId step;
  Error error;
};
// Device to scheduler: `work` is a CalledResource (actors/steps/step.hpp).
struct CallResource {
  using local_message = void;
  LocalHandle work;
};
struct EndStep {
  using local_message = void;
  SessionId session;
  StepId step;
};
struct EndSession {
  using local_message = void;
  SessionId session;
};
// Checks for expired deadlines.
struct Tick {
  using local_message = void;
};

// Node to partition actor: compile. Answered by Built.
struct BuildPlan {
  using local_message = void;
};
struct Built {
  using local_message = void;
  Error error;
  LocalHandle partition;
};
// Node to scheduler: a graph whose partitions on this task are compiled. `work` is a GraphHandle (actors/session).
struct AddGraph {
  using local_message = void;
  LocalHandle work;
};

// Client to scheduler: asks to send steps of this graph directly to their device. Answered by a DirectGraph
// (actors/session), or nothing.
struct LendGraph {
  using local_message = void;
  SessionId session;
  GraphId graph;
};
struct GraphLent {
  using local_message = void;
  LocalHandle graph;
};
// Client to its own node, which tells the scheduler: no later step runs this graph. Steps in flight keep it.
struct DropGraph {
  using local_message = void;
  SessionId session;
  GraphId graph;
};

// Client to collective actor: this task's place in a group. `work` is a GroupPlace (actors/collective).
struct OpenGroup {
  using local_message = void;
  LocalHandle work;
};
struct GroupOpened {
  using local_message = void;
  Error error;
  std::uint64_t group = 0;
};
// This task leaves the group; with an error, the group ends everywhere.
struct CloseGroup {
  using local_message = void;
  std::uint64_t group = 0;
  Error error;
};
// A tensor for a collective. `work` is a Contribution (actors/collective).
struct Contribute {
  using local_message = void;
  LocalHandle work;
};

// A device's thread to the collective actor: the work it launched on devices has ended.
struct DevicesDone {
  using local_message = void;
  std::uint64_t group = 0;
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  std::vector<Tensor> tensors;
  Error error;
};

// The task has joined a cluster: the node may answer peers. `work` is a NodeJoin (actors/cluster).
struct JoinCluster {
  using local_message = void;
  LocalHandle work;
};
// The link to another task has ended. Sent to the node's observers.
struct PeerDown {
  using local_message = void;
  TaskName task;
  Error reason;
  bool left = false;  // the task announced that it leaves
};
// Another task has been silent for a while (true), or is no longer (false). Sent to the coordinator on this task.
struct PeerSuspected {
  using local_message = void;
  TaskName task;
  bool suspect = false;
};
// The wire's thread to a peer: a frame has arrived, or the connection has ended.
struct FrameCame {
  using local_message = void;
  Frame frame;
  LocalHandle held = nullptr;  // see Inbound
};
struct LinkLost {
  using local_message = void;
  Error reason;
  bool left = false;  // orderly: the other side announced it
};

// A training of this task to its input actor: make batches of these data. `service` is a FeedService (actors/data).
struct ServeFeeds {
  using local_message = void;
  LocalHandle service;
};
// The service is over: drop what belongs to it.
struct EndService {
  using local_message = void;
  LocalHandle service;
};
// Input actor to reader: begin this batch.
struct BeginBatch {
  using local_message = void;
  BatchName batch;
  bool make = false;  // makes it, too: no maker is to work beside it
};
// Reader to maker: make it. `begun` is a BegunBatch (actors/data).
struct MakeBatch {
  using local_message = void;
  BatchName batch;
  LocalHandle begun;
};
// Reader or maker to input actor. `made` is a ReadyBatch (actors/data).
struct BatchReady {
  using local_message = void;
  BatchName batch;
  LocalHandle made;
};
// Training loop to its feed actor; see WantBatch and CloseFeed.
struct AskBatch {
  using local_message = void;
  BatchName batch;
  BatchName complete;
};
struct DropBatch {
  using local_message = void;
  BatchName batch;
};
// Where the training data is to be read from; to a feed, and to a reader.
struct GoOnFrom {
  using local_message = void;
  DataPlace place;
};
struct EndFeed {
  using local_message = void;
  std::uint64_t steps = 0;
  std::uint32_t epochs = 0;
  Error error;
};

// Ends an actor in order: it answers pending requests, releases its handles and quits.
struct Stop {
  using local_message = void;
};

}  // namespace troupe
