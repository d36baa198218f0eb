// Base of all Troupe actors: counts their activity in an ActorRecord, readable without asking the actor, and applies
// the policy of the kind when a handler throws (actors/base/actor_kind.hpp).
#pragma once

#include <caf/mailbox_element.hpp>
#include <caf/message.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <memory>
#include <thread>
#include <utility>

#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/base/inspected.hpp>
#include <troupe/actors/base/restarts.hpp>
#include <troupe/actors/base/traced_message.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {

// Sends the message if the actor still exists.
void send_stray_to(const caf::weak_actor_ptr& actor, Stray what);

// Sent by an actor to itself when handling `message` on the sender's thread threw `error`. Keeps the message alive
// until the actor has failed, so that callers see the actor gone only then.
struct FailedAtOnce {
  using local_message = void;
  Error error;
  caf::message message;
};

// Base of an actor with interface `Handle`.
template <class Handle>
class Counted : public Handle::base, private Inspected {
 public:
  using super = typename Handle::base;

  Counted(caf::actor_config& config, std::shared_ptr<ActorRecord> record)
      : super(config), record_(std::move(record)), restarts_(record_->role.restarts) {
    // Unknown messages must not end an actor: some actors are reachable over the network.
    this->set_default_handler([](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> {
      return caf::sec::unexpected_message;
    });
    this->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
    this->set_exit_handler([](caf::scheduled_actor*, caf::exit_msg&) {});
    this->set_down_handler([](caf::scheduled_actor*, caf::down_msg&) {});
    const std::lock_guard lock(record_->stray_mutex);
    record_->send_stray = [self = caf::weak_actor_ptr(this->ctrl())](Stray what) { send_stray_to(self, what); };
  }

  using super::enqueue;
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) override {
    count_in();
    super::enqueue(std::move(element), host);
  }

  caf::invoke_message_result consume(caf::mailbox_element& element) override {
    if (!record_->counting) return handle(element, is_of_caf(element.content()));
    MessageNote note;
    const MessageKind& kind = describe(element.content(), note);
    record_->begin(kind, note);
    const TracedMessage traced(*record_, kind, note, element.content().empty() ? nullptr : element.content().get(0));
    const std::unique_lock lock = told_ ? std::unique_lock(record_->state_mutex) : std::unique_lock<std::timed_mutex>();
    const auto result = handle(element, kind.of_caf);
    record_->end_of_message(result != caf::invoke_message_result::skipped);
    return result;
  }

  void on_exit() override {
    {
      const std::lock_guard lock(record_->stray_mutex);
      record_->send_stray = nullptr;
    }
    stop_telling();
    record_->registry.end(*record_);
  }

 protected:
  // Call in make_behavior() when overriding inspect().
  void tell_of_itself() {
    if (!record_->counting) return;
    const std::lock_guard lock(record_->state_mutex);
    record_->inspected = this;
    told_ = true;
  }
  // For actors that release inspected state outside a message, in on_exit(): ends inspection.
  void stop_telling() {
    if (!told_) return;
    const std::lock_guard lock(record_->state_mutex);
    record_->inspected = nullptr;
  }
  void inspect(ActorDetails&) const override {}

  // Called when the actor has failed and does not restart: reports the cause to its dependents. The actor stays alive,
  // doing as little as possible, until it receives Stop. `why` names the actor.
  virtual void escalate(const Error& why) { record_->registry.escalate(why); }

