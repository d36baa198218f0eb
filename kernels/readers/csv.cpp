#include "troupe/kernels/readers/csv.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <troupe/kernels/readers/csv_fields.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using CsvRead = bool (*)(std::string_view text, std::byte* out);

std::string_view without_spaces(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Whether a number that its dtype cannot hold is too small, not too large: by the decimal place of its first digit.
bool is_below_all(std::string_view number) {
  const std::size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, e);
  std::int64_t exponent = 0;
  if (e < number.size()) {
    std::string_view text = number.substr(e + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    constexpr std::int64_t kBeyond = std::int64_t{1} << 62;
    if (std::from_chars(text.data(), text.data() + text.size(), exponent).ec != std::errc())
      exponent = text.starts_with('-') ? -kBeyond : kBeyond;
    exponent = std::clamp(exponent, -kBeyond, kBeyond);
  }
  const auto first = static_cast<std::int64_t>(digits.find_first_of("123456789"));
  const auto point = static_cast<std::int64_t>(std::min(digits.find('.'), digits.size()));
  return point - first + exponent < 0;
}

template <class T>
bool parse_csv_number(std::string_view text, T& out) {
  text = without_spaces(text);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return false;
  }
  const char* const end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(text.data(), end, out);
  if (behind != end) return false;
  if (error == std::errc()) return true;
  if constexpr (std::is_floating_point_v<T>) {
    if (error != std::errc::result_out_of_range || !is_below_all(text)) return false;
    out = text.starts_with('-') ? -T{0} : T{0};
    return true;
  }
  return false;
}

template <class T>
bool read_csv_number(std::string_view text, std::byte* out) {
  return parse_csv_number(text, *reinterpret_cast<T*>(out));
}

bool read_csv_bool(std::string_view text, std::byte* out) {
  text = without_spaces(text);
  const auto is = [&](std::string_view word) {
    return std::ranges::equal(text, word, {},
                              [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 32) : c; });
  };
  const bool yes = is("1") || is("true");
  if (!yes && !is("0") && !is("false")) return false;
  *reinterpret_cast<bool*>(out) = yes;
  return true;
}

bool read_csv_string(std::string_view text, std::byte* out) {
  reinterpret_cast<std::string*>(out)->assign(text);
  return true;
}

CsvRead csv_reader(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return &read_csv_number<float>;
    case DType::f64:
      return &read_csv_number<double>;
    case DType::i32:
      return &read_csv_number<std::int32_t>;
    case DType::i64:
      return &read_csv_number<std::int64_t>;
    case DType::u8:
      return &read_csv_number<std::uint8_t>;
    case DType::boolean:
      return &read_csv_bool;
    case DType::string:
      return &read_csv_string;
    default:
      return nullptr;
  }
}

}  // namespace

bool is_csv_dtype(DType dtype) { return csv_reader(dtype) != nullptr; }

bool is_csv_number(std::string_view text, DType dtype) {
  alignas(8) std::byte room[8];
  return (dtype == DType::i64 || dtype == DType::f32) && csv_reader(dtype)(text, room);
}

CsvParser::CsvParser(CsvOptions options) : options_(std::move(options)), slots_(options_.columns.size()) {
  check_csv_format(options_.format);
  if (options_.columns.size() > std::numeric_limits<std::uint32_t>::max())
    invalid_argument("CSV: {} columns are too many", options_.columns.size());
  if (options_.components.empty()) {
    for (std::size_t i = 0; i < options_.columns.size(); ++i)
      if (const CsvColumn& column = options_.columns[i]; column.dtype != DType::invalid)
        add_component({column.name, column.dtype, {i}});
  } else {
    for (const CsvComponent& component : options_.components) add_component(component);
  }
  check_schema(schema_);
}

