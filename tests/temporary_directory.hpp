// A directory of a test's own.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <troupe/messages/error.hpp>

namespace troupe::testing {

// Goes away with the object and all that it holds, unless it is kept. Throws unavailable if none can be made.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = std::filesystem::temp_directory_path() / "troupe-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) fail(Code::unavailable, "no temporary directory: {}", name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    if (kept_) return;
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::filesystem::path path() const { return path_; }
  void keep() { kept_ = true; }
  std::string file(const std::string& name) const { return path_ / name; }
  // Returns the file's path.
  std::string write(const std::string& name, const std::string& content, mode_t mode = 0600) const {
    std::ofstream(file(name), std::ios::binary) << content;
    ::chmod(file(name).c_str(), mode);
    return file(name);
  }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

inline std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace troupe::testing
