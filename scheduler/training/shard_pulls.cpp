// ShardState's answers to pulls.
#include <algorithm>
#include <utility>

#include <troupe/messages/row_numbers.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe {
std::optional<ShardState::Named> ShardState::named(std::uint32_t id) const {
  if (const auto pack = packs_.find(id); pack != packs_.end()) {
    const Unit& unit = units_[pack->second];
    return Named{unit.slices, &*unit.pack};
  }
  std::size_t slice = 0;
  if (find_slice(id, slice)) return std::nullopt;
  const std::span<const std::size_t> together = units_[slices_[slice].unit].slices;
  const auto at = static_cast<std::size_t>(std::ranges::find(together, slice) - together.begin());
  return Named{together.subspan(at, 1)};
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

}  // namespace troupe
