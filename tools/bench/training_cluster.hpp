// A training job of three processes: two workers and a parameter server.
#pragma once

#include <memory>
#include <vector>

#include "tools/bench/child.hpp"
#include "tools/bench/mnist_model.hpp"
#include <troupe/actors/network/cluster_spec.hpp>

namespace troupe::bench {

class TrainingCluster {
 public:
  explicit TrainingCluster(const Training& training);
  // Trains a new model, synchronously, one slot per worker. Images per second of training, without evaluation.
  double images_per_second();
  const ClusterSpec& spec() const { return spec_; }

 private:
  ClusterSpec spec_;
  std::vector<std::unique_ptr<Child>> children_;  // the chief first
};

// What each of the processes does: a line from its input says which it is, another the cluster; then each line is a
// job.
void train_as_child();

}  // namespace troupe::bench
