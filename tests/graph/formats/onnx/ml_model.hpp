// Runs models of one node of ai.onnx.ml.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/error_of.hpp"
#include "tests/graph/formats/onnx/model_maker.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>

namespace troupe::testing {

using Floats = std::vector<float>;
using Longs = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

struct MlCase {
  std::string op;
  std::vector<Tensor> inputs;
  std::function<void(NodeMaker&)> attributes{};
  std::size_t outputs = 1;
  std::int64_t version = 1;  // of ai.onnx.ml
};

inline std::string ml_model(const MlCase& c) {
  ModelMaker maker;
  pb::OperatorSetId& id = *maker.model.add_opset_import();
  id.set_domain("ai.onnx.ml");
  id.set_version(c.version);
  std::vector<std::string> inputs, outputs;
  for (const Tensor& input : c.inputs) {
    inputs.push_back("x" + std::to_string(inputs.size()));
    maker.graph.input(inputs.back(), input.dtype(), input.shape());
  }
  for (std::size_t i = 0; i < c.outputs; ++i) outputs.push_back("y" + std::to_string(i));
  NodeMaker node = maker.graph.node(c.op, inputs, outputs);
  node.node().set_domain("ai.onnx.ml");
  node.node().set_name("the_node");
  if (c.attributes) c.attributes(node);
  for (const std::string& output : outputs) maker.graph.output(output);
  return maker.bytes();
}

inline std::vector<Tensor> run_ml(const MlCase& c) {
  const OnnxModel model = parse_onnx(ml_model(c));
  Feeds feeds;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) feeds.emplace_back(model.inputs.at(i).output, c.inputs[i]);
  Outputs fetches;
  for (const OnnxValue& output : model.outputs) fetches.push_back(output.output);
  return Session(*model.graph).run(feeds, fetches);
}

inline std::string refused_ml(const MlCase& c) {
  return error_of([&] { parse_onnx(ml_model(c)); }).message();
}

template <class T>
std::vector<T> list_of(const Tensor& t) {
  const auto values = t.values<T>();
  return {values.begin(), values.end()};
}

}  // namespace troupe::testing
