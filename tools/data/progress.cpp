#include "tools/data/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace troupe::data_tool {
namespace {

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(std::ceil(std::min(seconds, 1e6)));
  return whole < 120 ? fmt::format("{} s", whole) : fmt::format("{} min", (whole + 59) / 60);
}

int columns_of_terminal() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

class CountedFile final : public ReadableFile {
 public:
  using Count = std::function<void(std::size_t)>;
  CountedFile(std::unique_ptr<ReadableFile> file, Count count) : file_(std::move(file)), count_(std::move(count)) {}
  std::uint64_t size() override { return file_->size(); }
  void read(std::uint64_t offset, std::span<std::byte> out) override {
    file_->read(offset, out);
    count_(out.size());
  }

 private:
  std::unique_ptr<ReadableFile> file_;
  Count count_;
};

}  // namespace

std::unique_ptr<ReadableFile> CountingFiles::open(const std::string& path) {
  return std::make_unique<CountedFile>(files_.open(path), [this](std::size_t bytes) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (on_read) on_read();
  });
}

std::string bar_text(const std::string& what, double fraction, double seconds, int columns) {
  constexpr int kLeast = 8, kMost = 40;
  fraction = std::clamp(fraction, 0.0, 1.0);
  std::string behind = fmt::format(" {:.0f} %", std::floor(100 * fraction));
  if (fraction > 0 && seconds >= 1) behind += fmt::format("  {} left", duration_text(seconds / fraction - seconds));
  const int room = columns - static_cast<int>(what.size() + behind.size()) - 4;
  if (room < kLeast) return (what + behind).substr(0, static_cast<std::size_t>(std::max(0, columns - 1)));
  const int width = std::min(room, kMost), full = static_cast<int>(fraction * width);
  std::string bar(static_cast<std::size_t>(full), '=');
  if (full < width) bar += '>';
  bar.resize(static_cast<std::size_t>(width), ' ');
  return fmt::format("{} [{}]{}", what, bar, behind);
}

ProgressBar::ProgressBar(std::string what, const CountingFiles& files, std::uint64_t all)
    : what_(std::move(what)),
      files_(files),
      all_(all),
      before_(files.bytes_read()),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressBar::update() {
  if (!terminal_ || all_ == 0 || ++calls_ % 16 != 0) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  const double fraction = static_cast<double>(files_.bytes_read() - before_) / static_cast<double>(all_);
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  fmt::print(stderr, "\r\x1b[K{}", bar_text(what_, fraction, seconds, columns_of_terminal()));
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace troupe::data_tool
