// Lets a runtime thread outside CAF's pool run the actors it wakes: a message from the wire runs its scheduler on the
// wire's thread, the end of a segment runs it on the device's, so no other thread has to be woken.
//
// Only for actors with short messages, because the thread serves nothing else meanwhile. Other actors go to the pool as
// usual, as does an actor that has used up its share of messages.
#pragma once

#include <array>
#include <caf/execution_unit.hpp>

#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

// The actors that a borrowed thread may run; null entries for none. They must outlive it.
struct ShortActors {
  ShortActors() = default;
  ShortActors(const SchedulerActor& scheduler, const RendezvousActor& rendezvous, const CollectiveActor& collective);
  std::array<caf::resumable*, 3> jobs{};
};

// Call all methods only on the borrowed thread.
class BorrowedThread final : public caf::execution_unit {
 public:
  BorrowedThread(caf::actor_system& system, const ShortActors& actors)
      : caf::execution_unit(&system), actors_(actors) {}

  // Sends a message; run() runs the actor if it becomes ready.
  template <class Actor, class Message>
  void send(const Actor& to, Message message) {
    caf::actor_cast<caf::abstract_actor*>(to)->enqueue(
        caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(message)), this);
  }
  // Runs actors until none is ready.
  void run();

  // Called by CAF when `job`, whose mailbox was empty, receives a message.
  void exec_later(caf::resumable* job) override;

 private:
  const ShortActors actors_;
  std::array<bool, 3> ready_{};  // by position in actors_; each entry holds a reference
};

}  // namespace troupe
