#include "troupe/scheduler/data/tensor_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include <troupe/messages/error.hpp>
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
  TensorReader(const std::vector<Tensor>& tensors, std::int64_t rows, const BatchPlan& plan, std::uint64_t steps)
      : tensors_(tensors), rows_(rows), plan_(plan), steps_(steps), ring_(std::max<std::size_t>(1, plan.in_use)) {}

  std::optional<Batch> read(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
    if (slot >= plan_.slots) invalid_argument("slot {} of {}", slot, plan_.slots);
    if (step >= steps_) return std::nullopt;
    if (plan_.shuffle && (order_.empty() || epoch != epoch_)) {
      order_ = permutation(plan_.seed, epoch, static_cast<std::uint64_t>(rows_));
      epoch_ = epoch;
    }
    const auto [first, end] = rows_of_slot(plan_, static_cast<std::uint64_t>(rows_), step, slot);
    Batch& batch = ring_[next_];
    next_ = (next_ + 1) % ring_.size();
    gather({order_, static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first), rows_}, batch);
    return batch;
  }

 private:
  void gather(const Rows& rows, Batch& batch) {
    batch.examples = rows.count;
    batch.components.resize(tensors_.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      Shape shape = tensors_[i].shape();
      shape.set_dim(0, rows.count);
      reuse_or_allocate(batch.components[i], tensors_[i].dtype(), shape);
      copy_rows(tensors_[i], rows, batch.components[i]);
    }
  }

  void reuse_or_allocate(Tensor& tensor, DType dtype, const Shape& shape) const {
    const bool fits = tensor.valid() && tensor.dtype() == dtype && tensor.shape() == shape && tensor.unique() &&
                      tensor.aligned() && tensor.space().on_host();
    if (!fits)
      tensor = plan_.memory && dtype != DType::string ? plan_.memory->tensor(dtype, shape) : Tensor(dtype, shape);
  }

  const std::vector<Tensor>& tensors_;
  const std::int64_t rows_;
  const BatchPlan plan_;
  const std::uint64_t steps_;
  std::uint32_t epoch_ = 0;
  std::vector<std::uint32_t> order_;
  std::vector<Batch> ring_;
  std::size_t next_ = 0;
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
  return std::make_unique<TensorReader>(tensors_, rows_, plan, *steps_per_epoch(*this, plan));
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
