// The tokens of one part of a training job: an epoch's training, or an evaluation. A token is complete when its worker
// has reported it and every shard of its phase has staged it; until then it returns to the book if its worker is lost,
// and is handed out again first.
//
// Tokens are ordered by turn (scheduler/training/turns.hpp), then by slot. Asynchronous: a batch's next phase is handed
// out when the one before is complete.
//
// The tokens of a turn are shared evenly: a worker gets more than its share of one only when it is idle and the turn
// can start. Otherwise one late worker would leave another with two tokens of every later turn, and wait itself.
//
// With backup slots a turn is complete when `needed` of its tokens are: these are its choice, reported once, in order.
// Its other tokens are dropped: a worker with one counts as its holder until it reports.
//
// If the number of steps is unknown, the first worker that finds the data over ends the part: tokens from that step on
// are dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <troupe/messages/frames.hpp>
#include <troupe/scheduler/training/commit_log.hpp>
#include <troupe/scheduler/training/outgoing.hpp>
#include <troupe/scheduler/training/turns.hpp>

namespace troupe {

// Token i is slot i % slots of turn i / slots. An evaluation has one slot; its tokens are numbered by Token::slot.
struct TokenPlan {
  static constexpr std::uint64_t kUnknownSteps = std::uint64_t{1} << 40;

  TokenKind kind = TokenKind::train;  // or evaluate
  std::uint32_t epoch = 0;
  std::uint64_t first_step = 0;
  std::uint64_t steps = 0;     // evaluate: the number of batches; kUnknownSteps: until the data ends
  std::uint32_t phases = 1;    // of a step; evaluate: 1
  std::uint32_t slots = 1;     // tokens per turn; evaluate: 1
  std::uint32_t needed = 0;    // of these; 0: all
  std::uint64_t examples = 0;  // most per token
  std::uint64_t version = 0;   // evaluate: the version to evaluate
  TrainingMode mode = TrainingMode::synchronous;
  std::uint64_t staleness = 0;                     // in steps
  std::vector<std::vector<std::uint32_t>> shards;  // by phase: those that stage its tokens; evaluate: none
  // Maximum number of turns handed out beyond the first incomplete one; nullopt: no limit.
  std::optional<std::uint64_t> lookahead;
  bool phases_in_order = true;               // JobOptions::phases_in_order
  double rate_scale = 1;                     // Token::rate_scale
  bool keep = false;                         // Token::keep, of the first step
  std::shared_ptr<const CommitLog> commits;  // for turns in this log, only its slots are handed out
};

// The place of a token: "step 5 slot 1", "step 5 phase 1 slot 1" if steps have several phases.
struct TokenPlace {
  std::uint64_t step = 0;
  std::uint32_t phase = 0;
  std::uint32_t slot = 0;
  auto operator<=>(const TokenPlace&) const = default;
  std::string to_string(std::uint32_t phases) const;
};

class TokenBook {
 public:
  enum class Note { counted, repeated, late, unexpected };
  struct Choice {
    std::uint64_t step = 0;
    std::uint32_t phase = 0;
    std::vector<std::uint32_t> slots;    // ascending
    std::vector<std::uint32_t> holders;  // workers that hold another token of the turn
  };
  struct Figures {
    NamedSums sums;              // added in token order, regardless of arrival order
    std::uint64_t examples = 0;  // of the first phase: the others see the same
  };

  TokenBook() = default;  // without tokens
  explicit TokenBook(TokenPlan plan) { begin(std::move(plan)); }
  // Begins the next part. Dropped tokens of the last one stay held.
  void begin(TokenPlan plan);

  const TokenPlan& plan() const { return plan_; }
  // Takes the next token for this worker, if one is available. `members`: number of workers that share a turn's tokens.
  std::optional<Token> take(std::uint32_t worker, std::uint32_t members = 1);
  bool has_token_for(std::uint32_t worker, std::uint32_t members) const;
  // Number of unreported tokens of `worker`.
  std::size_t held(std::uint32_t worker) const { return worker < held_.size() ? held_[worker] : 0; }
  Note done(const TokenDone& message);
  Note staged(const Staged& message);
  // Puts the incomplete tokens of `worker` back into the book; returns their number.
  std::size_t release(std::uint32_t worker);
  // The same, but they are handed out to `worker` only, until its release() or release_kept().
  std::size_t keep(std::uint32_t worker);
  std::size_t release_kept(std::uint32_t worker);
  bool keeps(std::uint32_t worker) const {
    const auto kept = kept_.find(worker);
    return kept != kept_.end() && !kept->second.empty();
  }
  // Number of tokens that were put back and are available to any worker.
  std::size_t returned() const { return returned_.size(); }
  // The steps completed since the last call, with the figures up to their end.
  struct Boundary {
    std::uint64_t next_step = 0;
    Figures figures;
  };
  std::vector<Boundary> take_boundaries() { return std::exchange(boundaries_, {}); }
  // Marks the steps before `step` as complete. Call before any token is taken.
  void resume(std::uint64_t step, const Figures& figures);
  // The choices of turns with backup slots since the last call.
  std::vector<Choice> take_choices() { return std::exchange(choices_, {}); }

