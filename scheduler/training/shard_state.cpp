#include "troupe/scheduler/training/shard_state.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include <troupe/messages/row_numbers.hpp>
#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMissingShown = 16;
constexpr std::size_t kMaxCuts = 16;
constexpr std::uint32_t kMaxSlots = 1 << 20;
constexpr std::uint32_t kMaxPhases = 64;

template <class... Args>
Error error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(code, fmt::format(format, std::forward<Args>(args)...));
}

void check_options(const ShardOptions& options) {
  if (options.workers == 0 || options.slots == 0 || options.accumulate == 0 || options.max_open_batches == 0)
    invalid_argument("shard {}: workers, slots, accumulate and max_open_batches must be at least 1", options.shard);
  if (options.mode == TrainingMode::asynchronous && options.slots != 1)
    invalid_argument("shard {}: asynchronous training has one slot, not {}", options.shard, options.slots);
  if (options.mode == TrainingMode::asynchronous && options.backups != 0)
    invalid_argument("shard {}: asynchronous training has no backup slots", options.shard);
  if (options.backups > kMaxSlots || options.slots > kMaxSlots)
    invalid_argument("shard {}: {} slots and {} backups, at most {} are supported", options.shard, options.slots,
                     options.backups, kMaxSlots);
  if (options.mode != TrainingMode::bounded_staleness && options.staleness != 0)
    invalid_argument("shard {}: staleness = {} requires bounded staleness", options.shard, options.staleness);
  if (options.mode != TrainingMode::asynchronous && (options.accumulate != 1 || options.scale_by_staleness))
    invalid_argument("shard {}: accumulate and scale_by_staleness are for asynchronous training", options.shard);
  if (options.phases == 0 || options.phases > kMaxPhases)
    invalid_argument("shard {}: a step has 1 to {} phases, not {}", options.shard, kMaxPhases, options.phases);
}

Error check_pack(const SlicePack& pack, const Push& message) {
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

SliceCounts counts_of(const ShardOptions& options, const std::vector<SliceSpec>& slices) {
  check_options(options);
  SliceCounts counts{.all = slices.size(), .by_phase = std::vector<std::size_t>(options.phases)};
  for (const SliceSpec& slice : slices) {
    if (slice.phase >= options.phases)
      invalid_argument("shard {}: slice {} ({}) is of phase {}, but steps have {}", options.shard, slice.id, slice.name,
                       slice.phase, options.phases);
    ++counts.by_phase[slice.phase];
  }
  return counts;
}

}  // namespace

ShardState::ShardState(const ShardOptions& options, std::vector<SliceSpec> slices, ShardStore& store,
                       const std::vector<SlicePack>& packs)
    : options_(options),
      store_(store),
      version_(options.version),
      counts_(counts_of(options, slices)),
      slots_(counts_, options.slots + options.backups, options.slots),
      batches_(counts_),
      ledger_({.versions = options.provenance,
               .keep_history = options.keep_history,
               .applied = options.applied,
               .fence = options.guards.fence}),
      accumulated_(options.phases) {
  options_.keep_previous =
      options.keep_previous && options.keep_versions > 0 && options.mode == TrainingMode::synchronous;
  std::sort(slices.begin(), slices.end(), [](const SliceSpec& a, const SliceSpec& b) { return a.id < b.id; });
  for (SliceSpec& slice : slices) {
    if (!slices_.empty() && slices_.back().spec.id == slice.id)
      invalid_argument("shard {}: duplicate slice {}", options.shard, slice.id);
    if (!is_gradient_dtype(slice.dtype))
      invalid_argument("shard {}: slice {} ({}) has dtype {}, which cannot be trained", options.shard, slice.id,
                       slice.name, name(slice.dtype));
    positions_.push_back(slices_.size());
    slices_.push_back({.spec = std::move(slice), .sparse = std::nullopt, .current = {}});
  }
  add_packs(packs);
  for (std::uint32_t phase = 0; phase < options.phases; ++phase)
    updates_.push_back(options.phases == 1 ? options.version
                       : counts_.by_phase[phase] == 0
                           ? 0
                           : options.applied.count(own_turn(phase), own_turn(options.phases)) / options.accumulate);
  pass_over();
}

