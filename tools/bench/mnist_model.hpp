// The models of troupe-mnist, and a training run to measure.
#pragma once

#include <cstdint>
#include <string>

#include <troupe/graph/layers/layers.hpp>

namespace troupe::bench {

inline Sequential mnist_layers(const std::string& model) {
  using namespace layers;
  if (model == "mlp") return Sequential({rescaling(1 / 255.0), flatten(), dense(128, Activation::relu), dense(10)});
  return Sequential({rescaling(1 / 255.0), conv2d(32, 3, Activation::relu), max_pool(2),
                     conv2d(64, 3, Activation::relu), max_pool(2), flatten(), dense(128, Activation::relu), dense(10)});
}

struct Training {
  std::string model;  // "mlp", "cnn"
  int batch = 32;
  int slots = 1;
  std::int64_t images = 0;
  int epochs = 1;  // per measurement
  int rounds = 1;
  std::string mode = "sync";  // of a cluster: JobMode
};

}  // namespace troupe::bench
