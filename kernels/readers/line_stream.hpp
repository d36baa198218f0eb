// Lines of text as records: without their "\n" or "\r\n"; the last one may lack its end. A byte order mark of UTF-8 at
// the beginning of the file is passed over.
//
// With quotes, a line end inside of a quoted field belongs to the record (rows of CSV, RFC 4180). A quote opens where a
// field begins and is closed by the next one; two in a row stand for one. Elsewhere it is text.
//
// Damaged: a line above RecordOptions::most_bytes, after which reading goes on behind the next line end; quotes that
// the file's end leaves open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <troupe/kernels/readers/record_stream.hpp>

namespace troupe {

struct LineOptions {
  RecordOptions records{};
  char quoted = '\0';              // '"' for rows of CSV; none by default
  char separator = ',';            // of fields; where a quote may open
  bool skip_empty = false;         // leaves out lines without text
  std::uint64_t header_lines = 0;  // at the beginning, left out
};

// Throws what opening the file throws; data_loss if a header line is damaged.
class LineStream final : public RecordStream {
 public:
  LineStream(FileSystem& files, std::string path, LineOptions options = {});

  // A view into the window of the file.
  bool next(std::string_view& record) override;
  // Behind the last record: empty lines that are left out may come first.
  std::uint64_t position() const override { return bytes_.offset() + pending_; }
  // To 0: the first line behind mark and header.
  void seek(std::uint64_t position) override;
  std::uint64_t skipped() const override { return skipped_; }

 private:
  void begin();
  bool read_line(std::string_view& line);
  bool fits(std::uint64_t bytes) const { return bytes <= options_.records.most_bytes; }
  void left_out(const Error& damage);
  void pass_over_damage(bool to_end);

  LineOptions options_;
  ByteStream bytes_;
  std::size_t pending_ = 0;  // bytes of the last record, which the stream still holds
  std::uint64_t skipped_ = 0;
};

}  // namespace troupe