void ShardState::add_packs(const std::vector<SlicePack>& packs) {
  for (const SlicePack& pack : packs) {
    std::vector<std::size_t> positions;
    std::int64_t elements = 0;
    for (const std::uint32_t id : pack.slices) {
      std::size_t slice = 0;
      if (Error error = find_slice(id, slice))
        throw error.within(fmt::format("shard {}: pack {}", options_.shard, pack.id));
      elements += slices_[slice].spec.shape.num_elements();
      if (slices_[slice].spec.dtype == pack.dtype) positions.push_back(slice);
    }
    if (positions.size() != pack.slices.size() || elements != pack.elements)
      invalid_argument("shard {}: pack {} does not fit its slices", options_.shard, pack.id);
    packs_.emplace(pack.id, std::pair(pack, std::move(positions)));
  }
}

SlotSource ShardState::source_of(std::uint64_t turn, std::uint32_t slot, Fate fate) const {
  return {.worker = 0,
          .step = turn / options_.phases,
          .phase = static_cast<std::uint32_t>(turn % options_.phases),
          .slot = slot,
          .fate = fate,
          .gradients = 1};
}

// The turn's number among those of phases with slices here: the ledger's sets of turns stay contiguous.
std::uint64_t ShardState::own_turn(std::uint64_t turn) const {
  const auto begin = counts_.by_phase.begin(), phase = begin + static_cast<std::ptrdiff_t>(turn % options_.phases);
  const auto used = [](auto from, auto to) {
    return static_cast<std::uint64_t>(std::count_if(from, to, [](std::size_t slices) { return slices > 0; }));
  };
  return turn / options_.phases * used(begin, counts_.by_phase.end()) + used(begin, phase);
}

// Publishes turns of phases without slices here, unchanged.
void ShardState::pass_over() {
  if (options_.mode == TrainingMode::asynchronous || slices_.empty()) return;
  while (!failure_ && !has_part_in(version_)) publish(0);
}

// ---- Pushes ---------------------------------------------------------------------------------------------------------

Error ShardState::push(Push message, TrainingOutbox& out) {
  if (failure_) return failure_;
  message.indices = row_numbers(message.indices);
  if (const auto pack = packs_.find(message.slice); pack != packs_.end())
    return push_pack(message, {pack->second.second, &pack->second.first}, out);
  return push_one(message, out);
}

// The gradients of a pack are of one micro-batch and version: if the first is accepted, so are the others.
Error ShardState::push_pack(Push& message, const Named& named, TrainingOutbox& out) {
  const SlicePack& pack = *named.pack;
  if (Error error = check_pack(pack, message)) return refuse(std::move(error));
  const auto offset = static_cast<std::size_t>(message.gradient.raw() -
                                               static_cast<const std::byte*>(message.gradient.buffer()->data()));
  const Tensor joined = std::move(message.gradient);
  std::size_t at = 0;
  for (const std::size_t slice : named.slices) {
    const SliceSpec& spec = slices_[slice].spec;
    message.slice = spec.id;
    message.gradient = Tensor(spec.dtype, spec.shape, joined.buffer(), offset + at);
    at += message.gradient.num_bytes();
    if (Error error = push_one(message, out)) return error;
  }
  return {};
}

Error ShardState::push_one(Push& message, TrainingOutbox& out) {
  std::size_t slice = 0;
  if (Error error = check(message, slice)) return refuse(std::move(error));
  if (is_fenced(message.worker, message.view)) {
    drop(message, Fate::fenced);
    return {};
  }
  Error error =
      options_.mode == TrainingMode::asynchronous ? push_batch(message, slice, out) : push_slot(message, slice, out);
  return error ? refuse(std::move(error)) : failure_;
}

