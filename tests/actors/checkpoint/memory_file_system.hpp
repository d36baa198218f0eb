// A file system in memory that can be cut off at any operation, and then shows what a crash may leave: what was synced,
// and of the rest all, nothing, or any part.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe::testing {

struct MemoryNode;

// What survives a crash of what was not synced.
enum class Survives {
  nothing,  // neither names nor content
  names,    // files that were created and renamed, without their content: what one gets without fsync
  content,  // content of files that are there; names as they were synced
  everything,
  some,  // of each name and each content at random, by the seed
};

class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  // The disk as it is after a crash.
  MemoryFileSystem after_crash(Survives survives, std::uint64_t seed = 0) const;
  MemoryFileSystem copy() const { return after_crash(Survives::everything); }

  std::unique_ptr<WritableFile> create(const std::string& path) override;
  std::unique_ptr<ReadableFile> open(const std::string& path) override;
  bool exists(const std::string& path) override;
  std::vector<DirectoryEntry> list(const std::string& directory) override;
  void rename(const std::string& from, const std::string& to) override;
  void exchange(const std::string& a, const std::string& b) override;
  void remove(const std::string& file) override;
  void make_directory(const std::string& path) override;
  void remove_directory(const std::string& path) override;
  void sync_directory(const std::string& path) override;

  // Operations that change something or sync it are counted, from 0.
  std::uint64_t operations() const { return operations_; }
  void start_counting() { operations_ = 0; }
  std::uint64_t crash_at = kNever;  // this operation is done by half, or not at all, and nothing after it
  std::uint64_t full_at = kNever;   // this one fails for lack of space, and so do all later ones that need some
  bool sync_files = true;           // false: sync() does nothing
  bool sync_directories = true;
  bool exchanges = true;  // false: exchange() is not there

  // What a test changes behind everyone's back.
  std::string& content(const std::string& path);

  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

 private:
  friend class MemoryWritableFile;
  // Counts; throws if the operation does not take place. `half()` is what of it takes place then.
  template <class Half>
  void operation(bool needs_space, const std::string& path, Half&& half);
  void operation(bool needs_space, const std::string& path);
  void alive() const;
  std::shared_ptr<MemoryNode> find(const std::string& path) const;  // null: not there
  MemoryNode& directory_of(const std::string& path) const;

  std::shared_ptr<MemoryNode> root_;
  std::uint64_t operations_ = 0;
};

}  // namespace troupe::testing
