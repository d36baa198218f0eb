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
    const auto in = record_->messages_in.fetch_add(1, std::memory_order_relaxed) + 1;
    // Messages of other senders, counted after `in` was read, may have been handled already.
    const auto handled = record_->messages_handled.load(std::memory_order_relaxed);
    const auto depth = in > handled ? in - handled : 0;
    if (depth > record_->mailbox_peak.load(std::memory_order_relaxed))
      record_->mailbox_peak.store(depth, std::memory_order_relaxed);
    super::enqueue(std::move(element), host);
  }

  caf::invoke_message_result consume(caf::mailbox_element& element) override {
    const std::int64_t begin = steady_now_ns();
    record_->current.store(element.content().empty() ? nullptr : element.content().type(0).second, std::memory_order_relaxed);
    record_->current_since_ns.store(begin, std::memory_order_relaxed);
    const auto result = super::consume(element);
    record_->current_since_ns.store(0, std::memory_order_relaxed);
    record_->busy_ns.fetch_add(steady_now_ns() - begin, std::memory_order_relaxed);
    if (result != caf::invoke_message_result::skipped) record_->messages_handled.fetch_add(1, std::memory_order_relaxed);
    return result;
  }

  void on_exit() override { record_->registry.end(*record_); }

 protected:
  // Sends a message without a reply and counts it.
  template <class To, class Message>
  void tell(const To& to, Message&& message) {
    if (!to) return;
    record_->messages_out.fetch_add(1, std::memory_order_relaxed);
    this->send(to, std::forward<Message>(message));
  }
  ActorRecord& record() { return *record_; }
  WaitSlot& wait_slot() { return record_->wait; }

 private:
  std::shared_ptr<ActorRecord> record_;
};

}  // namespace troupe
