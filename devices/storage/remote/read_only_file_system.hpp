// A file system of which files are read only: what would change it is refused by name.
#pragma once

#include <memory>
#include <string>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

class ReadOnlyFileSystem : public FileSystem {
 public:
  explicit ReadOnlyFileSystem(std::string scheme) : scheme_(std::move(scheme)) {}

  // All throw unimplemented.
  std::unique_ptr<WritableFile> create(const std::string& path) final;
  void rename(const std::string& from, const std::string& to) final;
  void exchange(const std::string& a, const std::string& b) final;
  void remove(const std::string& file) final;
  void make_directory(const std::string& path) final;
  void remove_directory(const std::string& path) final;
  void sync_directory(const std::string& path) final;

 private:
  [[noreturn]] void refuse_change(const char* what, const std::string& path) const;
  const std::string scheme_;
};

}  // namespace troupe
