// chaos_task: a task of a cluster that trains the counting model (counting_model.hpp). For the harness: it can be slow,
// leave out guards of the protocol, and have a bad disk.
#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <variant>

#include "apps/ending.hpp"
#include "apps/mnist/report.hpp"
#include "apps/signals.hpp"
#include "apps/training_report.hpp"
#include "tests/chaos/counting_model.hpp"
#include "tests/chaos/faulty_file_system.hpp"
#include "tests/chaos/haunting.hpp"
#include "tests/chaos/objectives_model.hpp"
#include "tests/chaos/table_model.hpp"
#include "tests/chaos/tagged_records.hpp"
#include "tests/graph/training/classifier.hpp"
#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/cluster/membership_options.hpp>
#include <troupe/actors/training/dataset_source.hpp>
#include <troupe/actors/training/training_plan.hpp>

namespace {

using namespace troupe;
using namespace troupe::chaos;

constexpr const char* kProgram = "chaos_task";

constexpr std::int64_t kLong = 1'000'000'000;

enum class ModelKind : std::uint8_t { counting, tables, objectives };

struct Options {
  Membership membership;
  TrainingOptions training{.epochs = 2, .batch = 4, .checkpoint_every = 20};
  std::string mode{SyncMode::kName};
  SyncMode sync;
  ModelKind model = ModelKind::counting;
  DataKind data = DataKind::memory;
  std::string without;
  int examples = 256;
  StepTime time;
  bool haunt = false;
  DiskFaults disk;
  std::string lose_node_of;
  int lose_node_after = 0;
};

std::variant<Options, EarlyExit> parse_options(int argc, char** argv) {
  Options o;
  TrainingOptions& training = o.training;
  CommandLine line(kProgram, "[OPTIONS]", "A task for the chaos harness: see tests/chaos/counting_model.hpp.");
  line.add(
      "Training",
      {choice_option<std::string>("--mode", o.mode, {{"sync", "sync"}, {"async", "async"}}, "How to train"),
       choice_option<ModelKind>(
           "--model", o.model,
           {{"counting", ModelKind::counting}, {"tables", ModelKind::tables}, {"objectives", ModelKind::objectives}},
           "What to train: see tests/chaos/NAME_model.hpp"),
       choice_option<DataKind>(
           "--data", o.data,
           {{"memory", DataKind::memory}, {"records", DataKind::records}, {"stream", DataKind::stream}},
           "Where examples come from, unless those of the counting model: see tests/chaos/tagged_records.hpp"),
       whole_option("--slots", "N", o.sync.slots, 0, 1000, "Slots of a step; 0: the number of workers"),
       whole_option("--backups", "N", o.sync.backups, 0, 1000, "Slots of a step beyond those"),
       whole_option("--epochs", "N", training.epochs, 1, 1000000, "Epochs"),
       whole_option("--batch", "N", training.batch, 1, 1000, "Examples of a slot"),
       whole_option("--examples", "N", o.examples, 1, 65536, "Examples"),
       number_option("--before", "MS", o.time.before, 0, kLong, "Time of a step before its gradients leave"),
       number_option("--between", "MS", o.time.between, 0, kLong, "Time between the first and the second"),
       number_option("--after", "MS", o.time.after, 0, kLong, "Time of a step after that"),
       text_option("--checkpoint", "DIR", training.checkpoint, "Directory of checkpoints"),
       whole_option("--checkpoint-every", "N", training.checkpoint_every, 1, 1000000, "Steps between them")});
  line.add("Faults",
           {choice_option<std::string>("--without", o.without, {{"dedupe", "dedupe"}, {"fence", "fence"}},
                                       "A guard to leave out"),
            flag("--haunt", o.haunt, "A worker: repeat pushes of an earlier view over every new link"),
            whole_option("--kill-at", "N", o.disk.kill_at, 0, kLong, "Die in the middle of this operation on files"),
            text_option("--once", "FILE", o.disk.once, "...unless this file is there; it is made then"),
            text_option("--lose-node-of", "TASK", o.lose_node_of,
                        "This task's node actor fails, unless the file of --once is there"),
            whole_option("--lose-node-after", "MS", o.lose_node_after, 0, 100000, "...so long after it has joined"),
            whole_option("--full-from", "N", o.disk.full_from, 0, kLong, "The disk is full from this operation on"),
            whole_option("--full-for", "N", o.disk.full_for, 0, kLong, "...for this number of operations")});
  line.add("Place in a cluster", membership_options(o.membership));
  if (auto exit = line.parse({argv + 1, argv + argc})) return *exit;
  return o;
}

void print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// How often the examples are in the variables that count them: the least and the most, over all.
std::pair<double, double> counts(const Parameters& parameters, std::int64_t examples) {
  double least = 1e9, most = -1e9;
  const auto counts_examples = [](const auto& variable) { return variable.first.starts_with("seen/"); };
  const bool chosen = std::ranges::any_of(parameters, counts_examples);  // else all do
  for (const auto& variable : parameters) {
    if (chosen && !counts_examples(variable)) continue;
    for (const float count : variable.second.rows(0, examples).template values<float>()) {
      least = std::min<double>(least, count);
      most = std::max<double>(most, count);
    }
  }
  return {least, most};
}

Program program_of(const Options& o) {
  switch (o.model) {
    case ModelKind::tables:
      return table_model();
    case ModelKind::objectives:
      return objectives_model(o.examples);
    case ModelKind::counting:
      break;
  }
  return testing::classifier(counting_model(o.examples), optimizers::SGD{.learning_rate = 1.0});
}

std::unique_ptr<BatchSource> source_of_examples(const Options& o) {
  if (o.model == ModelKind::counting)
    return std::make_unique<TensorDataset>(source_of(numbered_examples(o.examples).train));
  if (o.data == DataKind::memory) return std::make_unique<TensorDataset>(tagged_examples(o.examples));
  return std::make_unique<PipelineSource>(tagged_records(o.examples, o.data));
}

void train(const Options& o, Task& task, FileSystem& disk, StopSignals& signals) {
  TrainingOptions training = o.training;
  SyncMode sync = o.sync;
  sync.servers.join_timeout = o.membership.join_timeout;
  training.mode = task.cluster().tasks.empty() ? JobMode(LocalMode{.slots = std::max(1, sync.slots)})
                  : o.mode == AsyncMode::kName ? JobMode(AsyncMode{.servers = sync.servers})
                                               : sync;
  training.on_event = [](const JobEvent& event) { print(event_json(event, std::chrono::system_clock::now())); };
  training.stop = &signals.stop();
  TrainingState state;
  const std::unique_ptr<BatchSource> source = source_of_examples(o);
  const Program program = program_of(o);
  TrainingPlan plan{.program = program,
                    .description = fmt::format("model {}", static_cast<int>(o.model)),
                    .train = *source,
                    .options = training,
                    .state = state,
                    .task = task,
                    .files = disk};
  plan.guards.shard.dedupe = o.without != "dedupe";
  plan.guards.shard.fence = plan.guards.members = o.without != "fence";
  if (o.haunt && task.name().job == "worker") haunt(plan);
  const TrainingResult result = troupe::train(plan);
  if (!result.chief) return;
  const auto [least, most] = counts(state.parameters, o.examples);
  print(fmt::format(R"({{"event":"final","steps":{},"seconds":{},"params_sha256":"{}","least":{},"most":{}}})",
                    result.steps, result.seconds, result.params_sha256, least, most));
}

// Once, `after` it has joined.
std::jthread lose_node(Task& task, std::chrono::milliseconds after, const std::string& once) {
  return std::jthread([&task, after, once](const std::stop_token& over) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    if (std::condition_variable_any().wait_for(lock, over, after, [] { return false; }) || over.stop_requested())
      return;
    std::ofstream(once) << "lost\n";
    task.actors().fail_next("node");
    task.actors().send_stray("node", Stray::unknown);
  });
}

