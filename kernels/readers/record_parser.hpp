// Turns records into examples: components of a batch with one row per record.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <troupe/graph/data/batch_schema.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Where a record is, for errors.
struct RecordPlace {
  std::string_view file{};
  std::uint64_t offset = 0;
};

// Thread-safe.
class RecordParser {
 public:
  virtual ~RecordParser() = default;
  // Components without unknown dimensions have the same shape in all records.
  virtual const BatchSchema& schema() const = 0;
  // Parses row `row` of `out`, tensors of the schema's dtypes and shapes with leading dimension: writes all of it. Only
  // for schemas without unknown dimensions. Throws data_loss that names place and component.
  virtual void parse(std::string_view record, const RecordPlace& place, std::int64_t row,
                     std::span<Tensor> out) const = 0;
  // Parses one record to tensors of their own, without leading dimension.
  virtual std::vector<Tensor> parse(std::string_view record, const RecordPlace& place) const = 0;
};

}  // namespace troupe
