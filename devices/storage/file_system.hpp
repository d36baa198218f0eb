// The files that Troupe keeps (checkpoints, saved models), behind one small interface: POSIX now, object stores later.
//
// Paths are as the file system takes them; folders are separated by '/'. What is to survive a crash of the machine must
// be synced: the content of a file by WritableFile::sync(), the names in a folder (of files created, renamed and
// removed) by sync_directory(). Until then it may survive or not, in any part.
//
// Errors of all functions name the path and the reason:
//   not_found, already_exists, permission_denied
//   resource_exhausted   the disk or the quota is full, no descriptor or memory is left
//   failed_precondition  a folder where a file should be, or the reverse; a folder that is not empty
//   data_loss            the disk cannot give back what it was given
//   unavailable          anything else
//
// A FileSystem may be used by many threads at once; a file by one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Destroying one closes it; an error of that is lost.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void append(std::span<const std::byte> bytes) = 0;
  // All that was appended survives a crash.
  virtual void sync() = 0;
  virtual void close() = 0;  // once; nothing else after it
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::uint64_t size() = 0;
  // Fills `out` from `offset` on; data_loss if the file ends before.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) = 0;
};

struct DirectoryEntry {
  std::string name;  // without the folder
  bool is_directory = false;
  bool operator==(const DirectoryEntry&) const = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // An empty file; what was there under that name is gone.
  virtual std::unique_ptr<WritableFile> create(const std::string& path) = 0;
  virtual std::unique_ptr<ReadableFile> open(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  // By name, without "." and "..".
  virtual std::vector<DirectoryEntry> list(const std::string& directory) = 0;

  // Replaces the file `to`, if there is one, at once: whoever looks finds the old or the new.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& file) = 0;

  // already_exists if something of that name is there.
  virtual void make_directory(const std::string& path) = 0;
  virtual void remove_directory(const std::string& path) = 0;  // an empty one
  virtual void sync_directory(const std::string& path) = 0;
};

// That of this machine. Lives as long as the process.
FileSystem& posix_file_system();

// "a/b" of "a" and "b", "b" of "" and "b".
std::string join_path(std::string_view directory, std::string_view name);
// "a" of "a/b" and "a/b/", "." of "b", "/" of "/b".
std::string parent_path(std::string_view path);

// Makes a folder and those above it, all of it to survive a crash; nothing if it is there.
void make_directories(FileSystem& files, const std::string& path);

// `path` has these bytes and keeps them over a crash, or is as it was: written to "PATH.tmp-SUFFIX", synced, renamed,
// the folder synced. When it throws after the rename, in the last sync, `path` has the new bytes but may lose them. Two
// writers need two suffixes.
void replace_file(FileSystem& files, const std::string& path, std::string_view bytes, std::string_view suffix);

// The whole file; resource_exhausted, without reading it, if it has more than `limit` bytes.
std::string read_file(FileSystem& files, const std::string& path, std::uint64_t limit);

}  // namespace troupe
