// ShardState's pushes: stages gradients, and updates slices once theirs are complete.
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include <troupe/messages/row_numbers.hpp>
#include <troupe/scheduler/trace/trace.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe {
namespace {

// The part of a pack's gradient that begins at this byte.
Tensor part_of(const Tensor& joined, std::size_t at, const Shape& shape) {
  const auto* const begin = static_cast<const std::byte*>(joined.buffer()->data());
  return Tensor(joined.dtype(), shape, joined.buffer(), static_cast<std::size_t>(joined.raw() - begin) + at);
}

}  // namespace

Error ShardState::push(Push message, TrainingOutbox& out) {
  if (failure_) return failure_;
  message.indices = row_numbers(message.indices);
  std::size_t unit = 0;
  Error error = check(message, unit);
  if (!error && is_fenced(message.worker, message.view))
    drop(message, unit, Fate::fenced);
  else if (!error && options_.mode == TrainingMode::asynchronous)
    error = push_batch(message, unit, out);
  else if (!error)
    error = push_slot(message, unit, out);
  return error ? refuse(std::move(error)) : failure_;
}

Error ShardState::find_unit(std::uint32_t id, std::size_t& unit) const {
  if (const auto pack = packs_.find(id); pack != packs_.end()) {
    unit = pack->second;
    return {};
  }
  std::size_t slice = 0;
  if (Error error = find_slice(id, slice)) return error;
  unit = slices_[slice].unit;
  if (const auto& pack = units_[unit].pack)
    return error(Code::invalid_argument, "gradient of slice {} ({}) alone, but it travels in pack {}", id,
                 slices_[slice].spec.name, pack->id);
  return {};
}

Error ShardState::check(const Push& message, std::size_t& unit) const {
  if (message.worker >= options_.workers)
    return error(Code::invalid_argument, "push from worker {} of {}", message.worker, options_.workers);
  if (message.slot >= options_.slots + options_.backups)
    return error(Code::invalid_argument, "push for slot {} of {}", message.slot, options_.slots + options_.backups);
  if (Error error = find_unit(message.slice, unit)) return error;
  const Unit& named = units_[unit];
  const SliceSpec& spec = slices_[named.slices.front()].spec;
  if (message.phase != named.phase)
    return error(Code::invalid_argument, "gradient of {} {} ({}) in phase {}, but it is trained in phase {}",
                 named.pack ? "pack" : "slice", message.slice, spec.name, message.phase, named.phase);
  if (message.step >= ~std::uint64_t{0} / options_.phases)
    return error(Code::out_of_range, "push for step {}", message.step);
  if (named.pack) return check_pack(*named.pack, message);
  const bool sparse = message.indices.valid();
  if (named.sparse && *named.sparse != sparse)
    return error(Code::invalid_argument, "gradient of slice {} ({}) is {}, unlike earlier ones", message.slice,
                 spec.name, sparse ? "sparse" : "dense");
  return check_gradient(spec, {message.gradient, message.indices});
}

Error ShardState::check_pulled_version(const Push& message) const {
  if (!options_.guards.versions) return {};
  if (message.pulled_version > version_)
    return error(Code::invalid_argument, "gradient computed on version {}, but the shard is at version {}",
                 message.pulled_version, version_);
  if (options_.mode == TrainingMode::asynchronous) return {};
  // Anything else would make the result depend on timing.
  if (message.pulled_version < oldest_version(message.step, message.phase, options_.phases, options_.staleness) ||
      message.pulled_version > turn_of(message.step, message.phase))
    return error(Code::invalid_argument, "gradient of step {} computed on version {}, staleness is {}", message.step,
                 message.pulled_version, options_.staleness);
  return {};
}

Error ShardState::check_pack(const SlicePack& pack, const Push& message) {
  const Tensor& joined = message.gradient;
  if (message.indices.valid())
    return error(Code::invalid_argument, "gradients of pack {}: it has no sparse gradient", pack.id);
  if (!joined.valid() || joined.dtype() != pack.dtype || !joined.space().on_host())
    return error(Code::invalid_argument, "gradients of pack {}: not {} in host memory", pack.id, name(pack.dtype));
  if (!(joined.shape() == Shape{pack.elements}))
    return error(Code::invalid_argument, "gradients of pack {}: its shape is {}, expected [{}]", pack.id,
                 joined.shape().to_string(), pack.elements);
  return {};
}

