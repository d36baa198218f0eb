// A thread of the runtime that is not one of CAF's pool and runs the actors it wakes itself: a message that comes over
// the wire finds its scheduler on the wire's thread, the end of a segment on the device's, and no other thread has to
// be woken.
//
// For actors whose messages are all short, because the thread serves nothing else meanwhile. Others go to the pool as
// ever, and so does one that has had its share of messages.
#pragma once

#include <array>
#include <caf/execution_unit.hpp>

#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

// The actors that a borrowed thread may run, null for none. They must outlive it.
struct ShortActors {
  ShortActors() = default;
  ShortActors(const SchedulerActor& scheduler, const RendezvousActor& rendezvous, const CollectiveActor& collective);
  std::array<caf::resumable*, 3> jobs{};
};

// All methods: on the borrowed thread only.
class BorrowedThread final : public caf::execution_unit {
 public:
  BorrowedThread(caf::actor_system& system, const ShortActors& actors)
      : caf::execution_unit(&system), actors_(actors) {}

  // What a message makes ready is run by run().
  template <class Actor, class Message>
  void send(const Actor& to, Message message) {
    caf::actor_cast<caf::abstract_actor*>(to)->enqueue(
        caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(message)), this);
  }
  // Until nothing is ready.
  void run();

  // By CAF: `job`, which has been without messages, has one.
  void exec_later(caf::resumable* job) override;

 private:
  const ShortActors actors_;
  std::array<bool, 3> ready_{};  // by place in actors_, each with a reference
};

}  // namespace troupe
