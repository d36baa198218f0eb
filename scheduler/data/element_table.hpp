// Elements of an addressable pipeline (graph/data/pipeline.hpp), each made from its number alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/scheduler/data/pipeline_statistics.hpp>

namespace troupe {

// Thread-safe.
class ElementTable {
 public:
  virtual ~ElementTable() = default;
  // Element `index` of the epoch, below the stage's size. Throws what functions throw, and data_loss for what does not
  // fit the schema, both naming the stage.
  virtual data::Element read(std::uint64_t epoch, std::uint64_t index) const = 0;
  // Writes it to row `row` of tensors of the schema's dtypes and shapes, with a leading dimension. Only for schemas
  // without unknown dimensions.
  virtual void read_row(std::uint64_t epoch, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const;
  // Likewise, several to rows from `row` on.
  virtual void read_rows(std::uint64_t epoch, std::span<const std::uint64_t> indices, std::int64_t row,
                         std::span<Tensor> out) const;
  // Counts elements read through this table, for the statistics: whoever reads calls it, once for many.
  virtual void count(std::uint64_t elements) const = 0;
};

// Throws failed_precondition, saying why, for a pipeline that is not addressable.
// `statistics`: counts what its stages do and outlives the table, or null.
std::shared_ptr<const ElementTable> open_table(const data::StageRef& stage,
                                               const PipelineStatistics* statistics = nullptr);

}  // namespace troupe