void ShardState::drop(const Push& message, std::size_t unit, Fate fate) {
  const std::size_t gradients = units_[unit].slices.size();
  (fate == Fate::fenced        ? counters_.fenced
   : fate == Fate::stale       ? counters_.stale
   : fate == Fate::uncommitted ? counters_.uncommitted
                               : counters_.duplicates) += gradients;
  const std::uint64_t turn = turn_of(message.step, message.phase);
  SlotSource source = source_of(turn, message.slot, fate);
  source.worker = message.worker;
  source.gradients = gradients;
  if (options_.mode == TrainingMode::asynchronous) {
    if (const auto version = ledger_.version_of(own_turn(turn), version_ + 1)) ledger_.note(*version, source);
  } else if (turn <= version_ + options_.staleness * options_.phases) {
    ledger_.note(turn + 1, source);
  }
}

void ShardState::stage(GradientSet& set, Push& message, std::size_t unit) {
  PushedGradient gradient{std::move(message.gradient), std::move(message.indices), message.rate_scale, message.keep};
  units_[unit].sparse = gradient.sparse();
  const std::size_t slices = units_[unit].slices.size();
  counters_.pushes += slices;
  if (gradient.sparse()) counters_.rows_pushed += static_cast<std::uint64_t>(gradient.indices.num_elements());
  counters_.staged_bytes += gradient.num_bytes();
  counters_.staged_bytes_peak = std::max(counters_.staged_bytes_peak, counters_.staged_bytes);
  set.add(unit, std::move(gradient), message.pulled_version, message.worker, slices);
}

void ShardState::say_staged(const Push& message, TrainingOutbox& out) const {
  if (failure_) return;
  out.push_back(
      {Destination::coordinator(), Staged{options_.shard, message.step, message.phase, message.slot, version_}});
}

// ---- Synchronous ----------------------------------------------------------------------------------------------------

Error ShardState::push_slot(Push& message, std::size_t unit, TrainingOutbox& out) {
  std::uint64_t turn = turn_of(message.step, message.phase);
  if (turn < version_ && !options_.guards.stale) {
    turn = message.pulled_version = version_;
    message.step = turn / options_.phases;
  } else if (turn < version_) {
    drop(message, unit, ledger_.used(turn, message.slot) ? Fate::stale : Fate::uncommitted);
    return {};
  }
  if (turn - version_ > options_.staleness * options_.phases)
    return error(Code::out_of_range, "push for step {} at version {}, staleness is {}", message.step, version_,
                 options_.staleness);
  if (Error error = check_pulled_version(message)) return error;
  if (!slots_.uses(turn, message.slot)) {
    drop(message, unit, Fate::uncommitted);
    return {};
  }
  GradientSet& set = slots_.at(turn, message.slot);
  if (set.has(unit) && options_.guards.dedupe) {
    drop(message, unit, Fate::duplicate);
    return {};
  }
  stage(set, message, unit);
  const bool whole = set.whole();
  if (whole && !options_.guards.commit) choose_alone(unit);
  if (turn == version_) update_early(unit, out);
  if (!whole) return {};
  advance(out);
  say_staged(message, out);
  release(out);
  return {};
}

// Deliberately wrong, without ShardGuards::commit: shards choose different slots.
void ShardState::choose_alone(std::size_t unit) {
  const std::vector<std::uint32_t> missing = slots_.missing(version_);
  std::vector<std::uint32_t> whole;
  for (std::uint32_t slot = 0; slot < options_.slots + options_.backups; ++slot)
    if (!std::ranges::binary_search(missing, slot)) whole.push_back(slot);
  if (slots_.chosen(version_) || whole.size() < options_.slots) return;
  whole.resize(options_.slots);
  slots_.choose(version_, std::move(whole));
  TrainingOutbox nobody;
  for (std::size_t i = 0; i < units_.size(); ++i)
    if (i != unit) update_early(i, nobody);
}

// Publishes versions while all slots of the next one are whole.
void ShardState::advance(TrainingOutbox& out) {
  while (!failure_ && slots_.whole(version_)) {
    const SlotStage::Taken taken = slots_.take(version_);
    counters_.uncommitted += taken.unused.size();
    counters_.staged_bytes -= taken.unused_bytes;
    for (const auto& [slot, worker] : taken.unused) {
      SlotSource source = source_of(version_, slot, Fate::uncommitted);
      source.worker = worker;
      ledger_.note(version_ + 1, source);
    }
    std::vector<std::uint64_t> pulled;
    for (std::size_t i = 0; i < taken.sets.size(); ++i) {
      pulled.push_back(taken.sets[i].pulled_version());
      ledger_.note_applied(version_ + 1, taken.sets[i], source_of(version_, taken.slots[i], Fate::applied));
    }
    note_staleness(pulled);
    publish(taken.sets.size());
    pass_over();
    for (std::size_t i = 0; i < units_.size() && !failure_; ++i) update_early(i, out);
  }
}

