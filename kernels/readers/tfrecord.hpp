// TFRecord files, as TensorFlow (tensorflow/core/lib/io/record_writer.h) and TensorBoard have them. A record is,
// little-endian:
//
//   8 bytes  length of the data        4 bytes  masked CRC-32C of these 8 bytes
//   data                               4 bytes  masked CRC-32C of the data
//
// The format does not say what the data means: a tf.train.Example (example.hpp), an event of TensorBoard, any bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <troupe/kernels/readers/record_stream.hpp>

namespace troupe {

class GzipFile;

// A CRC that is safe inside data which is itself checksummed: rotated right by 15 bits, plus 0xa282ead8.
std::uint32_t masked_crc32c(std::string_view bytes);

// The bytes of a record.
std::string record_of(std::string_view data);

// Reads a file, plain or compressed as ByteStream recognises it. Records are not copied: they lie in the stream's
// window. A record is damaged if a checksum is wrong, it is longer than RecordOptions::most_bytes, or the file ends
// within it; the next one is found if the checksum of its length is right.
class TfRecordStream final : public RecordStream {
 public:
  TfRecordStream(FileSystem& files, std::string path, RecordOptions options = {});
  bool next(std::string_view& record) override;
  std::uint64_t position() const override { return bytes_.offset() + given_; }
  void seek(std::uint64_t position) override;
  std::uint64_t skipped() const override { return skipped_; }

 private:
  std::string_view peek(std::size_t wanted, std::uint64_t record);
  std::string_view read(std::uint64_t& whole);
  void pass_over(std::uint64_t whole);

  ByteStream bytes_;
  RecordOptions options_;
  std::size_t given_ = 0;  // bytes of the record that next() returned last: still in the window
  bool ended_ = false;     // what follows is left out
  std::uint64_t skipped_ = 0;
};

struct TfRecordWriterOptions {
  bool gzip = false;
};

// Writes records to a file, which must outlive it. Not thread-safe. Errors are those of the file; write nothing after
// one.
//
//   replace_file(files, path, [&](WritableFile& file) {
//     TfRecordWriter writer(file, {.gzip = true});
//     for (const std::string& record : records) writer.append(record);
//     writer.finish();
//   }, temporary_suffix());
class TfRecordWriter {
 public:
  explicit TfRecordWriter(WritableFile& file, TfRecordWriterOptions options = {});
  ~TfRecordWriter();
  TfRecordWriter(const TfRecordWriter&) = delete;
  TfRecordWriter& operator=(const TfRecordWriter&) = delete;

  // May keep the record in memory until finish().
  void append(std::string_view record);
  // Gives the file all that is left, but neither syncs nor closes it. Call it once, after the last record.
  void finish();

 private:
  void flush();

  WritableFile& file_;
  std::unique_ptr<GzipFile> gzip_;  // null: not compressed
  std::string buffer_;
};

}  // namespace troupe
