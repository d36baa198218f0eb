#include "tools/bench/options.hpp"

namespace troupe::bench {
namespace {

constexpr const char* kDescription =
    R"(Measures Troupe, each figure beside what one would use instead, in the same run.

A case is named FAMILY/CASE. An argument selects the cases whose names begin with it or, with a * or ?, match it.

  troupe-bench --list                     the cases and their targets
  troupe-bench null-ops step              two families
  troupe-bench 'matmul/*-1024' --repeat 5
  troupe-bench --device gpu               GPU cases; skipped, by name, without a GPU
  troupe-bench --json > results.jsonl     one object per case:
      {"bench","case","value","unit","peer","peer_value","ratio","target","met"}

Troupe and its peers take turns. Ratio: how many times better than the best peer, median of the repeats,
followed by its smallest and largest value. Peers that are not installed are left out ("peer": null). A case
without a target has "target": null and "met": null.
Results go to stdout, progress to stderr. Run nothing else meanwhile.

Exit code: 0 if all cases ran, whatever their figures; 1 if one failed; 2 on wrong usage.)";

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  Settings& settings = options.settings;
  CommandLine line("troupe-bench", "[CASE...] [OPTIONS]", kDescription);
  line.add_arguments({"CASE", "", "", "Cases to run: name prefixes or patterns (default: all)", {}}, options.patterns);
  line.add("Measurement",
           {choice_option("--device", options.device, {{"cpu", "cpu"}, {"gpu", "gpu"}}, "Run CPU cases or GPU cases"),
            whole_option("--repeat", "N", settings.repeat, 1, 1000, "Repeats of each case"),
            whole_option("--nodes", "N", settings.nodes, 1, 100000,
                         "Nodes per step in kernel cases (default: set by the case)"),
            flag("--quick", settings.quick, "Smallest sizes, measured once: shows that cases work, not how fast"),
            text_option("--python", "PATH", settings.python, "Python interpreter for peers written in Python"),
            text_option("--texts", "FILE", settings.texts, "Lines for data/text, instead of drawn ones")});
  line.add("Output", {flag("--list", options.list, "Print the cases instead of running them"),
                      flag("--json", options.json, "Print one JSON object per line and nothing else on stdout"),
                      text_option("--results", "FILE", options.results, "Also write the results to FILE, as JSON")});
  options.exit = line.parse(arguments);
  return options;
}

}  // namespace troupe::bench
