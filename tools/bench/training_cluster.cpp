#include "tools/bench/training_cluster.hpp"

#include <fmt/format.h>

#include <iostream>
#include <sstream>

#include "tools/bench/cases.hpp"
#include "tools/bench/children.hpp"
#include "tools/bench/mnist_contest.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe::bench {
namespace {

constexpr int kWorkers = 2;
constexpr std::chrono::seconds kPatience{30};

DataSplits digits_for(const Training& training) { return draw_digits({.train = training.images, .test = 10}); }

TrainingResult train(const Training& t, const JobMode& mode, const DataSplits& data, Task& task) {
  Model model(mnist_layers(t.model), Shape{28, 28, 1}, DType::u8);
  model.compile({.optimizer = optimizers::Adam{.learning_rate = 1e-3},
                 .loss = Loss::sparse_softmax_cross_entropy,
                 .metrics = {metrics::accuracy()}},
                task);
  return model.fit(data, {.mode = mode, .epochs = t.epochs, .batch = t.batch});
}

// The same job in one process, on one thread.
class OneProcess {
 public:
  explicit OneProcess(const Training& training)
      : training_(training), data_(digits_for(training)), task_({.threads = 1, .gpus = {.count = 0}}) {}
  double images_per_second() {
    return train(training_, LocalMode{.slots = training_.slots}, data_, task_).examples_per_second;
  }

 private:
  Training training_;
  DataSplits data_;
  Task task_;
};

std::vector<Peer> one_process(const Training& training) {
  auto alone = std::make_shared<OneProcess>(training);
  return {{"one process, one thread", [alone] { return alone->images_per_second(); }}};
}

void add_case(std::vector<Case>& cases, const Training& training, double target) {
  cases.push_back({.bench = "mnist",
                   .name = "ps-" + training.model,
                   .unit = "images/s",
                   .more_is_better = true,
                   .measures = fmt::format(
                       "training {} with two workers and a parameter server, three processes of one thread, mode sync, "
                       "batches of {} per slot, Adam, {} built-in digits in memory",
                       training.model, training.batch, training.images),
                   .peer = "the same job in one process, on one thread",
                   .ratio_target = target,
                   .prepare = [training](const Settings& settings) -> Contest {
                     Training t = training;
                     if (settings.quick) t.images = t.batch * t.slots, t.epochs = 1;
                     auto cluster = std::make_shared<TrainingCluster>(t);
                     return {.troupe = [cluster] { return cluster->images_per_second(); },
                             .peers = one_process(t),
                             .rounds = training.rounds};
                   }});
}

// The same tasks with asynchronous updates, compared with TensorFlow's.
void add_asynchronous_case(std::vector<Case>& cases, const Training& training) {
  cases.push_back(
      {.bench = "mnist",
       .name = "ps-" + training.model + "-async",
       .unit = "images/s",
       .more_is_better = true,
       .measures = fmt::format("training {} with two workers and a parameter server, three processes of one thread, "
                               "mode async, batches of {}, Adam, {} built-in digits in memory",
                               training.model, training.batch, training.images),
       .peer = "TensorFlow's ParameterServerStrategy with a coordinator, two workers and a parameter server of one "
               "thread each",
       .ratio_target = 4,
       .prepare = [training](const Settings& settings) -> Contest {
         Training t = training;
         if (settings.quick) t.images = 2 * t.batch, t.epochs = 1;
         auto cluster = std::make_shared<TrainingCluster>(t);
         auto files = std::make_shared<ImageFiles>(digits_for(t).train);
         Contest contest{.troupe = [cluster] { return cluster->images_per_second(); }, .peers = {}, .rounds = t.rounds};
         if (auto peer = script_peer({"mnist_parameter_server.py", {}}, t, files->directory(), settings))
           contest.peers.push_back({peer->name, [files, measure = peer->measure] { return measure(); }});
         return contest;
       }});
}

}  // namespace

TrainingCluster::TrainingCluster(const Training& t) : spec_{"bench", "bench", {}} {
  const auto start = [&](const TaskName& task) {
    children_.push_back(std::make_unique<Child>(std::vector<std::string>{own_path(), "--child", kTrain}));
    children_.back()->write_line(fmt::format("{} {} {} {} {} {} {} {}", task.job, task.index, t.model, t.batch, t.slots,
                                             t.images, t.epochs, t.mode));
    spec_.tasks[task] = {"127.0.0.1", static_cast<std::uint16_t>(std::stoi(children_.back()->read_line()))};
  };
  for (int i = 0; i < kWorkers; ++i) start({"worker", i});
  start({"ps", 0});
  for (const auto& child : children_) child->write_line(in_one_line(spec_));
  for (const auto& child : children_) child->read_line();
}

double TrainingCluster::images_per_second() {
  for (const auto& child : children_) child->write_line("run");
  const double figure = std::stod(children_.front()->read_line());
  for (std::size_t i = 1; i < children_.size(); ++i) children_[i]->read_line();
  return figure;
}

void train_as_child() {
  std::string line;
  if (!std::getline(std::cin, line)) return;
  std::istringstream words(line);
  TaskName name;
  Training t;
  words >> name.job >> name.index >> t.model >> t.batch >> t.slots >> t.images >> t.epochs >> t.mode;
  if (!words) invalid_argument("'{}' does not describe a training job", line);
  const DataSplits data = digits_for(t);
  Task task({.name = name, .threads = 1, .gpus = {.count = 0}, .networked = true});
  say(std::to_string(task.port()));
  if (!std::getline(std::cin, line)) return;
  task.join(ClusterSpec::parse(line, "the parent"), kPatience);
  say("ready");
  const JobMode mode = t.mode == "async" ? JobMode(AsyncMode{}) : SyncMode{.slots = t.slots};
  while (std::getline(std::cin, line)) say(std::to_string(train(t, mode, data, task).examples_per_second));
}

void add_cluster_training_cases(std::vector<Case>& cases) {
  add_case(cases, {.model = "mlp", .batch = 128, .slots = kWorkers, .images = 12000, .epochs = 6, .rounds = 2}, 0.7);
  add_asynchronous_case(
      cases,
      {.model = "mlp", .batch = 128, .slots = kWorkers, .images = 12000, .epochs = 6, .rounds = 2, .mode = "async"});
  add_case(cases, {.model = "cnn", .batch = 128, .slots = kWorkers, .images = 4096, .epochs = 1, .rounds = 1}, 1.6);
}

}  // namespace troupe::bench
