#include "troupe/scheduler/training/staging.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace troupe {

void GradientSet::add(std::size_t unit, PushedGradient gradient, std::uint64_t pulled_version, std::uint32_t worker,
                      std::size_t slices) {
  bytes_ += gradient.num_bytes();
  gradients_[unit] = std::move(gradient);
  has_[unit] = true;
  pulled_version_ = std::min(pulled_version_, pulled_version);
  ++have_;
  if (senders_.empty() || senders_.back().first != worker) senders_.emplace_back(worker, 0);
  senders_.back().second += slices;
}

PushedGradient GradientSet::take(std::size_t unit) {
  bytes_ -= gradients_[unit].num_bytes();
  return std::exchange(gradients_[unit], {});
}

SlotStage::Turn& SlotStage::turn(std::uint64_t number) {
  const auto [found, made] = turns_.try_emplace(number);
  Turn& turn = found->second;
  if (made) {
    turn.sets.assign(slots_, GradientSet(units_.all, units_.of_turn(number)));
    if (needed_ == slots_) {
      turn.used.resize(slots_);
      std::iota(turn.used.begin(), turn.used.end(), 0u);
    }
  }
  return turn;
}

GradientSet& SlotStage::at(std::uint64_t number, std::uint32_t slot) { return turn(number).sets[slot]; }

bool SlotStage::choose(std::uint64_t number, std::vector<std::uint32_t> slots) {
  Turn& chosen = turn(number);
  if (!chosen.used.empty()) return false;
  chosen.used = std::move(slots);
  return true;
}

bool SlotStage::chosen(std::uint64_t turn) const {
  const auto found = turns_.find(turn);
  return needed_ == slots_ || (found != turns_.end() && !found->second.used.empty());
}

bool SlotStage::uses(std::uint64_t turn, std::uint32_t slot) const {
  const auto found = turns_.find(turn);
  return found == turns_.end() || found->second.used.empty() || std::ranges::binary_search(found->second.used, slot);
}

bool SlotStage::whole(std::uint64_t number) const {
  const auto found = turns_.find(number);
  if (found == turns_.end() || found->second.used.empty()) return false;
  const Turn& turn = found->second;
  return std::ranges::all_of(turn.used, [&](std::uint32_t slot) { return turn.sets[slot].whole(); });
}

bool SlotStage::whole(std::uint64_t number, std::size_t unit) const {
  const auto found = turns_.find(number);
  if (found == turns_.end() || found->second.used.empty()) return false;
  const Turn& turn = found->second;
  return std::ranges::all_of(turn.used, [&](std::uint32_t slot) { return turn.sets[slot].has(unit); });
}

std::vector<std::uint32_t> SlotStage::missing(std::uint64_t number) const {
  std::vector<std::uint32_t> missing;
  const auto found = turns_.find(number);
  const auto wanted = [&](std::uint32_t slot) {
    return found == turns_.end() || found->second.used.empty() || std::ranges::binary_search(found->second.used, slot);
  };
  for (std::uint32_t slot = 0; slot < slots_; ++slot)
    if (wanted(slot) && (found == turns_.end() || !found->second.sets[slot].whole())) missing.push_back(slot);
  return missing;
}

std::vector<PushedGradient> SlotStage::take(std::uint64_t number, std::size_t unit) {
  std::vector<PushedGradient> gradients;
  Turn& turn = turns_.at(number);
  gradients.reserve(turn.used.size());
  for (const std::uint32_t slot : turn.used) gradients.push_back(turn.sets[slot].take(unit));
  return gradients;
}

SlotStage::Taken SlotStage::take(std::uint64_t number) {
  Turn turn = std::move(turns_.extract(number).mapped());
  Taken taken;
  taken.slots = std::move(turn.used);
  for (std::uint32_t slot = 0; slot < slots_; ++slot) {
    GradientSet& set = turn.sets[slot];
    if (std::ranges::binary_search(taken.slots, slot)) {
      taken.sets.push_back(std::move(set));
    } else {
      for (const auto& [worker, gradients] : set.senders())
        taken.unused.insert(taken.unused.end(), gradients, {slot, worker});
      taken.unused_bytes += set.bytes();
    }
  }
  return taken;
}

GradientSet& BatchStage::at(std::uint32_t worker, std::uint64_t turn) {
  return batches_.try_emplace({worker, turn}, units_.all, units_.of_turn(turn)).first->second;
}

std::size_t BatchStage::open(std::uint32_t worker) const {
  return static_cast<std::size_t>(std::distance(
      batches_.lower_bound({worker, 0}), batches_.upper_bound({worker, std::numeric_limits<std::uint64_t>::max()})));
}

GradientSet BatchStage::take(std::uint32_t worker, std::uint64_t turn, std::size_t& dropped) {
  GradientSet taken = std::move(batches_.extract({worker, turn}).mapped());
  std::erase_if(batches_, [&](const auto& entry) {
    if (entry.first.second != turn) return false;
    dropped += entry.second.bytes();
    return true;
  });
  return taken;
}

std::size_t BatchStage::drop(std::uint32_t worker) {
  std::size_t bytes = 0;
  std::erase_if(batches_, [&](const auto& entry) {
    if (entry.first.first != worker) return false;
    bytes += entry.second.bytes();
    return true;
  });
  return bytes;
}

}  // namespace troupe
