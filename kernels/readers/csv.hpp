// Rows of comma-separated values (RFC 4180), or with another separator and without quotes: parsed to components of a
// batch, and written.
//
//   const auto columns = infer_csv(files, "houses.csv");
//   const CsvParser parser({.columns = columns, .components = {{"x", DType::f32, {0, 1, 2}}, {"y", DType::f32, {3}}}});
//   LineStream rows(files, "houses.csv", csv_lines());
//
// Numbers are those of std::from_chars; a '+' in front, and spaces and tabs around them, are accepted. Floats too small
// for their dtype become 0; "inf" and "nan" are floats. bool: true, false, 1, 0, in any case. A string is the field as
// it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/kernels/readers/line_stream.hpp>
#include <troupe/kernels/readers/record_parser.hpp>

namespace troupe {

struct CsvFormat {
  char separator = ',';
  char quote = '"';    // '\0': none, as in most files of tab-separated values
  bool header = true;  // the first row has the names of the columns
};

// Rows of such a file as records, without header and empty lines.
LineOptions csv_lines(const CsvFormat& format = {}, const RecordOptions& records = {});

struct CsvColumn {
  std::string name{};
  DType dtype = DType::f32;  // f32, f64, i32, i64, u8, boolean, string; invalid: passed over
  // Read in place of an empty field. Without it, an empty field is an error, except for strings.
  std::optional<std::string> fallback{};
};

// Columns of the file, by number from 0, as one tensor: a scalar for one column, a vector for several. They are read as
// its dtype, whatever that of the columns.
struct CsvComponent {
  std::string name{};
  DType dtype = DType::f32;
  std::vector<std::size_t> columns{};
};

struct CsvOptions {
  CsvFormat format{};
  std::vector<CsvColumn> columns{};        // all of the file, in its order
  std::vector<CsvComponent> components{};  // none: each column that is not passed over is a component of its name
  RecordOptions records{};                 // of the files that data::csv() reads
};

// The constructor throws invalid_argument for options that do not fit each other.
class CsvParser final : public RecordParser {
 public:
  explicit CsvParser(CsvOptions options);

  const BatchSchema& schema() const override { return schema_; }
  // Errors: data_loss that names file, offset, column, text and dtype; a row with another number of columns.
  void parse(std::string_view record, const RecordPlace& place, std::int64_t row, std::span<Tensor> out) const override;
  std::vector<Tensor> parse(std::string_view record, const RecordPlace& place) const override;

 private:
  // Reads a number or a string; false: the text is none.
  using Read = bool (*)(std::string_view text, std::byte* out);
  // Where a column of the file goes.
  struct Slot {
    Read read = nullptr;  // null: it is passed over
    std::uint32_t component = 0, element = 0;
  };
  void add_component(const CsvComponent& component);
  void check_batch(std::int64_t row, std::span<const Tensor> out) const;
  void read_field(std::string_view text, std::size_t column, const RecordPlace& place, std::byte* out) const;

  CsvOptions options_;
  std::vector<Slot> slots_;  // by column of the file
  BatchSchema schema_;
};

struct CsvHeader {
  std::vector<std::string> names{};
  // The column of this name, from 0. Throws not_found naming those that exist.
  std::size_t index(std::string_view name) const;
};

// The fields of the first row: names, if the file has a header; "c0", "c1", ... where they are empty. Throws data_loss
// for a file without rows, and for a row above 64 MiB; infer_csv(), too.
CsvHeader read_csv_header(FileSystem& files, const std::string& path, const CsvFormat& format = {});

// Columns with the dtype that fits all of the first `rows` rows: i64, else f32, else string. Numbers that are missing
// become NaN, so such a column is f32. Without header, names are "c0", "c1", ... Rows that are damaged do not count if
// they are skipped, else they are errors. Throws data_loss for columns with one name.
std::vector<CsvColumn> infer_csv(FileSystem& files, const std::string& path, const CsvFormat& format = {},
                                 std::size_t rows = 1000, bool skip_damaged = false);

// Writes batches as rows. A component has a column for each element of an example: "x", or "x_0", "x_1", ... Reading
// gives the same bits, of any NaN a NaN.
class CsvWriter {
 public:
  // `file` must be empty and outlive the writer. Writes the header. Throws invalid_argument for a schema of unknown
  // shapes, of other dtypes than CsvColumn's, or without columns.
  CsvWriter(WritableFile& file, BatchSchema schema, const CsvFormat& format = {});
  // Appends the rows of a batch. Throws invalid_argument if its tensors do not fit the schema, or for text that needs
  // quotes where there are none: then nothing is appended.
  void write(std::span<const Tensor> batch);

 private:
  void add_row(std::span<const Tensor> batch, std::int64_t row);
  void add_field(std::string_view text);
  void end_row();
  void flush();

  WritableFile* file_;
  BatchSchema schema_;
  CsvFormat format_;
  std::string buffer_{};
  std::size_t columns_ = 0;
  bool file_begins_ = true, row_begins_ = true;
};

}  // namespace troupe
