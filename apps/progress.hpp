// Progress of long work: a bar redrawn in place on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

class Progress {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit Progress(bool terminal) : terminal_(terminal) {}

  // Returns the text to print when `done` of `total` steps of `label` are done, if due: a plain line at most once a
  // second from `start` on, a bar up to ten times a second.
  std::optional<std::string> update(const std::string& label, std::uint64_t done, std::uint64_t total, Time now);
  // Returns the text to print before other output: clears the bar.
  std::string clear();

 private:
  bool terminal_;
  bool drawn_ = false;
  std::optional<Time> last_;
};

// "Epoch 2/5 [=========>          ]  150/375", with a bar of `width` columns.
std::string progress_bar(const std::string& label, std::uint64_t done, std::uint64_t total, int width);

}  // namespace troupe
