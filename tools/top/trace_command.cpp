#include "tools/top/trace_command.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

namespace troupe::top {
namespace {

constexpr std::uint64_t kMostSteps = 10000;

}  // namespace

CLI::Option* add_trace_options(CLI::App& app, TraceArguments& options) {
  CLI::Option* trace =
      app.add_option("--trace", options.file, "Record what all tasks do, and write it for ui.perfetto.dev")
          ->type_name("FILE");
  app.add_option("--steps", options.request.steps,
                 "With --trace: so many steps of each worker; of a slow step, so many before it")
      ->check(CLI::Range(std::uint64_t{1}, kMostSteps))
      ->needs(trace)
      ->capture_default_str();
  app.add_option("--trace-slower-than", options.request.slower_than_ms,
                 "With --trace: wait for a step that takes longer, and write it with those before it")
      ->type_name("MS")
      ->check(CLI::Range(0.001, 1e9))
      ->needs(trace);
  return trace;
}

void trace_cluster(Observer::Options whom, const TraceArguments& options) {
  check_trace_path(options.file);
  const auto say = [](const std::string& text) { fmt::print(stderr, "troupe-top: {}\n", text); };
  Observer observer(std::move(whom));
  const TraceFile file =
      record_trace(traced_tasks(observer.tasks(), say), observer.snapshot().cluster, options.request, say);
  say(write_trace(file, options.file));
}

}  // namespace troupe::top
