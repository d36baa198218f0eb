// Which batches an input task makes, in which order, and how long it keeps them. Plain state: the actors around it
// (actors/data) read, make and send.
//
// A batch is made once for all who want it, and kept until its step is complete, so that a slot that is computed again
// gets it at once. Beyond what is wanted, the next batches of this task's share are made ahead: more of them as soon as
// somebody had to wait, within the limit on memory, of which half is theirs even if batches that were sent fill the
// rest. If batches that nobody waits for exceed the limit, those of the lowest numbers are dropped, first of those that
// were sent, and made again if they are wanted.
//
// Batches of an ordered source are begun in the order of their numbers where that is possible: going back is slow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <troupe/messages/batch_name.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

// A batch, or the news that there is none.
struct MadeBatch {
  Batch batch{};
  bool over = false;  // the epoch has no such batch
  Error error{};
  std::uint64_t bytes() const;
};

class BatchDesk {
 public:
  using Consumer = std::uint64_t;

  struct Options {
    bool ordered = false;
    std::uint32_t slots = 1;              // of a step of the training
    std::uint32_t shares = 1, share = 0;  // batches made ahead: those whose share_of() is `share`
    std::uint32_t epochs = 1;             // none are made ahead beyond them
    std::size_t makers = 1;               // that can work at a time
    // Limit on batches that nobody waits for, in bytes; 0: none is kept. Two batches may be larger.
    std::uint64_t memory = 24 << 20;
  };

  struct Reply {
    Consumer to;
    BatchName batch;
    std::shared_ptr<const MadeBatch> made;
  };
  using Replies = std::vector<Reply>;

  explicit BatchDesk(const Options& options) : options_(options) {}

  // The input task, of so many, that is asked for a batch first.
  static std::uint32_t share_of(const BatchName& batch, std::uint32_t slots, std::uint32_t shares);

  // Wants the batch; a consumer may want it again. `complete`: training batches of earlier steps are not wanted any
  // more.
  void want(Consumer consumer, const BatchName& batch, const BatchName& complete, Replies& out);
  // Drops all that it waits for.
  void forget(Consumer consumer);

  // The next batch to begin; nullopt: none, for now. Each is answered by made(), in any order.
  std::optional<BatchName> begin();
  void made(const BatchName& batch, std::shared_ptr<const MadeBatch> made, Replies& out);

  std::size_t makers() const { return makers_; }  // to be used at a time

  // What it shows.
  struct Figures {
    std::size_t wanted = 0, making = 0, kept = 0;
    std::uint64_t kept_bytes = 0;
    std::size_t makers = 1;              // used at a time
    std::size_t ahead = 0;               // batches made ahead at most
    std::uint64_t made = 0, waited = 0;  // in all; waited: not made yet when they were wanted
  };
  Figures figures() const;

 private:
  struct Entry {
    std::set<Consumer> waiting{};
    std::shared_ptr<const MadeBatch> made{};  // null: not yet
    bool begun = false;
    bool sent = false;
  };
  using Entries = std::map<BatchName, Entry>;
  using Part = std::pair<bool, std::uint32_t>;  // the training's or the evaluation's batches of an epoch

  static Part part_of(const BatchName& batch) { return {batch.evaluation, batch.epoch}; }
  bool is_over(const BatchName& batch) const;
  void end_part(const BatchName& first_over, Replies& out);
  void answer(Entries::iterator entry, Replies& out);
  Entries::iterator drop(Entries::iterator entry);
  void drop_complete();
  void drop_beyond_memory();
  std::uint64_t limit() const { return options_.memory == 0 ? 0 : std::max(options_.memory, 2 * largest_); }
  void somebody_waits();
  std::optional<BatchName> ahead();
  std::optional<BatchName> after(BatchName batch) const;

  Options options_;
  Entries entries_;
  std::set<BatchName> to_begin_;        // wanted
  std::map<Part, std::uint64_t> over_;  // the first step that it does not have
  BatchName complete_{};
  std::optional<BatchName> last_;        // of the training, begun last
  std::size_t making_ = 0, unsent_ = 0;  // unsent: begun and wanted by nobody
  std::uint64_t kept_bytes_ = 0, largest_ = 0;
  std::size_t makers_ = 1, ahead_ = 1;
  bool fills_ = true;  // until as many are made ahead as may be; then it waits until half of them are taken
  std::uint64_t made_ = 0, waited_ = 0;
};

}  // namespace troupe
