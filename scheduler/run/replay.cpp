#include "troupe/scheduler/run/replay.hpp"

#include <algorithm>
#include <ranges>
#include <unordered_set>

#include <troupe/scheduler/run/node_context.hpp>

namespace troupe {
namespace {

std::span<const InputRef> inputs_of(const Plan& plan, const PlanNode& node) {
  return std::span(plan.inputs).subspan(node.first_input, node.num_inputs);
}

// Slots that nodes [first, end) read but do not produce, each once.
std::vector<std::uint32_t> slots_read(const Plan& plan, std::uint32_t first, std::uint32_t end) {
  std::unordered_set<std::uint32_t> known;
  for (std::uint32_t at = first; at < end; ++at)
    for (std::uint32_t i = 0; i < plan.nodes[at].num_outputs; ++i) known.insert(plan.nodes[at].first_output + i);
  std::vector<std::uint32_t> read;
  for (std::uint32_t at = first; at < end; ++at)
    for (const InputRef& ref : inputs_of(plan, plan.nodes[at]))
      if (ref.is_slot() && known.insert(ref.index).second) read.push_back(ref.index);
  return read;
}

// A view of memory of recordings. Keeps the memory alive, but the recordings may reuse it for other tensors meanwhile.
class SharedView final : public Buffer {
 public:
  SharedView(const Buffer& of, std::shared_ptr<const void> owner)
      : Buffer(of.data(), of.size(), of.space()), owner_(std::move(owner)) {}

 private:
  std::shared_ptr<const void> owner_;
};

std::size_t offset_of(const Tensor& t) {
  return static_cast<std::size_t>(t.raw() - static_cast<const std::byte*>(t.buffer()->data()));
}

Tensor view_of(const Tensor& t, std::shared_ptr<const void> owner) {
  if (!t.buffer()) return t;
  return Tensor(t.dtype(), t.shape(), BufferRef(new SharedView(*t.buffer().get(), std::move(owner))), offset_of(t));
}

// Keeps variables from changing their memory during its lifetime.
class FixedVariables {
 public:
  ~FixedVariables() {
    for (Variable* variable : variables_) variable->set_fixed(false);
  }
  void add(Variable& variable) {
    variable.set_fixed(true);
    variables_.push_back(&variable);
  }

 private:
  std::vector<Variable*> variables_;
};

}  // namespace

SegmentReplay::SegmentReplay(const Plan& plan, const Segment& segment)
    : plan_(plan),
      segment_(segment),
      entering_(slots_read(plan, segment.first_node, segment.first_node + segment.num_nodes)),
      refused_(segment.num_nodes, false) {
  split();
  given_up_ = std::ranges::none_of(parts_, &Part::recorded);
}

bool SegmentReplay::comes_as(const PlanFrame& frame, const std::vector<Type>& types) const {
  if (types.size() != entering_.size()) return false;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Tensor& t = frame.slots[entering_[i]];
    if (t.dtype() != types[i].dtype || t.shape() != types[i].shape) return false;
  }
  return true;
}

std::vector<SegmentReplay::Type> SegmentReplay::types_of(const PlanFrame& frame) const {
  std::vector<Type> types;
  for (const std::uint32_t slot : entering_) types.push_back({frame.slots[slot].dtype(), frame.slots[slot].shape()});
  return types;
}

// Splits the segment into sufficiently long sequences of recordable nodes, and the parts between them.
void SegmentReplay::split() {
  parts_.clear();
  part_of_.assign(segment_.num_nodes, 0);
  const std::uint32_t begin = segment_.first_node, end = begin + segment_.num_nodes;
  const auto recordable = [&](std::uint32_t at) { return plan_.nodes[at].recordable && !refused_[at - begin]; };
  for (std::uint32_t at = begin; at < end;) {
    std::uint32_t stop = at;
    while (stop < end && recordable(stop) == recordable(at)) ++stop;
    const bool recorded = recordable(at) && stop - at >= kFewestNodes;
    if (!recorded && !parts_.empty() && !parts_.back().recorded) {
      parts_.back().end = stop;
    } else {
      parts_.emplace_back();
      parts_.back().first = at;
      parts_.back().end = stop;
      parts_.back().recorded = recorded;
    }
    at = stop;
  }
  for (std::uint32_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    std::fill(part_of_.begin() + (part.first - begin), part_of_.begin() + (part.end - begin), p);
    if (!part.recorded) continue;
    part.reads = slots_read(plan_, part.first, part.end);
    std::unordered_map<std::uint32_t, std::uint16_t> counted;
    std::unordered_set<std::uint32_t> variables;
    for (std::uint32_t at = part.first; at < part.end; ++at)
      for (const InputRef& ref : inputs_of(plan_, plan_.nodes[at])) {
        if (ref.kind == InputRef::Kind::slot_last) part.releases.emplace_back(ref.index, 0);
        if (ref.kind == InputRef::Kind::slot_counted) ++counted[ref.index];
        if (ref.kind == InputRef::Kind::variable && variables.insert(ref.index).second)
          part.variables.push_back({.index = ref.index});
      }
    part.releases.insert(part.releases.end(), counted.begin(), counted.end());
  }
}

