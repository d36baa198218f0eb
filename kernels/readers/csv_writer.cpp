// CsvWriter: rows of CSV with quotes where RFC 4180 needs them, numbers as short as they can be read back.
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <troupe/kernels/readers/csv_fields.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// Whether a file that begins with the text is not taken for text: marks of UTF-8, gzip and zstd.
bool begins_other_file(std::string_view text) {
  for (const std::string_view mark : {"\xef\xbb\xbf", "\x1f\x8b", "\x28\xb5\x2f\xfd"})
    if (text.starts_with(mark)) return true;
  return false;
}

template <class T>
std::string_view csv_number(const Tensor& tensor, std::int64_t at, std::array<char, 40>& room) {
  const auto end = std::to_chars(room.data(), room.data() + room.size(), tensor.data<T>()[at]).ptr;
  return {room.data(), static_cast<std::size_t>(end - room.data())};
}

std::string_view csv_text(const Tensor& tensor, std::int64_t at, std::array<char, 40>& room) {
  switch (tensor.dtype()) {
    case DType::f32:
      return csv_number<float>(tensor, at, room);
    case DType::f64:
      return csv_number<double>(tensor, at, room);
    case DType::i32:
      return csv_number<std::int32_t>(tensor, at, room);
    case DType::i64:
      return csv_number<std::int64_t>(tensor, at, room);
    case DType::u8:
      return csv_number<std::uint8_t>(tensor, at, room);
    case DType::boolean:
      return tensor.data<bool>()[at] ? "true" : "false";
    default:
      return tensor.data<std::string>()[at];
  }
}

}  // namespace

CsvWriter::CsvWriter(WritableFile& file, BatchSchema schema, const CsvFormat& format)
    : file_(&file), schema_(std::move(schema)), format_(format) {
  check_csv_format(format_);
  check_schema(schema_);
  for (const BatchComponent& component : schema_) {
    if (!component.shape.fully_known() || !is_csv_dtype(component.dtype))
      invalid_argument(
          "CSV: cannot write component '{}' {}{}: pass f32, f64, i32, i64, u8, bool or string of a known shape",
          component.name, name(component.dtype), component.shape.to_string());
    columns_ += static_cast<std::size_t>(component.shape.num_elements());
  }
  if (columns_ == 0) invalid_argument("CSV: the components have no elements to write");
  if (!format_.header) return;
  for (const BatchComponent& component : schema_)
    for (std::int64_t i = 0; i < component.shape.num_elements(); ++i)
      add_field(component.shape.is_scalar() ? component.name : component.name + "_" + std::to_string(i));
  end_row();
  flush();
}

void CsvWriter::write(std::span<const Tensor> batch) {
  if (batch.size() != schema_.size())
    invalid_argument("CSV: {} tensors for {} components", batch.size(), schema_.size());
  const std::int64_t rows = batch[0].shape().rank() > 0 ? batch[0].shape()[0] : 0;
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (batch[i].dtype() != schema_[i].dtype || !(batch[i].shape() == schema_[i].batch_shape(rows)) ||
        !batch[i].space().on_host())
      invalid_argument("CSV: component '{}' is {}{}, but must be {}{}", schema_[i].name, name(batch[i].dtype()),
                       batch[i].shape().to_string(), name(schema_[i].dtype), schema_[i].batch_shape(rows).to_string());
  const bool file_begins = file_begins_;
  try {
    for (std::int64_t row = 0; row < rows; ++row) add_row(batch, row);
  } catch (...) {
    buffer_.clear();
    file_begins_ = file_begins;
    row_begins_ = true;
    throw;
  }
  flush();
}

void CsvWriter::add_row(std::span<const Tensor> batch, std::int64_t row) {
  std::array<char, 40> room;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::int64_t elements = schema_[i].shape.num_elements();
    for (std::int64_t k = row * elements; k < (row + 1) * elements; ++k) add_field(csv_text(batch[i], k, room));
  }
  end_row();
}

void CsvWriter::add_field(std::string_view text) {
  if (!row_begins_) buffer_ += format_.separator;
  const char marks[] = {format_.separator, '\n', '\r', format_.quote};
  const std::size_t kinds = format_.quote == '\0' ? 3 : 4;
  const bool needs_quotes = text.find_first_of(std::string_view(marks, kinds)) != text.npos ||
                            (text.empty() && columns_ == 1) || (file_begins_ && begins_other_file(text));
  row_begins_ = file_begins_ = false;
  if (!needs_quotes) {
    buffer_ += text;
    return;
  }
  if (format_.quote == '\0') invalid_argument("CSV: {} cannot be written without quotes", shown_text(text));
  buffer_ += format_.quote;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(format_.quote, at), text.size());
    buffer_.append(text, at, end - at);
    if (end < text.size()) buffer_.append(2, format_.quote);
    at = end + 1;
  }
  buffer_ += format_.quote;
}

void CsvWriter::end_row() {
  buffer_ += '\n';
  row_begins_ = true;
}

void CsvWriter::flush() {
  file_->append(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

}  // namespace troupe