Error ShardState::refuse(Error error) {
  ++counters_.refused;
  return error.within(fmt::format("shard {}", options_.shard));
}

Error ShardState::find_slice(std::uint32_t id, std::size_t& slice) const {
  const auto found = std::lower_bound(slices_.begin(), slices_.end(), id,
                                      [](const Owned& owned, std::uint32_t wanted) { return owned.spec.id < wanted; });
  if (found == slices_.end() || found->spec.id != id)
    return error(Code::invalid_argument, "slice {} is not on this shard", id);
  slice = static_cast<std::size_t>(found - slices_.begin());
  return {};
}

Error ShardState::check(const Push& message, std::size_t& slice) const {
  if (message.worker >= options_.workers)
    return error(Code::invalid_argument, "push from worker {} of {}", message.worker, options_.workers);
  if (message.slot >= options_.slots + options_.backups)
    return error(Code::invalid_argument, "push for slot {} of {}", message.slot, options_.slots + options_.backups);
  if (Error error = find_slice(message.slice, slice)) return error;
  const Owned& owned = slices_[slice];
  if (message.phase != owned.spec.phase)
    return error(Code::invalid_argument, "gradient of slice {} ({}) in phase {}, but it is trained in phase {}",
                 message.slice, owned.spec.name, message.phase, owned.spec.phase);
  if (message.step >= ~std::uint64_t{0} / options_.phases)
    return error(Code::out_of_range, "push for step {}", message.step);
  const bool sparse = message.indices.valid();
  if (owned.sparse && *owned.sparse != sparse)
    return error(Code::invalid_argument, "gradient of slice {} ({}) is {}, unlike earlier ones", message.slice,
                 owned.spec.name, sparse ? "sparse" : "dense");
  return check_gradient(owned.spec, {message.gradient, message.indices});
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

Error ShardState::push_slot(Push& message, std::size_t slice, TrainingOutbox& out) {
  std::uint64_t turn = turn_of(message.step, message.phase);
  if (turn < version_ && !options_.guards.stale) {
    turn = message.pulled_version = version_;
    message.step = turn / options_.phases;
  } else if (turn < version_) {
    drop(message, ledger_.used(turn, message.slot) ? Fate::stale : Fate::uncommitted);
    return {};
  }
  if (turn - version_ > options_.staleness * options_.phases)
    return error(Code::out_of_range, "push for step {} at version {}, staleness is {}", message.step, version_,
                 options_.staleness);
  if (Error error = check_pulled_version(message)) return error;
  if (!slots_.uses(turn, message.slot)) {
    drop(message, Fate::uncommitted);
    return {};
  }
  GradientSet& set = slots_.at(turn, message.slot);
  if (set.has(slice) && options_.guards.dedupe) {
    drop(message, Fate::duplicate);
    return {};
  }
  stage(set, message, slice);
  const bool whole = set.whole();
  if (whole && !options_.guards.commit) choose_alone(slice);
  if (turn == version_) update_early(slice, out);
  if (!whole) return {};
  advance(out);
  say_staged(message, out);
  release(out);
  return {};
}

// Deliberately wrong, without ShardGuards::commit: shards choose different slots.
void ShardState::choose_alone(std::size_t slice) {
  const std::vector<std::uint32_t> missing = slots_.missing(version_);
  std::vector<std::uint32_t> whole;
  for (std::uint32_t slot = 0; slot < options_.slots + options_.backups; ++slot)
    if (!std::ranges::binary_search(missing, slot)) whole.push_back(slot);
  if (slots_.chosen(version_) || whole.size() < options_.slots) return;
  whole.resize(options_.slots);
  slots_.choose(version_, std::move(whole));
  TrainingOutbox nobody;
  for (std::size_t i = 0; i < slices_.size(); ++i)
    if (i != slice) update_early(i, nobody);
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
    for (std::size_t i = 0; i < slices_.size() && !failure_; ++i) update_early(i, out);
  }
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
  for (std::size_t i = 0; i < slices_.size() && !failure_; ++i) update_early(i, out);
  advance(out);
  release(out);
  return failure_;
}

