#include "tools/top/trace_command.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "actors/introspection/http.hpp"
#include "devices/storage/file_system.hpp"

namespace troupe::top {
namespace {

constexpr std::chrono::seconds kAnswer{10};  // a recording may be long
constexpr std::uint64_t kMostSteps = 10000;

}  // namespace

CLI::Option* add_trace_options(CLI::App& app, TraceArguments& options) {
  CLI::Option* trace = app.add_option("--trace", options.file, "Record what all tasks do, and write it for ui.perfetto.dev")->type_name("FILE");
  app.add_option("--steps", options.request.steps, "With --trace: so many steps of each worker; of a slow step, so many before it")
      ->check(CLI::Range(std::uint64_t{1}, kMostSteps))
      ->needs(trace)
      ->capture_default_str();
  app.add_option("--trace-slower-than", options.request.slower_than_ms, "With --trace: wait for a step that takes longer, and write it with those before it")
      ->type_name("MS")
      ->check(CLI::Range(0.001, 1e9))
      ->needs(trace);
  return trace;
}

void write_trace(Observer::Options whom, const TraceArguments& options) {
  const std::string& path = options.file;
  const std::string directory = std::filesystem::path(path).parent_path();
  if (access(directory.empty() ? "." : directory.c_str(), W_OK | X_OK) != 0)  // the recording must not be lost to a wrong path
    fail(Code::permission_denied, "cannot write '{}': {}", path, std::strerror(errno));
  const auto say = [](const std::string& text) { fmt::print(stderr, "troupe-top: {}\n", text); };
  Observer observer(std::move(whom));
  std::vector<TracedTask> tasks;
  for (const KnownTask& known : observer.tasks()) {
    if (known.target.address.port == 0)
      say(fmt::format("{} is left out: {}", known.task, known.unknown));
    else
      tasks.push_back({known.task, [target = known.target](const std::string& what, bool post) { return (post ? http_post : http_get)(target, what, kAnswer); }});
  }
  const TraceFile file = record_trace(std::move(tasks), observer.snapshot().cluster, options.request, say);
  replace_file(posix_file_system(), path, file.json, std::to_string(getpid()));
  say(fmt::format("{}: {} steps, {} events, {} arrows; ui.perfetto.dev shows it", path, file.steps, file.events, file.arrows));
}

}  // namespace troupe::top
