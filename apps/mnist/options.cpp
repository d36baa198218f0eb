#include "apps/mnist/options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "apps/command_line.hpp"
#include "apps/mnist/schedule_option.hpp"

namespace troupe {
namespace {

constexpr const char* kProgram = "troupe-mnist";
constexpr const char* kUsage = "[OPTIONS]";
constexpr const char* kDescription =
    R"(Trains a classifier of handwritten digits, alone or as one task of a cluster, and says how good it is.

In this process, on digits that need no download:
  troupe-mnist --epochs 5
  troupe-mnist --model cnn --replicas 2 --devices 2

On the files of MNIST (train-images-idx3-ubyte and the other three, plain or .gz):
  troupe-mnist --data ~/mnist

On a cluster of this machine, parameters on two tasks, two workers:
  troupe-launch --ps 2 --workers 2 -- troupe-mnist --mode sync

The same without parameter servers: workers exchange their gradients around a ring.
  troupe-launch --workers 2 -- troupe-mnist --mode allreduce

By hand, one command for each task of the cluster file, on its machine:
  troupe-mnist --mode sync --job worker --task 0 --cluster cluster.json

A step of --mode sync (and local) has N slots of --batch examples; the result depends on N and on the
seed, not on the number of workers. A step of --mode allreduce has a slot for each worker.

Results go to stdout; progress, warnings and errors to stderr. Exit code: 0 on success, 1 on failure,
2 on wrong usage, 130 or 143 after SIGINT or SIGTERM.)";

// As typed, before the rules that tie options together.
struct Typed {
  std::string model = "mlp";
  std::string mode;
  std::string precision = "f32";
  double learning_rate = 1e-3;
  std::string schedule = "constant";
  bool devices = false;
  bool digits = false;
  bool staleness = false;
  bool tensorboard_every = false;
  bool trace_steps = false;
};

void set_digits(MnistOptions& options, const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) {
    throw CLI::ValidationError("--digits", fmt::format("expected TRAIN,TEST such as 12000,2000, not '{}'", text));
  }
  constexpr int kMost = 1'000'000;
  options.train_digits = static_cast<int>(parse_whole("--digits", text.substr(0, comma), 1, kMost));
  options.test_digits = static_cast<int>(parse_whole("--digits", text.substr(comma + 1), 1, kMost));
}

void set_on_loss(MnistOptions& options, const std::string& text) {
  using OnLoss = TrainingOptions::OnLoss;
  for (const auto& [name, policy] :
       {std::pair{"fail", OnLoss::fail}, std::pair{"shrink", OnLoss::shrink}, std::pair{"wait", OnLoss::wait}})
    if (text == name) {
      options.on_loss = policy;
      return;
    }
  throw CLI::ValidationError("--on-loss", fmt::format("expected fail, shrink or wait, not '{}'", text));
}

