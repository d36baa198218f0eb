// Zip archives (PKWARE's APPNOTE.TXT 6.3.10), as NumPy's .npz files are: members stored or deflated, with records of 32
// or 64 bits. Not supported: encryption, other methods, several disks, data in front of the archive.
//
// Archives are untrusted: every field is checked before use; errors name the file, the member and what was expected.
#pragma once

#include <zlib.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

struct ZipEntry {
  std::string name{};
  std::uint64_t begin = 0;  // of its local header
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
};

// The members in the order of the archive's directory.
std::vector<ZipEntry> read_zip_directory(ReadableFile& file, const std::string& path);

// Reads a member from its beginning. Takes 64 KiB beside what is read.
class ZipMember {
 public:
  // Throws unimplemented for members that are not supported.
  ZipMember(ReadableFile& file, const ZipEntry& entry, const std::string& path);
  ~ZipMember();
  ZipMember(const ZipMember&) = delete;
  ZipMember& operator=(const ZipMember&) = delete;

  // The next bytes. Throws data_loss if there are fewer.
  void read(std::span<std::byte> out);
  // Throws data_loss unless all has been read, and has the checksum of the directory.
  void finish();

  // Where the packed bytes begin in the file.
  std::uint64_t packed_begin() const { return end_ - entry_.packed; }
  bool stored() const { return !stream_; }

 private:
  void read_stored(std::span<std::byte> out);
  // Returns how many bytes there were.
  std::size_t inflate_some(std::span<std::byte> out);

  ReadableFile& file_;
  const ZipEntry& entry_;
  const std::string& path_;
  std::uint64_t at_ = 0;   // of the packed bytes, in the file
  std::uint64_t end_ = 0;  // of them
  std::uint64_t done_ = 0;
  std::uint32_t crc_ = 0;
  std::optional<z_stream> stream_{};
  bool stream_ended_ = false;
  std::vector<std::byte> input_{};
};

// The checksum of what had the checksum `crc` (0: nothing) with these bytes behind it.
std::uint32_t zip_crc(std::uint32_t crc, std::span<const std::byte> bytes);

struct ZipOptions {
  bool compress = false;
  bool wide = false;  // records of 64 bits also where 32 bits would do
};

// Writes an archive, member by member, without going back. Equal members make equal bytes: no time is stored.
class ZipWriter {
 public:
  ZipWriter(WritableFile& file, std::string path, ZipOptions options);
  // A member of two pieces. Throws invalid_argument for a name that is too long.
  void add(const std::string& name, std::span<const std::byte> head, std::span<const std::byte> body);
  // A stored member of a head and `size` bytes that `write` appends. `crc`: the checksum of both, zip_crc().
  void add(const std::string& name, std::string_view head, std::uint64_t size, std::uint32_t crc,
           FunctionRef<void(WritableFile&)> write);
  void finish();

 private:
  struct Written {
    ZipEntry entry{};
    bool wide = false;
  };
  ZipEntry begin_member(const std::string& name, std::uint64_t size, bool& wide) const;
  void append(const std::string& bytes);
  void append_deflated(ZipEntry& entry, std::span<const std::byte> head, std::span<const std::byte> body);
  std::string directory_record(const Written& member) const;

  WritableFile& file_;
  std::string path_;
  ZipOptions options_;
  std::uint64_t at_ = 0;
  std::vector<Written> members_{};
};

}  // namespace troupe
