#include "troupe/scheduler/plan/memory_plan.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include <troupe/messages/tensor.hpp>
#include <troupe/scheduler/plan/plan.hpp>

namespace troupe {
namespace {

constexpr std::size_t kUnknownBytes = std::numeric_limits<std::size_t>::max();

std::size_t bytes_of(const SlotType& type) {
  if (type.dtype == DType::string || type.dtype == DType::resource || !type.shape.fully_known()) return kUnknownBytes;
  try {
    return checked_bytes(type.dtype, type.shape);
  } catch (const Error&) {
    return kUnknownBytes;  // the step reports it
  }
}

// Walks through one segment in order, handing out blocks and taking them back. Outputs that are views of one another
// hold their block together.
class SegmentPlanner {
 public:
  SegmentPlanner(const Plan& plan, const std::vector<SlotType>& types, const std::vector<Reuse>& reuse, MemoryPlan& out)
      : plan_(plan), types_(types), reuse_(reuse), out_(out), holders_(out.block_bytes.size(), 0) {}

  void run(const Segment& segment) {
    for (std::uint32_t i = segment.first_node; i < segment.first_node + segment.num_nodes; ++i) {
      const PlanNode& node = plan_.nodes[i];
      for (std::uint32_t o = 0; o < node.num_outputs; ++o) place(node, i, o);
      for (std::uint32_t k = 0; k < node.num_inputs; ++k) {
        const InputRef& ref = plan_.inputs[node.first_input + k];
        if (ref.kind == InputRef::Kind::slot_last) release(ref.index);
      }
      // An output that nothing reads is released at once.
      for (std::uint32_t o = 0; o < node.num_outputs; ++o)
        if (!plan_.slot_is_read[node.first_output + o]) release(node.first_output + o);
    }
  }

 private:
  void place(const PlanNode& node, std::uint32_t index, std::uint32_t output) {
    const std::uint32_t slot = node.first_output + output;
    const Reuse reuse = output == 0 && node.kind == PlanNode::Kind::kernel ? reuse_[index] : Reuse::none;
    if (reuse == Reuse::view) return share(slot, plan_.inputs[node.first_input]);
    const std::size_t bytes = bytes_of(types_[slot]);
    if (bytes == kUnknownBytes || node.kind != PlanNode::Kind::kernel) {
      ++out_.unknown_slots;
      return;
    }
    if (bytes == 0) return;
    out_.slot_bytes[slot] = bytes;
    ++out_.planned_slots;
    if (reuse == Reuse::in_place)
      if (const std::uint32_t block = taken(node, slot); block != MemoryPlan::kNone) {
        ++out_.in_place_slots;
        return hold(slot, block);
      }
    out_.value_bytes += bytes;
    // A counted slot may be used in later segments: it gets a block of its own.
    hold(slot, plan_.slot_uses[slot] > 0 ? fresh(bytes) : find(bytes));
    live_[out_.block_of[slot]] = bytes;
    live_bytes_ += bytes;
    out_.live_bytes = std::max(out_.live_bytes, live_bytes_);
  }

  void share(std::uint32_t slot, const InputRef& source) {
    if (source.is_slot() && out_.block_of[source.index] != MemoryPlan::kNone) hold(slot, out_.block_of[source.index]);
  }

  // The block of the input that the kernel overwrites.
  std::uint32_t taken(const PlanNode& node, std::uint32_t slot) const {
    for (std::uint32_t k = 0; k < node.num_inputs; ++k) {
      const InputRef& ref = plan_.inputs[node.first_input + k];
      if (ref.kind != InputRef::Kind::slot_last || types_[ref.index].dtype != types_[slot].dtype ||
          !(types_[ref.index].shape == types_[slot].shape))
        continue;
      const auto same = [&](const InputRef& other) { return other.is_slot() && other.index == ref.index; };
      const auto first = plan_.inputs.begin() + node.first_input;
      if (std::count_if(first, first + node.num_inputs, same) > 1) continue;
      const std::uint32_t block = out_.block_of[ref.index];
      if (block == MemoryPlan::kNone || holders_[block] > 1) continue;
      return block;
    }
    return MemoryPlan::kNone;
  }

  void hold(std::uint32_t slot, std::uint32_t block) {
    out_.block_of[slot] = block;
    if (const auto it = free_.find(out_.block_bytes[block]); it != free_.end()) std::erase(it->second, block);
    ++holders_[block];
  }

  void release(std::uint32_t slot) {
    const std::uint32_t block = out_.block_of[slot];
    if (block == MemoryPlan::kNone || holders_[block] == 0 || --holders_[block] > 0) return;
    if (const auto content = live_.extract(block)) live_bytes_ -= content.mapped();
    free_[out_.block_bytes[block]].push_back(block);
  }

  // The smallest free block that is large enough; or the largest, grown; or a new one.
  std::uint32_t find(std::size_t bytes) {
    for (auto it = free_.lower_bound(bytes); it != free_.end(); ++it)
      if (!it->second.empty()) return it->second.back();
    for (auto it = free_.rbegin(); it != free_.rend(); ++it) {
      if (it->second.empty()) continue;
      // Do not grow a small block to many times its size: it will be needed as it is.
      if (it->first < bytes / 4) break;
      const std::uint32_t block = it->second.back();
      it->second.pop_back();
      out_.block_bytes[block] = bytes;
      return block;
    }
    return fresh(bytes);
  }

  std::uint32_t fresh(std::size_t bytes) {
    out_.block_bytes.push_back(bytes);
    holders_.push_back(0);
    return static_cast<std::uint32_t>(out_.block_bytes.size() - 1);
  }

  const Plan& plan_;
  const std::vector<SlotType>& types_;
  const std::vector<Reuse>& reuse_;
  MemoryPlan& out_;
  std::vector<int> holders_;                                // slots, by block
  std::map<std::uint32_t, std::size_t> live_;               // bytes of what is in blocks
  std::size_t live_bytes_ = 0;                              // their sum
  std::map<std::size_t, std::vector<std::uint32_t>> free_;  // by size
};

}  // namespace

MemoryPlan plan_memory(const Plan& plan, const std::vector<SlotType>& types, const std::vector<Reuse>& reuse) {
  MemoryPlan out;
  out.block_of.assign(plan.num_slots, MemoryPlan::kNone);
  out.slot_bytes.assign(plan.num_slots, 0);
  for (const Segment& segment : plan.segments) {
    if (segment.order >= 0) continue;
    SegmentPlanner(plan, types, reuse, out).run(segment);
  }
  for (std::size_t bytes : out.block_bytes) out.peak_bytes += bytes;
  return out;
}

}  // namespace troupe