void declare_training(CLI::App& app, MnistOptions& options, Typed& typed) {
  app.add_option("--data", options.data, "Directory with the files of MNIST; without it, the built-in digits")
      ->type_name("DIR");
  app.add_option_function<std::string>(
         "--digits",
         [&](const std::string& text) {
           typed.digits = true;
           set_digits(options, text);
         },
         "How many built-in digits to train on and to test on")
      ->type_name("TRAIN,TEST")
      ->default_str("12000,2000");
  app.add_option("--model", typed.model, "mlp or cnn")->type_name("MODEL")->capture_default_str();
  app.add_option("--mode", typed.mode, "local, sync, async or allreduce (default: local, in a cluster sync)")
      ->type_name("MODE");
  add_whole(app, "--epochs", options.epochs, 1, 1'000'000, "How often to go through the training data");
  add_whole(app, "--batch", options.batch, 1, 1'000'000, "Examples of a slot");
  app.add_option_function<std::string>(
         "--lr", [&](const std::string& text) { typed.learning_rate = parse_positive("--lr", text); },
         "Learning rate of Adam, the first if it changes")
      ->type_name("R")
      ->default_str("0.001");
  app.add_option("--precision", typed.precision, "f32, bf16 or f16: what products are computed in; weights stay in f32")
      ->type_name("P")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--seed", [&](const std::string& text) { options.seed = parse_unsigned("--seed", text); },
         "Of the first weights and of the order of the data")
      ->type_name("S")
      ->default_str("0");
  add_whole(app, "--replicas", options.replicas, 1, 1024,
            "Slots of a step (default: 1, in mode sync the number of workers)");
  app.add_option_function<std::string>(
         "--staleness",
         [&](const std::string& text) {
           typed.staleness = true;
           options.staleness = static_cast<int>(parse_whole("--staleness", text, 0, 1024));
         },
         "Mode ssp: a step may begin with parameters that lack the last so many steps")
      ->type_name("S")
      ->default_str("1");
  add_whole(app, "--aggregate", options.aggregate, 1, 1024,
            "Mode async: so many batches make one update, of their mean");
  app.add_flag("--staleness-aware", options.staleness_aware,
               "Mode async: divide an update's learning rate by the staleness of its batches: the updates between what "
               "they were computed on and it");
  add_whole(app, "--backups", options.backups, 0, 1024,
            "Modes sync and ssp: so many slots of a step more than it needs; it uses those that are there first");
  app.add_option("--checkpoint", options.checkpoint,
                 "Directory that all ps tasks see (mode allreduce: worker 0). Training goes on from the newest "
                 "checkpoint there, and saves others")
      ->type_name("DIR");
  app.add_option_function<std::string>(
         "--checkpoint-every",
         [&](const std::string& text) {
           options.checkpoint_every =
               static_cast<std::uint64_t>(parse_whole("--checkpoint-every", text, 1, 1'000'000'000));
         },
         "Steps between checkpoints (default: an epoch's)")
      ->type_name("STEPS");
  app.add_option("--provenance", options.provenance,
                 "With parameter servers: directory where each ps task writes which gradients went into every version "
                 "of its parameters, as JSON "
                 "lines; with --backups also the slots that steps used, in DIR/commits")
      ->type_name("DIR");
  app.add_option(
         "--replay", options.replay,
         "With --backups: a file DIR/commits of --provenance; steps use the same slots again, with the same bits")
      ->type_name("FILE");
  add_whole(app, "--max-to-keep", options.checkpoints_kept, 1, 1'000'000, "Checkpoints that are kept");
}

void declare_curves(CLI::App& app, MnistOptions& options, Typed& typed) {
  app.add_option("--tensorboard", options.tensorboard,
                 "Directory for TensorBoard: worker 0 writes curves of loss, accuracy and speed, histograms of the "
                 "parameters and the graph")
      ->type_name("DIR");
  app.add_option_function<std::string>(
         "--tensorboard-every",
         [&](const std::string& text) {
           typed.tensorboard_every = true;
           options.tensorboard_every =
               static_cast<std::uint64_t>(parse_whole("--tensorboard-every", text, 1, 1'000'000'000));
         },
         "Steps from one point of the loss to the next")
      ->type_name("STEPS")
      ->default_str("100");
  app.add_option("--trace", options.trace,
                 "Record some steps from the second on, of all tasks, and write them for ui.perfetto.dev. Of a cluster "
                 "that trains already: troupe-top --trace")
      ->type_name("FILE");
  app.add_option_function<std::string>(
         "--trace-steps",
         [&](const std::string& text) {
           typed.trace_steps = true;
           options.trace_steps = static_cast<std::uint64_t>(parse_whole("--trace-steps", text, 1, 10'000));
         },
         "So many steps of each worker")
      ->type_name("STEPS")
      ->default_str("10");
}

// What becomes of gradients.
void declare_updates(CLI::App& app, MnistOptions& options, Typed& typed) {
  app.add_option("--schedule", typed.schedule,
                 "How the learning rate changes with the updates: constant; step,every=N[,factor=F]; "
                 "piecewise,N=R[,N=R]...; exponential,factor=F[,every=N]; cosine,steps=N[,end=R]; "
                 "polynomial,steps=N[,end=R][,power=P]; each with [,warmup=N]")
      ->type_name("S")
      ->capture_default_str();
  add_whole(app, "--accumulate", options.micro_batches, 1, 1024,
            "Compute a slot's batch in so many equal parts, one after the other, which takes less memory");
  app.add_option_function<std::string>(
         "--clip-norm", [&](const std::string& text) { options.clip_norm = parse_positive("--clip-norm", text); },
         "Scale a slot's gradients down together where their norm is greater (default: leave them)")
      ->type_name("X");
}

void declare_running(CLI::App& app, MnistOptions& options, Typed& typed) {
  app.add_option("--save", options.save, "Directory for the trained model, DIR/model.troupe")->type_name("DIR");
  app.add_flag("--json", options.json, "Print one JSON object per line: each epoch, then the final figures");
  add_whole(app, "--threads", options.threads, 1, 1024, "Threads of each device (default: a fair share of the cores)");
  add_memory_limit(app, options.memory_limit);
  add_gpus(app, options.gpus);
  app.add_flag("--log-placement", options.log_placement,
               "Say on which device each node of the graph runs, and what became of the search for GPUs");
  app.add_option_function<std::string>(
         "--devices",
         [&](const std::string& text) {
           typed.devices = true;
           options.devices = static_cast<int>(parse_whole("--devices", text, 1, 1024));
         },
         "CPU devices that share the slots of mode local")
      ->type_name("N")
      ->default_str("1");
  add_seconds(app, "--step-timeout", options.step_timeout,
              "Seconds that training in a cluster may stand still before it fails; 0: for ever", 0);
  add_whole(app, "--min-workers", options.min_workers, 1, 1'000'000,
            "With parameter servers: begin when so many workers are there, others may come at any time (default: all, "
            "or those that are there after "
            "the join timeout)");
  app.add_option_function<std::string>(
         "--on-loss", [&](const std::string& text) { set_on_loss(options, text); },
         "With parameter servers, when a task is lost: fail; shrink: a worker's part goes to the others; wait: it is "
         "kept for the worker for a "
         "while. With the last two a lost ps task is waited for")
      ->type_name("fail|shrink|wait")
      ->default_str("shrink");
  add_seconds(app, "--rejoin-timeout", options.rejoin_timeout,
              "Seconds that a lost ps task is waited for, with --on-loss wait a worker too");
  add(app, membership_options(options.membership));
}

std::optional<std::string> set_model(const Typed& typed, MnistOptions& options) {
  for (const MnistModel model : {MnistModel::mlp, MnistModel::cnn}) {
    if (typed.model != name(model)) continue;
    options.model = model;
    return std::nullopt;
  }
  return fmt::format("--model: expected mlp or cnn, not '{}'", typed.model);
}

std::optional<std::string> set_mode(const Typed& typed, MnistOptions& options) {
  if (typed.mode.empty()) {
    options.mode = options.in_cluster ? JobMode::sync : JobMode::local;
    return std::nullopt;
  }
  for (const JobMode mode : {JobMode::local, JobMode::sync, JobMode::ssp, JobMode::async, JobMode::allreduce}) {
    if (typed.mode != name(mode)) continue;
    options.mode = mode;
    return std::nullopt;
  }
  return fmt::format("--mode: expected local, sync, ssp, async or allreduce, not '{}'", typed.mode);
}

std::optional<std::string> set_precision(const Typed& typed, MnistOptions& options) {
  for (const DType precision : {DType::f32, DType::bf16, DType::f16})
    if (typed.precision == name(precision)) {
      options.precision = precision;
      return std::nullopt;
    }
  return fmt::format("--precision: expected f32, bf16 or f16, not '{}'", typed.precision);
}

std::optional<std::string> set_learning_rate(const Typed& typed, MnistOptions& options) try {
  options.learning_rate = parse_schedule(typed.schedule, typed.learning_rate);
  return std::nullopt;
} catch (const Error& error) {
  return fmt::format("--schedule: {}", error.message());
}

std::optional<std::string> check_membership(const MnistOptions& options, bool launched) {
  if (!options.in_cluster) {
    if (options.mode == JobMode::local) return std::nullopt;
    return fmt::format(
        "--mode {0} needs a cluster: troupe-launch {1}--workers 2 -- troupe-mnist --mode {0}, or --job, "
        "--task and "
        "--cluster",
        name(options.mode), options.mode == JobMode::allreduce ? "" : "--ps 1 ");
  }
  if (auto problem = options.membership.problem(launched)) return problem;
  if (options.mode == JobMode::local)
    return "--mode local is for one process, and this is a task of a cluster; use sync, ssp, async or allreduce";
  if (options.membership.job != "ps" && options.membership.job != "worker")
    return fmt::format("--job: troupe-mnist has the jobs ps and worker, not '{}'", options.membership.job);
  return std::nullopt;
}

std::optional<std::string> check_rest(const MnistOptions& options, const Typed& typed) {
  if (typed.staleness && options.mode != JobMode::ssp) return "--staleness belongs to --mode ssp";
  if ((options.aggregate > 1 || options.staleness_aware) && options.mode != JobMode::async)
    return "--aggregate and --staleness-aware are about the updates of --mode async";
  if (options.aggregate > 1 && !options.checkpoint.empty()) return "--checkpoint does not go with --aggregate";
  if (options.backups > 0 && options.mode != JobMode::sync && options.mode != JobMode::ssp)
    return "--backups is about the slots of a step of the modes sync and ssp";
  if (options.min_workers > 0 && (options.mode == JobMode::local || options.mode == JobMode::allreduce))
    return fmt::format("--min-workers is for the modes with parameter servers, and {} is none of them",
                       name(options.mode));
  if (!options.provenance.empty() && (options.mode == JobMode::local || options.mode == JobMode::allreduce))
    return fmt::format("--provenance is about parameter servers, and mode {} has none", name(options.mode));
  if (!options.replay.empty() && options.backups == 0)
    return "--replay is about the slots that steps with --backups use";
  if (typed.tensorboard_every && options.tensorboard.empty())
    return "--tensorboard-every is about the curves of --tensorboard DIR";
  if (typed.trace_steps && options.trace.empty()) return "--trace-steps is about the recording of --trace FILE";
  if (typed.digits && !options.data.empty())
    return "--digits is about the built-in digits, which --data replaces: give one of them";
  if (options.batch % options.micro_batches != 0)
    return fmt::format("--accumulate: a batch of {} examples has no {} equal parts", options.batch,
                       options.micro_batches);
  if (options.mode == JobMode::allreduce && options.replicas > 0)
    return "--replicas is the number of slots of a step, and a step of --mode allreduce has one for each worker";
  if (options.mode == JobMode::async && options.replicas > 0)
    return "--replicas is the number of slots of a step, and a step of --mode async has none; use local or "
           "sync";
  if (options.mode != JobMode::local && typed.devices)
    return fmt::format("--devices is for mode local; in mode {} start more workers", name(options.mode));
  if (options.devices > std::max(1, options.replicas)) {
    return fmt::format("{0} devices share the slots of a step, of which there {1}: use --replicas {0} or more",
                       options.devices, options.replicas > 1 ? fmt::format("are {}", options.replicas) : "is 1");
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(MnistModel model) { return model == MnistModel::mlp ? "mlp" : "cnn"; }

std::variant<MnistOptions, EarlyExit> parse_mnist_options(const std::vector<std::string>& arguments, bool launched) {
  MnistOptions options;
  Typed typed;
  const auto app = make_command_line(kProgram, kUsage, kDescription);
  declare_training(*app, options, typed);
  declare_curves(*app, options, typed);
  declare_updates(*app, options, typed);
  declare_running(*app, options, typed);
  if (auto exit = parse(*app, arguments)) return *exit;
  options.in_cluster = launched || options.membership.given();
  std::optional<std::string> problem = set_model(typed, options);
  if (!problem) problem = set_mode(typed, options);
  if (!problem) problem = set_precision(typed, options);
  if (!problem) problem = set_learning_rate(typed, options);
  if (!problem) problem = check_membership(options, launched);
  if (!problem) problem = check_rest(options, typed);
  if (problem) return wrong_usage(kProgram, *problem);
  return options;
}

std::optional<std::string> cluster_problem(const ClusterSpec& cluster, JobMode mode) {
  if (mode == JobMode::allreduce) {
    if (cluster.count("ps") == 0) return std::nullopt;
    return fmt::format(
        "--mode allreduce keeps the parameters on the workers, and cluster '{}' has tasks of job ps: troupe-launch "
        "--workers 2 -- "
        "troupe-mnist --mode allreduce",
        cluster.name);
  }
  for (const char* job : {"ps", "worker"}) {
    if (cluster.count(job) > 0) continue;
    return fmt::format(
        "training needs tasks of the jobs ps (they keep the parameters) and worker, and cluster '{}' has "
        "none of job {}: "
        "troupe-launch --ps 1 --workers 2 -- troupe-mnist",
        cluster.name, job);
  }
  return std::nullopt;
}

}  // namespace troupe
