#include "tools/bench/embedding.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <span>
#include <sstream>
#include <unordered_set>

#include "tools/bench/cases.hpp"
#include "tools/bench/child.hpp"
#include "tools/bench/children.hpp"
#include "tools/bench/mnist_contest.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/training/hook.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kEmbeddingWorkers = 2, kEmbeddingShards = 2;
constexpr std::chrono::seconds kJoinPatience{60};
constexpr std::chrono::seconds kJobPatience{600};

// Ids of a power law with this exponent (0: uniform), the most frequent first.
std::vector<std::int64_t> draw_ids(std::int64_t count, std::int64_t rows, double exponent) {
  std::mt19937_64 random(11);
  std::vector<std::int64_t> ids;
  const double end = std::pow(static_cast<double>(rows) + 1, 1 - exponent);
  for (std::int64_t i = 0; i < count; ++i) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    const double x =
        exponent == 0 ? u * static_cast<double>(rows) + 1 : std::pow(u * (end - 1) + 1, 1 / (1 - exponent));
    ids.push_back(std::min(rows - 1, static_cast<std::int64_t>(x) - 1));
  }
  return ids;
}

// The ids in a file that tasks and peers read.
class IdsFile {
 public:
  IdsFile(std::int64_t examples, std::int64_t rows, double exponent) {
    std::string pattern = (fs::temp_directory_path() / "troupe-bench-XXXXXX").string();
    if (!mkdtemp(pattern.data())) fail(Code::unavailable, "cannot make a directory like '{}'", pattern);
    directory_ = pattern;
    const std::vector<std::int64_t> ids = draw_ids(examples * kIdsPerExample, rows, exponent);
    std::ofstream file(path(), std::ios::binary);
    file.write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof ids[0]));
    if (!file.flush()) fail(Code::unavailable, "cannot write to '{}'", directory_);
  }
  ~IdsFile() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  IdsFile(const IdsFile&) = delete;
  const std::string& directory() const { return directory_; }
  std::string path() const { return directory_ + "/ids.i64"; }

 private:
  std::string directory_;
};

TensorDataset read_examples(const std::string& path) {
  const auto examples = static_cast<std::int64_t>(fs::file_size(path) / sizeof(std::int64_t)) / kIdsPerExample;
  Tensor ids(DType::i64, Shape{examples, kIdsPerExample});
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(ids.mutable_raw()), static_cast<std::streamsize>(ids.num_bytes()));
  if (!file) fail(Code::unavailable, "cannot read '{}'", path);
  return TensorDataset({{"ids", ids}, {"y", Tensor::zeros(DType::f32, Shape{examples})}});
}

Program program_of(const EmbeddingJob& job) {
  return [job](ProgramContext& c) -> ProgramOutputs {
    const VariableRef table = c.variable("table", {.shape = Shape{job.rows, kTableUnits}, .on_demand = job.on_demand},
                                         initializers::random_uniform());
    const Output y = mean(gather(table.read(), c["ids"]), {1, 2});
    return {.objectives = {{.loss = mean(squared_difference(y, c["y"])),
                            .optimizer = optimizers::Adagrad{.learning_rate = 0.01}}}};
  };
}

// Counts the rows that batches touch, each once.
class CountingReader final : public BatchReader {
 public:
  CountingReader(std::unique_ptr<BatchReader> reader, std::atomic<std::uint64_t>& rows)
      : reader_(std::move(reader)), rows_(rows) {}
  std::optional<UnmadeBatch> begin(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
    return reader_->begin(epoch, step, slot);
  }
  Batch make(UnmadeBatch&& unmade) const override {
    Batch batch = reader_->make(std::move(unmade));
    const auto ids = batch.components[0].values<std::int64_t>();
    rows_ += std::unordered_set<std::int64_t>(ids.begin(), ids.end()).size();
    return batch;
  }

 private:
  std::unique_ptr<BatchReader> reader_;
  std::atomic<std::uint64_t>& rows_;
};

class CountingSource final : public BatchSource {
 public:
  explicit CountingSource(const BatchSource& source) : source_(source) {}
  const BatchSchema& schema() const override { return source_.schema(); }
  std::optional<std::uint64_t> examples() const override { return source_.examples(); }
  bool addressable() const override { return source_.addressable(); }
  std::unique_ptr<BatchReader> open(const BatchPlan& plan) const override {
    return std::make_unique<CountingReader>(source_.open(plan), rows_);
  }
  std::uint64_t rows() const { return rows_; }

 private:
  const BatchSource& source_;
  mutable std::atomic<std::uint64_t> rows_{0};
};

// What a task of the cluster tells of a job.
struct EmbeddingFigures {
  double examples_per_second = 0;
  std::uint64_t peak_mib = 0;
  std::uint64_t rows = 0, bytes_in = 0, bytes_out = 0;  // of a worker: distinct rows of its batches; to and from shards

