#include "tools/model/run_batches.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/data/input.hpp"
#include "tools/model/result_file.hpp"
#include "tools/model/runner.hpp"
#include <troupe/actors/cluster/membership.hpp>
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/model/values.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe::model_tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kWorkers = "worker";

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// How far the run is: a line that changes on a terminal, else one every ten seconds; with --json an event
// each second and for each device that comes or is lost.
class BatchReport {
 public:
  explicit BatchReport(bool json) : json_(json), terminal_(!json && ::isatty(STDERR_FILENO) == 1) {}
  ~BatchReport() { clear(); }
  BatchReport(const BatchReport&) = delete;
  BatchReport& operator=(const BatchReport&) = delete;

  void progress(const BatchInferenceProgress& at) {
    const Clock::time_point now = Clock::now();
    const bool changed = std::exchange(devices_, at.devices) != at.devices;
    if (json_ ? !changed && now - last_ < pause() : at.batches == 0 || now - last_ < pause()) return;
    last_ = now;
    if (json_) {
      print_event("progress", at);
      std::fflush(stdout);
      return;
    }
    fmt::print(stderr, "{}{} of {} examples, {} of {} devices, {:.1f} examples/s{}", terminal_ ? "\r\x1b[K" : "",
               at.examples, at.all_examples ? fmt::format("{}", *at.all_examples) : "?", at.devices, at.all_devices,
               static_cast<double>(at.examples) / since(begin_), terminal_ ? "" : "\n");
    std::fflush(stderr);
    drawn_ = terminal_;
  }
  void event(const std::string& text) {
    clear();
    fmt::print(stderr, "troupe-model: {}\n", text);
  }
  void end(const BatchInferenceProgress& at) {
    clear();
    if (json_)
      print_event("ran", at);
    else
      fmt::print("{} examples in {} batches, {:.2f} s\n", at.examples, at.batches, since(begin_));
  }

 private:
  std::chrono::milliseconds pause() const { return std::chrono::milliseconds(json_ ? 1000 : terminal_ ? 100 : 10'000); }
  void print_event(const char* event, const BatchInferenceProgress& at) const {
    const double seconds = since(begin_);
    fmt::print("{}\n", json_text({{"event", event},
                                  {"batches", at.batches},
                                  {"examples", at.examples},
                                  {"devices", at.devices},
                                  {"started_again", at.started_again},
                                  {"seconds", seconds},
                                  {"examples_per_s", static_cast<double>(at.examples) / seconds}}));
  }
  void clear() {
    if (drawn_) fmt::print(stderr, "\r\x1b[K");
    drawn_ = false;
  }

  const bool json_, terminal_;
  bool drawn_ = false;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
  std::size_t devices_ = 0;
};

// A task of its own, or a client of the cluster that has met its workers, or at least one of them in time.
std::unique_ptr<Task> task_of(const Options& options) {
  if (options.cluster.empty()) return std::make_unique<Task>(TaskOptions{.threads = options.threads});
  if (const auto problem = options.network.problem()) invalid_argument("{}", *problem);
  const ClusterSpec cluster = ClusterSpec::read(options.cluster);
  if (cluster.count(kWorkers) == 0)
    fail(Code::not_found, "'{}' lists no task of job '{}': its tasks run troupe-node", options.cluster, kWorkers);
  if (const auto warning = token_warning(cluster, options.network)) fmt::print(stderr, "troupe-model: {}\n", *warning);
  constexpr std::uint64_t kClients = 1'000'000'000;  // of a cluster, each with a number of its own
  auto task = std::make_unique<Task>(TaskOptions{.name = {"client", static_cast<int>(random_id() % kClients)},
                                                 .threads = options.threads,
                                                 .gpus = {.count = 0},
                                                 .networked = true,
                                                 .network = options.network});
  const std::size_t own = task->devices().size();
  try {
    task->join(cluster, options.join_timeout, std::string(kWorkers));
  } catch (const Error& missing) {
    if (missing.code() != Code::deadline_exceeded || task->devices().size() == own) throw;
    fmt::print(stderr, "troupe-model: goes on without some workers: {}\n", missing.message());
  }
  return task;
}

std::unique_ptr<BatchSource> source_of(const std::string& path, const ModelSignature& signature) {
  FileSystem& files = file_system_of(path);
  if (path.ends_with(".safetensors")) {
    std::vector<std::pair<std::string, Tensor>> components;
    for (auto& [name, value] : load_values(files, path)) components.emplace_back(name, value);
    return std::make_unique<TensorDataset>(std::move(components));
  }
  BatchSchema wanted;
  bool known = true;
  for (const auto& [name, spec] : signature.inputs) {
    known = known && spec.shape.has_rank() && spec.shape.rank() > 0;
    wanted.push_back({name, spec.dtype, known ? spec.shape.sub(1, spec.shape.rank()) : Shape()});
  }
  // Records say no types: they are those that the model takes.
  data_tool::InputOptions reading;
  if (known && data_tool::recognise(files, path, {}) <= data_tool::Format::jsonl)
    reading.schema = data_tool::schema_text(wanted);
  for (const BatchComponent& input : wanted) reading.components += (reading.components.empty() ? "" : ",") + input.name;
  return std::make_unique<PipelineSource>(*data_tool::open_input(files, path, reading).pipeline);
}

// The outputs in a file, whose values are not kept.
void print_written(const ResultFile& results, const Options& options) {
  for (const BatchComponent& output : results.schema()) {
    const Shape shape = output.batch_shape(static_cast<std::int64_t>(results.rows()));
    if (options.json)
      fmt::print(
          "{}\n",
          json_text(
              {{"event", "output"}, {"name", output.name}, {"dtype", name(output.dtype)}, {"shape", shape.dims()}}));
    else
      fmt::print("{}: {}{}\n", output.name, name(output.dtype), shape.to_string());
  }
}

}  // namespace

bool in_batches(const Options& options) { return options.batch > 0 || !options.cluster.empty(); }

int run_batches(FileSystem& files, const Options& options) {
  const AnyModel model = read_any_model(files, options.paths[0]);
  const std::string& name = signature_named(model, options.signature);
  const ModelSignature& signature = model.signatures.at(name);
  if (options.inputs.empty())
    invalid_argument("pass --inputs: a data set with the components {}", specs_text(signature.inputs));
  const std::unique_ptr<BatchSource> source = source_of(options.inputs, signature);
  const std::unique_ptr<Task> task = task_of(options);
  const LoadedModel loaded({.graph = model.graph, .signatures = model.signatures, .values = model.values},
                           {.task = task.get(), .session = {}});
  BatchReport report(options.json);
  BatchInferenceProgress last;
  const BatchInferenceOptions how{.batch = options.batch,
                                  .job = std::string(kWorkers),
                                  .rejoin_timeout = options.rejoin_timeout,
                                  .on_progress =
                                      [&](const BatchInferenceProgress& at) {
                                        last = at;
                                        report.progress(at);
                                      },
                                  .on_event = [&](const std::string& text) { report.event(text); }};
  if (options.outputs.empty() || options.outputs.ends_with(".safetensors")) {
    const NamedTensors found = loaded.predict(name, *source, how);
    report.end(last);
    print_outputs(file_system_of(options.outputs), found, options);
    return 0;
  }
  ResultFile results(file_system_of(options.outputs), options.outputs);
  loaded.predict(name, *source, how, [&](PredictedBatch&& batch) { results.append(std::move(batch)); });
  results.finish();
  report.end(last);
  print_written(results, options);
  return 0;
}

}  // namespace troupe::model_tool
