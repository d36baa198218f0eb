#include "tools/launch/line_reader.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace troupe {

void LineReader::read(const std::function<void(std::string_view)>& line) {
  if (!open()) return;
  std::array<char, 16 * 1024> chunk;
  const ssize_t got = ::read(fd_.get(), chunk.data(), chunk.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    fd_ = FileDescriptor();
    if (!pending_.empty()) line(pending_);
    pending_.clear();
    return;
  }
  pending_.append(chunk.data(), static_cast<std::size_t>(got));
  std::size_t begin = 0;
  for (std::size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    line(std::string_view(pending_).substr(begin, end - begin));
  }
  pending_.erase(0, begin);
  if (pending_.size() > kLongest) {
    line(pending_);
    pending_.clear();
  }
}

void LineReader::finish(const std::function<void(std::string_view)>& line) {
  constexpr int kReads = 1024;  // more than a pipe holds: an endless writer cannot block us
  for (int i = 0; i < kReads && open(); ++i) {
    const std::size_t before = pending_.size();
    bool progress = false;
    read([&](std::string_view text) {
      progress = true;
      line(text);
    });
    if (!progress && pending_.size() == before) break;
  }
  if (!pending_.empty()) line(pending_);
  pending_.clear();
  fd_ = FileDescriptor();
}

}  // namespace troupe
