// A file system that hands everything to another: tests override what is to be different.
#pragma once

#include <troupe/devices/storage/file_system.hpp>

namespace troupe::testing {

class ForwardingFileSystem : public FileSystem {
 public:
  explicit ForwardingFileSystem(FileSystem& files) : files_(files) {}
  std::unique_ptr<WritableFile> create(const std::string& path) override { return files_.create(path); }
  std::unique_ptr<ReadableFile> open(const std::string& path) override { return files_.open(path); }
  bool exists(const std::string& path) override { return files_.exists(path); }
  std::vector<DirectoryEntry> list(const std::string& directory) override { return files_.list(directory); }
  void rename(const std::string& from, const std::string& to) override { files_.rename(from, to); }
  void exchange(const std::string& a, const std::string& b) override { files_.exchange(a, b); }
  void remove(const std::string& file) override { files_.remove(file); }
  void make_directory(const std::string& path) override { files_.make_directory(path); }
  void remove_directory(const std::string& path) override { files_.remove_directory(path); }
  void sync_directory(const std::string& path) override { files_.sync_directory(path); }

 protected:
  FileSystem& files_;
};

}  // namespace troupe::testing
