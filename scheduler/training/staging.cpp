#include "scheduler/training/staging.hpp"

#include <algorithm>
#include <iterator>

namespace troupe {

void GradientSet::add(std::size_t slice, PushedGradient gradient, std::uint64_t pulled_version) {
  bytes_ += gradient.num_bytes();
  gradients_[slice] = std::move(gradient);
  has_[slice] = true;
  pulled_version_ = std::min(pulled_version_, pulled_version);
  ++have_;
}

PushedGradient GradientSet::take(std::size_t slice) {
  bytes_ -= gradients_[slice].num_bytes();
  return std::exchange(gradients_[slice], {});
}

GradientSet& SlotStage::at(std::uint64_t step, std::uint32_t slot) {
  return steps_.try_emplace(step, slots_, GradientSet(slices_)).first->second[slot];
}

bool SlotStage::whole(std::uint64_t step) const {
  const auto found = steps_.find(step);
  return found != steps_.end() && std::all_of(found->second.begin(), found->second.end(),
                                              [](const GradientSet& set) { return set.whole(); });
}

bool SlotStage::whole(std::uint64_t step, std::size_t slice) const {
  const auto found = steps_.find(step);
  return found != steps_.end() && std::all_of(found->second.begin(), found->second.end(),
                                              [&](const GradientSet& set) { return set.has(slice); });
}

std::vector<std::uint32_t> SlotStage::missing(std::uint64_t step) const {
  std::vector<std::uint32_t> missing;
  const auto found = steps_.find(step);
  for (std::uint32_t slot = 0; slot < slots_; ++slot)
    if (found == steps_.end() || !found->second[slot].whole()) missing.push_back(slot);
  return missing;
}

std::vector<PushedGradient> SlotStage::take(std::uint64_t step, std::size_t slice) {
  std::vector<PushedGradient> gradients;
  for (GradientSet& set : steps_.at(step)) gradients.push_back(set.take(slice));
  return gradients;
}

std::vector<GradientSet> SlotStage::take(std::uint64_t step) {
  return std::move(steps_.extract(step).mapped());
}

GradientSet& BatchStage::at(std::uint32_t worker, std::uint64_t batch) {
  return batches_.try_emplace({worker, batch}, slices_).first->second;
}

std::size_t BatchStage::open(std::uint32_t worker) const {
  return static_cast<std::size_t>(
      std::distance(batches_.lower_bound({worker, 0}),
                    batches_.upper_bound({worker, std::numeric_limits<std::uint64_t>::max()})));
}

GradientSet BatchStage::take(std::uint32_t worker, std::uint64_t batch, std::size_t& dropped) {
  GradientSet taken = std::move(batches_.extract({worker, batch}).mapped());
  std::erase_if(batches_, [&](const auto& entry) {
    if (entry.first.second != batch) return false;
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
