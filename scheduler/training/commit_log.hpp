// The slots used by each step of a job with backup workers. The choice depends on timing; a job given the log of an
// earlier one makes the same choices and gives bit-identical results.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

class CommitLog {
 public:
  // Adds a step. Throws invalid_argument unless `step` follows the last one (any step if the log is empty) and `slots`
  // are ascending.
  void add(std::uint64_t step, std::vector<std::uint32_t> slots);
  // The slots of a step; null if the log does not have it.
  const std::vector<std::uint32_t>* find(std::uint64_t step) const;
  // Drops the steps from `step` on, which are trained again.
  void truncate(std::uint64_t step);

  // Whether every step uses `needed` of `slots` slots.
  bool fits(std::uint32_t needed, std::uint32_t slots) const;

  bool empty() const { return runs_.empty(); }
  std::uint64_t begin() const { return runs_.empty() ? 0 : runs_.begin()->first; }
  std::uint64_t end() const { return end_; }
  // One line per run of steps with the same slots: "12-19: 0 2 3".
  std::string to_string() const;
  // Parses the output of to_string(). Throws data_loss for any other text.
  static CommitLog parse(std::string_view text);

 private:
  std::map<std::uint64_t, std::vector<std::uint32_t>> runs_;  // by first step; each extends to the next
  std::uint64_t end_ = 0;
};

}  // namespace troupe
