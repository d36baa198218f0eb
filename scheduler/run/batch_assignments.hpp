// Which replica of a graph computes which batch of a source, so that results come in the order of the source, each
// exactly once, whatever replicas are lost meanwhile.
//
//             add()            assign()               finish()             hand_out()
//   source ─────────▶ waiting ──────────▶ in flight ─────────▶ finished ─────────────▶ user, in order
//                        ▲                    │
//                        └───── lose() ───────┘
//
// Batches have the numbers 0, 1, 2, ... in the order in which they are added. Memory is bounded: at most `window`
// batches have been added and not handed out. A batch that a lost replica had is assigned again before any new one, the
// smallest number first. Where nothing else is to be done an idle replica computes, too, the first batch that others
// have not finished: the first result counts, so that one slow replica does not delay the end.
//
// A plain class: its driver reads batches, runs steps and keeps their results. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace troupe {

class BatchAssignments {
 public:
  struct Options {
    std::size_t in_flight = 2;  // batches that a replica has at a time
    std::size_t window = 16;    // batches that are added and not handed out
    bool repeat_slow = true;    // idle replicas compute batches that others have not finished
  };
  struct Assignment {
    std::uint64_t number = 0;  // of this assignment: no other has it
    std::uint64_t batch = 0;
    std::size_t replica = 0;
  };

  // Throws invalid_argument for limits below 1.
  explicit BatchAssignments(const Options& options);

  // The replica takes batches from now on; again after it was lost. Throws failed_precondition if it already does.
  void join(std::size_t replica);
  // The replica takes none until it joins again. Returns its batches that now wait, in ascending order: not those that
  // are finished or that another replica has, too. Nothing happens for a replica that has not joined.
  std::vector<std::uint64_t> lose(std::size_t replica);

  // Whether the next batch of the source should be read: a replica is free for it and the window has room.
  bool wants_batch() const;
  // The next batch is there. Returns its number. Throws failed_precondition unless one is wanted.
  std::uint64_t add();
  // The source has no more.
  void end() { ended_ = true; }

  // The next batch to start, on the replica with the fewest; nullopt: nothing can start before another call here.
  std::optional<Assignment> assign();
  // Whether a result of this assignment would count.
  bool counts(std::uint64_t assignment) const;
  // A result has come. True: it is the batch's first one, and the driver keeps it until hand_out(). False: it is late;
  // the replica was lost since, or another was faster.
  bool finish(std::uint64_t assignment);
  // The next batch in the order of the source, if it is finished: its result goes to the user. Each once.
  std::optional<std::uint64_t> hand_out();

  // Whether all batches of the source have been handed out.
  bool over() const { return ended_ && batches_.empty(); }
  std::uint64_t handed_out() const { return first_; }
  std::size_t replicas() const { return replicas_.size(); }
  std::size_t in_window() const { return batches_.size(); }
  std::size_t in_flight(std::size_t replica) const;
  // How many replicas have been lost while they had this batch, which is in the window.
  int losses(std::uint64_t batch) const { return at(batch).losses; }

 private:
  struct Batch {
    bool finished = false;
    int copies = 0;  // in flight
    int losses = 0;
  };

  Batch& at(std::uint64_t batch) { return batches_.at(batch - first_); }
  const Batch& at(std::uint64_t batch) const { return batches_.at(batch - first_); }
  // Whether the batch is in the window: not handed out.
  bool kept(std::uint64_t batch) const { return batch >= first_; }
  // The replica with the fewest batches, the first of these, if it may have more.
  std::optional<std::size_t> free_replica() const;
  // The first batch that a single replica has and has not finished.
  std::optional<std::uint64_t> slow_batch() const;
  Assignment start(std::uint64_t batch, std::size_t replica);

  Options options_;
  std::deque<Batch> batches_;  // of numbers first_, first_ + 1, ...
  std::uint64_t first_ = 0;
  bool ended_ = false;
  std::set<std::uint64_t> waiting_;
  std::map<std::uint64_t, Assignment> assignments_;          // in flight, by number
  std::map<std::size_t, std::set<std::uint64_t>> replicas_;  // their assignments
  std::uint64_t next_ = 0;
};

}  // namespace troupe
