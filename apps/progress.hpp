// How far a long piece of work is: a bar that is drawn over itself on a terminal, plain lines elsewhere.
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

  // What to print now that `done` of `total` steps of `label` are done, if it is time: a plain line at most
  // once a second from `start` on, a bar ten times as often.
  std::optional<std::string> update(const std::string& label, std::uint64_t done, std::uint64_t total, Time now);
  // What to print before other text: takes the bar away.
  std::string clear();

 private:
  bool terminal_;
  bool drawn_ = false;
  std::optional<Time> last_;
};

// "Epoch 2/5 [=========>          ]  150/375", the bar `width` wide.
std::string progress_bar(const std::string& label, std::uint64_t done, std::uint64_t total, int width);

}  // namespace troupe
