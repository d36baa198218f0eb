// Manages the tokens of one worker: requests them ahead of its work, decides which are computed now and which wait, and
// reports them in order of arrival, but never behind one of a later turn: that one may wait for the turn of this, which
// a lost worker has left behind.
//
//   requested ── Token ──▶ waiting ── start() ──▶ computing ── ended() ──▶ reported, and the next is requested
//                             │                       │
//                             └──── Commit without ───┴──▶ unused: reported without being computed
//
// While a step computes, the next token has arrived and its pulls wait on the shards: it starts as soon as the version
// is published. Asynchronous workers pull the current version, which includes their own last batch, so they compute one
// token at a time.
//
// One object serves one incarnation of a worker. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <troupe/scheduler/training/outgoing.hpp>

namespace troupe {

class WorkerTokens {
 public:
  struct Options {
    std::uint32_t worker = 0;
    TrainingMode mode = TrainingMode::synchronous;
    std::uint32_t phases = 1;    // of a step
    std::uint32_t ahead = 1;     // tokens held or requested at a time
    std::uint64_t view = 0;      // in which it joined
    std::uint64_t requests = 0;  // made by earlier incarnations, whose answers may still arrive
  };
  // A token to compute.
  struct Work {
    std::uint64_t id = 0;
    Token token;
    std::uint64_t after = 0;  // asynchronous: as in Pull
  };

  explicit WorkerTokens(const Options& options) : options_(options), request_(options.requests) {}

  // Call once the worker has joined: requests its first tokens.
  void begin(TrainingOutbox& out);
  // Handles a token; repeated ones are dropped.
  void came(const Token& token);
  // Handles the choice of a turn's slots: its other tokens need not be computed. Returns the ids of those being
  // computed, to cancel; ended() still follows for each.
  std::vector<std::uint64_t> committed(const Commit& commit, TrainingOutbox& out);
  // Returns the next token to compute, if any. Call after each of the others until it returns none.
  std::optional<Work> start();
  // Ends a computation; it is reported once all that came before it, and are of no later turn, are. `report`: its
  // figures; worker, token and view are filled in.
  void ended(std::uint64_t id, TokenDone report, TrainingOutbox& out);
  // Takes the finish token, once per arrival: another arrives when the chief is lost.
  std::optional<Token> finish() { return std::exchange(finish_, std::nullopt); }
  bool finishes() const { return finish_.has_value(); }

  bool unused(std::uint64_t id) const;
  std::uint64_t after() const { return after_; }       // asynchronous: its last turn + 1
  std::uint64_t requests() const { return request_; }  // made so far

 private:
  struct Computing {
    Work work;
    bool unused = false;
    std::optional<TokenDone> report;  // set once it has ended
  };
  void ask(TrainingOutbox& out);
  void report(const Token& token, TokenDone report, TrainingOutbox& out);
  bool has(const Token& token) const;

  Options options_;
  std::uint64_t request_;
  std::set<std::uint64_t> asked_;  // unanswered
  std::deque<Token> waiting_;
  std::deque<Computing> computing_;
  std::uint64_t works_ = 0;
  std::uint64_t after_ = 0;
  std::optional<Token> finish_;
};

}  // namespace troupe
