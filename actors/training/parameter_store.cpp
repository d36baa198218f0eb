#include "troupe/actors/training/parameter_store.hpp"

#include <algorithm>
#include <cstring>

#include <troupe/devices/host_pages.hpp>
#include <troupe/kernels/cpu/finite.hpp>
#include <troupe/scheduler/run/single_kernel.hpp>

namespace troupe {
namespace {

std::unique_ptr<Variable> make_variable(const std::string& name, Tensor value) {
  auto variable = std::make_unique<Variable>(name, value.dtype(), value.shape());
  variable->assign(std::move(value));
  return variable;
}

// Calls it with the number of a scalar.
template <class What>
void visit_rate(Tensor& rate, What&& what) {
  switch (rate.dtype()) {
    case DType::f32:
      return what(*rate.mutable_data<float>());
    case DType::f16:
      return what(*rate.mutable_data<Half>());
    case DType::bf16:
      return what(*rate.mutable_data<BFloat16>());
    default:
      return what(*rate.mutable_data<double>());
  }
}

Tensor scaled(const Tensor& rate, double factor) {
  if (factor == 1) return rate;
  Tensor out = rate.clone();
  visit_rate(out, [&](auto& value) {
    using T = std::remove_reference_t<decltype(value)>;
    if constexpr (std::is_arithmetic_v<T>)
      value = static_cast<T>(static_cast<double>(value) * factor);
    else
      value = T(static_cast<float>(static_cast<double>(static_cast<float>(value)) * factor));
  });
  return out;
}

}  // namespace

void ParameterStore::add(std::uint32_t slice, const std::string& name, const UpdateRule& rule, Tensor value,
                         std::vector<Tensor> slots, std::int64_t skipped) {
  Entry entry{.name = name, .variables = {}, .on_demand = {}, .rule = rule, .kernel = nullptr, .skipped = skipped};
  entry.variables.push_back(make_variable(name, std::move(value)));
  for (std::size_t i = 0; i < slots.size(); ++i)
    entry.variables.push_back(make_variable(name + "/" + rule.slots.at(i).role, std::move(slots[i])));
  finish(entry);
  entries_.insert_or_assign(slice, std::move(entry));
}

void ParameterStore::finish(Entry& entry) const {
  const DType dtype = entry.variables.front()->dtype();
  std::vector<DType> inputs(entry.variables.size(), DType::resource);
  if (entry.rule.learning_rate.valid() || entry.rule.schedule) inputs.push_back(dtype);
  if (entry.rule.counts_updates) inputs.push_back(DType::i64);
  if (entry.rule.sparse) inputs.push_back(DType::i64);
  inputs.push_back(dtype);
  entry.kernel =
      kernels_.get(entry.rule.op, device_.attributes().type, dtype)({entry.name, entry.rule.attributes, inputs, {}});
  if (!entry.rule.constraint) return;
  if (entry.on_demand) fail(Code::unimplemented, "variable '{}' is on demand: it cannot have a constraint", entry.name);
  const std::vector<DType> handle{DType::resource};
  entry.constrain = kernels_.get("ConstrainVariable", device_.attributes().type,
                                 dtype)({entry.name, *entry.rule.constraint, handle, {}});
}

// Also after an update that is skipped, as in a graph.
void ParameterStore::constrain(const Entry& entry) {
  if (!entry.constrain) return;
  const std::vector<Tensor> inputs(1);
  const std::vector<Variable*> variables{entry.variables[0].get()};
  run_kernel(entry.constrain, inputs, variables, 0, device_);
}

void ParameterStore::add_on_demand(const Slice& slice, const UpdateRule& rule, std::vector<RowDraws> draws,
                                   UpdatedRows rows, std::int64_t skipped) {
  Entry entry{.name = slice.variable,
              .variables = {},
              .on_demand = OnDemand{std::move(draws), slice.row_begin, slice.stride, slice.shape[0], {}},
              .rule = rule,
              .kernel = nullptr,
              .skipped = skipped};
  if (rows.numbers.valid())
    for (const std::int64_t row : rows.numbers.values<std::int64_t>()) entry.on_demand->places.place(row);
  for (std::size_t i = 0; i < entry.on_demand->draws.size(); ++i) {
    const RowDraws& draw = entry.on_demand->draws[i];
    if (draw.shape() != entry.on_demand->draws[0].shape())
      invalid_argument("variable '{}' is on demand, but has a slot of another shape, {}", slice.variable,
                       draw.shape().to_string());
    Shape none = draw.shape();
    none.set_dim(0, 0);
    Tensor value = i == 0 ? rows.value : rows.numbers.valid() ? rows.slots.at(i - 1) : Tensor();
    entry.variables.push_back(make_variable(i == 0 ? entry.name : entry.name + "/" + rule.slots.at(i - 1).role,
                                            value.valid() ? value : Tensor(draw.dtype(), none)));
  }
  finish(entry);
  entries_.insert_or_assign(slice.id, std::move(entry));
}

void ParameterStore::keep_as_final(std::uint32_t slice) {
  Entry& entry = entries_.at(slice);
  if (entry.on_demand)
    fail(Code::unimplemented,
         "the values of '{}', whose rows are drawn on demand, cannot be kept for the end: set keep_best to false",
         entry.name);
  entry.kept = value(slice);
}

Tensor ParameterStore::value(std::uint32_t slice) {
  const Entry& entry = entries_.at(slice);
  if (!entry.on_demand) return entry.variables[0]->value();
  const auto rows = entry.on_demand->places.rows();
  return Tensor::of<std::int64_t>(Shape{std::ssize(rows)}, rows);
}

Tensor ParameterStore::rows(std::uint32_t slice, const Tensor& rows) {
  const Entry& entry = entries_.at(slice);
  if (!entry.on_demand) return rows_of(entry.variables[0]->value(), rows);
  const OnDemand& kept = *entry.on_demand;
  const RowDraws& draws = kept.draws.front();
  const auto wanted = rows.values<std::int64_t>();
  Shape shape = draws.shape();
  shape.set_dim(0, std::ssize(wanted));
  Tensor out(draws.dtype(), shape);
  const std::byte* values = entry.variables[0]->value().raw();
  device_.parallelism().parallel_for(std::ssize(wanted), 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = wanted[static_cast<std::size_t>(i)], place = kept.places.find(row);
      std::byte* to = out.mutable_raw() + static_cast<std::size_t>(i) * draws.row_bytes();
      if (place < 0)
        draws.draw(kept.row_begin + row * kept.stride, to);
      else
        std::memcpy(to, values + static_cast<std::size_t>(place) * draws.row_bytes(), draws.row_bytes());
    }
  });
  return out;
}

