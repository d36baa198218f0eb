// troupe-chaos: kills, stops and cuts off tasks of real clusters, and shows that training ends as if nothing had
// happened.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "apps/command_line.hpp"
#include "tests/chaos/table.hpp"
#include <troupe/messages/error.hpp>

namespace {

using namespace troupe;
using namespace troupe::chaos;

constexpr const char* kProgram = "troupe-chaos";
constexpr int kAgain = 6;  // times that a run is tried which says nothing
constexpr const char* kDescription =
    R"(Launches clusters of real processes on this machine, kills (-9), stops and cuts off their tasks at moments
that follow from a seed, and compares what training comes to with an undisturbed run, bit by bit. Each row
of the table that it prints is a guarantee; rows named without-... leave a guard out, and must be caught.

  troupe-chaos                          all rows, a few runs each, times are only printed: about a minute
  troupe-chaos --long                   as often as the guarantees say, and times are judged: half an hour
  troupe-chaos kill-worker --runs 5     some rows
  troupe-chaos kill-worker --seed 7 --runs 1
                                        one run again, as a failure has named it
  troupe-chaos --list                   what the rows do

The table goes to stdout, progress to stderr. Exit code 1 if a row fails; its seeds are printed then, and
all that tasks have said is kept in a folder that is named.)";

struct Options {
  std::vector<std::string> rows;
  std::uint64_t seed = 1;
  int runs = 0;
  bool lengthy = false, brief = false, json = false, list = false;
  std::string logs;
};

std::variant<Options, EarlyExit> parse_options(int argc, char** argv) {
  Options o;
  const auto app = make_command_line(kProgram, "[ROW...] [OPTIONS]", kDescription);
  app->add_option("ROW", o.rows, "Rows of the table (default: all)");
  app->add_option_function<std::string>(
         "--seed", [&](const std::string& text) { o.seed = parse_unsigned("--seed", text); },
         "Of the first run; the next has one more")
      ->type_name("S")
      ->default_str("1");
  add_whole(*app, "--runs", o.runs, 0, 1000000, "Runs of each row; 0: its own number");
  auto* brief = app->add_flag("--short", o.brief, "A few runs of each row, without those that take long (default)");
  app->add_flag("--long", o.lengthy, "As many runs as the guarantees say; times and rates are judged")->excludes(brief);
  app->add_flag("--json", o.json, "One JSON object for each row");
  app->add_flag("--list", o.list, "Print the rows and do nothing");
  app->add_option(
         "--logs", o.logs,
         "Folder for what tasks have said in runs that fail (default: one in the directory for temporary files)")
      ->type_name("DIR");
  if (auto exit = parse(*app, {argv + 1, argv + argc})) return *exit;
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
    for (const Row& row : rows()) fmt::print("{:<15} {}\n{:<15} must: {}\n", row.name, row.fault, "", row.must);
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
