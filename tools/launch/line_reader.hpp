// Reads a pipe in whole lines.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tools/launch/process.hpp"

namespace troupe {

class LineReader {
 public:
  LineReader() = default;
  explicit LineReader(FileDescriptor fd) : fd_(std::move(fd)) {}

  bool open() const { return fd_.open(); }
  int fd() const { return fd_.get(); }

  // Passes on the lines that can be read now, without line ends; at the end of the file also an unfinished one. Lines
  // longer than kLongest are split. Returns after a bounded amount even if more is available.
  void read(const std::function<void(std::string_view)>& line);
  // Passes on all remaining data, complete lines or not, and closes.
  void finish(const std::function<void(std::string_view)>& line);

 private:
  static constexpr std::size_t kLongest = 64 * 1024;

  FileDescriptor fd_;
  std::string pending_;
};

}  // namespace troupe
