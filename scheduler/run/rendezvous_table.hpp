// Matches tensors that cross devices with their consumers. A plain class, driven by the rendezvous actor.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include <troupe/messages/frames.hpp>

namespace troupe {

// The ended steps of a session. The `span` steps up to the newest ended one are tracked individually, one bit each; all
// earlier steps count as ended.
class EndedSteps {
 public:
  explicit EndedSteps(std::uint64_t span) : span_(span) {}
  bool contains(std::uint64_t step) const {
    return step < begin_ || (step - begin_ < ended_.size() && ended_[step % span_]);
  }
  // Returns false if it was already there.
  bool insert(std::uint64_t step);
  std::uint64_t begin() const { return begin_; }  // all earlier steps have ended

 private:
  std::uint64_t span_;
  std::uint64_t begin_ = 0;
  std::vector<bool> ended_;  // of [begin_, begin_ + span_), at step % span_; empty until a step ends
};

// Each key matches one put with one consumer. Tensors for a step that ended or was aborted are dropped and counted,
// however late; a closed session drops everything. Steps are numbered roughly in starting order: a step `span` behind
// an ended one, with no consumer waiting here, counts as ended too, and its held tensors are freed.
//
// Tensors for a step that has not begun here are held: other tasks may start earlier. A session known only from tensors
// may not exist: beyond `max_unknown` such sessions, or `max_held_bytes` of tensors, the oldest is dropped with its
// tensors. If none is left to drop, an error replaces the next tensor (resource_exhausted).
class RendezvousTable {
 public:
  struct Counters {
    std::uint64_t met = 0;
    std::uint64_t dropped_late = 0;  // for an ended step
    std::uint64_t duplicates = 0;    // a second put to a key
  };

  explicit RendezvousTable(std::uint64_t span = 1 << 16, std::uint64_t max_held_bytes = 1 << 30,
                           std::size_t max_unknown = 1024)
      : span_(span), max_held_bytes_(max_held_bytes), max_unknown_(max_unknown) {}

  // Handles an arriving tensor (or the error in its place). Returns true if its consumer is waiting: deliver it now.
  bool put(Put put);
  // Registers a waiting consumer. Returns the value if it has already arrived.
  std::optional<Put> get(const RendezvousKey& key);
  // Ends the step on this task and frees its remaining tensors.
  void end_step(SessionId session, StepId step);
  void end_session(SessionId session);

  std::size_t tensors_held() const { return held_; }
  std::uint64_t bytes_held() const { return held_bytes_; }
  std::size_t consumers_waiting() const { return awaited_; }
  const Counters& counters() const { return counters_; }

 private:
  enum class State : std::uint8_t { awaited, held, met };
  struct Meeting {
    State state;
    Put put;
  };
  using Step = std::unordered_map<std::uint32_t, Meeting>;  // by edge
  struct Session {
    explicit Session(std::uint64_t span) : ended(span) {}
    std::unordered_map<std::uint64_t, Step> steps;
    EndedSteps ended;
    std::uint64_t ends = 0;
    bool closed = false;
    bool known = false;  // a consumer has waited here, or a step has ended
    // A slow step overtaken by later ones has not ended while it has entries here.
    bool over(std::uint64_t step) const { return closed || (ended.contains(step) && !steps.contains(step)); }
  };

  Session& known(SessionId id);
  // Drops the oldest unknown session other than `other`. Returns false if there is none.
  bool forget_unknown(SessionId other);
  void hold(Meeting& meeting, Put put);
  void sweep(Session& session);
  void forget(const Step& step);  // removes its meetings from the counts

  const std::uint64_t span_;
  std::unordered_map<SessionId, Session> sessions_;
  const std::uint64_t max_held_bytes_;
  const std::size_t max_unknown_;
  std::deque<SessionId> unknown_;  // oldest first; some may be known by now
  std::size_t held_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::size_t awaited_ = 0;
  Counters counters_;
};

}  // namespace troupe
