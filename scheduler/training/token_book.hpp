// The tokens of one phase of a training job: an epoch's training, or an evaluation. A token is complete when
// its worker has reported it and every shard has staged it; until then it goes back into the book if its
// worker is lost, and is the first to be handed out again.
//
// The tokens of a step are shared out evenly: a worker gets more than its share of a step only when it has nothing else
// to do and the step can start. Else who has two tokens of a step, since another was late once, would have two of each
// for ever, while that one waits.
//
// With backup slots a step is complete when `needed` of its tokens are: these are its choice, of which the book tells
// once, in the order of the steps. Its other tokens are dropped: whoever has one is taken to hold it until he reports.
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
  std::uint32_t slots = 1;     // tokens of a step; evaluate: the number of chunks
  std::uint32_t needed = 0;    // of these; 0: all
  std::uint64_t chunk = 0;     // examples of a token
  std::uint64_t examples = 0;  // the last token ends here
  std::uint64_t version = 0;   // evaluate: on which
  TrainingMode mode = TrainingMode::synchronous;
  std::uint64_t staleness = 0;
  std::vector<std::uint32_t> shards;  // those that stage each token; evaluate: none
  // How many steps beyond the first incomplete one are handed out; without a value any number.
  std::optional<std::uint64_t> lookahead;
  std::shared_ptr<const CommitLog> commits;  // of the steps in it only these slots are handed out
};

class TokenBook {
 public:
  enum class Note { counted, repeated, late, unexpected };
  struct Choice {
    std::uint64_t step = 0;
    std::vector<std::uint32_t> slots;    // ascending
    std::vector<std::uint32_t> holders;  // workers that have another token of the step
  };
  struct Figures {
    double loss_sum = 0;  // added up in the order of the tokens, whatever the order they came in
    std::uint64_t correct = 0;
    std::uint64_t examples = 0;
  };

  TokenBook() = default;  // of a phase without tokens
  explicit TokenBook(Phase phase) { begin(std::move(phase)); }
  // The next phase. Dropped tokens of the last one are still held.
  void begin(Phase phase);

  const Phase& phase() const { return phase_; }
  // The next token for this worker, or nothing if there is none now. `members`: how many share those of a step.
  std::optional<Token> take(std::uint32_t worker, std::uint32_t members = 1);
  bool has_token_for(std::uint32_t worker, std::uint32_t members) const;
  // How many tokens `worker` has and has not reported.
  std::size_t held(std::uint32_t worker) const { return worker < held_.size() ? held_[worker] : 0; }
  Note done(const TokenDone& message);
  Note staged(const Staged& message);
  // Puts back what `worker` holds or has not completed; returns how many.
  std::size_t release(std::uint32_t worker);
  // The same, but they are handed out to `worker` alone until release() or release_kept() of it.
  std::size_t keep(std::uint32_t worker);
  std::size_t release_kept(std::uint32_t worker);
  bool keeps(std::uint32_t worker) const {
    const auto kept = kept_.find(worker);
    return kept != kept_.end() && !kept->second.empty();
  }
  // Tokens that were handed out before and wait for any worker.
  std::size_t returned() const { return returned_.size(); }
  // The steps that have become complete since the last call, with the figures up to their end.
  struct Boundary {
    std::uint64_t next_step = 0;
    Figures figures;
  };
  std::vector<Boundary> take_boundaries() { return std::exchange(boundaries_, {}); }
  // To be called before any token is taken: the steps before `step` are complete.
  void resume(std::uint64_t step, const Figures& figures);
  // What steps with backup slots have chosen since the last call.
  std::vector<Choice> take_choices() { return std::exchange(choices_, {}); }

  bool finished() const { return folded_ == count_; }
  std::uint64_t next_step() const {
    return phase_.first_step + (next_ + phase_.slots - 1) / phase_.slots;
  }  // none of it is handed out
  std::uint64_t complete_steps() const { return folded_ / phase_.slots; }
  const Figures& figures() const { return figures_; }  // of the complete tokens up to the first incomplete one
  // "step 5: slot 1 (worker 0, not staged on shard 2)", for at most `limit` tokens, or only those of the first step
  // that is not complete; "" if none is out.
  std::string outstanding(std::size_t limit = 8, bool of_first_step = false) const;
  // A token of the first step that is not complete, and is not complete itself; or of any, if `all`. At most `limit`,
  // in order.
  struct Open {
    std::uint64_t step = 0;
    std::uint32_t slot = 0;
    std::optional<std::uint32_t> worker;  // who has it
    std::optional<std::uint32_t> kept;    // for whom it is kept
    bool handed_out = true;               // ever
    bool done = false;                    // reported by its worker
    std::vector<std::uint32_t> unstaged;  // shards
  };
  std::vector<Open> open(std::size_t limit, bool all) const;
  // (step, slot) of those that `worker` has and has not reported.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> held_by(std::uint32_t worker) const;

 private:
  struct Item {
    std::optional<std::uint32_t> worker;  // none: back in the book
    bool done = false;
    std::vector<bool> staged;  // as phase_.shards
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
  std::uint64_t next_ = 0;  // no token from this one on was ever handed out
  // Of the steps that have some tokens handed out and are not complete.
  struct Shares {
    std::uint32_t taken = 0;  // slots below it were handed out
    std::map<std::uint32_t, std::uint32_t> by_worker;
  };
  std::map<std::uint64_t, Shares> shares_;
  std::uint64_t first_open_ = 0;         // step: all tokens of those before it were handed out
  std::uint64_t folded_ = 0;             // all below are complete and in figures_
  std::map<std::uint64_t, Item> items_;  // of those from folded_ to next_ that were handed out
  std::set<std::uint64_t> returned_;
  std::map<std::uint32_t, std::set<std::uint64_t>> kept_;  // by worker
  std::map<std::uint64_t, std::vector<std::uint64_t>>
      complete_;                            // backups: tokens by step, numbered from 0 in the phase
  std::map<std::uint64_t, Choice> chosen_;  // of these, the steps that have enough and are not folded
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> dropped_;  // (step, slot) -> who holds it
  std::vector<std::size_t> held_;                                             // by worker
  std::vector<Choice> choices_;
  std::vector<Boundary> boundaries_;
  Figures figures_;
};

}  // namespace troupe
