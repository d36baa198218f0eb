// Compresses what is written to a file by gzip (RFC 1952).
#pragma once

#include <memory>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

// `file` must outlive it. Not thread-safe. Equal bytes make equal files, however they are appended.
class GzipFile final : public WritableFile {
 public:
  explicit GzipFile(WritableFile& file);
  ~GzipFile() override;

  // May keep bytes in memory until finish().
  void append(std::span<const std::byte> bytes) override;
  // Gives the file the rest and the end of the compressed data. Call it once, after the last append().
  void finish();
  void sync() override { file_.sync(); }
  void close() override { file_.close(); }

 private:
  class Deflater;
  void deflate(std::span<const std::byte> bytes, bool last);

  WritableFile& file_;
  std::unique_ptr<Deflater> deflater_;
};

}  // namespace troupe
