#include "troupe/scheduler/training/shard_state.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kMissingShown = 16;
constexpr std::size_t kMaxCuts = 16;
constexpr std::uint32_t kMaxSlots = 1 << 20;
constexpr std::uint32_t kMaxPhases = 64;

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

}  // namespace

ShardState::ShardState(const ShardOptions& options, std::vector<SliceSpec> slices, ShardStore& store,
                       const std::vector<SlicePack>& packs)
    : options_(options),
      slices_(sorted(options, std::move(slices))),
      units_(in_units(packs)),
      store_(store),
      version_(options.version),
      counts_(counts()),
      slots_(counts_, options.slots + options.backups, options.slots),
      batches_(counts_),
      ledger_({.versions = options.provenance,
               .keep_history = options.keep_history,
               .applied = options.applied,
               .fence = options.guards.fence}),
      accumulated_(options.phases) {
  options_.keep_previous =
      options.keep_previous && options.keep_versions > 0 && options.mode == TrainingMode::synchronous;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (units_[unit].pack) packs_.emplace(units_[unit].pack->id, unit);
    for (const std::size_t slice : units_[unit].slices) slices_[slice].unit = unit;
  }
  for (std::uint32_t phase = 0; phase < options.phases; ++phase)
    updates_.push_back(options.phases == 1 ? options.version
                       : counts_.by_phase[phase] == 0
                           ? 0
                           : options.applied.count(own_turn(phase), own_turn(options.phases)) / options.accumulate);
  pass_over();
}

std::vector<ShardState::Owned> ShardState::sorted(const ShardOptions& options, std::vector<SliceSpec> slices) {
  check_options(options);
  std::ranges::sort(slices, {}, &SliceSpec::id);
  std::vector<Owned> out;
  for (SliceSpec& slice : slices) {
    if (!out.empty() && out.back().spec.id == slice.id)
      invalid_argument("shard {}: duplicate slice {}", options.shard, slice.id);
    if (!is_gradient_dtype(slice.dtype))
      invalid_argument("shard {}: slice {} ({}) has dtype {}, which cannot be trained", options.shard, slice.id,
                       slice.name, name(slice.dtype));
    if (slice.phase >= options.phases)
      invalid_argument("shard {}: slice {} ({}) is of phase {}, but steps have {}", options.shard, slice.id, slice.name,
                       slice.phase, options.phases);
    out.push_back({.spec = std::move(slice), .current = {}});
  }
  return out;
}

// The packs, then each slice that is in none.
std::vector<ShardState::Unit> ShardState::in_units(const std::vector<SlicePack>& packs) const {
  std::vector<Unit> units;
  std::vector<bool> packed(slices_.size());
  for (const SlicePack& pack : packs) {
    Unit unit{.slices = {}, .pack = pack};
    std::int64_t elements = 0;
    for (const std::uint32_t id : pack.slices) {
      std::size_t slice = 0;
      if (Error error = find_slice(id, slice))
        throw error.within(fmt::format("shard {}: pack {}", options_.shard, pack.id));
      const SliceSpec& spec = slices_[slice].spec;
      if (unit.slices.empty()) unit.phase = spec.phase;
      elements += spec.shape.num_elements();
      if (spec.dtype == pack.dtype && spec.phase == unit.phase && !packed[slice]) unit.slices.push_back(slice);
      packed[slice] = true;
    }
    if (unit.slices.empty() || unit.slices.size() != pack.slices.size() || elements != pack.elements)
      invalid_argument("shard {}: pack {} does not fit its slices", options_.shard, pack.id);
    units.push_back(std::move(unit));
  }
  for (std::size_t slice = 0; slice < slices_.size(); ++slice)
    if (!packed[slice]) units.push_back({.slices = {slice}, .pack = std::nullopt, .phase = slices_[slice].spec.phase});
  return units;
}

UnitCounts ShardState::counts() const {
  UnitCounts counts{.all = units_.size(), .by_phase = std::vector<std::size_t>(options_.phases)};
  for (const Unit& unit : units_) ++counts.by_phase[unit.phase];
  return counts;
}

Error ShardState::find_slice(std::uint32_t id, std::size_t& slice) const {
  const auto found = std::ranges::lower_bound(slices_, id, {}, [](const Owned& owned) { return owned.spec.id; });
  if (found == slices_.end() || found->spec.id != id)
    return error(Code::invalid_argument, "slice {} is not on this shard", id);
  slice = static_cast<std::size_t>(found - slices_.begin());
  return {};
}

Error ShardState::refuse(Error error) {
  ++counters_.refused;
  return error.within(fmt::format("shard {}", options_.shard));
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
    return static_cast<std::uint64_t>(std::count_if(from, to, [](std::size_t units) { return units > 0; }));
  };
  return turn / options_.phases * used(begin, counts_.by_phase.end()) + used(begin, phase);
}

// Publishes turns of phases without slices here, unchanged.
void ShardState::pass_over() {
  if (options_.mode == TrainingMode::asynchronous || slices_.empty()) return;
  while (!failure_ && !has_part_in(version_)) publish(0);
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