  // Sends a message without a reply and counts it.
  template <class To, class Message>
  void tell(const To& to, Message&& message) {
    if (!to) return;
    if (record_->counting) record_->messages_out.fetch_add(1, std::memory_order_relaxed);
    if constexpr (!std::is_same_v<std::decay_t<Message>, Outbound>)  // counted by its peer
      trace_departure(record_->registry.trace(), message);
    this->send(to, std::forward<Message>(message));
  }
  // Same, from any thread; the receiver does not see the sender.
  template <class To, class Message>
  void tell_from_any_thread(const To& to, Message&& message) {
    if (!to) return;
    if (record_->counting) record_->messages_out.fetch_add(1, std::memory_order_relaxed);
    if constexpr (!std::is_same_v<std::decay_t<Message>, Outbound>) trace_departure(record_->registry.trace(), message);
    caf::anon_send(to, std::forward<Message>(message));
  }
  // Same, for one message to several actors.
  template <class To>
  void tell(const To& to, const caf::message& message) {
    if (!to) return;
    if (record_->counting) record_->messages_out.fetch_add(1, std::memory_order_relaxed);
    this->anon_send(caf::actor_cast<caf::actor>(to), message);
  }
  void count_in() {
    if (record_->counting) record_->count_in();
  }
  // For an enqueue() that handles a message on the sender's thread. An exception makes the actor fail at its next turn,
  // as if its handler had thrown; the sender continues.
  template <class Work>
  void handle_at_once(caf::mailbox_element& element, caf::execution_unit* host, Work&& work) {
    try {
      fail_if_asked();
      work();
    } catch (...) {
      Counted::enqueue(caf::make_mailbox_element(nullptr, caf::make_message_id(), {},
                                                 FailedAtOnce{current_error(), element.move_content_to_message()}),
                       host);
    }
  }
  // Counts a message that was handled so.
  template <class Message>
  void count_at_once(const Message& message) {
    MessageNote note;
    const MessageKind& kind = MessageKind::of<Message>().describe(&message, note);
    record_->pass(kind, note, 0);
  }
  ActorRecord& record() { return *record_; }
  const std::shared_ptr<ActorRecord>& shared_record() { return record_; }

 private:
  static bool is_of_caf(const caf::type_erased_tuple& content) { return content.empty() || !content.type(0).second; }

  void fail_if_asked() {
    if (record_->fail_next.load(std::memory_order_relaxed) && record_->fail_next.exchange(false))
      fail(Code::internal, "failed by a test");
  }

  caf::invoke_message_result handle(caf::mailbox_element& element, bool of_caf) {
    try {
      // CAF would end the actor immediately, and callers would never get an answer.
      if (of_caf && element.content().match_elements<caf::exit_msg>() &&
          element.content().get_as<caf::exit_msg>(0).reason == caf::exit_reason::kill)
        fail(Code::internal, "killed");
      if (element.content().match_elements<FailedAtOnce>()) throw element.content().get_as<FailedAtOnce>(0).error;
      fail_if_asked();
      return super::consume(element);
    } catch (...) {
      fail_with(element, current_error().within(fmt::format("{} {}", record_->kind, record_->name)));
      return caf::invoke_message_result::consumed;
    }
  }

  void fail_with(caf::mailbox_element& element, const Error& why) {
    if (element.mid.is_request() && !element.mid.is_answered() && element.sender) {
      element.sender->enqueue(caf::strong_actor_ptr(this->ctrl()), element.mid.response_id(),
                              caf::make_message(caf::make_error(caf::sec::runtime_error, why.message())),
                              this->context());
      element.mid.mark_as_answered();
    }
    if (const auto pause = restarts_.after_failure(Restarts::Clock::now())) {
      record_->restarts.fetch_add(1, std::memory_order_relaxed);
      std::this_thread::sleep_for(*pause);  // actors that restart are detached: they own the thread
    } else if (record_->role.escalates_to == FailureScope::actor) {
      this->quit(caf::make_error(caf::sec::runtime_error, why.message()));
    } else {
      escalate(why);
    }
  }

  // The kind of a message, looked up by type: an actor takes few types.
  const MessageKind& describe(const caf::type_erased_tuple& content, MessageNote& note) {
    const std::type_info* type = content.empty() ? nullptr : content.type(0).second;
    for (const auto& [known, kind] : kinds_)
      if (known == type) return kind->describe(type ? content.get(0) : nullptr, note);
    const MessageKind& kind = MessageKind::find(type);
    kinds_.emplace_back(type, &kind);
    return kind.describe(type ? content.get(0) : nullptr, note);
  }

  std::shared_ptr<ActorRecord> record_;
  Restarts restarts_;
  std::vector<std::pair<const std::type_info*, const MessageKind*>> kinds_;
  bool told_ = false;  // inspection is enabled
};

}  // namespace troupe
