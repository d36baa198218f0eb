// Which slots the steps of a job with backup workers used. The choice depends on timing; a job that is given the log of
// another makes the same one, and has its bits.
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
  // `step` must be the next, or the first of an empty log; `slots` ascending. Throws invalid_argument.
  void add(std::uint64_t step, std::vector<std::uint32_t> slots);
  // Null if the log does not have the step.
  const std::vector<std::uint32_t>* find(std::uint64_t step) const;
  // Forgets the steps from `step` on: they are trained again.
  void truncate(std::uint64_t step);

  // All its steps use `needed` of `slots` slots.
  bool fits(std::uint32_t needed, std::uint32_t slots) const;

  bool empty() const { return runs_.empty(); }
  std::uint64_t begin() const { return runs_.empty() ? 0 : runs_.begin()->first; }
  std::uint64_t end() const { return end_; }
  // A line for each run of steps with the same slots, "12-19: 0 2 3".
  std::string to_string() const;
  // Throws data_loss for text that to_string() does not make.
  static CommitLog parse(std::string_view text);

 private:
  std::map<std::uint64_t, std::vector<std::uint32_t>> runs_;  // by their first step; each lasts up to the next
  std::uint64_t end_ = 0;
};

}  // namespace troupe
