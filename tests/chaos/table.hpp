// What the harness prints: a row for each guarantee, with how often it held and how long things took.
#pragma once

#include <string>
#include <vector>

#include "tests/chaos/row.hpp"

namespace troupe::chaos {

// All runs of a row.
struct Verdict {
  const Row* row = nullptr;
  int runs = 0, good = 0;
  std::string skipped;
  std::map<std::string, std::vector<double>> times;
  std::map<std::string, double> counts;  // sums
  std::vector<std::string> problems;     // with their seeds; of a broken row what has caught it

  void add(const Outcome& outcome, std::uint64_t seed);
  // "" if the guarantee held, or the broken one was caught. Bounds of times count only if they are to be judged.
  std::string failure(bool judge_times) const;
};

double median(std::vector<double> values);

std::string to_json(const Verdict& verdict, bool judge_times);
// Lines of a table in Markdown.
std::string table_head();
std::string to_text(const Verdict& verdict, bool judge_times);

}  // namespace troupe::chaos
