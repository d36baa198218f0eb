// Lets the thread of a client that makes a blocking call run the scheduler for it, so that none has to be woken to
// begin the step. The client waits anyway.
//
// Callbacks of users run on threads of the runtime only: what other steps are answered meanwhile is handed to CAF's
// pool.
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
  // Sends RunStep{request}; the scheduler runs here if it is idle.
  void run(std::shared_ptr<StepRequest> request);
  // Sends the message; the collective actor runs here if it is idle.
  void run(Contribute message);
  // The task ends: waits for threads inside, and lets no other in. What comes later is answered by the request's end.
  void close();

 private:
  template <class Actor, class Message>
  void run(const Actor& to, Message message, const StepRequest* own);

  std::shared_mutex mutex_;
  caf::actor_system& system_;  // not used once closed
  SchedulerActor scheduler_;
  RendezvousActor rendezvous_;
  CollectiveActor collective_;
  ShortActors short_actors_;
};

}  // namespace troupe
