// troupe-launch: a cluster of processes on this machine.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "tools/launch/cluster_file.hpp"
#include "tools/launch/launch.hpp"
#include <troupe/messages/error.hpp>

namespace {

constexpr const char* kDescription =
    R"(Starts the tasks of a Troupe cluster as processes on this machine and ends them together.

Example: two parameter servers and two workers that train on the built-in digits:
  troupe-launch --ps 2 --workers 2 -- troupe-mnist --mode sync --epochs 5

Each task is APP ARGS... --job JOB --task INDEX. An app without a slash in its name is looked for
beside troupe-launch, then in PATH. Tasks choose free ports and find each other through a cluster
file that goes away at the end.

What the chief (worker 0) prints on stdout passes unchanged; all other output goes to stderr with the
task's name in front. Ctrl-C asks the tasks to end, a second one kills them.

While the job goes on, so does the launcher. A worker that fails is named, and the others may go on
without it: training does, unless the app was told otherwise (troupe-mnist --on-loss fail). If the chief
is killed, the first of the other workers takes its place. A parameter server that fails ends the job:
the others have the time of --grace, and 10 s more for noticing it, then they are ended. So does a chief
that ends with an error. With --fail-fast any task that fails ends the others.

With --restart a task that fails is started again at its address, after a pause that grows from 0.1 to
5 s, until it has failed so often; any worker may come to be the chief then, and what workers print on
stdout passes unchanged.

Exit code: that of the chief (if another took its place and failed too, of the first). 1 if the chief
ended well and a parameter server failed, and if the chief had to be ended because another task failed
or the cluster was not complete in time. 2 on wrong usage; 130 or 143 after SIGINT or SIGTERM.)";

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: troupe-launch --ps P --workers W [OPTIONS] [--] APP ARGS...\n";
  }
};

// Where the binaries of one build lie together, an app needs no path.
std::string find_app(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = self.parent_path() / name;
  return !error && access(beside.c_str(), X_OK) == 0 ? beside.string() : name;
}

}  // namespace

int main(int argc, char** argv) {
  troupe::LaunchOptions options;
  double start_timeout = options.start_timeout.count();
  double grace = options.grace.count();
  int gpus_per_worker = 0;
  CLI::App app(kDescription, "troupe-launch");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "troupe-launch " TROUPE_VERSION);
  bool make_token = false;
  app.add_flag("--make-token", make_token, "Print a random token for a cluster file, and start nothing");
  app.add_option("--ps", options.ps, "Parameter servers")->check(CLI::Range(0, 256))->capture_default_str();
  app.add_option("--workers", options.workers, "Workers")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--start-timeout", start_timeout, "Seconds until every task must have reported its address")
      ->check(CLI::PositiveNumber & CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--grace", grace, "Seconds between asking tasks to end and killing them")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--restart", options.restarts, "How often a task that fails is started again")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_flag("--fail-fast", options.fail_fast, "End all tasks if one fails for good");
  app.add_option("--gpus-per-worker", gpus_per_worker,
                 "GPUs of this machine that each worker has for itself (CUDA_VISIBLE_DEVICES); other tasks have\nnone. "
                 "Without it every task sees all GPUs")
      ->check(CLI::Range(0, 1024));
  app.prefix_command();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (make_token) {
    fmt::print("{}\n", troupe::random_token());
    return 0;
  }
  options.command = app.remaining();
  if (!options.command.empty() && options.command.front() == "--") options.command.erase(options.command.begin());
  if (options.command.empty() || options.command.front().empty() || options.command.front().front() == '-') {
    fmt::print(stderr, "troupe-launch: {}\nRun with --help for more information.\n",
               options.command.empty()
                   ? "no app is given: troupe-launch --ps P --workers W -- APP ARGS..."
                   : fmt::format("'{}' is not an option of troupe-launch", options.command.front()));
    return 2;
  }
  options.command.front() = find_app(options.command.front());
  options.start_timeout = std::chrono::duration<double>(start_timeout);
  if (app.count("--gpus-per-worker") > 0) options.gpus_per_worker = gpus_per_worker;
  options.grace = std::chrono::duration<double>(grace);
  try {
    return troupe::launch(options);
  } catch (const std::exception& e) {
    fmt::print(stderr, "troupe-launch: {}\n", e.what());
    return 1;
  }
}
