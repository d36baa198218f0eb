// Batches that come from elsewhere: from an input task, beside the wire alone; and training from files, beside training
// from memory.
#include <caf/send.hpp>
#include <condition_variable>
#include <future>
#include <mutex>

#include "tools/bench/cases.hpp"
#include "tools/bench/mnist_contest.hpp"
#include "tools/bench/mnist_model.hpp"
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/data/batch_feed.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/training/dataset_source.hpp>
#include <troupe/actors/wire/wire.hpp>
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/kernels/readers/digits.hpp>
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>

namespace troupe::bench {
namespace {

constexpr std::int64_t kBatchBytes = 64 << 10;
constexpr std::uint64_t kAhead = 4;  // batches wanted at a time

// Batches that cost nothing to make.
class ReadyBatches final : public BatchSource {
 public:
  const BatchSchema& schema() const override { return schema_; }
  std::optional<std::uint64_t> examples() const override { return std::nullopt; }
  std::unique_ptr<BatchReader> open(const BatchPlan&) const override { return std::make_unique<Reader>(bytes_); }

 private:
  class Reader final : public BatchReader {
   public:
    explicit Reader(Tensor bytes) : bytes_(std::move(bytes)) {}
    std::optional<UnmadeBatch> begin(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
      return UnmadeBatch{.epoch = epoch, .step = step, .slot = slot, .examples = 1};
    }
    Batch make(UnmadeBatch&&) const override { return {.components = {bytes_}, .examples = 1}; }

   private:
    const Tensor bytes_;
  };
  const BatchSchema schema_{{"bytes", DType::u8, Shape{kBatchBytes}}};
  const Tensor bytes_ = Tensor::zeros(DType::u8, Shape{1, kBatchBytes});
};

// An input task and a worker, connected as on one host.
class FedWorker {
 public:
  FedWorker() : input_(options({kInputJob.data(), 0})), worker_(options({"worker", 0})) {
    ClusterSpec cluster{.name = "bench", .token = "secret", .tasks = {}};
    for (const Task* task : {&input_, &worker_}) cluster.tasks[task->name()] = {"127.0.0.1", task->port()};
    auto joined = std::async(std::launch::async, [&] { input_.join(cluster, std::chrono::seconds(20)); });
    worker_.join(cluster, std::chrono::seconds(20));
    joined.get();
    caf::anon_send(input_.handles().input, ServeFeeds{FeedService::use(service_)});
    feed_.emplace(BatchFeed::Config{.self = worker_.name(),
                                    .system = worker_.system(),
                                    .registry = worker_.actors(),
                                    .node = worker_.handles().node,
                                    .inputs = {input_.name()},
                                    .service = service_->config()});
    caf::anon_send(worker_.handles().node, JobRoutes{{}, {}, {}, 0, {}, feed_->actor()});
  }
  ~FedWorker() {
    feed_.reset();
    caf::anon_send(worker_.handles().node, JobRoutes{});
    worker_.shutdown();
    input_.shutdown();
    service_->await_release();
  }

  double bytes_per_second(double seconds) {
    return static_cast<double>(kBatchBytes) / seconds_per_call(seconds, [&] {
             for (; wanted_ < taken_ + kAhead; ++wanted_) feed_->want(name(wanted_), name(taken_));
             const MadeBatch made = feed_->take(name(taken_++), [] {});
             if (made.batch.components.at(0).num_bytes() != kBatchBytes)
               fail(Code::internal, "a batch has a wrong size");
           });
  }

 private:
  static TaskOptions options(TaskName name) {
    return {.name = std::move(name), .threads = 1, .gpus = {.count = 0}, .networked = true};
  }
  static BatchName name(std::uint64_t step) { return {.step = step}; }

  const ReadyBatches source_;
  const std::shared_ptr<FeedService> service_ = std::make_shared<FeedService>(
      FeedService::Config{.settings = "bench", .train = {&source_, {}}, .evaluation = {}, .desk = {}});
  Task input_, worker_;
  std::optional<BatchFeed> feed_;
  std::uint64_t wanted_ = 0, taken_ = 0;
};

// Two wires, without actors: one sends a batch for each request of the other.
class BareWire {
 public:
  BareWire() {
    server_.emplace(*this, TaskName{"input", 0}, true);
    client_.emplace(*this, TaskName{"worker", 0}, false);
    client_->wire.dial({"input", 0}, "127.0.0.1", static_cast<std::uint16_t>(server_->wire.listen()),
                       std::chrono::seconds(20));
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [&] { return client_->peer.has_value(); }))
      fail(Code::unavailable, "the wires have not connected");
  }
  ~BareWire() {
    client_->wire.shutdown();
    server_->wire.shutdown();
  }

  double bytes_per_second(double seconds) {
    return static_cast<double>(kBatchBytes) / seconds_per_call(seconds, [&] {
             for (; wanted_ < taken_ + kAhead; ++wanted_) send(*client_, WantBatch{1, {.step = wanted_}, {}});
             ++taken_;
             std::unique_lock lock(mutex_);
             changed_.wait(lock, [&] { return came_ >= taken_; });
           });
  }

