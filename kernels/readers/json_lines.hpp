// Lines of JSON (JSON Lines, NDJSON): an object per line, fields of which are components of a batch.
//
//   const JsonLinesParser parser({{.name = "user.age", .dtype = DType::i32, .fallback = "0"},
//                                 {.name = "tokens", .dtype = DType::i64, .shape = {kUnknown}}});
//   LineStream lines(files, "users.jsonl", {.skip_empty = true});
//
// Refuses arrays and objects that nest deeper than 64 levels. Of a key that comes twice, the last one counts. Parsing
// takes about 16 bytes of memory per value, up to 8 times the size of a record: RecordOptions::most_bytes bounds it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/kernels/readers/record_parser.hpp>

namespace troupe {

struct JsonField {
  std::string name{};        // of the component; "a.b" is the field "b" of the object that is field "a"
  DType dtype = DType::f32;  // f32, f64, an integer, boolean, string
  Shape shape{};             // arrays are nested as it says; only the leading dimension may be unknown
  // JSON read in place of a field that is absent or null: an error without it.
  std::optional<std::string> fallback{};
};

// The constructor throws invalid_argument for other dtypes and shapes, and for a fallback that does not fit.
class JsonLinesParser final : public RecordParser {
 public:
  explicit JsonLinesParser(std::vector<JsonField> fields);

  const BatchSchema& schema() const override { return schema_; }
  // Errors: data_loss that names file, offset, field and what was expected; text that is not JSON; numbers that are not
  // of the dtype: fractions for integers (1.0 too), what does not fit, floats that would be infinite.
  void parse(std::string_view record, const RecordPlace& place, std::int64_t row, std::span<Tensor> out) const override;
  std::vector<Tensor> parse(std::string_view record, const RecordPlace& place) const override;

 private:
  std::vector<JsonField> fields_;
  BatchSchema schema_;
  std::vector<std::vector<std::string>> paths_;  // by field: keys from the outer object to the inner
  std::vector<Tensor> fallbacks_;                // by field; invalid: none
};

}  // namespace troupe
