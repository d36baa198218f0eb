// Graphs that are written as ONNX models and read back, with values to run them on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/session/session.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>

namespace troupe::testing {

struct ExampleModel {
  std::string name{};
  std::unique_ptr<Graph> graph{};
  OnnxExport what{};              // with the values of the variables
  std::vector<Tensor> inputs{};   // for what.inputs
  std::vector<Tensor> outputs{};  // what our session computes
  bool comes_back = true;         // as the same graph, from the model that it is written as
};

// A small one of each kind: layers, convolutions, ResNet, LSTM, transformer, branches, loops, lists.
std::vector<ExampleModel> example_models();

// Pseudo-random numbers in [-1, 1).
Tensor random_floats(const Shape& shape, std::uint32_t seed);

}  // namespace troupe::testing