 private:
  struct Side final : WireHandler {
    Side(BareWire& all, TaskName self, bool serves)
        : owner(all), is_server(serves), wire(options(std::move(self)), *this) {}
    void connected(PeerId id, const Hello&) override {
      const std::lock_guard lock(owner.mutex_);
      peer = id;
      owner.changed_.notify_all();
    }
    void frame(PeerId, Frame&& frame) override {
      if (const auto* want = std::get_if<WantBatch>(&frame); want && is_server)
        return send(*this, BatchMade{.feed = 1, .batch = want->batch, .components = {owner.bytes_}, .error = {}});
      const std::lock_guard lock(owner.mutex_);
      ++owner.came_;
      owner.changed_.notify_all();
    }
    void disconnected(PeerId, const TaskName&, const Error&) override {}
    void dial_failed(const TaskName&, const Error&) override {}
    static WireOptions options(TaskName self) {
      WireOptions out;
      out.shared_memory = true;  // like a task's
      out.self = std::move(self);
      out.cluster = out.token = "bench";
      out.incarnation = Incarnation{random_id()};
      return out;
    }

    BareWire& owner;
    const bool is_server;
    std::optional<PeerId> peer;
    Wire wire;  // last: its thread uses the other members
  };
  static void send(Side& side, Frame frame) {
    if (const Error error = side.wire.send(*side.peer, frame)) throw error;
  }

  const Tensor bytes_ = Tensor::zeros(DType::u8, Shape{1, kBatchBytes});
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t came_ = 0, wanted_ = 0, taken_ = 0;
  std::optional<Side> server_, client_;
};

Case service_case() {
  return {.bench = "data",
          .name = "service",
          .unit = "B/s",
          .more_is_better = true,
          .measures = "batches of 64 KiB from an input task to a worker, 4 wanted at a time",
          .peer = "the wire alone: the same frames between two threads",
          .ratio_target = 0.8,
          .prepare = [](const Settings& settings) -> Contest {
            const auto worker = std::make_shared<FedWorker>();
            const auto wire = std::make_shared<BareWire>();
            const double seconds = settings.slice_seconds();
            return {.troupe = [=] { return worker->bytes_per_second(seconds); },
                    .peers = {{"wire", [=] { return wire->bytes_per_second(seconds); }}}};
          }};
}

// Steps per second of an epoch of a multi-layer perceptron, on one thread.
class DigitTraining {
 public:
  explicit DigitTraining(std::shared_ptr<const BatchSource> source)
      : source_(std::move(source)), model_(mnist_layers("mlp"), Shape{28, 28, 1}, DType::u8) {
    model_.compile(
        {.optimizer = optimizers::Adam{}, .outputs = {{.loss = Loss::sparse_softmax_cross_entropy, .metrics = {}}}},
        task_);
  }
  double examples_per_second() {
    return model_.fit(*source_, {.epochs = 1, .batch = 32, .quiet = true}).examples_per_second;
  }

 private:
  Task task_{TaskOptions{.threads = 1, .gpus = {.count = 0}}};
  const std::shared_ptr<const BatchSource> source_;
  Model model_;
};

Case training_case() {
  return {.bench = "data",
          .name = "train-tfrecord",
          .unit = "examples/s",
          .more_is_better = true,
          .measures = "training of mnist/mlp-32 from shuffled TFRecord files, parsed, on one thread",
          .peer = "the same examples from memory",
          .ratio_target = 0.95,
          .prepare = [](const Settings& settings) -> Contest {
            const Dataset digits = draw_digits({.train = settings.quick ? 640 : 20'000, .test = 10}).train;
            const auto files = std::make_shared<ImageFiles>(digits);
            const std::string path = files->directory() + "/train.tfrecord";
            const auto file = posix_file_system().create(path);
            TfRecordWriter writer(*file);
            for (std::int64_t i = 0; i < digits.size(); ++i)
              writer.append(example_of(std::vector<NamedTensor>{
                  {"images",
                   Tensor::scalar(std::string(reinterpret_cast<const char*>(digits.images.raw()) + i * 784, 784))},
                  {"labels", Tensor::scalar<std::int64_t>(digits.labels.data<std::int32_t>()[i])}}));
            writer.finish();
            file->close();
            const auto parser = std::make_shared<ExampleParser>(
                std::vector<ExampleFeature>{{.name = "images", .dtype = DType::u8, .shape = Shape{28, 28, 1}},
                                            {.name = "labels", .dtype = DType::i64, .shape = Shape{}}});
            const auto from_files = std::make_shared<DigitTraining>(std::make_shared<PipelineSource>(
                data::records(path, tfrecord_format(), parser, {.addressable = true}).shuffle(1)));
            const auto from_memory =
                std::make_shared<DigitTraining>(std::make_shared<TensorDataset>(source_of(digits)));
            return {.troupe = [=, keep = files] { return from_files->examples_per_second(); },
                    .peers = {{"memory", [=] { return from_memory->examples_per_second(); }}}};
          }};
}

}  // namespace

void add_data_service_cases(std::vector<Case>& cases) {
  cases.push_back(service_case());
  cases.push_back(training_case());
}

}  // namespace troupe::bench
