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
  // Trains a new model, in mode sync with one slot per worker. Returns images per second, excluding evaluation.
  double images_per_second();
  const ClusterSpec& spec() const { return spec_; }

 private:
  ClusterSpec spec_;
  std::vector<std::unique_ptr<Child>> children_;  // the chief first
};

// Runs in each child: reads its task and the cluster from two lines of input; each further line is a job.
void train_as_child();

}  // namespace troupe::bench
