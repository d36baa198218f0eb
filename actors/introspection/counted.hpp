// The base of every actor of Troupe: counts what it does in its ActorRecord, where it can be read without asking it.
#pragma once

#include <caf/mailbox_element.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <utility>

#include "actors/introspection/actor_record.hpp"

namespace troupe {

// Derive an actor with interface `Handle` from Counted<Handle>.
template <class Handle>
class Counted : public Handle::base {
 public:
  using super = typename Handle::base;

  Counted(caf::actor_config& config, std::shared_ptr<ActorRecord> record) : super(config), record_(std::move(record)) {}

  using super::enqueue;
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) override {
    count_in();
    super::enqueue(std::move(element), host);
  }

  caf::invoke_message_result consume(caf::mailbox_element& element) override {
    if (!record_->counting) return super::consume(element);
    record_->begin(element.content().empty() ? nullptr : element.content().type(0).second);
    const auto result = super::consume(element);
    record_->end_of_message(result != caf::invoke_message_result::skipped);
    return result;
  }

  void on_exit() override { record_->registry.end(*record_); }

 protected:
  // Sends a message without a reply and counts it.
  template <class To, class Message>
  void tell(const To& to, Message&& message) {
    if (!to) return;
    if (record_->counting) record_->messages_out.fetch_add(1, std::memory_order_relaxed);
    this->send(to, std::forward<Message>(message));
  }
  void count_in() {
    if (record_->counting) record_->count_in();
  }
  ActorRecord& record() { return *record_; }
  const std::shared_ptr<ActorRecord>& shared_record() { return record_; }
  WaitSlot& wait_slot() { return record_->wait; }

 private:
  std::shared_ptr<ActorRecord> record_;
};

}  // namespace troupe