SegmentReplay::Readers SegmentReplay::readers_after(std::uint32_t slot, std::uint32_t part) const {
  Readers readers;
  for (const std::uint32_t node : readers_[slot]) {
    if (node < segment_.first_node || node >= segment_.first_node + segment_.num_nodes) {
      readers.others = true;
      continue;
    }
    const std::uint32_t reader = part_of_[node - segment_.first_node];
    if (reader <= part) continue;
    if (parts_[reader].recorded)
      readers.last = std::max(readers.last, reader);
    else
      readers.others = true;
  }
  return readers;
}

Error SegmentReplay::run(PlanFrame& frame, const Surroundings& around) {
  if (!given_up_ && recorder_ && comes_as(frame, recorded_)) {
    repeats_ = 0;
    return replay(frame, around);
  }
  if (!given_up_) {
    if (!comes_as(frame, last_)) {
      last_ = types_of(frame);
      repeats_ = 0;
    }
    if (++repeats_ > kOrdinaryRuns && attempts_ < kMostAttempts) return record(frame, around);
  }
  return run_in_order(frame, segment_.first_node, segment_.first_node + segment_.num_nodes, around);
}

void SegmentReplay::drop() {
  for (Part& part : parts_) {
    part.recording.reset();
    part.entries.clear();
    part.results.clear();
  }
  residents_.clear();
  held_.clear();
  recorder_.reset();
  repeats_ = 0;
}

// ---- recording -----------------------------------------------------------------------------------------------------

Error SegmentReplay::record(PlanFrame& frame, const Surroundings& around) {
  drop();
  ++attempts_;
  launches_ = 0;
  recorder_ = around.device.make_recorder();
  if (recorder_) split();
  if (!recorder_ || std::ranges::none_of(parts_, &Part::recorded)) {
    given_up_ = true;
    drop();
    return run_in_order(frame, segment_.first_node, segment_.first_node + segment_.num_nodes, around);
  }
  recorded_ = last_;
  give_back_blocks(frame);
  readers_.assign(plan_.num_slots, {});
  for (std::uint32_t at = 0; at < plan_.nodes.size(); ++at)
    for (const InputRef& ref : inputs_of(plan_, plan_.nodes[at]))
      if (ref.is_slot()) readers_[ref.index].push_back(at);
  Error error;
  for (std::uint32_t p = 0; p < parts_.size() && !error; ++p) {
    const Part& part = parts_[p];
    if (!part.recorded) {
      error = run_nodes(frame, part.first, part.end, around);
      continue;
    }
    if (frame.aborted.load(std::memory_order_relaxed)) error = Error(Code::cancelled, "the step was aborted");
    if (error) break;
    try {
      record_part(frame, around.device, p);
    } catch (const Refused& refused) {
      recorder_->refused(refused.why);
      error = one_by_one(frame, around, p);
      drop();
      return error;
    } catch (...) {
      error = current_error().within(plan_.device);
    }
  }
  held_.clear();
  if (error) drop();
  return error;
}

// Frees the planned blocks of recorded nodes, whose outputs are in memory of the recordings.
void SegmentReplay::give_back_blocks(PlanFrame& frame) const {
  for (const Part& part : parts_) {
    for (std::uint32_t at = part.first; part.recorded && at < part.end; ++at)
      for (std::uint32_t i = 0; i < plan_.nodes[at].num_outputs; ++i) {
        const std::uint32_t block = plan_.memory.block_of[plan_.nodes[at].first_output + i];
        if (block != MemoryPlan::kNone && frame.blocks[block] && frame.blocks[block]->unique())
          frame.blocks[block] = BufferRef();
      }
  }
}

