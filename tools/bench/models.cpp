// Training: steps per second of the whole loop, from examples in memory to updated parameters. One thread
// everywhere.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "actors/training/model.hpp"
#include "kernels/data/digits.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/child.hpp"
#include "tools/bench/mnist_model.hpp"

namespace troupe::bench {
namespace {

namespace fs = std::filesystem;

class Trainer {
 public:
  Trainer(const Training& training, const DataSplits& data)
      : training_(training),
        data_(data),
        task_({.threads = 1}),
        model_(mnist_layers(training.model), Shape{28, 28, 1}) {
    model_.compile(optimizers::Adam{.learning_rate = 1e-3}, task_);
  }
  double steps_per_second() {
    const TrainingResult result = model_.fit(data_, {.epochs = training_.epochs, .batch = training_.batch});
    return result.images_per_second / training_.batch;
  }

 private:
  Training training_;
  const DataSplits& data_;
  Task task_;
  Model model_;
};

// The training images as a file that scripts read.
class ImageFiles {
 public:
  explicit ImageFiles(const Dataset& data) {
    std::string pattern = (fs::temp_directory_path() / "troupe-bench-XXXXXX").string();
    if (!mkdtemp(pattern.data())) fail(Code::unavailable, "cannot make a directory like '{}'", pattern);
    directory_ = pattern;
    write("images.u8", data.images);
    write("labels.i32", data.labels);
  }
  ~ImageFiles() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  ImageFiles(const ImageFiles&) = delete;
  const std::string& directory() const { return directory_; }

 private:
  void write(const std::string& name, const Tensor& tensor) const {
    std::ofstream file(fs::path(directory_) / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(tensor.raw()), static_cast<std::streamsize>(tensor.num_bytes()));
    if (!file.flush()) fail(Code::unavailable, "cannot write to '{}'", directory_);
  }
  std::string directory_;
};

// A script of this folder that trains the same model. It says "ready NAME" or "unavailable WHY", then answers
// each line with the steps per second of some epochs.
std::optional<Peer> script_peer(const std::string& script, const Training& t,
                                const std::shared_ptr<ImageFiles>& files, const Settings& settings) {
  const std::string path = std::string(TROUPE_BENCH_SCRIPTS) + "/" + script;
  try {
    auto child =
        std::make_shared<Child>(std::vector<std::string>{settings.python, path, files->directory(), t.model,
                                                         std::to_string(t.batch), std::to_string(t.epochs)});
    const std::string answer = child->read_line();
    const std::string ready = "ready ";
    if (!answer.starts_with(ready)) fail(Code::unavailable, "{}", answer);
    return Peer{answer.substr(ready.size()), [child, files] {
                  child->write_line("run");
                  return std::stod(child->read_line());
                }};
  } catch (const Error& error) {
    fmt::print(stderr, "troupe-bench: no peer from {}: {}\n", script, error.message());
    return std::nullopt;
  }
}

Contest train(Training t, const std::string& script, const Settings& settings) {
  if (settings.quick) t.images = t.batch, t.epochs = 1;
  struct State {
    DataSplits data;
    std::unique_ptr<Trainer> trainer;
  };
  auto state = std::make_shared<State>();
  state->data = draw_digits({.train = t.images, .test = 10});
  state->trainer = std::make_unique<Trainer>(t, state->data);
  Contest contest{
      .troupe = [state] { return state->trainer->steps_per_second(); }, .peers = {}, .rounds = t.rounds};
  const auto files = std::make_shared<ImageFiles>(state->data.train);
  if (auto peer = script_peer(script, t, files, settings)) contest.peers.push_back(std::move(*peer));
  return contest;
}

void add_training(std::vector<Case>& cases, const Training& t, std::optional<double> target,
                  const std::string& suffix, const std::string& script, const std::string& peer) {
  cases.push_back({.bench = "mnist",
                   .name = fmt::format("{}-{}{}", t.model, t.batch, suffix),
                   .unit = "steps/s",
                   .more_is_better = true,
                   .measures = fmt::format(
                       "training {}, batches of {}, Adam, {} built-in digits in memory, 1 thread: shuffling, "
                       "gathering, step and running figures",
                       t.model, t.batch, t.images),
                   .peer = peer,
                   .ratio_target = target,
                   .prepare = [t, script](const Settings& s) { return train(t, script, s); }});
}

}  // namespace

void add_model_cases(std::vector<Case>& cases) {
  const Training mlp32{.model = "mlp", .batch = 32, .images = 12000, .epochs = 2, .rounds = 1};
  const Training mlp128{.model = "mlp", .batch = 128, .images = 12000, .epochs = 4, .rounds = 1};
  const Training cnn32{.model = "cnn", .batch = 32, .images = 2048, .epochs = 1, .rounds = 1};
  const char* torch =
      "PyTorch 1.13.1 of Debian (python3-torch), the same model and optimizer, 1 thread; its images are "
      "floats "
      "already";
  add_training(cases, mlp32, 5, "", "mnist_torch.py", torch);
  add_training(cases, mlp128, 4, "", "mnist_torch.py", torch);
  add_training(cases, cnn32, 2.5, "", "mnist_torch.py", torch);
  const char* tensorflow = "TensorFlow, where Python has it; likewise";
  for (const Training& t : {mlp32, mlp128, cnn32})
    add_training(cases, t, std::nullopt, "-tensorflow", "mnist_tensorflow.py", tensorflow);
}

}  // namespace troupe::bench