// Updates a unit as soon as all slots have pushed it, without waiting for others: its new value stays hidden until the
// version is published.
void ShardState::update_early(std::size_t unit, TrainingOutbox& out) {
  const Unit& updated = units_[unit];
  if (updated.phase != version_ % options_.phases || !slots_.whole(version_, unit)) return;
  for (const std::size_t slice : updated.slices) slices_[slice].updated = true;
  // Keep the old value only if pulls may still need it, since the store must copy a value that is held elsewhere.
  // Otherwise all workers that pushed have already pulled it.
  const bool keep = options_.keep_previous || options_.mode == TrainingMode::bounded_staleness;
  update(updated, slots_.take(version_, unit), version_ / options_.phases + 1, 1, keep, out);
}

Error ShardState::check_commit(const Commit& message) const {
  if (options_.backups == 0)
    return error(Code::failed_precondition, "commit of step {}, but all slots of a step are used", message.step);
  if (message.slots.size() != options_.slots || message.slots.back() >= options_.slots + options_.backups ||
      std::ranges::adjacent_find(message.slots, std::greater_equal<>()) != message.slots.end())
    return error(Code::invalid_argument, "commit of step {} with slots {}, expected {} of {} in ascending order",
                 message.step, fmt::join(message.slots, " "), options_.slots, options_.slots + options_.backups);
  if (message.phase >= options_.phases || message.step >= ~std::uint64_t{0} / options_.phases)
    return error(Code::out_of_range, "commit of step {} phase {}", message.step, message.phase);
  const std::uint64_t turn = turn_of(message.step, message.phase);
  const auto used = [&](std::uint32_t slot) {
    return turn < version_ ? ledger_.used(turn, slot) : slots_.uses(turn, slot);
  };
  if (has_part_in(turn) && !std::ranges::all_of(message.slots, used))
    return error(Code::failed_precondition, "commit of step {} with slots {}, but it was committed with other slots",
                 message.step, fmt::join(message.slots, " "));
  if (turn >= version_ && turn - version_ > options_.staleness * options_.phases + options_.phases - 1)
    return error(Code::out_of_range, "commit of step {} at version {}, staleness is {}", message.step, version_,
                 options_.staleness);
  return {};
}

Error ShardState::commit(const Commit& message, TrainingOutbox& out) {
  if (failure_) return failure_;
  if (Error error = check_commit(message)) return refuse(std::move(error));
  const std::uint64_t turn = turn_of(message.step, message.phase);
  if (!has_part_in(turn) || turn < version_ || !slots_.choose(turn, message.slots)) return {};  // nothing, or repeated
  for (std::size_t i = 0; i < units_.size() && !failure_; ++i) update_early(i, out);
  advance(out);
  release(out);
  return failure_;
}

// ---- Asynchronous ---------------------------------------------------------------------------------------------------

Error ShardState::push_batch(Push& message, std::size_t unit, TrainingOutbox& out) {
  const std::uint64_t turn = turn_of(message.step, message.phase);
  const std::uint64_t own = own_turn(turn);
  if (ledger_.has(own) && options_.guards.dedupe) {
    drop(message, unit, Fate::duplicate);
    // After a restart the coordinator may hand out this batch again, not knowing that it was applied.
    if (ledger_.restored(own) && is_last_of_phase(unit)) say_staged(message, out);
    return {};
  }
  if (Error error = check_pulled_version(message)) return error;
  if (turn == ~std::uint64_t{0} || !ledger_.near(own, options_.workers * options_.max_open_batches))
    return error(Code::out_of_range, "batch {} is too far from earlier batches", message.step);
  if (!batches_.contains(message.worker, turn) && batches_.open(message.worker) >= options_.max_open_batches)
    return error(Code::resource_exhausted, "worker {} begins batch {}, but already has {} incomplete ones",
                 message.worker, message.step, options_.max_open_batches);
  GradientSet& set = batches_.at(message.worker, turn);
  if (set.has(unit)) {
    drop(message, unit, Fate::duplicate);
    return {};
  }
  stage(set, message, unit);
  if (!set.whole()) return {};
  ledger_.add(own, version_ + 1);
  std::size_t dropped = 0;
  auto& accumulated = accumulated_[message.phase];
  accumulated.emplace_back(turn, batches_.take(message.worker, turn, dropped));
  counters_.staged_bytes -= dropped;
  if (accumulated.size() == options_.accumulate) update_batches(message.phase, out);
  say_staged(message, out);
  release(out);
  return {};
}