  std::string to_string() const {
    return fmt::format("{} {} {} {} {}", examples_per_second, peak_mib, rows, bytes_in, bytes_out);
  }
  static EmbeddingFigures parse(const std::string& line) {
    EmbeddingFigures f;
    std::istringstream(line) >> f.examples_per_second >> f.peak_mib >> f.rows >> f.bytes_in >> f.bytes_out;
    return f;
  }
};

// Counts the bytes between a worker and the shards until all batches are applied: what follows, the chief reads the
// table, is no step.
class WireBytes final : public TrainingHook {
 public:
  explicit WireBytes(Task& task) : task_(task) {}
  void begin(const Graph&) override { before_ = now(); }
  void end() override { stop(); }
  void stop() {
    if (stopped_) return;
    stopped_ = true;
    const auto [in, out] = now();
    in_ = in - before_.first;
    out_ = out - before_.second;
  }
  std::uint64_t in() const { return in_; }
  std::uint64_t out() const { return out_; }

 private:
  std::pair<std::uint64_t, std::uint64_t> now() const {
    std::pair<std::uint64_t, std::uint64_t> sums;
    for (const LinkSnapshot& link : task_.introspection().links())
      if (link.peer.starts_with("/job:ps/")) sums.first += link.bytes_received, sums.second += link.bytes_sent;
    return sums;
  }

  Task& task_;
  bool stopped_ = false;
  std::pair<std::uint64_t, std::uint64_t> before_;
  std::uint64_t in_ = 0, out_ = 0;
};

double train_embedding(const EmbeddingJob& job, const BatchSource& data, const JobMode& mode, Task& task,
                       const std::shared_ptr<WireBytes>& bytes = nullptr) {
  const Program program = program_of(job);
  TrainingOptions options{.mode = mode, .epochs = 1, .batch = static_cast<int>(job.batch), .quiet = true};
  if (bytes) {
    options.hooks = {bytes};
    options.on_epoch = [&](const EpochLogs&) { bytes->stop(); };
  }
  TrainingState state;
  const TrainingPlan plan{
      .program = program, .description = "bench", .train = data, .options = options, .state = state, .task = task};
  return train(plan).examples_per_second;
}

// Of this process, at most so far.
std::uint64_t peak_mib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "VmHWM:") {
      std::uint64_t kib = 0;
      status >> kib;
      return kib >> 10;
    }
  return 0;
}

class EmbeddingCluster {
 public:
  explicit EmbeddingCluster(const EmbeddingJob& job) : spec_{"bench", "bench", {}} {
    for (int i = 0; i < kEmbeddingWorkers; ++i) start({"worker", i}, job);
    for (int i = 0; i < kEmbeddingShards; ++i) start({"ps", i}, job);
    for (const auto& child : children_) child->write_line(in_one_line(spec_));
    for (const auto& child : children_) child->read_line(kJobPatience);
  }
  double examples_per_second() { return run("run").front().examples_per_second; }
  // Trains once more: "peaks of 107, 91 MiB on workers, ...".
  std::string report() {
    const std::vector<EmbeddingFigures> figures = run("count");
    std::uint64_t rows = 0, in = 0, out = 0;
    std::vector<std::uint64_t> mib;
    for (const EmbeddingFigures& f : figures) {
      rows += f.rows;
      in += f.bytes_in;
      out += f.bytes_out;
      mib.push_back(f.peak_mib);
    }
    const std::span all(mib);
    const double least = static_cast<double>(rows) * (kTableUnits * sizeof(float) + sizeof(std::uint32_t));
    return fmt::format(
        "peaks of {} MiB on workers, {} MiB on parameter servers; of {} distinct rows in batches x (row + id) workers "
        "received {:.3f} and sent {:.3f}",
        fmt::join(all.first(kEmbeddingWorkers), ", "), fmt::join(all.subspan(kEmbeddingWorkers), ", "), rows,
        static_cast<double>(in) / least, static_cast<double>(out) / least);
  }

 private:
  void start(const TaskName& task, const EmbeddingJob& job) {
    children_.push_back(std::make_unique<Child>(std::vector<std::string>{own_path(), "--child", kEmbedding}));
    children_.back()->write_line(fmt::format("{} {} {} {} {} {}", task.job, task.index, job.ids, job.rows, job.batch,
                                             static_cast<int>(job.on_demand)));
    spec_.tasks[task] = {"127.0.0.1", static_cast<std::uint16_t>(std::stoi(children_.back()->read_line()))};
  }
  std::vector<EmbeddingFigures> run(const std::string& what) {
    for (const auto& child : children_) child->write_line(what);
    std::vector<EmbeddingFigures> answers;
    for (const auto& child : children_) answers.push_back(EmbeddingFigures::parse(child->read_line(kJobPatience)));
    return answers;
  }

  ClusterSpec spec_;
  std::vector<std::unique_ptr<Child>> children_;  // the chief first
};

