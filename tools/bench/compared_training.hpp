// Training steps of a program, compared with the same in a framework of Python (peers/training_peer.py): from the same
// initial values both train on one batch, their losses are compared, then both are measured. One thread everywhere.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/bench/compared_step.hpp"
#include <troupe/graph/training/towers.hpp>

namespace troupe::bench {

inline constexpr int kComparedSteps = 5;

// A case of training_peer.py that reads these files, whose losses of its first kComparedSteps steps must be these:
// throws internal if not. nullopt, with a line on stderr, if Python or the framework is not there. Measures seconds of
// a step x `scale`.
std::optional<Peer> training_peer(const std::string& name, const TensorFiles& files, const std::vector<float>& losses,
                                  const Settings& settings, double scale);

// Writes a batch and initial values of the perceptron of troupe-mnist for the cases "mlp-..." of training_peer.py;
// returns the losses of its first steps, in eager mode.
std::vector<float> write_perceptron(const TensorFiles& files);

class ComparedTraining {
 public:
  // `batch` by component of the schema. Writes them and the initial values for the peers, with '.' for '/' in names.
  ComparedTraining(const Program& program, const BatchSchema& schema, std::vector<Tensor> batch);

  // Trains on this batch. Returns the loss before the update.
  double step(const std::vector<Tensor>& batch) { return loss_of(call_(batch)); }
  double step() { return step(batch_); }
  Task& task() { return task_; }
  // Another file for the peers.
  void write(const std::string& name, const Tensor& tensor) const { files_.write(name, tensor); }
  std::optional<Peer> peer(const std::string& name, const Settings& settings, double scale) const {
    return training_peer(name, files_, losses_, settings, scale);
  }

 private:
  static double loss_of(const std::vector<Tensor>& figures);

  Task task_{{.threads = 1, .gpus = {.count = 0}}};
  TrainingGraph graph_;
  std::unique_ptr<Session> session_;
  Callable call_;
  std::vector<Tensor> batch_;
  TensorFiles files_;
  std::vector<float> losses_;  // of the first steps
};

// Both sides in seconds of a step x `scale`. `steps` runs some steps on the Troupe side and returns their number; null:
// one on the batch.
Contest compare_with(const std::shared_ptr<ComparedTraining>& training, const std::vector<std::string>& peers,
                     const Settings& settings, double scale, const std::function<int()>& steps = nullptr);

}  // namespace troupe::bench
