// Decides which frames a task may send, by its place in the cluster file. If a frame names its sender, that must be the
// task at the other end of the link. Only shards, workers and the coordinator may send their own kinds of frames. A
// client may run steps and send tensors for them.
//
//   from                     may send
//   anybody                  StepStart StepDone StepAbort Put
//   a task of the cluster    CollectivePart
//   worker i                 Pull Push TakeToken TokenDone Barrier of worker i; Join Leave of worker i
//   a worker                 OpenFeed WantBatch CloseFeed
//   an input task            BatchMade
//   a router                 WantModels AskModel DropModelRequest ConfigureModels
//   a replica (job serve)    ReplicaModels ModelAnswer ModelsConfigured
//   shard i (ps task i)      Staged Saved of shard i; Join Leave of shard i; JobFailed
//   the coordinator (ps 0)   Joined Token EpochDone Save Commit Fence BarrierOpen
#pragma once

#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/messages/frames.hpp>

namespace troupe {

class Rights {
 public:
  Rights(TaskName peer, const ClusterSpec& cluster);

  // Returns permission_denied, naming the peer and the frame, or no error.
  Error check(const Frame& frame) const;

  // Returns permission_denied if the name belongs to a job of the cluster but the cluster has no such task.
  static Error check_name(const TaskName& peer, const ClusterSpec& cluster);

 private:
  struct Check;

  TaskName peer_;
  bool member_ = false;  // in the cluster file
};

}  // namespace troupe
