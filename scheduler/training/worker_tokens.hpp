// The tokens of one worker: asks for them ahead of its work, decides what is computed now and what waits, and reports
// in the order in which the tokens came.
//
//   asked for ── Token ──▶ waiting ── start() ──▶ computing ── ended() ──▶ reported, and the next is asked for
//                             │                       │
//                             └──── Commit without ───┴──▶ of no use: reported without having been computed
//
// While a step computes, the token of the next has come and its pulls wait on the shards: it goes on the moment the
// version is there. Asynchronous workers pull what there is, their own last batch in it, so they compute one at a time.
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
    std::uint32_t ahead = 1;     // tokens that it has or has asked for
    std::uint64_t view = 0;      // in which it has joined
    std::uint64_t requests = 0;  // made by incarnations before it whose answers may still come
  };
  // A token that is to be computed.
  struct Work {
    std::uint64_t id = 0;
    Token token;
    std::uint64_t after = 0;  // asynchronous: as in Pull
  };

  explicit WorkerTokens(const Options& options) : options_(options), request_(options.requests) {}

  // It has joined.
  void begin(TrainingOutbox& out);
  // One that has come before is dropped.
  void came(const Token& token);
  // The slots of a step are chosen: its other tokens need not be computed. Returns those that are being computed, which
  // end soon: ended() follows.
  std::vector<std::uint64_t> committed(const Commit& commit, TrainingOutbox& out);
  // What to compute now, if there is any; to be called after each of the others until there is none.
  std::optional<Work> start();
  // Reported as soon as all before it are. `report`: its figures; worker, token and view are filled in.
  void ended(std::uint64_t id, TokenDone report, TrainingOutbox& out);
  // The token to finish with, once for each that has come: another follows when the chief is lost.
  std::optional<Token> finish() { return std::exchange(finish_, std::nullopt); }
  bool finishes() const { return finish_.has_value(); }

  bool unused(std::uint64_t id) const;
  std::uint64_t after() const { return after_; }       // asynchronous: its last batch, and one
  std::uint64_t requests() const { return request_; }  // made so far

 private:
  struct Computing {
    Work work;
    bool unused = false;
    std::optional<TokenDone> report;  // it has ended
  };
  void ask(TrainingOutbox& out);
  void report(const Token& token, TokenDone report, TrainingOutbox& out);
  bool has(const Token& token) const;

  Options options_;
  std::uint64_t request_;
  std::set<std::uint64_t> asked_;  // not answered
  std::deque<Token> waiting_;
  std::deque<Computing> computing_;
  std::uint64_t works_ = 0;
  std::uint64_t after_ = 0;
  std::optional<Token> finish_;
};

}  // namespace troupe
