// troupe-launch: a cluster of processes on this machine.
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "tools/launch/cluster_file.hpp"
#include "tools/launch/launch.hpp"
#include <troupe/messages/command_line.hpp>

namespace {

constexpr const char* kDescription =
    R"(Starts the tasks of a Troupe cluster as processes on this machine and ends them together.

Two parameter servers and two workers that train on the built-in digits:
  troupe-launch --ps 2 --workers 2 -- troupe-mnist --mode sync --epochs 5

The same, with a task that makes the batches of both workers:
  troupe-launch --ps 2 --workers 2 --inputs 1 -- troupe-mnist --mode sync --epochs 5

Three servers of the same models behind a router, which has the doors:
  troupe-launch --serve 3 --restart 100 -- troupe-serve --model digits=models/digits

Each task is APP ARGS... --job JOB --task INDEX. APP may be any program that calls Task::from_command_line(); without a
slash in its name it is looked for beside troupe-launch, then in PATH. Tasks choose free ports and find each other
through a temporary cluster file.

The stdout of the chief (worker 0) passes unchanged; all other output goes to stderr, prefixed with the task's name.
Ctrl-C asks the tasks to end; a second one kills them.

The cluster runs as long as the job. A failed worker is reported, and the other tasks may continue without it: training
does, unless the app was started with another policy (troupe-mnist --on-loss fail). It also continues without input
tasks: workers then read the data themselves. If the chief is killed, the first of
the other workers takes its place. A parameter server that fails ends the job: the other tasks have --grace and 10 s
more to end by themselves, then they are killed. A chief that ends with an error ends the other tasks; with --fail-fast,
so does any task that fails.

With --restart a failed task is restarted at its address, after a pause that grows from 0.1 to 5 s, until it exceeds
that number of failures. Any worker may then become the chief, and the stdout of all workers passes unchanged.

Exit code: that of the chief (if another took its place and failed too, of the first). 1 if the chief succeeded and a
parameter server failed, and if the chief had to be ended because another task failed or the cluster was not complete
in time. 2 on wrong usage; 130 or 143 after SIGINT or SIGTERM.)";

// Finds apps beside this program, so that those of one build need no path.
std::string find_app(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = self.parent_path() / name;
  return !error && access(beside.c_str(), X_OK) == 0 ? beside.string() : name;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe;
  LaunchOptions options;
  bool make_token = false;
  CommandLine line("troupe-launch", "--ps P --workers W | --serve N [OPTIONS] [--] APP ARGS...", kDescription);
  line.add("Cluster",
           {whole_option("--ps", "P", options.ps, 0, 256, "Parameter servers"),
            whole_option("--workers", "W", options.workers, 1, 256, "Workers"),
            whole_option("--inputs", "N", options.inputs, 0, 256,
                         "Input tasks, which read the data and make the workers' batches"),
            whole_option("--serve", "N", options.serve, 1, 256,
                         "Replicas (job serve) behind a router, in place of all other tasks"),
            whole_option("--max-workers", "M", options.max_workers, 0, 1 << 20,
                         "Upper limit on workers; those beyond --workers may be started by hand while the job trains, "
                         "with --job worker --task INDEX --cluster FILE (the launcher prints FILE)"),
            optional_option("--gpus-per-worker", "N", options.gpus_per_worker, 0, 1024,
                            "Dedicated GPUs of this machine per worker (CUDA_VISIBLE_DEVICES); other tasks get none "
                            "(default: every task sees all GPUs)"),
            flag("--make-token", make_token, "Print a random token for a cluster file, and start nothing")});
  line.add(
      "Failures",
      {whole_option("--restart", "N", options.restarts, 0, 1'000'000, "Maximum restarts of each failing task"),
       flag("--fail-fast", options.fail_fast, "End all tasks when one fails for good"),
       number_option("--start-timeout", "S", options.start_timeout, 0.001, 1e6,
                     "Seconds for all tasks to report their addresses"),
       number_option("--grace", "S", options.grace, 0, 1e6, "Seconds between asking tasks to end and killing them")});
  line.end_with_command(options.command);
  if (const auto exit = line.parse({argv + 1, argv + argc})) return finish(*exit);
  if (make_token) {
    fmt::print("{}\n", random_token());
    return 0;
  }
  if (options.max_workers > 0 && options.max_workers < options.workers)
    return finish(
        line.wrong(fmt::format("--max-workers {} is less than --workers {}", options.max_workers, options.workers)));
  if (options.serve > 0)
    if (const auto problem = line.conflict({"--serve", line.given("--ps")       ? "--ps"
                                                       : line.given("--inputs") ? "--inputs"
                                                                                : "--workers"}))
      return finish(line.wrong(*problem));
  if (options.command.empty() || options.command.front().empty())
    return finish(line.wrong("no app given: troupe-launch --ps P --workers W -- APP ARGS..."));
  options.command.front() = find_app(options.command.front());
  try {
    return launch(options);
  } catch (const std::exception& e) {
    fmt::print(stderr, "troupe-launch: {}\n", e.what());
    return 1;
  }
}
