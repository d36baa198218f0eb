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

  // Hands on the lines that can be read now, without their ends; at the end of the file also an unfinished
  // one. Longer lines than kLongest come in pieces. Returns after a bounded amount even if there is more.
  void read(const std::function<void(std::string_view)>& line);
  // Hands on what there is, complete or not, and closes.
  void finish(const std::function<void(std::string_view)>& line);

 private:
  static constexpr std::size_t kLongest = 64 * 1024;

  FileDescriptor fd_;
  std::string pending_;
};

}  // namespace troupe
