#include "apps/training_options.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "apps/schedule_option.hpp"
#include <troupe/actors/cluster/membership_options.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kMostSteps = 1'000'000'000;

// {0}: the program, {1}: its purpose, {2}: examples of its own.
constexpr const char* kDescription =
    R"({1}

{2}

On a cluster of this machine, with parameters on two tasks and two workers:
  troupe-launch --ps 2 --workers 2 -- {0} --mode sync

Without parameter servers, workers average their gradients around a ring:
  troupe-launch --workers 2 -- {0} --mode allreduce

By hand, one command for each task of the cluster file, on its machine:
  {0} --mode sync --job worker --task 0 --cluster cluster.json

Modes: local computes all slots in one process. sync applies the mean of a step's slots, in a fixed order. ssp does the
same with workers that may be some steps ahead. async applies each batch when it arrives. allreduce has no parameter
servers, and one slot per worker. A step of sync and local has N slots of --batch examples; the result depends on N and
on the seed, not on the number of workers.

Learning rate schedules: constant; step,every=N[,factor=F]; piecewise,N=R[,N=R]... (R from update N on);
exponential,factor=F[,every=N]; cosine,steps=N[,end=R]; polynomial,steps=N[,end=R][,power=P]; each with [,warmup=N].

Results go to stdout; progress, warnings and errors to stderr. Exit code: 0 on success, 1 on failure,
2 on wrong usage, 130 or 143 after SIGINT or SIGTERM.)";

// Holds the options of all modes as the command line gives them.
struct ModeChoice {
  std::string_view name = LocalMode::kName;
  int slots = 0, backups = SyncMode{}.backups, staleness = SspMode{}.staleness, aggregate = AsyncMode{}.aggregate;
  bool staleness_aware = AsyncMode{}.staleness_aware;
  std::string replay;
  ParameterServers servers;

  bool is(std::string_view mode) const { return name == mode; }
  bool has_servers() const { return !is(LocalMode::kName) && !is(AllReduceMode::kName); }

  JobMode mode() const {
    if (is(SyncMode::kName)) return SyncMode{.slots = slots, .backups = backups, .replay = replay, .servers = servers};
    if (is(SspMode::kName))
      return SspMode{.staleness = staleness, .slots = slots, .backups = backups, .replay = replay, .servers = servers};
    if (is(AsyncMode::kName))
      return AsyncMode{.aggregate = aggregate, .staleness_aware = staleness_aware, .servers = servers};
    if (is(AllReduceMode::kName)) return AllReduceMode{.step_timeout = servers.step_timeout};
    return LocalMode{.slots = std::max(1, slots)};
  }
};

// Rows that follow the app's own.
std::vector<CommandOption> model_options(TrainingAppOptions& options) {
  return {choice_option("--precision", options.compiled.precision, by_name({DType::f32, DType::bf16, DType::f16}),
                        "Data type of products; weights, losses and updates stay in f32"),
          unsigned_option("--seed", "S", options.training.seed, "Seed of the initial weights and the data order"),
          text_option("--save", "DIR", options.save, "Save the trained model as the directory DIR"),
          text_option("--publish", "DIR", options.training.publish,
                      "Publish the trained model as the next version of DIR, for troupe-serve"),
          {"--publish-gate", "CONDITION", "",
           "What a figure must be for that: \"val_accuracy >= 0.95\", or \"val_loss <= stable + 0.01\"",
           [&options](const std::string& text) { options.training.publish_gates.push_back(text); }}};
}

// parse_training_options() makes options.learning_rate from `rate` and `schedule` after parsing.
std::vector<CommandOption> training_options(TrainingAppOptions& options, ModeChoice& chosen, double& rate,
                                            std::string& schedule) {
  TrainingOptions& training = options.training;
  std::vector<std::pair<std::string, std::string_view>> modes;
  for (const std::string_view mode :
       {LocalMode::kName, SyncMode::kName, SspMode::kName, AsyncMode::kName, AllReduceMode::kName})
    modes.emplace_back(mode, mode);
  CommandOption mode =
      choice_option("--mode", chosen.name, std::move(modes), "How to train (default: local; in a cluster sync)");
  mode.default_value.clear();
  return {std::move(mode),
          whole_option("--epochs", "N", training.epochs, 1, 1'000'000, "Passes over the training data"),
          whole_option("--batch", "N", training.batch, 1, 1'000'000, "Examples per slot"),
          whole_option("--replicas", "N", chosen.slots, 1, 1024,
                       "Modes local, sync and ssp: slots per step (default: 1 in mode local, else the number of "
                       "workers less --backups)"),
          positive_option("--lr", "R", rate, "Initial learning rate (Adam)"),
          text_option("--schedule", "S", schedule, "Learning rate schedule, see above"),
          whole_option("--accumulate", "K", training.micro_batches, 1, 1024,
                       "Split a slot's batch into K equal micro-batches, computed one after the other to save memory"),
          positive_option("--clip-norm", "X", options.compiled.clipping.global_norm,
                          "Clip the gradients of a slot to this global norm (default: no clipping)"),
          whole_option("--backups", "N", chosen.backups, 0, 1024,
                       "Modes sync and ssp: extra slots per step. A step uses the first that arrive, so slow workers "
                       "do not hold it up"),
          whole_option("--staleness", "S", chosen.staleness, 0, 1024,
                       "Mode ssp: maximum staleness of a step's parameters, in steps"),
          whole_option("--aggregate", "K", chosen.aggregate, 1, 1024,
                       "Mode async: apply the mean of K batches as one update; an incomplete last group is dropped. "
                       "Not with --checkpoint"),
          flag("--staleness-aware", chosen.staleness_aware,
               "Mode async: divide the learning rate of an update by the staleness of its batches")};
}

