// The fields of a row of CSV.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <troupe/kernels/readers/csv.hpp>

namespace troupe {

// Throws invalid_argument for separators and quotes that cannot be told from each other, or from line ends.
void check_csv_format(const CsvFormat& format);
// Whether columns may have the dtype.
bool is_csv_dtype(DType dtype);
// Whether the text is a number of the dtype, i64 or f32.
bool is_csv_number(std::string_view text, DType dtype);
// For errors: cut, in quotes, without bytes that are no text.
std::string shown_text(std::string_view text);

// Goes over the fields of a row, which must outlive it. A row without bytes has one field, which is empty.
class CsvFields {
 public:
  CsvFields(std::string_view row, const CsvFormat& format)
      : rest_(row), separator_(format.separator), quote_(format.quote) {}

  // The text of the next field, between its quotes if it has them; false behind the last one. Fields with doubled
  // quotes are copied: such text is valid until the next call.
  bool next(std::string_view& text) {
    if (ended_) return false;
    if (quote_ != '\0' && rest_.starts_with(quote_)) {
      quoted(text);
    } else {
      text = rest_.substr(0, rest_.find(separator_));
      pass(text.size());
    }
    return true;
  }
  // Null, or what is wrong with the last field.
  const char* problem() const { return problem_; }

 private:
  void quoted(std::string_view& text);
  // Over the field and the separator behind it.
  void pass(std::size_t bytes) {
    ended_ = bytes == rest_.size();
    if (!ended_) rest_.remove_prefix(bytes + 1);
  }

  std::string_view rest_;
  char separator_, quote_;
  bool ended_ = false;
  const char* problem_ = nullptr;
  std::string copy_{};
};

}  // namespace troupe
