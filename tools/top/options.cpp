#include "tools/top/options.hpp"

#include <CLI/CLI.hpp>

#include "tools/top/asker.hpp"

namespace troupe::top {
namespace {

constexpr const char* kHelp =
    R"(Looks into a running cluster of Troupe: its tasks, actors, devices, parameter shards and connections, how fast they go,
and why what waits in them waits. It asks one task, which asks all others; a task that does not answer is shown as such.
Read-only. In a terminal it goes on until q is pressed (? shows the keys); elsewhere, or with --once, it prints one page.

A task answers only those who know the token of its cluster: it is read from the cluster file. With the file alone any task
is asked, and another when that one does not answer.

Examples; troupe-launch prints the first for the cluster that it has started:
  troupe-top 127.0.0.1:38815 --cluster /proc/4711/fd/9
  troupe-top --cluster cluster.json --why          why is it stuck: who waits for whom, down to the causes
  troupe-top --cluster cluster.json --web 8080     as a page: http://127.0.0.1:8080/, and for Prometheus /metrics
  troupe-top --cluster cluster.json --trace t.json ten steps of all tasks, for https://ui.perfetto.dev; --steps for more
  troupe-top --cluster cluster.json --once         everything, as a page for a log; rates of one second
  troupe-top --cluster cluster.json --json >> log  all there is to know, one line; --read shows it again:
  troupe-top --read log
  troupe-top --cluster cluster.json --provenance 1200   which gradients (worker, step, slot) went into version 1200 of the
                                                  parameters, and which came for it and were dropped, and why)";

}  // namespace

std::optional<int> parse(int argc, char** argv, Options& out) {
  CLI::App app(kHelp, "troupe-top");
  app.set_version_flag("--version", "troupe-top " TROUPE_VERSION);
  CLI::Option* address = app.add_option(
      "HOST:PORT", out.address,
      "The advertised address of a task; or, whole, what --introspect-port prints: http://HOST:PORT/#token=...");
  CLI::Option* cluster =
      app.add_option("--cluster", out.cluster_file, "The cluster file: token and addresses")->type_name("FILE");
  CLI::Option* recording =
      app.add_option("--read", out.recording,
                     "Show what --json has printed, one snapshot after the other, in the place of a cluster")
          ->type_name("FILE");
  CLI::Option* once = app.add_flag("--once", out.once, "Print one page and end; rates are those of one --interval");
  CLI::Option* json = app.add_flag("--json", out.json, "Print one snapshot as a line of JSON and end");
  CLI::Option* why = app.add_flag("--why", out.why, "Print why what waits in the cluster waits, and end");
  app.add_option("--interval", out.interval, "Seconds between questions, 0.25 to 3600")
      ->type_name("SECONDS")
      ->check(CLI::Range(kLeastInterval, 3600.0))
      ->capture_default_str();
  CLI::Option* provenance =
      app.add_option("--provenance", out.provenance, "Print what went into this version of the parameters, and end")
          ->type_name("VERSION");
  CLI::Option* web =
      app.add_option("--web", out.web,
                     "Show the cluster as a live page for a browser, at this port of this machine; 0: any free one")
          ->type_name("PORT");
  CLI::Option* trace = add_trace_options(app, out.trace);
  app.add_option("--tls-cert", out.network.tls.certificate, "Certificate, if the tasks speak TLS (PEM)")
      ->type_name("FILE");
  app.add_option("--tls-key", out.network.tls.key, "Its key (PEM)")->type_name("FILE");
  app.add_option("--tls-ca", out.network.tls.ca, "Certificate of the cluster's CA (PEM)")->type_name("FILE");
  app.add_flag("--insecure", out.network.insecure, "Speak to a task on another machine, although nothing is encrypted");
  recording->excludes(address)->excludes(cluster)->excludes(provenance);
  json->excludes(why);
  for (CLI::Option* other : {once, json, why}) provenance->excludes(other);
  for (CLI::Option* other : {once, json, why, provenance, recording}) web->excludes(other);
  for (CLI::Option* other : {once, json, why, provenance, recording, web}) trace->excludes(other);
  try {
    app.parse(argc, argv);
    if (address->count() + cluster->count() + recording->count() == 0)
      throw CLI::RequiredError(
          "HOST:PORT, http://..., or --cluster FILE, as troupe-launch and --introspect-port print them,");
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  }
  return std::nullopt;
}

}  // namespace troupe::top
