// Stages gradients on a shard until their group is complete: the slots of a synchronous turn, or the units of an
// asynchronous one (scheduler/training/turns.hpp). A unit is a slice, or a pack of slices: its gradient arrives in one
// message. Units are numbered from 0 in the shard's order; gradients are already checked, and of the turn's phase.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <troupe/scheduler/training/gradient.hpp>

namespace troupe {

// The units of a shard: how many there are, and how many each phase updates.
struct UnitCounts {
  std::size_t all = 0;
  std::vector<std::size_t> by_phase = {};

  std::size_t of_turn(std::uint64_t turn) const { return by_phase[turn % by_phase.size()]; }
};

// The gradients of one micro-batch, one per unit of the phase.
class GradientSet {
 public:
  GradientSet(std::size_t units, std::size_t needed) : gradients_(units), has_(units), needed_(needed) {}

  bool has(std::size_t unit) const { return has_[unit]; }  // also after take()
  // `slices`: of the unit.
  void add(std::size_t unit, PushedGradient gradient, std::uint64_t pulled_version, std::uint32_t worker,
           std::size_t slices = 1);
  bool whole() const { return have_ == needed_; }
  std::size_t have() const { return have_; }
  std::size_t bytes() const { return bytes_; }  // not yet taken
  // The oldest version that any gradient was computed on.
  std::uint64_t pulled_version() const { return pulled_version_; }
  PushedGradient take(std::size_t unit);
  // (worker, number of gradients of slices) for each run of gradients from one sender, in order of arrival.
  const std::vector<std::pair<std::uint32_t, std::uint64_t>>& senders() const { return senders_; }

 private:
  std::vector<PushedGradient> gradients_;
  std::vector<bool> has_;
  std::size_t needed_;
  std::size_t have_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t pulled_version_ = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::pair<std::uint32_t, std::uint64_t>> senders_;
};

// The slots of the turns from the shard's version on. A turn uses `needed` of its slots: all, or those set by choose().
class SlotStage {
 public:
  SlotStage(UnitCounts units, std::uint32_t slots, std::uint32_t needed)
      : units_(std::move(units)), slots_(slots), needed_(needed) {}

  // The set of (turn, slot), created if needed.
  GradientSet& at(std::uint64_t turn, std::uint32_t slot);
  // Sets the slots that `turn` uses, ascending. Returns false if they are already set.
  bool choose(std::uint64_t turn, std::vector<std::uint32_t> slots);
  bool chosen(std::uint64_t turn) const;
  // Whether `turn` may use `slot`; once its slots are chosen, whether it does.
  bool uses(std::uint64_t turn, std::uint32_t slot) const;
  // Whether all slots that `turn` uses are whole.
  bool whole(std::uint64_t turn) const;
  // Whether all slots that `turn` uses have the gradient of this unit.
  bool whole(std::uint64_t turn, std::size_t unit) const;
  // Slots that are not whole; once slots are chosen, only those.
  std::vector<std::uint32_t> missing(std::uint64_t turn) const;
  // Takes the gradients of a unit, in the order of the slots that the turn uses; all must have arrived.
  std::vector<PushedGradient> take(std::uint64_t turn, std::size_t unit);

  struct Taken {
    std::vector<std::uint32_t> slots;
    std::vector<GradientSet> sets;                                // of these
    std::vector<std::pair<std::uint32_t, std::uint32_t>> unused;  // (slot, worker) of each gradient in other slots
    std::size_t unused_bytes = 0;
  };
  // Removes `turn`, which must be whole.
  Taken take(std::uint64_t turn);

 private:
  struct Turn {
    std::vector<GradientSet> sets;
    std::vector<std::uint32_t> used;  // empty: not chosen yet
  };
  Turn& turn(std::uint64_t number);

  UnitCounts units_;
  std::uint32_t slots_;
  std::uint32_t needed_;
  std::map<std::uint64_t, Turn> turns_;
};

// The partially arrived turns of each worker.
class BatchStage {
 public:
  explicit BatchStage(UnitCounts units) : units_(std::move(units)) {}

  // The set of `turn` as computed by `worker`, created if needed.
  GradientSet& at(std::uint32_t worker, std::uint64_t turn);
  bool contains(std::uint32_t worker, std::uint64_t turn) const { return batches_.contains({worker, turn}); }
  // Number of incomplete turns of `worker`.
  std::size_t open(std::uint32_t worker) const;
  // Removes a turn, and drops its gradients from other workers. Adds the bytes dropped to `dropped`.
  GradientSet take(std::uint32_t worker, std::uint64_t turn, std::size_t& dropped);
  // Drops all turns of `worker`; returns their bytes.
  std::size_t drop(std::uint32_t worker);
  std::size_t size() const { return batches_.size(); }

 private:
  UnitCounts units_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, GradientSet> batches_;
};

}  // namespace troupe
