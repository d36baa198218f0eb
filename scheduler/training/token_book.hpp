// The tokens of one phase of a training job: an epoch's training, or an evaluation. A token is complete when its worker
// has reported it and every shard has staged it; until then it returns to the book if its worker is lost, and is handed
// out again first.
//
// The tokens of a step are shared evenly: a worker gets more than its share of a step only when it is idle and the step
// can start. Otherwise one late worker would leave another with two tokens of every later step, and wait itself.
//
// With backup slots a step is complete when `needed` of its tokens are: these are its choice, reported once, in step
// order. Its other tokens are dropped: a worker with one counts as its holder until it reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <troupe/messages/frames.hpp>
#include <troupe/scheduler/training/commit_log.hpp>
#include <troupe/scheduler/training/outgoing.hpp>

namespace troupe {

// Token i of a phase is slot i % slots of step first_step + i / slots, examples [i * chunk, (i + 1) * chunk).
struct Phase {
  TokenKind kind = TokenKind::train;  // or evaluate
  std::uint32_t epoch = 0;
  std::uint64_t first_step = 0;
  std::uint64_t steps = 0;     // evaluate: 1
  std::uint32_t slots = 1;     // tokens per step; evaluate: the number of chunks
  std::uint32_t needed = 0;    // of these; 0: all
  std::uint64_t chunk = 0;     // examples per token
  std::uint64_t examples = 0;  // the last token ends here
  std::uint64_t version = 0;   // evaluate: the version to evaluate
  TrainingMode mode = TrainingMode::synchronous;
  std::uint64_t staleness = 0;
  std::vector<std::uint32_t> shards;  // that stage each token; evaluate: none
  // Maximum number of steps handed out beyond the first incomplete one; nullopt: no limit.
  std::optional<std::uint64_t> lookahead;
  std::shared_ptr<const CommitLog> commits;  // for steps in this log, only its slots are handed out
};

class TokenBook {
 public:
  enum class Note { counted, repeated, late, unexpected };
  struct Choice {
    std::uint64_t step = 0;
    std::vector<std::uint32_t> slots;    // ascending
    std::vector<std::uint32_t> holders;  // workers that hold another token of the step
  };
  struct Figures {
    double loss_sum = 0;  // summed in token order, regardless of arrival order
    std::uint64_t correct = 0;
    std::uint64_t examples = 0;
  };

  TokenBook() = default;  // for a phase without tokens
  explicit TokenBook(Phase phase) { begin(std::move(phase)); }
  // Begins the next phase. Dropped tokens of the last one stay held.
  void begin(Phase phase);

  const Phase& phase() const { return phase_; }
  // Takes the next token for this worker, if one is available. `members`: number of workers that share a step's tokens.
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
  // The choices of steps with backup slots since the last call.
  std::vector<Choice> take_choices() { return std::exchange(choices_, {}); }

  bool finished() const { return folded_ == count_; }
  std::uint64_t next_step() const {
    return phase_.first_step + (next_ + phase_.slots - 1) / phase_.slots;
  }  // first step with no token handed out
  std::uint64_t complete_steps() const { return folded_ / phase_.slots; }
  const Figures& figures() const { return figures_; }  // over the complete tokens before the first incomplete one
  // "step 5: slot 1 (worker 0, not staged on shard 2)", for at most `limit` incomplete tokens, optionally only those of
  // the first incomplete step; "" if none.
  std::string outstanding(std::size_t limit = 8, bool of_first_step = false) const;
  // An incomplete token of the first incomplete step or, with `all`, of any step. open() returns at most `limit`, in
  // order.
  struct Open {
    std::uint64_t step = 0;
    std::uint32_t slot = 0;
    std::optional<std::uint32_t> worker;  // its holder
    std::optional<std::uint32_t> kept;    // the worker it is kept for
    bool handed_out = true;               // ever
    bool done = false;                    // reported by its worker
    std::vector<std::uint32_t> unstaged;  // shards
  };
  std::vector<Open> open(std::size_t limit, bool all) const;
  // (step, slot) of the unreported tokens of `worker`.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> held_by(std::uint32_t worker) const;

 private:
  struct Item {
    std::optional<std::uint32_t> worker;  // nullopt: back in the book
    bool done = false;
    std::vector<bool> staged;  // by position in phase_.shards
    std::size_t unstaged = 0;
    Figures figures;
    bool complete() const { return done && unstaged == 0; }
  };

  Token token(std::uint64_t index) const;
  std::optional<std::uint64_t> index_of(std::uint64_t step, std::uint32_t slot) const;
  bool has_backups() const { return phase_.needed != 0 && phase_.needed != phase_.slots; }
  bool wanted(std::uint64_t index) const;
  std::optional<std::uint64_t> first_wanted(std::uint64_t step) const;
  std::optional<std::uint64_t> pick(std::uint32_t worker, std::uint32_t members) const;
  void take_from_step(std::uint64_t index);
  void hold(std::uint32_t worker, std::ptrdiff_t change);
  void forget_returned(std::uint64_t index);
  std::size_t give_back(std::uint32_t worker, std::set<std::uint64_t>& to);
  Item* find(std::uint64_t index);
  void completed(std::uint64_t index);
  void choose(std::uint64_t step);
  void fold_tokens();
  void fold_steps();
  void add(const Figures& figures);
  void note_boundary();

  Phase phase_;
  std::uint64_t count_ = 0;
  std::uint64_t next_ = 0;  // tokens from this one on were never handed out
  // For incomplete steps with some tokens handed out.
  struct Shares {
    std::uint32_t taken = 0;  // slots below this were handed out
    std::map<std::uint32_t, std::uint32_t> by_worker;
  };
  std::map<std::uint64_t, Shares> shares_;
  std::uint64_t first_open_ = 0;         // step: all tokens of earlier steps were handed out
  std::uint64_t folded_ = 0;             // all earlier tokens are complete and in figures_
  std::map<std::uint64_t, Item> items_;  // handed-out tokens from folded_ to next_
  std::set<std::uint64_t> returned_;
  std::map<std::uint32_t, std::set<std::uint64_t>> kept_;  // by worker
  std::map<std::uint64_t, std::vector<std::uint64_t>>
      complete_;                            // backups: tokens by step, numbered from 0 in the phase
  std::map<std::uint64_t, Choice> chosen_;  // of these, steps with enough tokens, not folded yet
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> dropped_;  // (step, slot) -> holder
  std::vector<std::size_t> held_;                                             // by worker
  std::vector<Choice> choices_;
  std::vector<Boundary> boundaries_;
  Figures figures_;
};

}  // namespace troupe
