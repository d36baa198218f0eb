// Files behind one small interface: of this machine here, on web servers and in object stores by file_systems.hpp.
//
// Paths use the file system's syntax; folders are separated by '/'. Anything that must survive a machine crash has to
// be synced: a file's content by WritableFile::sync(), the names in a folder (of files created, renamed and removed) by
// sync_directory(). Unsynced changes may survive in full, in part or not at all.
//
// Errors of all functions name the path and the reason:
//   not_found, already_exists, permission_denied
//   resource_exhausted   the disk or the quota is full, no descriptor or memory is left
//   failed_precondition  a folder where a file should be, or the reverse; a folder that is not empty
//   data_loss            the disk cannot give back what it was given
//   unimplemented        this file system cannot do it
//   unavailable          anything else
//
// A FileSystem is thread-safe; a file may be used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/buffer.hpp>
#include <troupe/messages/function_ref.hpp>

namespace troupe {

// The destructor closes the file and ignores errors.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void append(std::span<const std::byte> bytes) = 0;
  // Makes everything appended survive a crash.
  virtual void sync() = 0;
  virtual void close() = 0;  // at most once; no calls afterwards
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::uint64_t size() = 0;
  // Fills `out` from `offset` on; data_loss if the file ends first.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) = 0;
  // The whole file as memory that may only be read; it outlives this object and the file's name. Processes share its
  // pages, and each is read from the disk when it is first used: a file that is written to shows in it, one that is cut
  // off meanwhile ends the process (SIGBUS), so map files that are replaced, never rewritten. None: the file is empty,
  // or its file system maps no files; read() works everywhere.
  virtual BufferRef map() { return {}; }
};

struct DirectoryEntry {
  std::string name;  // without the folder
  bool is_directory = false;
  bool is_link = false;  // a symbolic link, which is followed nowhere but in open(), create(), exists() and list()
  bool operator==(const DirectoryEntry&) const = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates an empty file; replaces an existing one.
  virtual std::unique_ptr<WritableFile> create(const std::string& path) = 0;
  virtual std::unique_ptr<ReadableFile> open(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  // Sorted by name, without "." and "..".
  virtual std::vector<DirectoryEntry> list(const std::string& directory) = 0;

  // Atomically replaces the file `to`, if it exists: readers see the old or the new file. A folder may only get a name
  // that is free.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // Atomically gives each of two files or folders the name of the other. unimplemented: this file system cannot.
  virtual void exchange(const std::string& a, const std::string& b) = 0;
  virtual void remove(const std::string& file) = 0;

  // already_exists if the name is taken.
  virtual void make_directory(const std::string& path) = 0;
  virtual void remove_directory(const std::string& path) = 0;  // must be empty
  virtual void sync_directory(const std::string& path) = 0;
};

// The file system of this machine. Lives as long as the process.
FileSystem& posix_file_system();

// "a/b" for "a" and "b", "b" for "" and "b".
std::string join_path(std::string_view directory, std::string_view name);
// "a" for "a/b" and "a/b/", "." for "b", "/" for "/b", "s3://a/" for "s3://a/b".
std::string parent_path(std::string_view path);

// Makes a folder and its parents durably; does nothing if it exists.
void make_directories(FileSystem& files, const std::string& path);

// Removes a file, or a folder and all that is in it; does not follow symbolic links.
void remove_tree(FileSystem& files, const std::string& path);

// Writes `path` durably and atomically: to "PATH.tmp-SUFFIX", synced, renamed, then the folder synced. After an error
// in that last sync, `path` has the new bytes but a crash may lose them. Concurrent writers need different suffixes.
void replace_file(FileSystem& files, const std::string& path, std::string_view bytes, std::string_view suffix);
// The same for content that `write` appends piece by piece.
void replace_file(FileSystem& files, const std::string& path, FunctionRef<void(WritableFile&)> write,
                  std::string_view suffix);

// Reads the whole file; throws resource_exhausted without reading if it has more than `limit` bytes.
std::string read_file(FileSystem& files, const std::string& path, std::uint64_t limit);

}  // namespace troupe
