// A parameter shard in a child process: variables of one size, asynchronous SGD.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "tools/bench/child.hpp"
#include <troupe/actors/cluster/task.hpp>
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
  // This process's role. A shard acknowledges to the coordinator's task, and answers pulls to the worker's.
  enum class As { coordinator, worker };
  RemoteShard(As what, std::int64_t elements, std::uint32_t variables = 1);
  ~RemoteShard();

  Task& task() { return *task_; }
  TaskName shard() const { return shard_; }
  // Receives frames for the shard.
  const PeerActor& peer() const { return peer_; }
  Acknowledgements& acknowledgements() { return *acknowledgements_; }

  // Runs in the child: reads its role and the cluster from two lines of input; serves until its input ends.
  static void serve();

 private:
  class Observer;
  TaskName shard_;
  Child child_;
  std::unique_ptr<Task> task_;
  std::shared_ptr<Acknowledgements> acknowledgements_ = std::make_shared<Acknowledgements>();
  CoordinatorActor observer_;
  PeerActor peer_;
};

}  // namespace troupe::bench
