// Records of a file in order: those of a TFRecord file, lines of text, rows of a CSV file. What a record means is up to
// a RecordParser.
//
// Positions are offsets in the decompressed file, of the first byte of a record: a stream that goes to a position it
// had before goes on with the same records.
//
// Errors name the file and the offset of the record: data_loss for a damaged one. With RecordOptions::skip_damaged such
// a record is left out and counted instead, if the next one can be found; else the rest of the file is. So is one that
// the RecordParser of a pipeline finds damaged, where records are read in order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include <troupe/kernels/readers/byte_stream.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

struct RecordOptions {
  bool skip_damaged = false;
  std::uint64_t most_bytes = std::uint64_t{1} << 30;  // of a record: a longer one is damaged
  // With skip_damaged: gets the error of each record that a stream leaves out, on the reader's thread.
  std::function<void(const Error&)> on_damage{};
};

// Not thread-safe.
class RecordStream {
 public:
  virtual ~RecordStream() = default;
  // Sets `record`, valid until the next call; false at the end of the file.
  virtual bool next(std::string_view& record) = 0;
  // Of the next record.
  virtual std::uint64_t position() const = 0;
  virtual void seek(std::uint64_t position) = 0;
  // Damaged records left out so far; the rest of a file counts as one.
  virtual std::uint64_t skipped() const = 0;
};

}  // namespace troupe
