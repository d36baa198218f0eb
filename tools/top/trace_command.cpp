#include "tools/top/trace_command.hpp"

#include <fmt/core.h>

namespace troupe::top {
namespace {

constexpr std::int64_t kMostSteps = 10000;

}  // namespace

std::vector<CommandOption> trace_options(TraceArguments& options) {
  return {text_option("--trace", "FILE", options.file, "Record a trace of all tasks and write it for ui.perfetto.dev"),
          whole_option("--steps", "N", options.request.steps, 1, kMostSteps,
                       "With --trace: steps of each worker; with --trace-slower-than, steps before the slow one"),
          positive_option("--trace-slower-than", "MS", options.request.slower_than_ms,
                          "With --trace: wait for a slower step, and record it and the steps before it")};
}

void trace_cluster(Observer::Options target, const TraceArguments& options) {
  check_trace_path(options.file);
  const auto say = [](const std::string& text) { fmt::print(stderr, "troupe-top: {}\n", text); };
  Observer observer(std::move(target));
  const TraceFile file =
      record_trace(traced_tasks(observer.tasks(), say), observer.snapshot().cluster, options.request, say);
  say(write_trace(file, options.file));
}

}  // namespace troupe::top