int run(const Options& o, LaunchHandshake* handshake, StopSignals& signals) {
  TaskOptions wanted;
  wanted.threads = 1;
  wanted.ops = counting_ops();
  wanted.register_kernels = counting_kernels(o.time);
  FaultyFileSystem disk(posix_file_system(), o.disk);  // goes after the task
  Member member;
  if (handshake || o.membership.given()) {
    member =
        start_member(o.membership, handshake, wanted, std::chrono::steady_clock::now() + o.membership.join_timeout);
    member.task->join(member.cluster, o.membership.join_timeout, "ps");
  } else {
    member.task = std::make_unique<Task>(wanted);  // alone
  }
  std::jthread losing;
  if (fmt::format("{}/{}", member.task->name().job, member.task->name().index) == o.lose_node_of &&
      !std::filesystem::exists(o.disk.once))
    losing = lose_node(*member.task, std::chrono::milliseconds(o.lose_node_after), o.disk.once);
  signals.end_in_order();
  int code = 0;
  try {
    train(o, *member.task, disk, signals);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", kProgram, error.what());
    code = signals.exit_code() != 0 ? signals.exit_code() : 1;
  }
  losing = {};
  return end_output(kProgram, end_task(kProgram, *member.task, code));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    StopSignals signals;
    auto handshake = LaunchHandshake::from_environment();
    const auto parsed = parse_options(argc, argv);
    if (const auto* exit = std::get_if<EarlyExit>(&parsed)) return end_output(kProgram, finish(*exit));
    return run(std::get<Options>(parsed), handshake ? &*handshake : nullptr, signals);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", kProgram, error.what());
    return 1;
  }
}
