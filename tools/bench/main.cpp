// troupe-bench: measures Troupe against its peers.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <system_error>

#include "tools/bench/cases.hpp"
#include "tools/bench/children.hpp"
#include "tools/bench/gpu_library.hpp"
#include "tools/bench/options.hpp"
#include <troupe/messages/error.hpp>

namespace {

using namespace troupe;
using namespace troupe::bench;

// A case has no state worth saving, and its child processes end with this one.
void end_on_signal(int number) { _exit(128 + number); }

// Removes cases that cannot run here, and prints which and why.
void skip(std::vector<const Case*>& chosen, bool json) {
  std::map<std::string, std::vector<std::string>> skipped;  // by reason
  std::erase_if(chosen, [&](const Case* c) {
    const std::string why = c->gpus > 0 ? why_not_on(c->gpus) : "";
    if (!why.empty()) skipped[why].push_back(c->id());
    return !why.empty();
  });
  for (const auto& [why, cases] : skipped)
    fmt::print(json ? stderr : stdout, "skipped: {}: {}\n", fmt::join(cases, " "), why);
}

// Returns whether all cases ran. `results` may be closed.
bool run_all(const std::vector<const Case*>& chosen, const Options& options, std::ofstream& results) {
  if (!options.json) fmt::print("{}", table_header());
  bool all_ran = true;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Case& c = *chosen[i];
    const auto progress = [&](const std::string& what) {
      fmt::print(stderr, "[{}/{}] {}: {}\n", i + 1, chosen.size(), c.id(), what);
    };
    try {
      const Result result = run_case(c, options.settings, progress);
      const std::string line = json_line(c, result) + "\n";
      fmt::print("{}", options.json ? line : table_row(c, result));
      results << line << std::flush;
    } catch (...) {
      const Error error = current_error();
      all_ran = false;
      fmt::print(stderr, "troupe-bench: {} failed: {}\n", c.id(), error.message());
      if (!options.json) fmt::print("{:<38} failed: {}\n", c.id(), error.message());
    }
    std::fflush(stdout);
  }
  return all_ran;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, end_on_signal);
  std::signal(SIGTERM, end_on_signal);
  if (const auto code = run_as_child({argv + 1, argv + argc})) return *code;
  const Options options = parse_options({argv + 1, argv + argc});
  if (options.exit) return finish(*options.exit);
  const std::vector<Case> cases = options.device == "gpu" ? gpu_cases() : all_cases();
  std::vector<const Case*> chosen;
  try {
    chosen = select(cases, options.patterns);
  } catch (const Error& error) {
    fmt::print(stderr, "troupe-bench: {}\n", error.message());
    return 2;
  }
  std::ofstream results;
  if (!options.results.empty() && !options.list) {
    results.open(options.results, std::ios::trunc);
    if (!results) {
      fmt::print(stderr, "troupe-bench: cannot write {}: {}\n", options.results,
                 std::generic_category().message(errno));
      return 1;
    }
  }
  bool all_ran = true;
  if (options.list) {
    fmt::print("{}", list_text(chosen));
  } else {
    skip(chosen, options.json);
    if (!chosen.empty()) all_ran = run_all(chosen, options, results);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "troupe-bench: cannot write to standard output\n");
    return 1;
  }
  if (!options.results.empty() && !results) {
    fmt::print(stderr, "troupe-bench: cannot write {}\n", options.results);
    return 1;
  }
  return all_ran ? 0 : 1;
}
