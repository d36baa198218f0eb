#include "troupe/scheduler/data/tensor_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/batch_ring.hpp>
#include <troupe/scheduler/data/permutation.hpp>
#include <troupe/scheduler/data/slot_rows.hpp>

namespace troupe {
namespace {

// Rows of a source of `all`: those of an order, or consecutive ones. After the last follows the first.
struct Rows {
  std::span<const std::uint32_t> order;  // empty: consecutive
  std::int64_t first = 0;                // in the order, or in the source
  std::int64_t count = 0;
  std::int64_t all = 0;

  std::int64_t operator[](std::int64_t i) const {
    const std::int64_t place = first + i < all ? first + i : (first + i) % all;
    return order.empty() ? place : order[static_cast<std::size_t>(place)];
  }
  bool consecutive() const { return order.empty() && first + count <= all; }
};

void copy_rows(const Tensor& from, const Rows& rows, Tensor& to) {
  if (rows.count == 0) return;
  if (from.dtype() == DType::string) {
    const std::int64_t width = to.num_elements() / rows.count;
    const auto* source = from.data<std::string>();
    auto* target = to.mutable_data<std::string>();
    for (std::int64_t i = 0; i < rows.count; ++i) std::copy_n(source + rows[i] * width, width, target + i * width);
    return;
  }
  const auto width = to.num_bytes() / static_cast<std::size_t>(rows.count);
  const auto* source = static_cast<const std::byte*>(from.raw());
  auto* target = static_cast<std::byte*>(to.mutable_raw());
  if (rows.consecutive()) {
    std::memcpy(target, source + static_cast<std::size_t>(rows.first) * width, to.num_bytes());
    return;
  }
  for (std::int64_t i = 0; i < rows.count; ++i)
    std::memcpy(target + static_cast<std::size_t>(i) * width, source + static_cast<std::size_t>(rows[i]) * width,
                width);
}

class TensorReader final : public BatchReader {
 public:
  TensorReader(const BatchSchema& schema, const std::vector<Tensor>& tensors, std::int64_t rows, const BatchPlan& plan,
               std::uint64_t steps)
      : schema_(schema), tensors_(tensors), rows_(rows), plan_(plan), steps_(steps), ring_(plan) {}

  std::optional<UnmadeBatch> begin(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
    if (slot >= plan_.slots) invalid_argument("slot {} of {}", slot, plan_.slots);
    if (step >= steps_) return std::nullopt;
    if (plan_.shuffle && (!order_ || epoch != epoch_)) {
      order_ = std::make_shared<const Order>(permutation(plan_.seed, epoch, static_cast<std::uint64_t>(rows_)));
      epoch_ = epoch;
    }
    const auto [first, end] = rows_of_slot(plan_, static_cast<std::uint64_t>(rows_), step, slot);
    return UnmadeBatch{epoch, step, slot, static_cast<std::int64_t>(end - first), order_};
  }

  Batch make(UnmadeBatch&& unmade) const override {
    const auto [first, end] = rows_of_slot(plan_, static_cast<std::uint64_t>(rows_), unmade.step, unmade.slot);
    Rows rows{{}, static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first), rows_};
    if (unmade.noted) rows.order = *static_cast<const Order*>(unmade.noted.get());
    Batch batch = ring_.take(schema_, rows.count);
    for (std::size_t i = 0; i < tensors_.size(); ++i) copy_rows(tensors_[i], rows, batch.components[i]);
    return batch;
  }

 private:
  using Order = std::vector<std::uint32_t>;

  const BatchSchema& schema_;
  const std::vector<Tensor>& tensors_;
  const std::int64_t rows_;
  const BatchPlan plan_;
  const std::uint64_t steps_;
  std::uint32_t epoch_ = 0;
  std::shared_ptr<const Order> order_;  // of the epoch; null: unless they are shuffled
  mutable BatchRing ring_;
};

}  // namespace

TensorDataset::TensorDataset(std::vector<std::pair<std::string, Tensor>> components) {
  for (auto& [name, tensor] : components) {
    if (!tensor.valid() || tensor.shape().is_scalar() || !tensor.space().on_host())
      invalid_argument("component '{}' must be a tensor in host memory with one row per example", name);
    if (schema_.empty()) rows_ = tensor.shape()[0];
    if (tensor.shape()[0] != rows_)
      invalid_argument("component '{}' has {} examples, but '{}' has {}", name, tensor.shape()[0], schema_[0].name,
                       rows_);
    schema_.push_back({name, tensor.dtype(), tensor.shape().sub(1, tensor.shape().rank())});
    tensors_.push_back(std::move(tensor));
  }
  check_schema(schema_);
  if (rows_ == 0) invalid_argument("component '{}' has no examples", schema_[0].name);
}

std::unique_ptr<BatchReader> TensorDataset::open(const BatchPlan& plan) const {
  check_plan(plan);
  if (plan.shuffle && rows_ > std::int64_t{std::numeric_limits<std::uint32_t>::max()})
    invalid_argument("{} examples are too many to shuffle", rows_);
  return std::make_unique<TensorReader>(schema_, tensors_, rows_, plan, *steps_per_epoch(*this, plan));
}

std::pair<TensorDataset, TensorDataset> TensorDataset::split(double last_part) const {
  const auto last = last_part > 0 && last_part < 1 ? std::llround(static_cast<double>(rows_) * last_part) : 0;
  if (last < 1 || last >= rows_)
    invalid_argument("{} of {} examples cannot be split off: both parts need examples", last_part, rows_);
  std::vector<std::pair<std::string, Tensor>> first, second;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    first.emplace_back(schema_[i].name, tensors_[i].rows(0, rows_ - last));
    second.emplace_back(schema_[i].name, tensors_[i].rows(rows_ - last, rows_));
  }
  return {TensorDataset(std::move(first)), TensorDataset(std::move(second))};
}

}  // namespace troupe