// ---- Membership -----------------------------------------------------------------------------------------------------

bool ShardState::is_fenced(std::uint32_t worker, std::uint64_t view) {
  const ShardLedger::Sender sender = ledger_.sender(worker, view);
  if (sender == ShardLedger::Sender::joined_again) worker_down(worker);
  return sender == ShardLedger::Sender::fenced;
}

void ShardState::fence(const Fence& message) {
  if (message.worker < options_.workers && ledger_.fence(message)) worker_down(message.worker);
}

void ShardState::drop(const Push& message, Fate fate) {
  ++(fate == Fate::fenced        ? counters_.fenced
     : fate == Fate::stale       ? counters_.stale
     : fate == Fate::uncommitted ? counters_.uncommitted
                                 : counters_.duplicates);
  const std::uint64_t turn = turn_of(message.step, message.phase);
  SlotSource source = source_of(turn, message.slot, fate);
  source.worker = message.worker;
  if (options_.mode == TrainingMode::asynchronous) {
    if (const auto version = ledger_.version_of(own_turn(turn), version_ + 1)) ledger_.note(*version, source);
  } else if (turn <= version_ + options_.staleness * options_.phases) {
    ledger_.note(turn + 1, source);
  }
}

Error ShardState::push_batch(Push& message, std::size_t slice, TrainingOutbox& out) {
  const std::uint64_t turn = turn_of(message.step, message.phase);
  const std::uint64_t own = own_turn(turn);
  if (ledger_.has(own) && options_.guards.dedupe) {
    drop(message, Fate::duplicate);
    // After a restart the coordinator may hand out this batch again, not knowing that it was applied.
    if (ledger_.restored(own) && is_last_of_phase(slice)) say_staged(message, out);
    return {};
  }
  if (Error error = check_pulled_version(message)) return error;
  if (turn == ~std::uint64_t{0} || !ledger_.near(own, options_.workers * options_.max_open_batches))
    return error(Code::out_of_range, "batch {} is too far from earlier batches", message.step);
  if (!batches_.contains(message.worker, turn) && batches_.open(message.worker) >= options_.max_open_batches)
    return error(Code::resource_exhausted, "worker {} begins batch {}, but already has {} incomplete ones",
                 message.worker, message.step, options_.max_open_batches);
  GradientSet& set = batches_.at(message.worker, turn);
  if (set.has(slice)) {
    drop(message, Fate::duplicate);
    return {};
  }
  stage(set, message, slice);
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

bool ShardState::is_last_of_phase(std::size_t slice) const {
  return std::ranges::none_of(std::span(slices_).subspan(slice + 1),
                              [&](const Owned& owned) { return owned.spec.phase == slices_[slice].spec.phase; });
}

void ShardState::stage(GradientSet& set, Push& message, std::size_t slice) {
  PushedGradient gradient{std::move(message.gradient), std::move(message.indices), message.rate_scale, message.keep};
  slices_[slice].sparse = gradient.sparse();
  ++counters_.pushes;
  if (gradient.sparse()) counters_.rows_pushed += static_cast<std::uint64_t>(gradient.indices.num_elements());
  counters_.staged_bytes += gradient.num_bytes();
  counters_.staged_bytes_peak = std::max(counters_.staged_bytes_peak, counters_.staged_bytes);
  set.add(slice, std::move(gradient), message.pulled_version, message.worker);
}

void ShardState::say_staged(const Push& message, TrainingOutbox& out) const {
  if (failure_) return;
  out.push_back(
      {Destination::coordinator(), Staged{options_.shard, message.step, message.phase, message.slot, version_}});
}

// ---- Updates --------------------------------------------------------------------------------------------------------

void ShardState::update_slice(std::size_t slice, std::vector<PushedGradient> gradients, std::uint64_t number,
                              double rate_scale, bool keep, TrainingOutbox& out) {
  TraceSlice traced(TraceKind::work, "update");
  traced.event().step.number = version_ + 1;
  for (const PushedGradient& gradient : gradients) {
    counters_.staged_bytes -= gradient.num_bytes();
    traced.event().bytes += gradient.num_bytes();
  }
  rate_scale *= gradients.front().rate_scale;  // alike in all of them, but for asynchronous ones
  try {
    if (gradients.front().keep) store_.keep_as_final(slices_[slice].spec.id);
    PushedGradient mean = mean_of(std::move(gradients), options_.sparse_mean);
    if (keep) slices_[slice].current = kept(slice, mean);
    store_.apply(slices_[slice].spec.id, {std::move(mean), number, rate_scale});
  } catch (...) {
    // Some slices may be updated and others not: the values of this shard can no longer be trusted.
    fail(current_error().within(fmt::format("shard {}, update {}", options_.shard, version_ + 1)), out);
  }
}

// Updates a slice as soon as all slots have pushed it, without waiting for other slices: its new value stays hidden
// until the version is published.
void ShardState::update_early(std::size_t slice, TrainingOutbox& out) {
  Owned& owned = slices_[slice];
  if (owned.spec.phase != version_ % options_.phases || !slots_.whole(version_, slice)) return;
  owned.updated = true;
  // Keep the old value only if pulls may still need it, since the store must copy a value that is held elsewhere.
  // Otherwise all workers that pushed have already pulled it.
  const bool keep = options_.keep_previous || options_.mode == TrainingMode::bounded_staleness;
  update_slice(slice, slots_.take(version_, slice), version_ / options_.phases + 1, 1, keep, out);
}

// The slice's value, before it is updated by this gradient.
KeptValue ShardState::kept(std::size_t slice, const PushedGradient& gradient) const {
  const SliceSpec& spec = slices_[slice].spec;
  if (!spec.by_rows || !gradient.sparse()) return KeptValue::of_whole(store_.value(spec.id));
  return KeptValue::of_rows(gradient.indices, store_.rows(spec.id, gradient.indices));
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
  for (std::size_t slice = 0; slice < slices_.size() && !failure_; ++slice) {
    if (slices_[slice].spec.phase != phase) continue;
    std::vector<PushedGradient> gradients;
    for (auto& [turn, set] : sets) gradients.push_back(set.take(slice));
    update_slice(slice, std::move(gradients), number, rate_scale, false, out);
  }
  if (!failure_) publish(sets.size());
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

// ---- Checkpoints ----------------------------------------------------------------------------------------------------

Error ShardState::cut(std::uint64_t step, TakeCut take) {
  if (failure_) return failure_;
  std::uint64_t version = turn_of(step, 0);
  if (options_.mode == TrainingMode::asynchronous) {
    const bool accumulates = std::ranges::any_of(accumulated_, [](const auto& sets) { return !sets.empty(); });
    version = accumulates ? version_ + 1 : version_;  // do not lose accumulated gradients
  }
  // The turns passed over at the end of a step have changed nothing.
  const std::uint64_t same = unchanged_since();
  if (version < version_ && version >= same) version = version_;
  const bool begun = std::ranges::any_of(slices_, &Owned::updated);
  if (version < version_ || (version == version_ && begun))
    return error(Code::failed_precondition, "shard {} is already past step {}", options_.shard, step);
  if (cuts_.size() >= kMaxCuts)
    return error(Code::resource_exhausted, "shard {}: {} cuts are already waiting", options_.shard, cuts_.size());
  cuts_.emplace(version, std::move(take));
  take_cuts();
  return {};
}

void ShardState::take_cuts() {
  while (!cuts_.empty() && cuts_.begin()->first <= version_) cuts_.extract(cuts_.begin()).mapped()(cut());
}

// The first version with the values of this one.
std::uint64_t ShardState::unchanged_since() const {
  std::uint64_t version = version_;
  if (options_.mode == TrainingMode::asynchronous || slices_.empty()) return version;
  while (version > 0 && version_ - version < options_.phases && !has_part_in(version - 1)) --version;
  return version;
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

// ---- Pulls ----------------------------------------------------------------------------------------------------------

std::optional<ShardState::Named> ShardState::named(std::uint32_t id) const {
  if (const auto pack = packs_.find(id); pack != packs_.end()) return Named{pack->second.second, &pack->second.first};
  std::size_t slice = 0;
  if (find_slice(id, slice)) return std::nullopt;
  return Named{std::span(positions_).subspan(slice, 1)};
}

Error ShardState::pull(const Pull& given, TrainingOutbox& out) {
  if (failure_) return failure_;
  if (given.worker >= options_.workers)
    return refuse(error(Code::invalid_argument, "pull from worker {} of {}", given.worker, options_.workers));
  const std::optional<Named> wanted = named(given.slice);
  if (!wanted) return refuse(error(Code::invalid_argument, "slice {} is not on this shard", given.slice));
  Pull message = given;
  message.rows = row_numbers(given.rows);
  if (Error error = check_rows_of(message, *wanted)) return refuse(std::move(error));
  if (is_fenced(message.worker, message.view)) {
    ++counters_.fenced;
    return {};
  }
  if (can_answer(message, *wanted)) {
    answer(message, *wanted, out);
    return {};
  }
  if (parked_.size() >= options_.max_parked)
    return refuse(error(Code::resource_exhausted, "{} pulls are already waiting", parked_.size()));
  ++counters_.parked;
  parked_.push_back(std::move(message));
  return {};
}

Error ShardState::check_rows_of(const Pull& message, const Named& wanted) const {
  const Tensor& rows = message.rows;
  if (!rows.valid()) return {};
  if (wanted.pack)
    return error(Code::invalid_argument, "pull of rows of pack {}: packs are pulled whole", wanted.pack->id);
  const SliceSpec& spec = slices_[wanted.slices.front()].spec;
  if (spec.shape.rank() == 0 || rows.dtype() != DType::i64 || rows.shape().rank() != 1 || !rows.space().on_host())
    return error(Code::invalid_argument, "pull of rows {}{} of slice {} ({}), which is {}: expected u32 or i64 [n]",
                 name(rows.dtype()), rows.shape().to_string(), spec.id, spec.name, spec.shape.to_string());
  for (const std::int64_t row : rows.values<std::int64_t>())
    if (row < 0 || row >= spec.shape[0])
      return error(Code::invalid_argument, "pull of row {} of slice {} ({}), which has {}", row, spec.id, spec.name,
                   spec.shape[0]);
  return {};
}

// How many versions before version_ this is, if its values are kept; else 0.
std::size_t ShardState::versions_back(std::uint64_t version) const {
  return version >= version_ || version_ - version > previous_.size() ? 0 : version_ - version;
}

bool ShardState::can_answer(const Pull& message, const Named& wanted) const {
  if (message.min_version > version_) return false;
  const bool asynchronous = options_.mode == TrainingMode::asynchronous;
  if (asynchronous && options_.guards.own_updates && message.after > 0 && has_part_in(message.after - 1) &&
      !ledger_.has(own_turn(message.after - 1)))
    return false;
  const auto has_value = [&](std::size_t slice) { return !slices_[slice].updated || slices_[slice].current.valid(); };
  return versions_back(message.min_version) > 0 || std::ranges::all_of(wanted.slices, has_value);
}

Tensor ShardState::value_at(std::size_t slice, std::size_t versions_back) const {
  const Owned& owned = slices_[slice];
  if (owned.spec.on_demand) return store_.value(owned.spec.id);
  if (versions_back > 0)
    if (const Tensor& whole = previous_[previous_.size() - versions_back][slice].whole(); whole.valid()) return whole;
  Tensor value = store_.value(owned.spec.id);
  if (owned.updated) value = owned.current.restored(value);
  for (std::size_t i = 1; i <= versions_back; ++i) value = previous_[previous_.size() - i][slice].restored(value);
  return value;
}

Tensor ShardState::rows_at(std::size_t slice, const Tensor& rows, std::size_t versions_back) const {
  const Owned& owned = slices_[slice];
  Tensor values = store_.rows(owned.spec.id, rows);
  if (!options_.guards.rows) return values;
  if (owned.updated) owned.current.restore(rows, values);
  for (std::size_t i = 1; i <= versions_back; ++i) previous_[previous_.size() - i][slice].restore(rows, values);
  return values;
}

void ShardState::answer(const Pull& message, const Named& wanted, TrainingOutbox& out) {
  ++counters_.pulls;
  const std::size_t back = versions_back(message.min_version);
  Put put{message.reply_to, version_ - back, {}, {}};
  if (wanted.pack) {
    put.tensor = Tensor(wanted.pack->dtype, {wanted.pack->elements});
    std::byte* at = put.tensor.mutable_raw();
    for (const std::size_t slice : wanted.slices) {
      const Tensor part = message.kept ? store_.final_value(slices_[slice].spec.id) : value_at(slice, back);
      at = std::copy_n(part.raw(), part.num_bytes(), at);
    }
  } else if (message.rows.valid()) {
    put.tensor = rows_at(wanted.slices.front(), message.rows, back);
    counters_.rows_pulled += static_cast<std::uint64_t>(message.rows.num_elements());
  } else if (message.kept) {
    put.tensor = store_.final_value(slices_[wanted.slices.front()].spec.id);
  } else {
    put.tensor = value_at(wanted.slices.front(), back);
  }
  out.push_back({Destination::worker(message.worker), std::move(put)});
}

void ShardState::release(TrainingOutbox& out) {
  if (failure_) return;
  for (const Pull& pull : std::exchange(parked_, {})) {
    const std::optional<Named> wanted = named(pull.slice);
    if (wanted && can_answer(pull, *wanted))
      answer(pull, *wanted, out);
    else
      parked_.push_back(pull);
  }
}

void ShardState::worker_down(std::uint32_t worker) {
  std::erase_if(parked_, [&](const Pull& pull) { return pull.worker == worker; });
  const std::size_t before = batches_.size();
  counters_.staged_bytes -= batches_.drop(worker);
  counters_.abandoned += before - batches_.size();
}

void ShardState::fail(const Error& error, TrainingOutbox& out) {
  if (failure_) return;
  failure_ = error;
  cuts_.clear();
  for (const Pull& pull : std::exchange(parked_, {}))
    out.push_back({Destination::worker(pull.worker), Put{pull.reply_to, version_, {}, failure_}});
}

// ---- Reading --------------------------------------------------------------------------------------------------------

ShardWait ShardState::waiting() const {
  ShardWait wait;
  wait.version = version_ + 1;
  if (options_.mode == TrainingMode::asynchronous) {
    wait.need = options_.accumulate;
    for (const auto& sets : accumulated_) wait.have = std::max(wait.have, static_cast<std::uint32_t>(sets.size()));
  } else {
    wait.missing = slots_.missing(version_);
    wait.need = options_.slots;
    wait.uncommitted = !slots_.chosen(version_);
    const std::uint32_t slots = options_.slots + (wait.uncommitted ? options_.backups : 0);
    wait.have = slots - static_cast<std::uint32_t>(wait.missing.size());
    wait.missing.resize(std::min(wait.missing.size(), kMissingShown));
  }
  wait.parked = parked_.size();
  for (const Pull& pull : parked_) wait.highest_wanted = std::max(wait.highest_wanted, pull.min_version);
  return wait;
}

std::string ShardWait::to_string() const {
  std::string text = fmt::format("version {}: {} of {} staged", version, have, need);
  for (std::size_t i = 0; i < missing.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? ", missing slots " : " ", missing[i]);
  if (uncommitted && have >= need) text += "; waits for the coordinator's choice of slots";
  if (parked > 0) text += fmt::format("; {} pulls wait, for up to version {}", parked, highest_wanted);
  return text;
}

}  // namespace troupe