// The frame's state before a part is recorded, to restore if that fails, and the changes to its slots during recording.
class SegmentReplay::Recorded {
 public:
  Recorded(SegmentReplay& replay, PlanFrame& frame, Device& device, std::uint32_t index)
      : r_(replay), frame_(frame), device_(device), index_(index), part_(replay.parts_[index]), uses_(frame.uses) {
    for (UsedVariable& used : part_.variables) {
      Variable& variable = *frame.variables[used.index];
      if (!variable.initialized()) refuse(fmt::format("variable '{}' has no value yet", variable.name()));
      used.address = variable.value().raw();
      used.references = 1;
      changes_.push_back(variable.changes());
      fixed_.add(variable);
    }
    for (std::uint32_t i = 0; i < frame.variables.size(); ++i)
      if (const Variable& v = *frame.variables[i]; v.initialized()) variable_of_.emplace(v.value().buffer().get(), i);
    for (const Tensor& constant : r_.plan_.constants) constants_.insert(constant.buffer().get());
  }

  // Moves entries to where the recording reads them.
  void enter() {
    for (const std::uint32_t slot : part_.reads) {
      Tensor& t = frame_.slots[slot];
      Entry entry{
          .slot = slot, .kind = Entry::Kind::absent, .type = {t.dtype(), t.shape()}, .target = {}, .address = t.raw()};
      before_.push_back(t);
      const auto held = r_.held_.find(slot);
      if (held != r_.held_.end()) {
        entry.kind = Entry::Kind::left;
        t = held->second;
        if (r_.readers_after(slot, index_).last == 0) r_.held_.erase(held);
      } else if (t.valid()) {
        if (t.num_bytes() > 0 && t.space().on_host()) refuse(fmt::format("slot {} holds a host tensor", slot));
        const auto variable = variable_of_.find(t.buffer().get());
        if (variable != variable_of_.end() || constants_.contains(t.buffer().get())) {
          entry.kind = Entry::Kind::in_place;
          for (UsedVariable& used : part_.variables)
            if (variable != variable_of_.end() && used.index == variable->second) ++used.references;
          before_.back() = Tensor();  // a second handle would keep kernels from writing the variable
        } else {
          entry.kind = Entry::Kind::copied;
          Tensor inside = r_.recorder_->memory().tensor(t.dtype(), t.shape());
          r_.recorder_->copy(t, inside);
          entry.target = view_of(inside, r_.recorder_);
          t = std::move(inside);
        }
      }
      part_.entries.push_back(std::move(entry));
    }
  }

