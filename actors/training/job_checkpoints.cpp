#include "troupe/actors/training/job_checkpoints.hpp"

#include <algorithm>
#include <charconv>

namespace troupe {
namespace {

constexpr const char* kSkipped = "skipped";

// Calls what(name, kind, shape of the whole, index) for the value of a slice (index -1) and for the optimizer slots
// saved with it. A slot that is not sharded like its variable is saved with the first slice.
template <class What>
void for_each_tensor(const Slice& slice, const Shape& whole, const UpdateRule& rule, What&& what) {
  what(slice.variable, TensorKind::variable, whole, -1);
  for (std::size_t i = 0; i < rule.slots.size(); ++i)
    if (rule.slots[i].shape == whole || slice.row_begin == 0)
      what(rule.slots[i].name, TensorKind::slot, rule.slots[i].shape, static_cast<int>(i));
}

bool is_cut(const Slice& slice, const Shape& variable, const Shape& tensor) {
  return tensor == variable && !tensor.is_scalar() && slice.shape[0] < tensor[0];
}

void check_stored(const Checkpoint& from, const std::string& name, DType dtype, const Shape& shape) {
  const auto stored = from.variables().find(name);
  if (stored == from.variables().end())
    fail(Code::failed_precondition, "checkpoint '{}' has no '{}': it belongs to another model", from.folder(), name);
  if (stored->second.dtype != dtype || stored->second.shape != shape)
    fail(Code::failed_precondition,
         "checkpoint '{}': '{}' is {}{}, the model expects {}{}: it belongs to another model", from.folder(), name,
         troupe::name(stored->second.dtype), stored->second.shape.to_string(), troupe::name(dtype), shape.to_string());
}

}  // namespace

SavedTensor skipped_state(std::int64_t skipped) {
  return {.name = kSkipped, .kind = TensorKind::state, .variable = {}, .value = Tensor::scalar(skipped)};
}

std::int64_t skipped_in(Checkpoint& from) {
  std::int64_t most = 0;
  for (const ShardManifest& shard : from.manifest().shards)
    most = std::max(most, from.read_state(shard.shard, kSkipped).item<std::int64_t>());
  return most;
}

std::string dedupe_of(const ShardState::Cut& cut) { return fmt::format("{} {}", cut.version, cut.applied.to_string()); }

Tensor read_checked(Checkpoint& from, const std::string& name, DType dtype, const Shape& shape) {
  check_stored(from, name, dtype, shape);
  return from.read(name);
}

ShardContents contents_of(ParameterStore& store, const ShardMap& map, const std::map<std::string, UpdateRule>& rules,
                          int shard, std::uint32_t position, std::uint32_t shards, const ShardState::Cut& cut) {
  ShardContents out{.shard = position, .shards = shards, .tensors = {}, .dedupe = dedupe_of(cut)};
  std::int64_t skipped = 0;
  for (const Slice& slice : map.slices()) {
    if (slice.shard != shard) continue;
    const Shape& whole = map.variable(slice.variable).shape;
    for_each_tensor(slice, whole, rules.at(slice.variable),
                    [&](const std::string& name, TensorKind kind, const Shape& shape, int slot) {
                      SavedTensor saved{.name = name,
                                        .kind = kind,
                                        .variable = kind == TensorKind::slot ? slice.variable : "",
                                        .value = slot < 0 ? store.value(slice.id) : store.slot(slice.id, slot)};
                      if (is_cut(slice, whole, shape)) {
                        saved.rows = shape[0];
                        saved.row_begin = slice.row_begin;
                        saved.stride = slice.stride;
                      }
                      out.tensors.push_back(std::move(saved));
                    });
    skipped = std::max(skipped, store.skipped(slice.id));
  }
  out.tensors.push_back(skipped_state(skipped));
  return out;
}

void restore(Checkpoint& from, ParameterStore& store, const ShardMap& map,
             const std::map<std::string, UpdateRule>& rules, int shard) {
  const std::int64_t skipped = skipped_in(from);
  for (const Slice& slice : map.slices()) {
    if (slice.shard != shard) continue;
    const UpdateRule& rule = rules.at(slice.variable);
    const Shape& whole = map.variable(slice.variable).shape;
    const auto read = [&](const std::string& name, const Shape& shape, DType dtype) {
      check_stored(from, name, dtype, shape);
      return is_cut(slice, whole, shape) ? from.read_rows(name, slice.row_begin, slice.row_end, slice.stride)
                                         : from.read(name);
    };
    Tensor value = read(slice.variable, whole, slice.dtype);
    std::vector<Tensor> slots;
    for (const SlotVariable& slot : rule.slots) slots.push_back(read(slot.name, slot.shape, slot.dtype));
    store.add(slice.id, slice.variable, rule, std::move(value), std::move(slots), skipped);
  }
}

ShardState::Cut restored_cut(const Checkpoint& from, std::uint32_t position, std::uint32_t shards) {
  if (from.manifest().shards.size() != shards)
    fail(Code::failed_precondition,
         "checkpoint '{}' has {} parameter shards: an asynchronous job with {} cannot resume from it", from.folder(),
         from.manifest().shards.size(), shards);
  const std::string& text = from.manifest().shards.at(position).dedupe;
  ShardState::Cut cut;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cut.version);
  if (error != std::errc{} || end == text.data() + text.size() || *end != ' ')
    fail(Code::data_loss, "checkpoint '{}' is damaged: cannot read the version of shard {}", from.folder(), position);
  cut.applied = BatchSet::parse(std::string_view(text).substr(static_cast<std::size_t>(end - text.data()) + 1));
  return cut;
}

}  // namespace troupe