std::vector<CommandOption> checkpoint_options(TrainingOptions& training, ParameterServers& servers) {
  return {text_option("--checkpoint", "DIR", training.checkpoint,
                      "Resume from the newest whole checkpoint in DIR, and save others there while training and at "
                      "the end. All ps tasks must see DIR; in mode allreduce, worker 0"),
          whole_option("--checkpoint-every", "STEPS", training.checkpoint_every, 1, kMostSteps,
                       "Steps between checkpoints (default: one epoch)"),
          whole_option("--max-to-keep", "N", training.checkpoints_kept, 1, 1'000'000, "Checkpoints to keep"),
          choice_option("--on-loss", servers.on_loss,
                        {{"fail", OnLoss::fail}, {"shrink", OnLoss::shrink}, {"wait", OnLoss::wait}},
                        "With parameter servers, when a task is lost: fail ends the job; shrink moves a worker's share "
                        "to the others; wait keeps it for the worker for --rejoin-timeout. shrink and wait also wait "
                        "for a lost ps task"),
          seconds_option("--rejoin-timeout", servers.rejoin_timeout,
                         "Seconds to wait for a lost ps task; with --on-loss wait, also for a lost worker"),
          whole_option("--min-workers", "N", servers.min_workers, 1, 1'000'000,
                       "With parameter servers: start when N workers have joined; the others may join at any time "
                       "(default: all, or however many join within --join-timeout)"),
          seconds_option("--step-timeout", servers.step_timeout,
                         "Seconds without progress after which training in a cluster fails; 0: never", 0)};
}

std::vector<CommandOption> record_options(TrainingAppOptions& options, ModeChoice& chosen) {
  TrainingOptions& training = options.training;
  return {
      flag("--json", options.json, "Print one JSON object per line: each epoch, job events, then the final figures"),
      text_option("--tensorboard", "DIR", training.tensorboard,
                  "Write event files for TensorBoard: loss, accuracy, speed, histograms of the parameters, the "
                  "graph"),
      whole_option("--tensorboard-every", "STEPS", training.tensorboard_every, 1, kMostSteps,
                   "Steps between points of the loss curve"),
      text_option("--trace", "FILE", options.trace.path,
                  "Trace some steps of all tasks, from the second on, for ui.perfetto.dev. For a running job use "
                  "troupe-top --trace"),
      whole_option("--trace-steps", "STEPS", options.trace.steps, 1, 10'000, "Steps of each worker to trace"),
      text_option("--provenance", "DIR", chosen.servers.provenance,
                  "With parameter servers: each ps task records in DIR which gradients made each version of "
                  "its parameters; with --backups also which slots each step used, in DIR/commits"),
      text_option("--replay", "FILE", chosen.replay,
                  "With --backups: replay the slots recorded in DIR/commits, for bit-identical results"),
      flag("--log-placement", options.log_placement,
           "Print the device of each node of the graph, and why there is no GPU")};
}

std::vector<CommandOption> running_options(TaskOptions& task) {
  std::vector<CommandOption> all{
      whole_option("--devices", "N", task.cpu_devices, 1, 1024, "Mode local: CPU devices that share the slots")};
  for (CommandOption& option : device_options(task)) all.push_back(std::move(option));
  return all;
}

std::optional<std::string> check_membership(const std::string& program, const TrainingAppOptions& options,
                                            const ModeChoice& chosen, bool launched) {
  const bool local = chosen.is(LocalMode::kName);
  if (!options.in_cluster) {
    if (local) return std::nullopt;
    return fmt::format(
        "--mode {0} needs a cluster: troupe-launch {1}--workers 2 -- {2} --mode {0}, or --job, --task and --cluster",
        chosen.name, chosen.has_servers() ? "--ps 1 " : "", program);
  }
  if (auto problem = options.membership.problem(launched)) return problem;
  if (local)
    return "--mode local is for one process, but this is a task of a cluster; use sync, ssp, async or allreduce";
  const std::string& job = options.membership.job;
  if (job != "ps" && job != "worker" && job != kInputJob)
    return fmt::format("--job: expected ps, worker or input, not '{}'", job);
  return std::nullopt;
}

// Checks for options that the mode does not have.
std::optional<std::string> check_mode(const ModeChoice& chosen, const CommandLine& line) {
  if (line.given("--staleness") && !chosen.is(SspMode::kName)) return "--staleness is for --mode ssp";
  if ((chosen.aggregate > 1 || chosen.staleness_aware) && !chosen.is(AsyncMode::kName))
    return "--aggregate and --staleness-aware are for --mode async";
  if (chosen.backups > 0 && !chosen.is(SyncMode::kName) && !chosen.is(SspMode::kName))
    return "--backups is for --mode sync and ssp";
  if (chosen.servers.min_workers > 0 && !chosen.has_servers())
    return fmt::format("--min-workers needs parameter servers, and mode {} has none", chosen.name);
  if (!chosen.servers.provenance.empty() && !chosen.has_servers())
    return fmt::format("--provenance needs parameter servers, and mode {} has none", chosen.name);
  if (!chosen.replay.empty() && chosen.backups == 0) return "--replay needs --backups";
  if (chosen.slots > 0 && chosen.is(AllReduceMode::kName))
    return "--replicas is not for --mode allreduce: a step has one slot per worker";
  if (chosen.slots > 0 && chosen.is(AsyncMode::kName))
    return "--replicas is not for --mode async: its steps have no slots; use local, sync or ssp";
  if (!chosen.is(LocalMode::kName) && line.given("--devices"))
    return fmt::format("--devices is for --mode local; in mode {} start more workers", chosen.name);
  return std::nullopt;
}

// Checks for conflicting options.
std::optional<std::string> check_rest(const TrainingAppOptions& options, const ModeChoice& chosen,
                                      const CommandLine& line) {
  const TrainingOptions& training = options.training;
  if (chosen.aggregate > 1 && !training.checkpoint.empty()) return "--checkpoint and --aggregate cannot be combined";
  if (line.given("--tensorboard-every") && training.tensorboard.empty())
    return "--tensorboard-every needs --tensorboard DIR";
  if (line.given("--trace-steps") && options.trace.path.empty()) return "--trace-steps needs --trace FILE";
  if (training.batch % training.micro_batches != 0)
    return fmt::format("--accumulate: batch size {} is not divisible by {} micro-batches", training.batch,
                       training.micro_batches);
  const int slots = std::max(1, chosen.slots);
  if (options.task.cpu_devices > slots)
    return fmt::format("{0} devices cannot share {1} slot{2} per step: use --replicas {0} or more",
                       options.task.cpu_devices, slots, slots > 1 ? "s" : "");
  return std::nullopt;
}

}  // namespace

