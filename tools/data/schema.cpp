// Schemas as text, and the parsers that they become.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "tools/data/input.hpp"
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/json_lines.hpp>
#include <troupe/messages/element_types.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data_tool {
namespace {

// "f32[2,?]" for the part behind ':'.
void parse_type(std::string_view text, NamedField& field) {
  const std::size_t open = std::min(text.find('['), text.size());
  const auto dtype = parse_dtype(text.substr(0, open));
  if (!dtype || !is_data(*dtype))
    invalid_argument("schema: '{}' of '{}' is no dtype: pass f32, i64, u8, string, ...", text.substr(0, open),
                     field.name);
  field.dtype = *dtype;
  std::string_view dims = text.substr(open);
  if (dims.empty()) return;
  if (!dims.ends_with(']')) invalid_argument("schema: the dimensions '{}' of '{}' have no ']'", dims, field.name);
  dims = dims.substr(1, dims.size() - 2);
  std::vector<std::int64_t> shape;
  while (!dims.empty()) {
    const std::string_view word = dims.substr(0, dims.find(','));
    dims.remove_prefix(std::min(dims.size(), word.size() + 1));
    std::int64_t dim = kUnknown;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), dim);
    if (word != "?" && (error != std::errc() || end != word.data() + word.size() || dim < 0))
      invalid_argument("schema: '{}' of '{}' is no dimension: pass numbers, or ? for one that varies", word,
                       field.name);
    shape.push_back(word == "?" ? kUnknown : dim);
  }
  field.shape = Shape(std::span<const std::int64_t>(shape));
}

// All elements are the value. Throws invalid_argument for text that is none.
Tensor filled(const NamedField& field, const std::string& text) {
  Shape shape = field.shape;
  if (!shape.fully_known()) shape.set_dim(0, 0);
  Tensor out(field.dtype, shape);
  if (field.dtype == DType::string) {
    std::ranges::fill(out.mutable_values<std::string>(), text);
    return out;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    invalid_argument("schema: the fallback '{}' of '{}' is no number", text, field.name);
  dispatch(RealTypes{}, field.dtype, [&]<class T>() {
    std::ranges::fill(out.template mutable_values<T>(), static_cast<T>(static_cast<Compute<T>>(value)));
  });
  return out;
}

std::shared_ptr<const RecordParser> csv_parser(const std::vector<NamedField>& fields, const CsvFormat& csv,
                                               FileSystem& files, const std::string& path) {
  CsvHeader header = read_csv_header(files, path, csv);
  if (!csv.header)
    for (std::size_t i = 0; i < header.names.size(); ++i) header.names[i] = fmt::format("c{}", i);
  CsvOptions options{.format = csv};
  for (const std::string& name : header.names) options.columns.push_back({.name = name, .dtype = DType::invalid});
  for (const NamedField& field : fields) {
    if (field.shape.rank() > 1 || !field.shape.fully_known())
      invalid_argument("schema: '{}' has the shape {}: columns of a table make scalars or vectors", field.name,
                       field.shape.to_string());
    CsvComponent component{field.name, field.dtype, {}};
    const std::int64_t columns = field.shape.num_elements();
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::size_t column =
          header.index(field.shape.is_scalar() ? field.name : fmt::format("{}_{}", field.name, i));
      options.columns[column].fallback = field.fallback;
      component.columns.push_back(column);
    }
    options.components.push_back(std::move(component));
  }
  return std::make_shared<const CsvParser>(std::move(options));
}

// Records of fixed size have the size of the component.
class WholeRecord final : public RecordParser {
 public:
  explicit WholeRecord(BatchComponent component) : schema_{std::move(component)} {}
  const BatchSchema& schema() const override { return schema_; }
  void parse(std::string_view record, const RecordPlace& place, std::int64_t row,
             std::span<Tensor> out) const override {
    data::copy_to_row(parse(record, place), row, out);
  }
  std::vector<Tensor> parse(std::string_view record, const RecordPlace&) const override {
    const BatchComponent& component = schema_[0];
    if (component.dtype == DType::string) return {Tensor::scalar(std::string(record))};
    Tensor out(DType::u8, component.shape);
    std::memcpy(out.mutable_raw(), record.data(), std::min(record.size(), out.num_bytes()));
    return {out};
  }

 private:
  BatchSchema schema_;
};

}  // namespace

std::vector<NamedField> parse_schema(std::string_view text) {
  std::vector<NamedField> fields;
  while (!text.empty()) {
    std::size_t end = 0;
    for (int depth = 0; end < text.size() && (depth > 0 || text[end] != ','); ++end)
      depth += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
    std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    NamedField field;
    if (const std::size_t at = part.find('='); at != part.npos) {
      field.fallback = std::string(part.substr(at + 1));
      part = part.substr(0, at);
    }
    const std::size_t colon = part.rfind(':');
    if (colon == part.npos || colon == 0)
      invalid_argument("schema: '{}' is no NAME:DTYPE[DIMENSIONS], as in x:f32[28,28] or label:i64", part);
    field.name = part.substr(0, colon);
    parse_type(part.substr(colon + 1), field);
    fields.push_back(std::move(field));
  }
  if (fields.empty()) invalid_argument("schema: pass NAME:DTYPE[DIMENSIONS], as in x:f32[28,28],label:i64");
  return fields;
}

std::string schema_text(const BatchSchema& schema) {
  std::string out;
  for (const BatchComponent& component : schema)
    out += fmt::format("{}{}:{}{}", out.empty() ? "" : ",", component.name, name(component.dtype),
                       component.shape.is_scalar() ? "" : component.shape.to_string());
  return out;
}

std::shared_ptr<const RecordParser> parser_of_schema(Format format, const std::vector<NamedField>& fields,
                                                     const CsvFormat& csv, FileSystem& files, const std::string& path) {
  switch (format) {
    case Format::tfrecord: {
      std::vector<ExampleFeature> features;
      for (const NamedField& field : fields)
        features.push_back({.name = field.name,
                            .dtype = field.dtype,
                            .shape = field.shape,
                            .otherwise = field.fallback ? filled(field, *field.fallback) : Tensor()});
      return std::make_shared<const ExampleParser>(std::move(features));
    }
    case Format::jsonl: {
      std::vector<JsonField> all;
      for (const NamedField& field : fields)
        all.push_back({.name = field.name, .dtype = field.dtype, .shape = field.shape, .fallback = field.fallback});
      return std::make_shared<const JsonLinesParser>(std::move(all));
    }
    case Format::csv:
    case Format::tsv:
      return csv_parser(fields, csv, files, path);
    default:
      invalid_argument("--schema: files of format {} have their own", name(format));
  }
}

std::shared_ptr<const RecordParser> text_parser() {
  return std::make_shared<const WholeRecord>(BatchComponent{"text", DType::string, {}});
}

std::shared_ptr<const RecordParser> bytes_parser(std::uint64_t record_bytes) {
  return std::make_shared<const WholeRecord>(
      BatchComponent{"record", DType::u8, Shape{static_cast<std::int64_t>(record_bytes)}});
}

}  // namespace troupe::data_tool
