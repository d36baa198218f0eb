// A parameter shard in a child process: variables of one size, asynchronous SGD.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "tools/bench/child.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/graph/passes/shard_variables.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace troupe::bench {

// Counts the shard's acknowledgements.
class Acknowledgements {
 public:
  void add(const Staged& staged);
  // Waits until `count` batches have been applied. Throws deadline_exceeded.
  void await(std::uint64_t count);

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::uint64_t applied_ = 0;
  std::uint64_t wanted_ = ~std::uint64_t{0};
};

class RemoteShard {
 public:
  // This process has two tasks: the worker's pushes and pulls, the coordinator's gets the shard's acknowledgements.
  explicit RemoteShard(std::int64_t elements, std::uint32_t variables = 1);
  ~RemoteShard();

  Task& task() { return worker_; }  // the worker's
  TaskName shard() const { return shard_; }
  // Reads the variables ("w0/read", ...) and updates all ("train", by "gradient").
  const ShardedGraph& graph() const { return graph_; }
  Output output(const std::string& node) const { return graph_.graph->output(graph_.graph->get(node)); }
  // Receives the worker's frames for the shard.
  const PeerActor& peer() const { return peer_; }
  Acknowledgements& acknowledgements() { return *acknowledgements_; }

  // Runs in the child: reads its role and the cluster from two lines of input; serves until its input ends.
  static void serve();

 private:
  class Observer;
  static TaskOptions options(TaskName name);
  const TaskName shard_{"ps", 1};
  ShardedGraph graph_;
  Child child_;
  Task coordinator_{options({"ps", 0})};
  Task worker_{options({"worker", 0})};
  std::shared_ptr<Acknowledgements> acknowledgements_ = std::make_shared<Acknowledgements>();
  CoordinatorActor observers_[2];  // on the coordinator's task, on the worker's
  PeerActor peer_;
};

}  // namespace troupe::bench
