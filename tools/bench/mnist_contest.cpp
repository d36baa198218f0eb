#include "tools/bench/mnist_contest.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tools/bench/child.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe::bench {
namespace {

namespace fs = std::filesystem;

class Trainer {
 public:
  Trainer(const Training& training, const TaskOptions& options, const DataSplits& data)
      : training_(training),
        data_(data),
        task_(options),
        model_(mnist_layers(training.model), Shape{28, 28, 1}, DType::u8) {
    model_.compile({.optimizer = optimizers::Adam{.learning_rate = 1e-3},
                    .loss = Loss::sparse_softmax_cross_entropy,
                    .metrics = {metrics::accuracy()}},
                   task_);
  }
  double steps_per_second() {
    const TrainingResult result = model_.fit(data_, {.epochs = training_.epochs, .batch = training_.batch});
    return result.examples_per_second / training_.batch;
  }

 private:
  Training training_;
  const DataSplits& data_;
  Task task_;
  Model model_;
};

constexpr std::chrono::minutes kPeerPatience(10);  // compiling may delay the first answer by minutes

}  // namespace

ImageFiles::ImageFiles(const Dataset& data) {
  std::string pattern = (fs::temp_directory_path() / "troupe-bench-XXXXXX").string();
  if (!mkdtemp(pattern.data())) fail(Code::unavailable, "cannot make a directory like '{}'", pattern);
  directory_ = pattern;
  write("images.u8", data.images);
  write("labels.i32", data.labels);
}

ImageFiles::~ImageFiles() {
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

void ImageFiles::write(const std::string& name, const Tensor& tensor) const {
  std::ofstream file(fs::path(directory_) / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(tensor.raw()), static_cast<std::streamsize>(tensor.num_bytes()));
  if (!file.flush()) fail(Code::unavailable, "cannot write to '{}'", directory_);
}

std::optional<Peer> script_peer(const TrainingScript& script, const Training& t, const std::string& directory,
                                const Settings& settings) {
  std::vector<std::string> command{settings.python,
                                   build_directory() + "/include/troupe/tools/bench/peers/" + script.file,
                                   directory,
                                   t.model,
                                   std::to_string(t.batch),
                                   std::to_string(t.epochs)};
  command.insert(command.end(), script.arguments.begin(), script.arguments.end());
  try {
    auto child = std::make_shared<Child>(command);
    const std::string answer = child->read_line();
    const std::string ready = "ready ";
    if (!answer.starts_with(ready)) fail(Code::unavailable, "{}", answer);
    return Peer{answer.substr(ready.size()), [child] {
                  child->write_line("run");
                  return std::stod(child->read_line(kPeerPatience));
                }};
  } catch (const Error& error) {
    fmt::print(stderr, "troupe-bench: peer {} is not available: {}\n", script.file, error.message());
    return std::nullopt;
  }
}

Contest mnist_contest(Training t, const TaskOptions& task, const std::vector<TrainingScript>& scripts,
                      const Settings& settings) {
  if (settings.quick) t.images = t.batch, t.epochs = 1;
  struct State {
    DataSplits data;
    std::optional<ImageFiles> files;
    std::optional<Trainer> trainer;
  };
  auto state = std::make_shared<State>();
  state->data = draw_digits({.train = t.images, .test = 10});
  state->files.emplace(state->data.train);
  state->trainer.emplace(t, task, state->data);
  Contest contest{.troupe = [state] { return state->trainer->steps_per_second(); }, .peers = {}, .rounds = t.rounds};
  for (const TrainingScript& script : scripts)
    if (auto peer = script_peer(script, t, state->files->directory(), settings))
      contest.peers.push_back(std::move(*peer));
  return contest;
}

}  // namespace troupe::bench
