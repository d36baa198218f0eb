// Makes ONNX models in code, for tests.
#pragma once

#include <string>
#include <vector>

#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>

namespace troupe::testing {

namespace pb = troupe::onnx;

// Attributes of a node, by their types in C++.
class NodeMaker {
 public:
  explicit NodeMaker(pb::Node& node) : node_(node) {}
  NodeMaker& set(const std::string& name, std::int64_t value) {
    attribute(name, pb::Attribute::INT).set_i(value);
    return *this;
  }
  NodeMaker& set(const std::string& name, float value) {
    attribute(name, pb::Attribute::FLOAT).set_f(value);
    return *this;
  }
  NodeMaker& set(const std::string& name, const std::string& value) {
    attribute(name, pb::Attribute::STRING).set_s(value);
    return *this;
  }
  NodeMaker& set(const std::string& name, const std::vector<std::int64_t>& values) {
    for (auto& a = attribute(name, pb::Attribute::INTS); const std::int64_t v : values) a.add_ints(v);
    return *this;
  }
  NodeMaker& set(const std::string& name, const std::vector<float>& values) {
    for (auto& a = attribute(name, pb::Attribute::FLOATS); const float v : values) a.add_floats(v);
    return *this;
  }
  NodeMaker& set(const std::string& name, const std::vector<std::string>& values) {
    for (auto& a = attribute(name, pb::Attribute::STRINGS); const std::string& v : values) a.add_strings(v);
    return *this;
  }
  NodeMaker& set(const std::string& name, const Tensor& value) {
    to_onnx_tensor(value, "", *attribute(name, pb::Attribute::TENSOR).mutable_t());
    return *this;
  }
  NodeMaker& set(const std::string& name, const pb::Graph& value) {
    *attribute(name, pb::Attribute::GRAPH).mutable_g() = value;
    return *this;
  }
  pb::Node& node() { return node_; }

 private:
  pb::Attribute& attribute(const std::string& name, pb::Attribute::AttributeType type) {
    pb::Attribute& made = *node_.add_attribute();
    made.set_name(name);
    made.set_type(type);
    return made;
  }
  pb::Node& node_;
};

class GraphMaker {
 public:
  explicit GraphMaker(pb::Graph& graph) : graph_(graph) {}
  GraphMaker& input(const std::string& name, const OnnxType& type) {
    value(*graph_.add_input(), name, type);
    return *this;
  }
  GraphMaker& input(const std::string& name, DType dtype, Shape shape = Shape{}) {
    return input(name, OnnxType{{}, dtype, std::move(shape)});
  }
  // Without a type, as models may leave it out inside of bodies.
  GraphMaker& input(const std::string& name) {
    graph_.add_input()->set_name(name);
    return *this;
  }
  GraphMaker& output(const std::string& name) {
    graph_.add_output()->set_name(name);
    return *this;
  }
  GraphMaker& initializer(const std::string& name, const Tensor& value) {
    to_onnx_tensor(value, name, *graph_.add_initializer());
    return *this;
  }
  NodeMaker node(const std::string& op, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs) {
    pb::Node& made = *graph_.add_node();
    made.set_op_type(op);
    for (const std::string& input : inputs) made.add_input(input);
    for (const std::string& output : outputs) made.add_output(output);
    return NodeMaker(made);
  }

 private:
  static void value(pb::ValueInfo& info, const std::string& name, const OnnxType& type) {
    info.set_name(name);
    to_onnx_type(type, *info.mutable_type());
  }
  pb::Graph& graph_;
};

struct ModelMaker {
  explicit ModelMaker(std::int64_t opset = 17) {
    model.set_ir_version(8);
    model.add_opset_import()->set_version(opset);
  }
  pb::Model model{};
  GraphMaker graph{*model.mutable_graph()};
  std::string bytes() const { return model.SerializeAsString(); }
};

}  // namespace troupe::testing