UpdatedRows ParameterStore::updated_rows(std::uint32_t slice) const {
  const Entry& entry = entries_.at(slice);
  const auto numbers = entry.on_demand->places.rows();
  const auto rows = std::ssize(numbers);
  UpdatedRows out{Tensor::of<std::int64_t>(Shape{rows}, numbers), entry.variables[0]->value().rows(0, rows), {}};
  for (std::size_t i = 1; i < entry.variables.size(); ++i)
    out.slots.push_back(entry.variables[i]->value().rows(0, rows));
  return out;
}

// Room for so many rows, half as many again when it has to grow: mostly in place. Memory is reserved for all rows of
// the slice; where that is refused, and after an update that left old values to their readers, rows are copied.
void ParameterStore::make_room(Entry& entry, std::int64_t rows) const {
  for (auto& variable : entry.variables) {
    const Tensor& old = variable->value();
    const std::int64_t room = old.shape()[0];
    if (rows <= room) return;
    Shape shape = old.shape(), all = shape;
    shape.set_dim(0, std::min(entry.on_demand->rows, std::max<std::int64_t>({rows, room + room / 2, 1024})));
    all.set_dim(0, entry.on_demand->rows);
    BufferRef memory = old.buffer();
    if (old.raw() != memory->data() || memory->size() < checked_bytes(old.dtype(), shape)) {
      memory = reserve_host_pages(checked_bytes(old.dtype(), all));
      if (!memory) memory = device_.allocator().tensor(old.dtype(), shape).buffer();
      if (old.num_bytes() > 0) std::memcpy(memory->data(), old.raw(), old.num_bytes());
    }
    variable = make_variable(std::string(variable->name()), Tensor(old.dtype(), shape, std::move(memory), 0));
  }
}

// The places of rows to be updated. Those that have none yet get one, with their first values.
Tensor ParameterStore::places_of(Entry& entry, const Tensor& rows) const {
  OnDemand& kept = *entry.on_demand;
  const std::int64_t before = kept.places.size();
  Tensor places(DType::i64, rows.shape());
  std::ranges::transform(rows.values<std::int64_t>(), places.mutable_data<std::int64_t>(),
                         [&](std::int64_t row) { return kept.places.place(row); });
  if (kept.places.size() == before) return places;
  make_room(entry, kept.places.size());
  for (std::size_t i = 0; i < entry.variables.size(); ++i) {
    const RowDraws& draws = kept.draws[i];
    std::byte* values = entry.variables[i]->writable(device_.allocator()).mutable_raw();
    for (std::int64_t place = before; place < kept.places.size(); ++place)
      draws.draw(kept.row_begin + kept.places.rows()[static_cast<std::size_t>(place)] * kept.stride,
                 values + static_cast<std::size_t>(place) * draws.row_bytes());
  }
  return places;
}

void ParameterStore::apply(std::uint32_t slice, const Update& update) {
  applied_.fetch_add(1, std::memory_order_relaxed);
  Entry& entry = entries_.at(slice);
  if (update.gradient.sparse() != entry.rule.sparse)
    invalid_argument("slice {} takes {} gradients", slice, entry.rule.sparse ? "sparse" : "dense");
  // Gradients that are not finite reach all shards or none: they skip the same updates.
  if (entry.rule.guarded && !all_finite(device_.parallelism(), update.gradient.values)) {
    ++entry.skipped;
    return constrain(entry);
  }
  const Tensor rows = entry.on_demand ? places_of(entry, update.gradient.indices) : update.gradient.indices;
  variables_.clear();
  for (const auto& v : entry.variables) variables_.push_back(v.get());
  inputs_.clear();
  inputs_.resize(variables_.size());
  const double factor = entry.rule.fixed_rate ? 1 : update.rate_scale;
  const std::int64_t number = static_cast<std::int64_t>(update.step) - entry.skipped;  // of this update, from 1
  if (entry.rule.schedule)
    inputs_.push_back(scaled(entry.rule.schedule->rate(number - 1, entry.variables[0]->dtype()), factor));
  else if (entry.rule.learning_rate.valid())
    inputs_.push_back(scaled(entry.rule.learning_rate, factor));
  if (entry.rule.counts_updates) inputs_.push_back(Tensor::scalar(number));
  if (entry.rule.sparse) inputs_.push_back(rows);
  inputs_.push_back(update.gradient.values);
  variables_.resize(inputs_.size());
  run_kernel(entry.kernel, inputs_, variables_, 0, device_);
  inputs_.clear();  // holds no gradient
  constrain(entry);
}

}  // namespace troupe
