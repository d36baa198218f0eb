// The externally visible state of an actor: counters in lock-free memory. The actor writes and the introspector reads
// without asking the actor, so a busy or stuck actor is visible too.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/base/actor_kind.hpp>
#include <troupe/actors/base/flight_record.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {

class Inspected;
struct ActorDetails;

// Sent by tests: an actor must survive all of them except kill, which counts as its failure.
enum class Stray : std::uint8_t { unknown, error, exit, kill };

struct ActorRecord {
  ActorRecord(class ActorRegistry& registry, ActorKind kind, std::string name, bool counting = true)
      : registry(registry),
        counting(counting),
        role(role_of(kind)),
        name(std::move(name)),
        flight(counting ? std::make_unique<FlightRecord>() : nullptr) {}

  // Records a message sent to the actor.
  void count_in();
  // Records that the actor handles a message of this kind, until end_of_message.
  void begin(const MessageKind& kind, const MessageNote& note);
  void end_of_message(bool handled = true);
  // Records that the sender of a message has done the requested work itself, on any thread, sending `out` messages.
  void pass(const MessageKind& kind, const MessageNote& note, std::uint64_t out);
  // Number of messages handled and passed, by kind.
  std::vector<std::pair<const MessageKind*, std::uint64_t>> tallies() const;
  // Fills in the actor's own report. Returns false if it has none or is still handling one message after `patience`.
  bool look(ActorDetails& out, std::chrono::nanoseconds patience) const;

  ActorRegistry& registry;
  const bool counting;  // false: keeps only `ended`
  const ActorRole& role;
  const std::string_view kind = role.name;  // "scheduler", "shard"
  const std::string name;                   // "CPU:0", "/job:ps/task:1"
  std::atomic<std::uint64_t> messages_in{0};
  std::atomic<std::uint64_t> messages_handled{0};
  std::atomic<std::uint64_t> messages_passed{0};  // handled by their senders; not included in the two above
  std::atomic<std::uint64_t> messages_out{0};
  std::atomic<std::uint64_t> mailbox_peak{0};
  std::atomic<std::int64_t> busy_ns{0};
  std::atomic<std::uint64_t> nodes_run{0};           // plan nodes run (device actors)
  std::atomic<const MessageKind*> current{nullptr};  // the message being handled
  std::atomic<std::int64_t> current_since_ns{0};     // steady clock; 0: idle
  std::atomic<bool> ended{false};
  std::atomic<std::uint64_t> restarts{0};
  std::atomic<bool> fail_next{false};          // set by tests: the handler of the next message throws
  const std::unique_ptr<FlightRecord> flight;  // null if not counting

  // Held by the actor while it handles a message, if it can be inspected, and by look().
  mutable std::timed_mutex state_mutex;
  const Inspected* inspected = nullptr;

  // Sends the actor a stray message while it lives; guarded by `stray_mutex`.
  std::mutex stray_mutex;
  std::function<void(Stray)> send_stray;

  // The trace track for the actor's activity, created on first use. Call only while the task is traced.
  std::uint32_t trace_track();
  // When the next message entered the mailbox (steady clock); 0 if unknown.
  std::int64_t next_came_ns();

 private:
  struct Tally {
    std::atomic<const MessageKind*> kind{nullptr};
    std::atomic<std::uint64_t> count{0};
  };
  std::atomic<std::uint64_t>* tally(const MessageKind& kind);  // null if all places are taken
  std::array<Tally, 48> tallies_;  // more kinds than any actor takes; further kinds are not counted
  static constexpr std::size_t kCameTimes = 256;
  std::array<std::atomic<std::int64_t>, kCameTimes>
      came_ns_{};                        // by message number in the mailbox, while the task is traced
  std::atomic<std::uint32_t> track_{0};  // plus one; 0: none yet
};

// Nanoseconds on the steady clock.
std::int64_t steady_now_ns();

// All actors of a task. Must outlive them.
class ActorRegistry {
 public:
  // `counting`: whether actors count their activity.
  explicit ActorRegistry(bool counting = true) : counting_(counting) {}
  bool counting() const { return counting_; }
  std::shared_ptr<ActorRecord> add(ActorKind kind, std::string name);
  // Sets the handler for the failure of an actor that the task depends on. Called on any thread. Set it before there
  // are actors.
  void set_on_failure(std::function<void(const Error&)> on_failure) { on_failure_ = std::move(on_failure); }
  void escalate(const Error& why) const {
    if (on_failure_) on_failure_(why);
  }
  // Sets the source of the explanation added to errors: the waits in the cluster, as text (explainer.hpp). It takes up
  // to a second. Set it before there are actors.
  void set_why(std::function<std::string()> why) { why_ = std::move(why); }
  const std::function<std::string()>& why() const { return why_; }
  // Records that the actor has ended: it handles no more messages.
  void end(ActorRecord& record);
  // Waits until all actors have ended. Returns the names of those still running at the deadline.
  std::vector<std::string> await_end(std::chrono::nanoseconds deadline) const;
  std::vector<std::shared_ptr<const ActorRecord>> actors() const;
  // The task's activity, recorded on request.
  Trace& trace() { return trace_; }
  // For tests: makes the next handler of an actor of this kind throw; returns false if there is no such actor.
  bool fail_next(const std::string& kind);
  // For tests: sends `what` to every actor of this kind ("": to all actors). Returns the number of recipients.
  int send_stray(const std::string& kind, Stray what);

 private:
  const bool counting_;
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  std::vector<std::shared_ptr<ActorRecord>> records_;
  Trace trace_;
  std::function<void(const Error&)> on_failure_;
  std::function<std::string()> why_;
};

}  // namespace troupe