bool ShardState::is_last_of_phase(std::size_t unit) const {
  return std::ranges::none_of(std::span(units_).subspan(unit + 1),
                              [&](const Unit& later) { return later.phase == units_[unit].phase; });
}

void ShardState::update_batches(std::uint32_t phase, TrainingOutbox& out) {
  auto sets = std::exchange(accumulated_[phase], {});
  std::vector<std::uint64_t> pulled;
  for (const auto& [turn, set] : sets) {
    pulled.push_back(set.pulled_version());
    ledger_.note_applied(version_ + 1, set, source_of(turn, 0, Fate::applied));
  }
  const double rate_scale = note_staleness(pulled);
  const std::uint64_t number = ++updates_[phase];
  for (std::size_t unit = 0; unit < units_.size() && !failure_; ++unit) {
    if (units_[unit].phase != phase) continue;
    std::vector<PushedGradient> gradients;
    for (auto& [turn, set] : sets) gradients.push_back(set.take(unit));
    update(units_[unit], std::move(gradients), number, rate_scale, false, out);
  }
  if (!failure_) publish(sets.size());
}

// Returns the factor for the learning rate: 1 / mean staleness, at most 1.
double ShardState::note_staleness(const std::vector<std::uint64_t>& pulled_versions) {
  double sum = 0;
  for (const std::uint64_t pulled : pulled_versions) {
    const std::uint64_t staleness = version_ - std::min(version_, pulled);
    ++counters_.staleness[std::min<std::uint64_t>(staleness, counters_.staleness.size() - 1)];
    sum += static_cast<double>(staleness);
  }
  const double mean = sum / static_cast<double>(pulled_versions.size());
  return options_.scale_by_staleness && mean > 1 ? 1 / mean : 1;
}

// ---- Updates --------------------------------------------------------------------------------------------------------

void ShardState::update(const Unit& unit, std::vector<PushedGradient> gradients, std::uint64_t number,
                        double rate_scale, bool keep, TrainingOutbox& out) {
  TraceSlice traced(TraceKind::work, "update");
  traced.event().step.number = version_ + 1;
  for (const PushedGradient& gradient : gradients) {
    counters_.staged_bytes -= gradient.num_bytes();
    traced.event().bytes += gradient.num_bytes();
  }
  rate_scale *= gradients.front().rate_scale;  // alike in all of them, but for asynchronous ones
  const bool final = gradients.front().keep;
  try {
    PushedGradient mean = mean_of(std::move(gradients), options_.sparse_mean);
    std::size_t at = 0;
    for (const std::size_t slice : unit.slices) {
      const SliceSpec& spec = slices_[slice].spec;
      if (final) store_.keep_as_final(spec.id);
      Update one{unit.pack ? PushedGradient{part_of(mean.values, at, spec.shape), {}} : std::move(mean), number,
                 rate_scale};
      at += one.gradient.values.num_bytes();
      if (keep) slices_[slice].current = kept(slice, one.gradient);
      store_.apply(spec.id, one);
    }
  } catch (...) {
    // Some slices may be updated and others not: the values of this shard can no longer be trusted.
    fail(current_error().within(fmt::format("shard {}, update {}", options_.shard, version_ + 1)), out);
  }
}

// The slice's value, before it is updated by this gradient.
KeptValue ShardState::kept(std::size_t slice, const PushedGradient& gradient) const {
  const SliceSpec& spec = slices_[slice].spec;
  if (!spec.by_rows || !gradient.sparse()) return KeptValue::of_whole(store_.value(spec.id));
  return KeptValue::of_rows(gradient.indices, store_.rows(spec.id, gradient.indices));
}

// Publishes the values in the store as the next version.
void ShardState::publish(std::size_t batches) {
  if (options_.keep_previous) {
    previous_.emplace_back();
    if (previous_.size() > options_.keep_versions) previous_.pop_front();
  }
  for (Owned& owned : slices_) {
    if (options_.keep_previous) {
      const bool unchanged = !owned.updated && owned.spec.by_rows;
      previous_.back().push_back(owned.updated ? std::move(owned.current)
                                 : unchanged   ? KeptValue()
                                               : KeptValue::of_whole(store_.value(owned.spec.id)));
    }
    owned.current = {};
    owned.updated = false;
  }
  ++version_;
  if (batches > 0) ++counters_.updates;
  counters_.batches += batches;
  take_cuts();
}

}  // namespace troupe
