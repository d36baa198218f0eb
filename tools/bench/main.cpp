// troupe-bench: measures Troupe beside its peers.
#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "messages/error.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/children.hpp"
#include "tools/bench/gpu_library.hpp"
#include "tools/bench/options.hpp"

namespace {

using namespace troupe;
using namespace troupe::bench;

// A case has no state worth saving, and its child processes end with this one.
void end_on_signal(int number) { _exit(128 + number); }

// Says of each case why it cannot run here, and leaves it out.
void skip(std::vector<const Case*>& chosen, bool json) {
  std::erase_if(chosen, [json](const Case* c) {
    const std::string why = c->gpus > 0 ? why_not_on(c->gpus) : "";
    if (!why.empty()) fmt::print(json ? stderr : stdout, "{:<38} skipped: {}\n", c->id(), why);
    return !why.empty();
  });
}

// Whether all cases ran.
bool run_all(const std::vector<const Case*>& chosen, const Options& options) {
  if (!options.json) fmt::print("{}", table_header());
  bool all_ran = true;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Case& c = *chosen[i];
    const auto progress = [&](const std::string& what) {
      fmt::print(stderr, "[{}/{}] {}: {}\n", i + 1, chosen.size(), c.id(), what);
    };
    try {
      const Result result = run_case(c, options.settings, progress);
      fmt::print("{}", options.json ? json_line(c, result) + "\n" : table_row(c, result));
    } catch (...) {
      const Error error = current_error();
      all_ran = false;
      fmt::print(stderr, "troupe-bench: {} could not run: {}\n", c.id(), error.message());
      if (!options.json) fmt::print("{:<38} could not run: {}\n", c.id(), error.message());
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
  if (options.ended) {
    fmt::print(options.exit_code == 0 ? stdout : stderr, "{}", options.text);
    return options.exit_code;
  }
  const std::vector<Case> cases = options.device == "gpu" ? gpu_cases() : all_cases();
  std::vector<const Case*> chosen;
  try {
    chosen = select(cases, options.patterns);
  } catch (const Error& error) {
    fmt::print(stderr, "troupe-bench: {}\n", error.message());
    return 2;
  }
  bool all_ran = true;
  if (options.list) {
    fmt::print("{}", list_text(chosen));
  } else {
    skip(chosen, options.json);
    if (!chosen.empty()) all_ran = run_all(chosen, options);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "troupe-bench: cannot write to standard output\n");
    return 1;
  }
  return all_ran ? 0 : 1;
}