// The same lookups and updates in one process.
class EmbeddingAlone {
 public:
  explicit EmbeddingAlone(const EmbeddingJob& job)
      : job_(job), data_(read_examples(job.ids)), task_({.threads = 1, .gpus = {.count = 0}}) {}
  double examples_per_second() { return train_embedding(job_, data_, LocalMode{}, task_); }

 private:
  EmbeddingJob job_;
  TensorDataset data_;
  Task task_;
};

enum class Beside { peer, one, none };

std::string measured(const std::string& ids, const char* rows, const char* how) {
  return fmt::format(
      "training a table of {} rows of {} floats{} with two workers and two parameter servers of one thread, mode "
      "async, "
      "{} ids an example ({}), batches of 1024, Adagrad",
      rows, kTableUnits, how, kIdsPerExample, ids);
}

void add_embedding_case(std::vector<Case>& cases, Case described, EmbeddingJob job, double exponent, Beside beside) {
  described.bench = "embedding";
  described.unit = "examples/s";
  described.more_is_better = true;
  described.prepare = [=](const Settings& settings) mutable -> Contest {
    if (settings.quick) job.rows = std::min<std::int64_t>(job.rows, 20'000), job.batch = 64;
    const std::int64_t steps = settings.quick ? 2 : 60;
    const auto ids = std::make_shared<IdsFile>(steps * kEmbeddingWorkers * job.batch, job.rows, exponent);
    job.ids = ids->path();
    auto cluster = std::make_shared<EmbeddingCluster>(job);
    if (beside != Beside::one) fmt::print(stderr, "troupe-bench: {}\n", cluster->report());
    Contest contest{.troupe = [cluster, ids] { return cluster->examples_per_second(); }, .peers = {}, .rounds = 1};
    if (beside == Beside::one) {
      auto alone = std::make_shared<EmbeddingAlone>(job);
      contest.peers.push_back({"one process, one thread", [alone] { return alone->examples_per_second(); }});
    } else if (beside == Beside::peer) {
      if (auto peer = script_peer({"embedding_tensorflow.py", {std::to_string(job.rows)}},
                                  {.model = "table", .batch = static_cast<int>(job.batch), .epochs = 1},
                                  ids->directory(), settings))
        contest.peers.push_back(std::move(*peer));
    }
    return contest;
  };
  cases.push_back(std::move(described));
}

}  // namespace

void train_embedding_as_child() {
  std::string line;
  if (!std::getline(std::cin, line)) return;
  std::istringstream words(line);
  TaskName name;
  EmbeddingJob job;
  words >> name.job >> name.index >> job.ids >> job.rows >> job.batch >> job.on_demand;
  if (!words) invalid_argument("'{}' does not describe a training job", line);
  const TensorDataset data = read_examples(job.ids);
  const CountingSource counting(data);
  Task task({.name = name, .threads = 1, .gpus = {.count = 0}, .networked = true});
  say(std::to_string(task.port()));
  if (!std::getline(std::cin, line)) return;
  task.join(ClusterSpec::parse(line, "the parent"), kJoinPatience);
  say("ready");
  while (std::getline(std::cin, line)) {
    const bool counts = line == "count";
    const BatchSource& source = counts ? static_cast<const BatchSource&>(counting) : data;
    const auto bytes = counts && name.job == "worker" ? std::make_shared<WireBytes>(task) : nullptr;
    EmbeddingFigures figures{.examples_per_second = train_embedding(job, source, AsyncMode{}, task, bytes),
                             .peak_mib = peak_mib()};
    if (bytes) {
      figures.rows = counting.rows();
      figures.bytes_in = bytes->in();
      figures.bytes_out = bytes->out();
    }
    say(figures.to_string());
  }
}

void add_embedding_cases(std::vector<Case>& cases) {
  const std::pair<const char*, double> draws[] = {{"zipf", 1.1}, {"uniform", 0}};
  for (const auto& [ids, exponent] : draws)
    add_embedding_case(cases,
                       {.name = fmt::format("ps-{}", ids),
                        .measures = measured(ids, "10^7", ""),
                        .peer = "TensorFlow's ParameterServerStrategy if Python has it, with as many processes",
                        .ratio_target = 4},
                       {}, exponent, Beside::peer);
  for (const auto& [ids, exponent] : draws)
    add_embedding_case(cases,
                       {.name = fmt::format("ps-{}-one", ids),
                        .measures = measured(ids, "10^7", ""),
                        .peer = "the same lookups and updates in one process, on one thread",
                        .ratio_target = 0.4},
                       {}, exponent, Beside::one);
  add_embedding_case(cases, {.name = "ps-billion", .measures = measured("uniform", "10^9", ", drawn on demand,")},
                     {.rows = 1'000'000'000, .on_demand = true}, 0, Beside::none);
}

}  // namespace troupe::bench
