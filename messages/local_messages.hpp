// Messages between the actors of one task; `local_message` marks them as such for CAF (messages/caf/types.hpp). Frames
// that came from another task arrive as Inbound<...>: with their sender.
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
  LocalHandle held = nullptr;  // while anybody has it, the sender's link counts the frame as not taken yet
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
// Scheduler to rendezvous: these tensors are awaited; answered by a Delivered each.
struct Await {
  using local_message = void;
  std::vector<RendezvousKey> keys;
};
struct Delivered {
  using local_message = void;
  Put put;
};
// A tensor is on the device that awaits it.
struct Landed {
  using local_message = void;
  SessionId session;
  StepId step;
  std::uint32_t partition = 0;
  std::uint32_t arrival = 0;
  Tensor tensor;
};
// A tensor of the step could not be copied to where it goes.
struct StepFailed {
  using local_message = void;
  SessionId session;
  StepId step;
  Error error;
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
// Looks for deadlines that have passed.
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
// Node to scheduler: a graph whose partitions of this task are compiled. `work` is a GraphHandle (actors/session).
struct AddGraph {
  using local_message = void;
  LocalHandle work;
};

// Client to scheduler: may it send steps of this graph to their device itself? Answered by a DirectGraph
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

// A device's thread to the collective actor: what it launched on devices has ended.
struct DevicesDone {
  using local_message = void;
  std::uint64_t group = 0;
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  std::vector<Tensor> tensors;
  Error error;
};

// The task belongs to a cluster now: the node may answer peers. `work` is a NodeJoin (actors/cluster).
struct JoinCluster {
  using local_message = void;
  LocalHandle work;
};
// A link to another task has ended. Told to those who observe the node.
struct PeerDown {
  using local_message = void;
  TaskName task;
  Error reason;
  bool left = false;  // it has said that it leaves
};
// Nothing has been heard of another task for a while (true), or something has again (false). Told to the coordinator on
// this task.
struct PeerSuspected {
  using local_message = void;
  TaskName task;
  bool suspect = false;
};
// The wire's thread to a peer: a frame came, or the connection ended.
struct FrameCame {
  using local_message = void;
  Frame frame;
  LocalHandle held = nullptr;  // see Inbound
};
struct LinkLost {
  using local_message = void;
  Error reason;
  bool left = false;  // in order: the other side has said so
};

// Ends an actor in order: it answers what it can, lets go of its handles and quits.
struct Stop {
  using local_message = void;
};

}  // namespace troupe
