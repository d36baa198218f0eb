// The bytes of a file from its beginning to its end, decompressed: what readers of records read from.
//
// gzip (RFC 1952, also several members in a row) and zstd (RFC 8878) are recognised by their first bytes, whatever the
// file's name. Memory is a window of the file, however much its compressed bytes expand to: it grows only to what
// peek() asks for.
//
// Errors name the file and the byte: those of the file system, data_loss for compressed data that is damaged or cut.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

enum class Compression : std::uint8_t { none, gzip, zstd };

std::string_view name(Compression compression);  // "none", "gzip", "zstd"

class ByteStream {
 public:
  ByteStream(FileSystem& files, std::string path);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // The next bytes: at least `wanted`, or all up to the end of the file if there are fewer. Valid until the next call
  // of peek(), skip() or seek().
  std::string_view peek(std::size_t wanted);
  // Passes over bytes that the last peek() returned.
  void skip(std::size_t bytes);
  bool at_end() { return peek(1).empty(); }

  // Of the next byte, in the decompressed file.
  std::uint64_t offset() const { return offset_; }
  // Goes to an offset; beyond the end: data_loss. Plain files go there at once; compressed ones are decompressed up to
  // there, from the beginning if it lies behind. Then little is read at first, and more as bytes are taken.
  void seek(std::uint64_t offset);

  Compression compression() const { return compression_; }
  const std::string& path() const { return shown_; }  // as errors show it: of a URL, without secrets

 private:
  class Source;
  class PlainSource;
  class GzipSource;
  class ZstdSource;
  void open();

  FileSystem* files_;
  std::string path_, shown_;
  Compression compression_ = Compression::none;
  std::unique_ptr<Source> source_;
  std::vector<char> window_;
  std::size_t begin_ = 0, end_ = 0;  // of the bytes in the window
  std::size_t at_once_ = 0;          // bytes that the next read asks for, of a plain file
  bool ended_ = false;               // the source has no more
  std::uint64_t offset_ = 0;
};

}  // namespace troupe
