// Where tensors that cross devices meet their consumers. A plain class; the rendezvous actor drives it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "messages/frames.hpp"

namespace troupe {

// Each key meets once: one put, one consumer. A step that has ended or was aborted leaves a tombstone, so that what comes
// late is dropped and counted. The newest 1024 tombstones of a session are kept; a closed session keeps one for all. Steps
// are numbered about in the order they start: a step that is `far` behind one that has ended, and that nobody here waits
// for, is over too, and what is held for it goes.
class RendezvousTable {
 public:
  struct Counters {
    std::uint64_t met = 0;
    std::uint64_t dropped_late = 0;  // for a step that is over
    std::uint64_t duplicates = 0;    // a second put to a key
  };

  explicit RendezvousTable(std::uint64_t far = 1 << 20) : far_(far) {}

  // A tensor (or the error instead of it) has come. True: its consumer waits, deliver it now.
  bool put(Put put);
  // A consumer starts waiting. A value: it has come already.
  std::optional<Put> get(const RendezvousKey& key);
  // The step is over on this task: frees what is left of it.
  void end_step(SessionId session, StepId step);
  void end_session(SessionId session);

  std::size_t tensors_held() const { return held_; }
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
    std::unordered_map<std::uint64_t, Step> steps;
    std::unordered_set<std::uint64_t> ended;
    std::deque<std::uint64_t> ended_order;
    std::uint64_t horizon = 0;  // steps below it are over, but for those that are waited for
    std::uint64_t ends = 0;
    bool closed = false;
    bool over(std::uint64_t step) const {
      return closed || ended.contains(step) || (step < horizon && !steps.contains(step));
    }
  };

  void sweep(Session& session);
  void forget(const Step& step);  // its meetings are counted no more

  const std::uint64_t far_;
  std::unordered_map<SessionId, Session> sessions_;
  std::size_t held_ = 0;
  std::size_t awaited_ = 0;
  Counters counters_;
};

}  // namespace troupe
