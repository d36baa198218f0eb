#include "tests/chaos/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace troupe::chaos {

constexpr std::size_t kProblemsShown = 5;  // the others are on stderr

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void Verdict::add(const Outcome& outcome, std::uint64_t seed) {
  if (!outcome.skipped.empty()) {
    skipped = outcome.skipped;
    return;
  }
  ++runs;
  for (const auto& [what, seconds] : outcome.times)
    times[what].insert(times[what].end(), seconds.begin(), seconds.end());
  for (const auto& [what, count] : outcome.counts) counts[what] += count;
  if (outcome.problem.empty())
    ++good;
  else
    problems.push_back(fmt::format("seed {} ({}): {}", seed, outcome.schedule, outcome.problem));
}

std::string Verdict::failure(bool judge_times) const {
  if (!skipped.empty()) return "";
  if (row->broken) return problems.empty() ? "nothing was noticed" : "";
  if (!problems.empty()) return fmt::format("{} of {} runs failed", problems.size(), runs);
  for (const auto& [what, bound] : row->at_least) {
    const auto time = times.find(what);
    if (time != times.end() && !judge_times) continue;
    const auto count = counts.find(what);
    const double value = time != times.end() ? median(time->second) : count != counts.end() ? count->second : 0;
    if (value < bound) return fmt::format("{}: {:.3g}, must be at least {:.3g}", what, value, bound);
  }
  for (const auto& [what, bound] : row->at_most) {
    const auto found = times.find(what);
    if (!judge_times || found == times.end()) continue;
    const double most = std::ranges::max(found->second);
    if (most > bound) return fmt::format("{}: {:.3f} s, must be within {:.3g} s", what, most, bound);
  }
  return "";
}

std::string to_json(const Verdict& verdict, bool judge_times) {
  nlohmann::ordered_json json{{"row", verdict.row->name},
                              {"fault", verdict.row->fault},
                              {"must", verdict.row->must},
                              {"runs", verdict.runs},
                              {"good", verdict.good}};
  for (const auto& [what, seconds] : verdict.times)
    json["times"][what] = {{"median", median(seconds)}, {"max", std::ranges::max(seconds)}, {"n", seconds.size()}};
  for (const auto& [what, count] : verdict.counts) json["counts"][what] = count;
  const std::string failure = verdict.failure(judge_times);
  json["verdict"] = !verdict.skipped.empty() ? "skipped"
                    : !failure.empty()       ? "failed"
                    : verdict.row->broken    ? "caught"
                                             : "held";
  if (!failure.empty()) json["failure"] = failure;
  if (!verdict.skipped.empty()) json["skipped"] = verdict.skipped;
  if (!verdict.problems.empty()) json["problems"] = verdict.problems;
  return json.dump();
}

std::string table_head() {
  return "| row | fault | must | runs | held | median, most | counts | |\n|---|---|---|---|---|---|---|---|";
}

std::string to_text(const Verdict& verdict, bool judge_times) {
  std::string times, counts;
  for (const auto& [what, seconds] : verdict.times)
    times +=
        fmt::format("{}{} {:.3f}, {:.3f}", times.empty() ? "" : "; ", what, median(seconds), std::ranges::max(seconds));
  for (const auto& [what, count] : verdict.counts)
    counts += fmt::format("{}{} {:.6g}", counts.empty() ? "" : "; ", what, count);
  const std::string failure = verdict.failure(judge_times);
  std::string end = verdict.row->broken ? "caught" : "yes";
  if (!failure.empty()) end = "NO: " + failure;
  if (!verdict.skipped.empty()) end = "skipped: " + verdict.skipped;
  std::string text = fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |", verdict.row->name, verdict.row->fault,
                                 verdict.row->must, verdict.runs, verdict.good, times, counts, end);
  for (std::size_t i = 0; i < std::min(verdict.problems.size(), kProblemsShown); ++i)
    text +=
        fmt::format("\n  {} {}: {}", verdict.row->broken ? "caught" : "FAILED", verdict.row->name, verdict.problems[i]);
  return text;
}

}  // namespace troupe::chaos