void CsvParser::add_component(const CsvComponent& component) {
  const CsvRead read = csv_reader(component.dtype);
  if (read == nullptr)
    invalid_argument("CSV: component '{}' is {}: pass f32, f64, i32, i64, u8, bool or string", component.name,
                     name(component.dtype));
  if (component.columns.empty()) invalid_argument("CSV: component '{}' has no columns", component.name);
  std::uint32_t element = 0;
  for (const std::size_t i : component.columns) {
    if (i >= slots_.size())
      invalid_argument("CSV: component '{}' needs column {} (from 0), but there are {}", component.name, i,
                       slots_.size());
    if (slots_[i].read != nullptr)
      invalid_argument("CSV: column {} ('{}') is used twice, by component '{}' the second time", i,
                       options_.columns[i].name, component.name);
    slots_[i] = {read, static_cast<std::uint32_t>(schema_.size()), element++};
    if (const auto& fallback = options_.columns[i].fallback; fallback) {
      Tensor value(component.dtype, Shape{});
      if (!read(*fallback, value.mutable_raw()))
        invalid_argument("CSV: column {} ('{}'): {} is in place of empty fields, but is no {}", i,
                         options_.columns[i].name, shown_text(*fallback), name(component.dtype));
    }
  }
  schema_.push_back({.name = component.name, .dtype = component.dtype});
  if (element > 1) schema_.back().shape = Shape{element};
}

void CsvParser::check_batch(std::int64_t row, std::span<const Tensor> out) const {
  if (out.size() != schema_.size()) invalid_argument("CSV: {} tensors for {} components", out.size(), schema_.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Shape& shape = out[i].shape();
    const bool fits = out[i].dtype() == schema_[i].dtype && shape.rank() == schema_[i].shape.rank() + 1 && row >= 0 &&
                      row < shape[0] && (shape.rank() == 1 || shape[1] == schema_[i].shape[0]);
    if (!fits || !out[i].space().on_host())
      invalid_argument("CSV: row {} of component '{}' {}{} cannot be in a tensor {}{}", row, schema_[i].name,
                       name(schema_[i].dtype), schema_[i].shape.to_string(), name(out[i].dtype()), shape.to_string());
  }
}

void CsvParser::read_field(std::string_view text, std::size_t column, const RecordPlace& place, std::byte* out) const {
  const CsvColumn& from = options_.columns[column];
  if (text.empty() && from.fallback) text = *from.fallback;
  const Slot& slot = slots_[column];
  if (slot.read(text, out)) [[likely]]
    return;
  fail(Code::data_loss, "{}: byte {}: column {} of {} ('{}'): {} is no {}{}", place.file, place.offset, column + 1,
       slots_.size(), from.name, shown_text(text), name(schema_[slot.component].dtype),
       text.empty() ? ", and the column has no fallback" : "");
}

void CsvParser::parse(std::string_view record, const RecordPlace& place, std::int64_t row,
                      std::span<Tensor> out) const {
  check_batch(row, out);
  CsvFields fields(record, options_.format);
  std::string_view text;
  std::size_t column = 0;
  for (; fields.next(text); ++column) {
    if (fields.problem() != nullptr)
      fail(Code::data_loss, "{}: byte {}: column {}{}: {}", place.file, place.offset, column + 1,
           column < slots_.size() ? " ('" + options_.columns[column].name + "')" : "", fields.problem());
    if (column >= slots_.size()) continue;
    const Slot& slot = slots_[column];
    if (slot.read == nullptr) continue;
    const BatchComponent& component = schema_[slot.component];
    const auto elements = component.shape.rank() == 0 ? 1 : static_cast<std::size_t>(component.shape[0]);
    const std::size_t at = static_cast<std::size_t>(row) * elements + slot.element;
    read_field(text, column, place, out[slot.component].mutable_raw() + at * size_of(component.dtype));
  }
  if (column != slots_.size())
    fail(Code::data_loss, "{}: byte {}: the row has {} columns, but must have {}", place.file, place.offset, column,
         slots_.size());
}

std::vector<Tensor> CsvParser::parse(std::string_view record, const RecordPlace& place) const {
  std::vector<Tensor> out;
  for (const BatchComponent& component : schema_) out.emplace_back(component.dtype, component.batch_shape(1));
  parse(record, place, 0, out);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = out[i].reshaped(schema_[i].shape);
  return out;
}

}  // namespace troupe
