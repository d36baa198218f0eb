#include "tools/bench/options.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace troupe::bench {
namespace {

constexpr const char* kDescription =
    R"(Measures Troupe, each figure beside what one would use instead, in the same run.

A case is named FAMILY/CASE. An argument selects the cases whose name begins with it, or, if it has a * or ?,
those it matches; none selects all.

  troupe-bench --list                     what there is to measure, and the targets
  troupe-bench null-ops step              two families
  troupe-bench 'matmul/*-1024' --repeat 5
  troupe-bench --device gpu               kernels of a GPU; skipped, by name, where there is none
  troupe-bench --json > results.jsonl     one object per case:
      {"bench","case","value","unit","peer","peer_value","ratio","target","met"}

Troupe and its peers take turns. Ratio: how many times better than the best peer, median of the repeats,
followed by its smallest and largest value. Peers that are not installed are left out ("peer": null). A case
without a target has "target": null and "met": null.
Results go to stdout, progress to stderr. Let nothing else run meanwhile.

Exit code: 0 if all cases ran, whatever their figures; 1 if one failed; 2 on wrong usage.)";

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: troupe-bench [CASE...] [OPTIONS]\n";
  }
};

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  Settings& settings = options.settings;
  CLI::App app(kDescription, "troupe-bench");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "troupe-bench " TROUPE_VERSION);
  app.add_option("CASE", options.patterns, "Cases to run: beginnings of names, or patterns (default: all)");
  app.add_option("--device", options.device, "Measure what runs on the CPU, or the cases of a GPU")
      ->check(CLI::IsMember({"cpu", "gpu"}))
      ->capture_default_str();
  app.add_flag("--list", options.list, "Print the cases instead of running them");
  app.add_flag("--json", options.json, "Print one JSON object per line and nothing else on stdout");
  app.add_option("--results", options.results, "Also write the results there, as --json prints them");
  app.add_option("--repeat", settings.repeat, "How often each case is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--nodes", settings.nodes, "Nodes of a step in cases of kernels (default: the case's own number)")
      ->check(CLI::Range(1, 100000));
  app.add_flag("--quick", settings.quick, "Smallest sizes, measured once: shows that cases work, not how fast");
  app.add_option("--python", settings.python, "The Python that has the peers written in it")->capture_default_str();

  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 takes them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    options.ended = true;
    options.text = app.help();
  } catch (const CLI::CallForVersion& version) {
    options.ended = true;
    options.text = fmt::format("{}\n", version.what());
  } catch (const CLI::ParseError& error) {
    options.ended = true;
    options.exit_code = 2;
    options.text = fmt::format("troupe-bench: {}\nRun with --help for more information.\n", error.what());
  }
  return options;
}

}  // namespace troupe::bench
