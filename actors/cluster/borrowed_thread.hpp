// A thread of the runtime that is not one of CAF's pool and runs the actors it wakes itself: a message that comes over the
// wire finds its scheduler on the wire's thread, and no other thread has to be woken for it.
//
// For actors whose messages are all short, because the thread serves nothing else meanwhile: those it is told of. Others go
// to the pool as ever. An actor that has had its share of messages goes there too.
#pragma once

#include <caf/execution_unit.hpp>
#include <caf/fwd.hpp>
#include <vector>

namespace troupe {

// All methods: on the borrowed thread only.
class BorrowedThread final : public caf::execution_unit {
 public:
  // `short_actors` must outlive this.
  BorrowedThread(caf::actor_system& system, std::vector<caf::abstract_actor*> short_actors);

  // By CAF: `job`, which has been without messages, has one.
  void exec_later(caf::resumable* job) override;
  // Runs what has become ready, until nothing is.
  void run();

 private:
  std::vector<caf::resumable*> short_actors_;
  std::vector<caf::resumable*> ready_;  // each with a reference
};

}  // namespace troupe
