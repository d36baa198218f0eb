// A step of fed tensors, compared with the same in a framework of Python: both compute, the results are compared, then
// both are measured. As many threads everywhere.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/harness.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/core.hpp>

namespace troupe::bench {

// A directory of tensors that a peer reads and writes; removed in the end.
class TensorFiles {
 public:
  TensorFiles();
  ~TensorFiles();
  TensorFiles(const TensorFiles&) = delete;
  TensorFiles& operator=(const TensorFiles&) = delete;
  const std::string& directory() const { return directory_; }

  void write(const std::string& name, const Tensor& tensor) const;
  // f32 of this shape.
  Tensor read(const std::string& name, const Shape& shape) const;

 private:
  std::string directory_;
};

// A script of tools/bench/peers, once its first line has said that it is ready; `check` then compares results and
// throws internal if they differ. nullopt, with a line on stderr, if Python or what the script needs is not there.
// Measures the seconds that it answers x `scale`.
std::optional<Peer> python_peer(const Settings& settings, const std::string& script,
                                const std::vector<std::string>& arguments, const std::function<void()>& check,
                                double scale);

class ComparedStep {
 public:
  using Inputs = std::vector<std::pair<std::string, Tensor>>;
  using Results = std::vector<std::pair<std::string, Output>>;

  // `results` builds the graph of the inputs; names are those of tools/bench/peers/graph_peer.py. Variables have their
  // initial values.
  ComparedStep(const Inputs& inputs, const std::function<Results(const Outputs& inputs)>& results, int threads = 1);

  std::vector<Tensor> run() const { return call_(feeds_); }
  // From now on weights are constants, and passes for inference run.
  void freeze_for_inference();
  // The same in 8 bits: products of bytes, with ranges of activations from the inputs. Writes that graph for the peer
  // "onnx".
  void quantize_for_inference();
  // Writes the graph for the peer "onnx".
  void write_onnx() const;
  // A case of graph_peer.py whose results are those of a step, within `tolerance` x the largest element: throws
  // internal if not. nullopt, with a line on stderr, if Python or the framework is not there. Measures seconds x
  // `scale`.
  std::optional<Peer> peer(const std::string& name, const Settings& settings, double tolerance, double scale) const;

 private:
  void write_onnx(const Graph& graph, const Outputs& inputs, const Outputs& results) const;

  const int threads_;
  Task task_{{.threads = threads_, .gpus = {.count = 0}}};
  Graph graph_;
  std::unique_ptr<Graph> frozen_;
  std::unique_ptr<Session> session_;
  Outputs inputs_, results_;
  std::map<std::string, Tensor> weights_;
  Callable call_;
  std::vector<Tensor> feeds_;
  std::vector<std::string> names_;  // of results
  TensorFiles files_;
};

// Both sides in seconds x `scale`.
Contest compare_with(const std::shared_ptr<ComparedStep>& step, const std::vector<std::string>& peers,
                     const Settings& settings, double scale, double tolerance = 1e-4);

}  // namespace troupe::bench
