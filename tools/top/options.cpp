#include "tools/top/options.hpp"

#include <limits>

#include "tools/top/asker.hpp"
#include <troupe/actors/cluster/membership_options.hpp>

namespace troupe::top {
namespace {

constexpr const char* kHelp =
    R"(Inspects a running cluster: its tasks, actors, devices, parameter shards and connections, their rates, and why
they wait. It asks one task, which asks all others; a task that does not answer is shown as silent. Read-only. In a
terminal it runs until q is pressed (? shows the keys); elsewhere, or with --once, it prints one page.

A task answers only programs that know the token of its cluster, which is read from the cluster file. With only the
file, any task is asked, and another one if it does not answer.

Examples; troupe-launch prints the first for the cluster that it started:
  troupe-top 127.0.0.1:38815 --cluster /proc/4711/fd/9
  troupe-top --cluster cluster.json --why          why it is stuck: the chain of waits down to the causes
  troupe-top --cluster cluster.json --web 8080     a live page: http://127.0.0.1:8080/, /metrics for Prometheus
  troupe-top --cluster cluster.json --trace t.json ten steps of all tasks, for https://ui.perfetto.dev
  troupe-top --cluster cluster.json --once         everything on one page, for a log; rates of one second
  troupe-top --cluster cluster.json --json >> log  one snapshot as a line; --read shows it again:
  troupe-top --read log
  troupe-top --cluster cluster.json --provenance 1200   which gradients (worker, step, slot) made version 1200 of the
                                                   parameters, and which were dropped, and why)";

// A recording needs no cluster, and only one request can be made at a time.
std::optional<std::string> conflict(const CommandLine& line, bool address) {
  for (const auto& names : std::vector<std::vector<std::string>>{{"--read", "--cluster"},
                                                                 {"--json", "--why"},
                                                                 {"--read", "--provenance"},
                                                                 {"--once", "--provenance"},
                                                                 {"--json", "--provenance"},
                                                                 {"--why", "--provenance"}})
    if (auto problem = line.conflict(names)) return problem;
  for (const char* const one : {"--web", "--trace"})
    for (const char* const other : {"--once", "--json", "--why", "--provenance", "--read", "--web"})
      if (std::string_view(one) != other)
        if (auto problem = line.conflict({one, other})) return problem;
  if (address && line.given("--read")) return "an address and --read cannot be combined";
  for (const char* const part : {"--steps", "--trace-slower-than"})
    if (line.given(part) && !line.given("--trace")) return fmt::format("{} needs --trace FILE", part);
  if (!address && !line.given("--cluster") && !line.given("--read"))
    return "no address: pass HOST:PORT, http://... or --cluster FILE, as troupe-launch and --introspect-port print "
           "them";
  return std::nullopt;
}

}  // namespace

std::optional<EarlyExit> parse(const std::vector<std::string>& arguments, Options& out) {
  CommandLine line("troupe-top", "[HOST:PORT] [--cluster FILE] [OPTIONS]", kHelp);
  line.add_argument(text_option(
      "HOST:PORT", "", out.address,
      "The address of a task, or a full address printed by --introspect-port: http://HOST:PORT/#token=..."));
  line.add(
      "Cluster",
      {text_option("--cluster", "FILE", out.cluster_file, "Cluster file, for its token and the addresses of tasks"),
       text_option("--read", "FILE", out.recording, "Show snapshots printed by --json instead of a cluster"),
       number_option("--interval", "SECONDS", out.interval, kLeastInterval, 3600, "Seconds between snapshots")});
  line.add("Output, instead of the terminal",
           {flag("--once", out.once, "Print one page and exit; rates cover one --interval"),
            flag("--json", out.json, "Print one snapshot as a line of JSON and exit"),
            flag("--why", out.why, "Print why the cluster waits, and exit"),
            optional_option("--provenance", "VERSION", out.provenance, 0, std::numeric_limits<std::int64_t>::max(),
                            "Print which gradients made this version of the parameters, and exit"),
            optional_option("--web", "PORT", out.web, 0, 65535,
                            "Serve a live page to browsers on this machine, and /metrics for Prometheus; 0: any free "
                            "port")});
  line.add("Traces", trace_options(out.trace));
  line.add("Security", security_options(out.network));
  if (auto exit = line.parse(arguments)) return exit;
  if (const auto problem = conflict(line, !out.address.empty())) return line.wrong(*problem);
  return std::nullopt;
}

}  // namespace troupe::top