  void record() {
    r_.recorder_->begin();
    NodeContext context(frame_, device_, false, false);
    std::uint32_t at = part_.first;
    try {
      for (; at < part_.end; ++at) {
        const PlanNode& node = r_.plan_.nodes[at];
        frame_.current_node.store(at, std::memory_order_relaxed);
        context.enter(node);
        r_.plan_.kernels[node.target](context);
        context.leave();
      }
    } catch (...) {
      const Error error = node_error(r_.plan_, r_.plan_.nodes[at]);
      r_.recorder_->cancel();
      r_.refused_[at - r_.segment_.first_node] = true;
      refuse(error.message());
    }
    try {
      part_.recording = r_.recorder_->end();
    } catch (...) {
      refuse(current_error().within(r_.plan_.device).message());
    }
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      UsedVariable& used = part_.variables[i];
      used.written = frame_.variables[used.index]->changes() != changes_[i];
    }
  }

  // Finds the part's results, and which of them are read outside recorded parts.
  void find_results() {
    for (std::uint32_t at = part_.first; at < part_.end; ++at)
      for (std::uint32_t i = 0; i < r_.plan_.nodes[at].num_outputs; ++i) {
        const std::uint32_t slot = r_.plan_.nodes[at].first_output + i;
        const Tensor& t = frame_.slots[slot];
        if (!t.valid()) continue;
        Result result{.slot = slot};
        if (t.num_bytes() == 0 || constants_.contains(t.buffer().get())) {
          result.kind = Result::Kind::constant;
          result.source = t;
        } else if (t.space().on_host()) {
          r_.refused_[at - r_.segment_.first_node] = true;
          refuse(fmt::format("{} '{}' produces a host tensor", r_.plan_.infos[at].op, r_.plan_.infos[at].name));
        } else if (const auto variable = variable_of_.find(t.buffer().get()); variable != variable_of_.end()) {
          result.kind = Result::Kind::variable;
          result.variable = variable->second;
          result.offset = offset_of(t);
          result.source = view_of(t, nullptr);  // its dtype and shape
        } else {
          result.source = view_of(t, r_.recorder_);
          result.leaves = r_.readers_after(slot, index_).others;
        }
        part_.results.push_back(std::move(result));
      }
  }

  // Call after the launch. Leaves the frame as if the nodes had run one by one.
  void leave() {
    for (std::size_t i = 0; i < part_.entries.size(); ++i) {
      const Entry& entry = part_.entries[i];
      if (entry.kind != Entry::Kind::copied && entry.kind != Entry::Kind::left) continue;
      Tensor inside = std::exchange(frame_.slots[entry.slot], Tensor());
      if (!inside.valid()) continue;  // nothing reads it any more
      frame_.slots[entry.slot] = std::move(before_[i]);
      if (entry.kind == Entry::Kind::copied) stay(entry.slot, std::move(inside));
    }
    for (const Result& result : part_.results) {
      if (result.kind != Result::Kind::copied) continue;
      Tensor inside = std::exchange(frame_.slots[result.slot], Tensor());
      if (result.leaves) {
        Tensor out = device_.allocator().tensor(inside.dtype(), inside.shape());
        r_.recorder_->copy(inside, out);
        frame_.slots[result.slot] = std::move(out);
      }
      stay(result.slot, std::move(inside));
    }
  }

  // Restores the frame's state before the part, except for tensors that earlier parts left in memory of the recordings.
  void undo() {
    for (std::uint32_t at = part_.first; at < part_.end; ++at)
      for (std::uint32_t i = 0; i < r_.plan_.nodes[at].num_outputs; ++i)
        frame_.slots[r_.plan_.nodes[at].first_output + i] = Tensor();
    for (std::size_t i = 0; i < part_.entries.size(); ++i) {
      const Entry& entry = part_.entries[i];
      if (entry.kind == Entry::Kind::absent) continue;
      if (entry.kind == Entry::Kind::in_place)
        frame_.slots[entry.slot] = in_place_value(entry);
      else
        frame_.slots[entry.slot] = std::move(before_[i]);
    }
    frame_.uses = uses_;
  }

 private:
  [[noreturn]] static void refuse(std::string why) { throw Refused{std::move(why)}; }

  // Variables are fixed and constants never move.
  Tensor in_place_value(const Entry& entry) const {
    const auto in = [&](const Tensor& t) {
      if (!t.valid() || !t.buffer()) return false;
      const auto* data = static_cast<const std::byte*>(t.buffer()->data());
      return entry.address >= data && entry.address < data + t.buffer()->size();
    };
    const auto view = [&](const Tensor& t) {
      return Tensor(entry.type.dtype, entry.type.shape, t.buffer(),
                    static_cast<std::size_t>(entry.address - static_cast<const std::byte*>(t.buffer()->data())));
    };
    for (const Variable* variable : frame_.variables)
      if (variable->initialized() && in(variable->value())) return view(variable->value());
    for (const Tensor& constant : r_.plan_.constants)
      if (in(constant)) return view(constant);
    return Tensor();
  }

  void stay(std::uint32_t slot, Tensor inside) {
    const Readers readers = r_.readers_after(slot, index_);
    if (readers.last == 0) return;
    r_.residents_.push_back(
        {.slot = slot, .since = index_, .until = readers.last, .tensor = view_of(inside, r_.recorder_)});
    r_.held_[slot] = std::move(inside);
  }

  SegmentReplay& r_;
  PlanFrame& frame_;
  Device& device_;
  const std::uint32_t index_;
  Part& part_;
  const std::vector<std::uint16_t> uses_;
  std::vector<Tensor> before_;          // by entry
  std::vector<std::uint64_t> changes_;  // by variable of the part
  std::unordered_map<const Buffer*, std::uint32_t> variable_of_;
  std::unordered_set<const Buffer*> constants_;
  FixedVariables fixed_;
};

void SegmentReplay::record_part(PlanFrame& frame, Device& device, std::uint32_t index) {
  Recorded recorded(*this, frame, device, index);
  try {
    recorded.enter();
    recorded.record();
    recorded.find_results();
    try {
      parts_[index].recording->launch(frame.random);
    } catch (...) {
      throw Refused{current_error().within(plan_.device).message()};
    }
  } catch (const Error& error) {
    recorded.undo();
    throw Refused{error.message()};
  } catch (...) {
    recorded.undo();
    throw;
  }
  recorded.leave();
}

