// Batches of examples in memory.
//
//   TensorDataset source({{"x", points}, {"y", values}});  // tensors with one row per example
#pragma once

#include <utility>

#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

class TensorDataset final : public BatchSource {
 public:
  // Throws invalid_argument unless all tensors are in host memory and have the same number of rows, at least 1, and
  // names differ.
  explicit TensorDataset(std::vector<std::pair<std::string, Tensor>> components);

  const BatchSchema& schema() const override { return schema_; }
  std::optional<std::uint64_t> examples() const override { return static_cast<std::uint64_t>(rows_); }
  // Throws invalid_argument for a batch or slots below 1, and for more than 2^32 - 1 examples to shuffle.
  std::unique_ptr<BatchReader> open(const BatchPlan& plan) const override;

  const std::vector<Tensor>& tensors() const { return tensors_; }

  // All but the last part of the examples, and that part, in (0, 1); they share memory. Throws invalid_argument if
  // either has no examples.
  std::pair<TensorDataset, TensorDataset> split(double last_part) const;

 private:
  BatchSchema schema_;
  std::vector<Tensor> tensors_;
  std::int64_t rows_ = 0;
};

}  // namespace troupe