std::optional<EarlyExit> parse_training_options(const TrainingCommand& command, TrainingAppOptions& options,
                                                const std::vector<std::string>& arguments, bool launched) {
  double rate = options.learning_rate.rate(0);
  std::string schedule = "constant";
  ModeChoice chosen;
  CommandLine line(command.program, "[OPTIONS]",
                   fmt::format(fmt::runtime(kDescription), command.program, command.purpose, command.examples));
  std::vector<CommandOption> model = command.own;
  for (CommandOption& option : model_options(options)) model.push_back(std::move(option));
  line.add("Data and model", std::move(model));
  line.add("Training", training_options(options, chosen, rate, schedule));
  line.add("Checkpoints and failures", checkpoint_options(options.training, chosen.servers));
  line.add("Output and records", record_options(options, chosen));
  line.add("Devices", running_options(options.task));
  line.add("Place in a cluster", membership_options(options.membership));
  if (auto exit = line.parse(arguments)) return exit;
  options.in_cluster = launched || options.membership.given();
  if (options.in_cluster && !line.given("--mode")) chosen.name = SyncMode::kName;
  if (command.rate && !line.given("--lr")) rate = command.rate();
  std::optional<std::string> problem = check_membership(command.program, options, chosen, launched);
  if (!problem) problem = check_mode(chosen, line);
  if (!problem) problem = check_rest(options, chosen, line);
  if (!problem && command.problem) problem = command.problem(line);
  if (problem) return line.wrong(*problem);
  try {
    options.learning_rate = parse_schedule(schedule, rate);
  } catch (const Error& error) {
    return line.wrong(error.within("--schedule").message());
  }
  chosen.servers.join_timeout = options.membership.join_timeout;
  options.training.mode = chosen.mode();
  return std::nullopt;
}

std::optional<std::string> cluster_problem(const std::string& program, const ClusterSpec& cluster,
                                           const JobMode& mode) {
  if (std::holds_alternative<AllReduceMode>(mode)) {
    if (cluster.count("ps") == 0) return std::nullopt;
    return fmt::format(
        "--mode allreduce keeps the parameters on the workers, but cluster '{}' has ps tasks: use "
        "troupe-launch --workers 2 -- {} --mode allreduce",
        cluster.name, program);
  }
  for (const char* job : {"ps", "worker"}) {
    if (cluster.count(job) > 0) continue;
    return fmt::format(
        "training needs tasks of jobs ps (which hold the parameters) and worker, but cluster '{}' has no {}: use "
        "troupe-launch --ps 1 --workers 2 -- {}",
        cluster.name, job, program);
  }
  return std::nullopt;
}

}  // namespace troupe
