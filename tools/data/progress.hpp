// How far a command is, on a terminal: the bytes that were read of all.
//
//   converting [=====>    ] 45 %  12 s left
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe::data_tool {

// A file system that counts the bytes that are read. Thread-safe.
class CountingFiles final : public FileSystem {
 public:
  explicit CountingFiles(FileSystem& files) : files_(files) {}
  std::uint64_t bytes_read() const { return bytes_.load(std::memory_order_relaxed); }
  // Called after each read, by the thread that reads. For work that tells nothing itself.
  std::function<void()> on_read{};

  std::unique_ptr<WritableFile> create(const std::string& path) override { return files_.create(path); }
  std::unique_ptr<ReadableFile> open(const std::string& path) override;
  bool exists(const std::string& path) override { return files_.exists(path); }
  std::vector<DirectoryEntry> list(const std::string& directory) override { return files_.list(directory); }
  void rename(const std::string& from, const std::string& to) override { files_.rename(from, to); }
  void exchange(const std::string& a, const std::string& b) override { files_.exchange(a, b); }
  void remove(const std::string& file) override { files_.remove(file); }
  void make_directory(const std::string& path) override { files_.make_directory(path); }
  void remove_directory(const std::string& path) override { files_.remove_directory(path); }
  void sync_directory(const std::string& path) override { files_.sync_directory(path); }

 private:
  FileSystem& files_;
  std::atomic<std::uint64_t> bytes_{0};
};

// The text of a bar, at most `columns` wide. `seconds` since the beginning; `fraction` from 0 to 1.
std::string bar_text(const std::string& what, double fraction, double seconds, int columns);

// Draws on stderr if that is a terminal, ten times a second at most; clears the bar at the end.
class ProgressBar {
 public:
  // `files`: what is read from; `all`: bytes that there are to read.
  ProgressBar(std::string what, const CountingFiles& files, std::uint64_t all);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  // Call it often.
  void update();
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  const std::string what_;
  const CountingFiles& files_;
  const std::uint64_t all_, before_;
  const bool terminal_;
  bool drawn_ = false;
  unsigned calls_ = 0;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = begin_ + std::chrono::milliseconds(200);
};

}  // namespace troupe::data_tool