  bool finished() const { return folded_ == count_; }
  // The first step with no token handed out.
  std::uint64_t next_step() const { return plan_.first_step + (next_ + per_step() - 1) / per_step(); }
  std::uint64_t complete_steps() const { return folded_ / per_step(); }
  const Figures& figures() const { return figures_; }  // over the complete tokens before the first incomplete one
  // "step 5 slot 1 (worker 0, not staged on shard 2)", for at most `limit` incomplete tokens, optionally only those of
  // the first incomplete turn; "" if none.
  std::string outstanding(std::size_t limit = 8, bool of_first_turn = false) const;
  // An incomplete token of the first incomplete turn or, with `all`, of any. open() returns at most `limit`, in order.
  struct Open {
    TokenPlace place;
    std::optional<std::uint32_t> worker;  // its holder
    std::optional<std::uint32_t> kept;    // the worker it is kept for
    bool handed_out = true;               // ever
    bool done = false;                    // reported by its worker
    std::vector<std::uint32_t> unstaged;  // shards
  };
  std::vector<Open> open(std::size_t limit, bool all) const;
  // The unreported tokens of `worker`.
  std::vector<TokenPlace> held_by(std::uint32_t worker) const;

 private:
  struct Item {
    std::optional<std::uint32_t> worker;  // nullopt: back in the book
    bool done = false;
    std::vector<bool> staged;  // by position among the shards of its phase
    std::size_t unstaged = 0;
    Figures figures;
    bool complete() const { return done && unstaged == 0; }
  };
  // A token among those of all parts.
  using Key = std::tuple<std::uint32_t, TokenKind, TokenPlace>;
  static Key key_of(const Token& token) { return {token.epoch, token.kind, {token.step, token.phase, token.slot}}; }

  std::uint64_t per_step() const { return std::uint64_t{plan_.phases} * plan_.slots; }
  std::uint64_t turns() const { return plan_.steps * plan_.phases; }
  std::uint64_t complete_turns() const { return folded_ / plan_.slots; }
  std::uint64_t turn_at(std::uint64_t index) const { return index / plan_.slots; }
  const std::vector<std::uint32_t>& shards_of(std::uint64_t index) const;
  Token token(std::uint64_t index) const;
  TokenPlace place(std::uint64_t index) const;
  std::optional<std::uint64_t> index_of(const TokenPlace& place) const;
  bool has_backups() const { return plan_.needed != 0 && plan_.needed != plan_.slots; }
  bool wanted(std::uint64_t index) const;
  bool waits_for_phase(std::uint64_t turn) const;
  std::optional<std::uint64_t> first_wanted(std::uint64_t turn) const;
  std::optional<std::uint64_t> pick(std::uint32_t worker, std::uint32_t members) const;
  void take_from_turn(std::uint64_t index);
  void hold(std::uint32_t worker, std::ptrdiff_t change);
  void forget_returned(std::uint64_t index);
  std::size_t give_back(std::uint32_t worker, std::set<std::uint64_t>& to);
  Item* find(std::uint64_t index);
  void completed(std::uint64_t index);
  void drop(std::uint64_t index, const Item& item);
  Note end_before(std::uint64_t index, Item& item);
  void choose(std::uint64_t turn);
  void fold_tokens();
  void fold_turns();
  void add(const Figures& figures, std::uint64_t index);
  void note_boundary();

  // Below, turns are numbered from 0 in the part.
  TokenPlan plan_;
  bool ended_ = false;  // the number of steps was unknown, and the data has ended
  std::uint64_t count_ = 0;
  std::uint64_t next_ = 0;  // tokens from this one on were never handed out
  // For incomplete turns with some tokens handed out.
  struct Shares {
    std::uint32_t taken = 0;  // slots below this were handed out
    std::map<std::uint32_t, std::uint32_t> by_worker;
  };
  std::map<std::uint64_t, Shares> shares_;
  std::uint64_t first_open_ = 0;         // turn: all tokens of earlier ones were handed out
  std::uint64_t folded_ = 0;             // all earlier tokens are complete and in figures_
  std::map<std::uint64_t, Item> items_;  // handed-out tokens from folded_ to next_
  std::set<std::uint64_t> returned_;
  std::map<std::uint32_t, std::set<std::uint64_t>> kept_;         // by worker
  std::map<std::uint64_t, std::vector<std::uint64_t>> complete_;  // backups: tokens by turn
  std::map<std::uint64_t, Choice> chosen_;                        // of these, turns with enough tokens, not folded yet
  std::map<Key, std::uint32_t> dropped_;                          // -> holder
  std::vector<std::size_t> held_;                                 // by worker
  std::vector<Choice> choices_;
  std::vector<Boundary> boundaries_;
  Figures figures_;
};

}  // namespace troupe
