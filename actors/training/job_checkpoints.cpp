#include "troupe/actors/training/job_checkpoints.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

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

// One after the other.
Tensor joined(const std::vector<Tensor>& parts) {
  Shape shape = parts.front().shape();
  std::int64_t rows = 0;
  for (const Tensor& part : parts) rows += part.shape()[0];
  shape.set_dim(0, rows);
  Tensor out(parts.front().dtype(), shape);
  std::byte* to = out.mutable_raw();
  for (const Tensor& part : parts) {
    std::memcpy(to, part.raw(), part.num_bytes());
    to += part.num_bytes();
  }
  return out;
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

namespace {

std::string numbers_of(const std::string& variable) { return variable + "/row_numbers"; }

// The updated rows of a slice on demand, with their numbers in the variable.
void save_rows(ShardContents& out, const ParameterStore& store, const Slice& slice, const UpdateRule& rule,
               const Shape& whole) {
  const UpdatedRows rows = store.updated_rows(slice.id);
  Tensor numbers = rows.numbers.clone();
  for (std::int64_t& row : numbers.mutable_values<std::int64_t>()) row = slice.row_begin + row * slice.stride;
  out.tensors.push_back(
      {.name = numbers_of(slice.variable), .kind = TensorKind::state, .variable = {}, .value = std::move(numbers)});
  for (std::size_t i = 0; i <= rows.slots.size(); ++i)
    out.tensors.push_back({.name = i == 0 ? slice.variable : rule.slots[i - 1].name,
                           .kind = i == 0 ? TensorKind::variable : TensorKind::slot,
                           .variable = i == 0 ? "" : slice.variable,
                           .rows = whole[0],
                           .value = i == 0 ? rows.value : rows.slots[i - 1],
                           .listed = true});
}

// Of all rows of a variable that were saved, those of a slice.
UpdatedRows read_slice(Checkpoint& from, const Slice& slice, const UpdateRule& rule, const Shape& whole) {
  check_stored(from, slice.variable, slice.dtype, whole);
  if (!from.variable(slice.variable).listed)
    fail(Code::failed_precondition,
         "checkpoint '{}' has all rows of '{}', which is on demand: it was saved by a job without parameter servers",
         from.folder(), slice.variable);
  UpdatedRows out;
  std::vector<std::vector<Tensor>> parts(rule.slots.size() + 1);
  std::vector<std::int64_t> numbers;
  for (const StoredVariable::Part& part : from.variable(slice.variable).parts) {
    const Tensor saved = from.read_state(part.shard, numbers_of(slice.variable));
    std::vector<std::int64_t> own;
    std::int64_t at = 0;
    for (const std::int64_t row : saved.values<std::int64_t>()) {
      if (row % slice.stride == slice.row_begin) {
        own.push_back(at);
        numbers.push_back(row / slice.stride);
      }
      ++at;
    }
    const Tensor places = Tensor::of<std::int64_t>(Shape{std::ssize(own)}, own);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string& name = i == 0 ? slice.variable : rule.slots[i - 1].name;
      const Tensor rows = from.read_listed(name, part.shard);
      if (rows.shape()[0] != at)
        fail(Code::data_loss, "checkpoint '{}': shard {} has {} rows of '{}', but {} numbers of rows", from.folder(),
             part.shard, rows.shape()[0], name, at);
      parts[i].push_back(rows_of(rows, places));
    }
  }
  out.numbers = Tensor::of<std::int64_t>(Shape{std::ssize(numbers)}, numbers);
  out.value = joined(parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) out.slots.push_back(joined(parts[i]));
  return out;
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

std::string kept_name(const std::string& variable) { return variable + "/kept"; }

SavedTensor kept_value(const std::string& variable, Tensor value) {
  return {.name = kept_name(variable), .kind = TensorKind::slot, .variable = variable, .value = std::move(value)};
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
    skipped = std::max(skipped, store.skipped(slice.id));
    if (slice.on_demand) {
      save_rows(out, store, slice, rules.at(slice.variable), whole);
      continue;
    }
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
    if (store.has_kept(slice.id)) {
      SavedTensor kept = kept_value(slice.variable, store.final_value(slice.id));
      if (is_cut(slice, whole, whole)) {
        kept.rows = whole[0];
        kept.row_begin = slice.row_begin;
        kept.stride = slice.stride;
      }
      out.tensors.push_back(std::move(kept));
    }
  }
  out.tensors.push_back(skipped_state(skipped));
  return out;
}

void restore(Checkpoint& from, ParameterStore& store, const ShardMap& map,
             const std::map<std::string, UpdateRule>& rules, const std::map<std::string, std::vector<RowDraws>>& draws,
             int shard) {
  const std::int64_t skipped = skipped_in(from);
  for (const Slice& slice : map.slices()) {
    if (slice.shard != shard) continue;
    const UpdateRule& rule = rules.at(slice.variable);
    const Shape& whole = map.variable(slice.variable).shape;
    if (slice.on_demand) {
      store.add_on_demand(slice, rule, draws.at(slice.variable), read_slice(from, slice, rule, whole), skipped);
      continue;
    }
    const auto read = [&](const std::string& name, const Shape& shape, DType dtype) {
      check_stored(from, name, dtype, shape);
      return is_cut(slice, whole, shape) ? from.read_rows(name, slice.row_begin, slice.row_end, slice.stride)
                                         : from.read(name);
    };
    Tensor value = read(slice.variable, whole, slice.dtype);
    std::vector<Tensor> slots;
    for (const SlotVariable& slot : rule.slots) slots.push_back(read(slot.name, slot.shape, slot.dtype));
    store.add(slice.id, slice.variable, rule, std::move(value), std::move(slots), skipped);
    if (from.variables().contains(kept_name(slice.variable)))
      store.set_kept(slice.id, read(kept_name(slice.variable), whole, slice.dtype));
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
