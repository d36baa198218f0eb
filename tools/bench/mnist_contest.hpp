// Training of a troupe-mnist model, compared with scripts of this folder that train the same model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/harness.hpp"
#include "tools/bench/mnist_model.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/kernels/readers/dataset.hpp>

namespace troupe::bench {

// Training images and labels in files that scripts read (mnist_data.py); removed in the end.
class ImageFiles {
 public:
  explicit ImageFiles(const Dataset& data);
  ~ImageFiles();
  ImageFiles(const ImageFiles&) = delete;
  const std::string& directory() const { return directory_; }

 private:
  void write(const std::string& name, const Tensor& tensor) const;
  std::string directory_;
};

struct TrainingScript {
  std::string file;
  std::vector<std::string> arguments;  // after the common ones: directory, model, batch, epochs (mnist_data.py)
};

// A script as a peer. It prints "ready NAME" or "unavailable WHY", then answers each line with the steps per second of
// some epochs. `directory`: of the data. None, with a line on stderr, if it cannot run.
std::optional<Peer> script_peer(const TrainingScript& script, const Training& training, const std::string& directory,
                                const Settings& settings);

// Steps per second on the built-in digits in memory.
Contest mnist_contest(Training training, const TaskOptions& task, const std::vector<TrainingScript>& scripts,
                      const Settings& settings);

}  // namespace troupe::bench
