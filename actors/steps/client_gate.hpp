// Runs the scheduler on the thread of a client in a blocking call, which would wait anyway: no thread has to be woken
// to begin the step.
//
// User callbacks run only on runtime threads: answers to other steps that become ready meanwhile go to CAF's pool.
#pragma once

#include <memory>
#include <shared_mutex>

#include <troupe/actors/steps/borrowed_thread.hpp>
#include <troupe/actors/steps/step.hpp>

namespace troupe {

// One per task. Thread-safe.
class ClientGate {
 public:
  ClientGate(caf::actor_system& system, SchedulerActor scheduler, RendezvousActor rendezvous,
             CollectiveActor collective);
  // Sends RunStep{request}; runs the scheduler here if it is idle.
  void run(std::shared_ptr<StepRequest> request);
  // Sends the message; runs the collective actor here if it is idle.
  void run(Contribute message);
  // Called at the end of the task: waits for threads inside and admits no others. Later requests are answered by their
  // destructors.
  void close();

 private:
  template <class Actor, class Message>
  void run(const Actor& to, Message message, const StepRequest* own);

  std::shared_mutex mutex_;
  caf::actor_system& system_;  // unused once closed
  SchedulerActor scheduler_;
  RendezvousActor rendezvous_;
  CollectiveActor collective_;
  ShortActors short_actors_;
};

}  // namespace troupe
