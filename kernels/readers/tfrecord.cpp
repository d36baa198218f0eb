#include "troupe/kernels/readers/tfrecord.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include <troupe/devices/storage/crc32c.hpp>
#include <troupe/kernels/readers/gzip_file.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::size_t kLengthBytes = 8, kChecksumBytes = 4;
constexpr std::size_t kBeforeData = kLengthBytes + kChecksumBytes;
constexpr std::size_t kWriteAtOnce = 256 << 10;

template <class T>
T little_endian(std::string_view bytes) {
  static_assert(std::endian::native == std::endian::little);
  T number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

template <class T>
void append_little_endian(std::string& out, T number) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// The numbers before the data.
std::string framed_length(std::uint64_t length) {
  std::string out;
  append_little_endian(out, length);
  append_little_endian(out, masked_crc32c(out));
  return out;
}

std::string framed_checksum(std::string_view data) {
  std::string out;
  append_little_endian(out, masked_crc32c(data));
  return out;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string record_of(std::string_view data) {
  std::string out;
  out.reserve(kBeforeData + data.size() + kChecksumBytes);
  out += framed_length(data.size());
  out += data;
  out += framed_checksum(data);
  return out;
}

TfRecordStream::TfRecordStream(FileSystem& files, std::string path, RecordOptions options)
    : bytes_(files, std::move(path)), options_(std::move(options)) {}

// As ByteStream::peek; errors of decompression name the record, too.
std::string_view TfRecordStream::peek(std::size_t wanted, std::uint64_t record) {
  try {
    return bytes_.peek(wanted);
  } catch (const Error& error) {
    fail(error.code(), "{}, within the record at byte {}", error.message(), record);
  }
}

// Returns the record at the stream's offset, null at the end of the file. Sets `whole`, the bytes of a damaged record,
// if it is certain where it ends.
std::string_view TfRecordStream::read(std::uint64_t& whole) {
  const std::uint64_t at = bytes_.offset();
  std::string_view seen = peek(kBeforeData, at);
  if (seen.empty()) return {};
  const std::string_view header = seen.substr(0, kBeforeData);
  if (header.size() < kBeforeData)
    fail(Code::data_loss, "{}: record at byte {}: the file ends after {} bytes of the {} before the data",
         bytes_.path(), at, header.size(), kBeforeData);
  const auto length = little_endian<std::uint64_t>(header);
  if (const auto stored = little_endian<std::uint32_t>(header.substr(kLengthBytes)),
      computed = masked_crc32c(header.substr(0, kLengthBytes));
      stored != computed)
    fail(Code::data_loss, "{}: record at byte {}: the checksum of its length is {:08x}, but must be {:08x}{}",
         bytes_.path(), at, stored, computed, at == 0 ? ": is it a TFRecord file?" : "");

  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (length > std::min(options_.most_bytes, kMost)) {
    if (length <= kMost && at <= kMost) whole = kBeforeData + length + kChecksumBytes;
    fail(Code::data_loss, "{}: record at byte {}: has {} bytes of data, more than the limit of {}", bytes_.path(), at,
         length, options_.most_bytes);
  }
  const std::size_t bytes = kBeforeData + length + kChecksumBytes;
  if (seen.size() < bytes) seen = peek(bytes, at);
  if (seen.size() < bytes)
    fail(Code::data_loss, "{}: record at byte {}: the file ends after {} of its {} bytes", bytes_.path(), at,
         seen.size(), bytes);
  whole = bytes;
  const std::string_view data = seen.substr(kBeforeData, length);
  if (const auto stored = little_endian<std::uint32_t>(seen.substr(kBeforeData + length)),
      computed = masked_crc32c(data);
      stored != computed)
    fail(Code::data_loss, "{}: record at byte {}: the checksum of its {} bytes of data is {:08x}, but must be {:08x}",
         bytes_.path(), at, length, stored, computed);
  given_ = bytes;
  return data;
}

// Goes behind a damaged record of so many bytes; to the end if that is not known, or not in the file.
void TfRecordStream::pass_over(std::uint64_t whole) {
  ended_ = true;
  if (whole == 0) return;
  try {
    bytes_.seek(bytes_.offset() + whole);
    ended_ = false;
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
  }
}

bool TfRecordStream::next(std::string_view& record) {
  bytes_.skip(std::exchange(given_, 0));
  while (!ended_) {
    std::uint64_t whole = 0;
    try {
      record = read(whole);
      return given_ > 0;
    } catch (const Error& error) {
      if (error.code() != Code::data_loss || !options_.skip_damaged) throw;
      if (options_.on_damage) options_.on_damage(error);
    }
    ++skipped_;
    pass_over(whole);
  }
  return false;
}

void TfRecordStream::seek(std::uint64_t position) {
  given_ = 0;
  ended_ = false;
  bytes_.seek(position);
}

TfRecordWriter::TfRecordWriter(WritableFile& file, TfRecordWriterOptions options)
    : file_(file), gzip_(options.gzip ? std::make_unique<GzipFile>(file) : nullptr) {}
TfRecordWriter::~TfRecordWriter() = default;

void TfRecordWriter::append(std::string_view record) {
  buffer_ += framed_length(record.size());
  buffer_ += record;
  buffer_ += framed_checksum(record);
  if (buffer_.size() >= kWriteAtOnce) flush();
}

void TfRecordWriter::finish() {
  flush();
  if (gzip_) gzip_->finish();
}

void TfRecordWriter::flush() {
  if (buffer_.empty()) return;
  (gzip_ ? *gzip_ : file_).append(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

}  // namespace troupe
