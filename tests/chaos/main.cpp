// troupe-chaos: kills, stops and cuts off tasks of real clusters, and shows that training ends as if nothing had
// happened.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <variant>

#include "tests/chaos/table.hpp"
#include <troupe/messages/command_line.hpp>

namespace {

using namespace troupe;
using namespace troupe::chaos;

constexpr const char* kProgram = "troupe-chaos";
constexpr int kAgain = 6;  // times that a run is tried which says nothing
constexpr const char* kDescription =
    R"(Launches clusters of real processes on this machine, kills (-9), stops and cuts off their tasks at moments drawn
from a seed, and compares the result of training with an undisturbed run, bit by bit. Each row of the printed table is
a guarantee; rows named without-... leave a guard out, and must be caught.

  troupe-chaos                          all rows, a few runs each; times are only printed: about a minute and a half
  troupe-chaos --long                   as often as the guarantees say, and times are judged: half an hour
  troupe-chaos kill-worker --runs 5     some rows
  troupe-chaos kill-worker --seed 7 --runs 1
                                        one run again, as a failure named it
  troupe-chaos --list                   what the rows do

The table goes to stdout, progress to stderr. Exit code 1 if a row fails: its seeds are printed, and the output of all
its tasks is kept in a directory that is named.)";

struct Options {
  std::vector<std::string> rows;
  std::uint64_t seed = 1;
  int runs = 0;
  bool lengthy = false, brief = false, json = false, list = false;
  std::string logs;
};

std::variant<Options, EarlyExit> parse_options(int argc, char** argv) {
  Options o;
  CommandLine line(kProgram, "[ROW...] [OPTIONS]", kDescription);
  line.add_arguments({"ROW", "", "", "Rows of the table (default: all)", {}}, o.rows);
  line.add("Runs", {unsigned_option("--seed", "S", o.seed, "Seed of the first run; each next run adds 1"),
                    whole_option("--runs", "N", o.runs, 0, 1000000, "Runs of each row; 0: the row's own number"),
                    flag("--short", o.brief, "A few runs of each row, without those that take long (default)"),
                    flag("--long", o.lengthy, "As many runs as the guarantees say; times and rates are judged")});
  line.add("Output", {flag("--list", o.list, "Print the rows and run nothing"),
                      flag("--json", o.json, "Print one JSON object for each row"),
                      text_option("--logs", "DIR", o.logs,
                                  "Directory for the output of tasks in failed runs (default: one in the directory for "
                                  "temporary files)")});
  if (auto exit = line.parse({argv + 1, argv + argc})) return *exit;
  if (const auto problem = line.conflict({"--short", "--long"})) return line.wrong(*problem);
  for (const std::string& name : o.rows)
    if (std::ranges::find(rows(), name, &Row::name) == rows().end()) {
      std::string known;
      for (const Row& row : rows()) known += (known.empty() ? "" : ", ") + row.name;
      return wrong_usage(kProgram, fmt::format("there is no row '{}': {}", name, known));
    }
  return o;
}

std::string next_to_this_program() { return std::filesystem::read_symlink("/proc/self/exe").parent_path().string(); }

Verdict run_row(const Row& row, const Options& o, Workshop& workshop, const std::string& logs) {
  Verdict verdict{.row = &row, .skipped = {}, .times = {}, .counts = {}, .problems = {}};
  const int runs = o.runs > 0 ? o.runs : o.lengthy ? row.long_runs : row.short_runs;
  for (int i = 0; i < runs && verdict.skipped.empty(); ++i) {
    const std::uint64_t seed = o.seed + static_cast<std::uint64_t>(i);
    const std::string folder = fmt::format("{}/{}-{}", logs, row.name, seed);
    workshop.folder_for_logs = row.broken ? std::function<std::string()>() : [&] { return folder; };
    const double began = unix_now();
    Outcome outcome = row.run(workshop, seed);
    for (int again = 0; !outcome.again.empty() && again < kAgain; ++again) {
      fmt::print(stderr, "{} {}/{} seed {}: {}; once more\n", row.name, i + 1, runs, seed, outcome.again);
      workshop.lengthen();
      outcome = row.run(workshop, seed);
    }
    verdict.add(outcome, seed);
    fmt::print(stderr, "{} {}/{} seed {}: {} ({:.1f} s){}{}\n", row.name, i + 1, runs, seed, outcome.schedule,
               unix_now() - began,
               outcome.problem.empty() ? ""
               : row.broken            ? ": noticed: "
                                       : ": FAILED: ",
               outcome.problem);
    if (row.broken && !outcome.problem.empty()) break;
  }
  return verdict;
}

int run(const Options& o) {
  if (o.list) {
    for (const Row& row : rows()) fmt::print("{:<21} {}\n{:<21} must: {}\n", row.name, row.fault, "", row.must);
    return 0;
  }
  Workshop workshop(next_to_this_program(), o.lengthy);
  const std::string logs =
      !o.logs.empty() ? o.logs
                      : (std::filesystem::temp_directory_path() / fmt::format("troupe-chaos-{}", getpid())).string();
  if (!o.json) fmt::print("{}\n", table_head());
  std::string failed;
  for (const Row& row : rows()) {
    const bool named = std::ranges::find(o.rows, row.name) != o.rows.end();
    if (!o.rows.empty() && !named) continue;
    if (!o.lengthy && row.short_runs == 0 && o.runs == 0 && !named) continue;
    Options of_row = o;
    if (!o.lengthy && row.short_runs == 0 && o.runs == 0) of_row.runs = 1;
    const Verdict verdict = run_row(row, of_row, workshop, logs);
    fmt::print("{}\n", o.json ? to_json(verdict, o.lengthy) : to_text(verdict, o.lengthy));
    std::fflush(stdout);
    if (!verdict.failure(o.lengthy).empty()) failed += (failed.empty() ? "" : ", ") + row.name;
  }
  if (failed.empty()) return 0;
  fmt::print(stderr, "{}: failed: {}{}\n", kProgram, failed,
             std::filesystem::exists(logs) ? fmt::format("; what their tasks have said is in {}", logs) : "");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto parsed = parse_options(argc, argv);
    if (const auto* exit = std::get_if<EarlyExit>(&parsed)) return finish(*exit);
    return run(std::get<Options>(parsed));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", kProgram, error.what());
    return 1;
  }
}