// ---- replaying -----------------------------------------------------------------------------------------------------

Error SegmentReplay::replay(PlanFrame& frame, const Surroundings& around) {
  for (std::uint32_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    if (!part.recorded) {
      if (Error error = run_nodes(frame, part.first, part.end, around)) return error;
      continue;
    }
    if (frame.aborted.load(std::memory_order_relaxed)) return Error(Code::cancelled, "the step was aborted");
    frame.current_node.store(part.first, std::memory_order_relaxed);
    Fit fit = fits(frame, part);
    if (fit == Fit::yes) {
      try {
        if (replay_part(frame, around.device, part)) continue;
        fit = Fit::moved;
      } catch (...) {
        return current_error().within(plan_.device);
      }
    }
    Error error = one_by_one(frame, around, p);
    if (fit == Fit::moved) drop();
    return error;
  }
  if (++launches_ == kPaidOff) attempts_ = 0;
  return Error();
}

SegmentReplay::Fit SegmentReplay::fits(const PlanFrame& frame, const Part& part) const {
  for (const Entry& entry : part.entries) {
    const Tensor& t = frame.slots[entry.slot];
    if (entry.kind == Entry::Kind::left) continue;
    if (t.dtype() != entry.type.dtype || t.shape() != entry.type.shape) return Fit::not_now;
    if (entry.kind == Entry::Kind::in_place && t.raw() != entry.address) return Fit::moved;
    if (entry.kind == Entry::Kind::copied && t.num_bytes() > 0 && t.space() != entry.target.space())
      return Fit::not_now;
  }
  for (const UsedVariable& used : part.variables) {
    const Variable& variable = *frame.variables[used.index];
    if (!variable.initialized() || variable.value().raw() != used.address) return Fit::moved;
    if (used.written && variable.value().buffer() && variable.value().buffer()->references() > used.references)
      return Fit::not_now;
  }
  return Fit::yes;
}

// Returns false, with the frame unchanged, if the recording cannot be launched.
bool SegmentReplay::replay_part(PlanFrame& frame, Device& device, Part& part) {
  std::vector<Tensor> out;
  for (const Result& result : part.results)
    if (result.kind == Result::Kind::copied && result.leaves)
      out.push_back(device.allocator().tensor(result.source.dtype(), result.source.shape()));
  for (Entry& entry : part.entries)
    if (entry.kind == Entry::Kind::copied) recorder_->copy(frame.slots[entry.slot], entry.target);
  try {
    part.recording->launch(frame.random);
  } catch (...) {
    recorder_->refused(current_error().within(plan_.device).message());
    return false;
  }
  for (const auto& [slot, uses] : part.releases)
    if (uses == 0 || (frame.uses[slot] = static_cast<std::uint16_t>(frame.uses[slot] - uses)) == 0)
      frame.slots[slot] = Tensor();
  auto next = out.begin();
  for (const Result& result : part.results) {
    Tensor& slot = frame.slots[result.slot];
    if (result.kind == Result::Kind::constant) {
      slot = result.source;
    } else if (result.kind == Result::Kind::variable) {
      slot = Tensor(result.source.dtype(), result.source.shape(), frame.variables[result.variable]->value().buffer(),
                    result.offset);
    } else if (result.leaves) {
      recorder_->copy(result.source, *next);
      slot = std::move(*next++);
    }
  }
  return true;
}

// Runs the nodes from part `from_part` on. Copies tensors that earlier parts left in memory of the recordings back to
// the frame first.
Error SegmentReplay::one_by_one(PlanFrame& frame, const Surroundings& around, std::uint32_t from_part) {
  try {
    for (const Resident& resident : residents_) {
      Tensor& slot = frame.slots[resident.slot];
      if (resident.since >= from_part || resident.until < from_part || slot.valid()) continue;
      Tensor copy = around.device.allocator().tensor(resident.tensor.dtype(), resident.tensor.shape());
      recorder_->copy(resident.tensor, copy);
      slot = std::move(copy);
    }
  } catch (...) {
    return current_error().within(plan_.device);
  }
  return run_nodes(frame, parts_[from_part].first, segment_.first_node + segment_.num_nodes, around);
}

Error run_with_replays(PlanFrame& frame, std::uint32_t segment, const Surroundings& around) {
  auto& replay = frame.replays[segment];
  if (!replay) replay = std::make_unique<SegmentReplay>(frame.plan(), frame.plan().segments[segment]);
  return replay->run(frame, around);
}

}  // namespace troupe
