// A small set of ops for the tests of passes: names and attributes as in graph/ops, shapes as far as the tests need them.
#pragma once

#include <string>

#include "graph/graph.hpp"

namespace troupe {

inline OpRegistry make_toy_ops() {
  const auto shape_attr = [](ShapeContext& c) { c.set_output(0, c.attributes().shape("shape")); };
  const auto same = [](ShapeContext& c) { c.set_output(0, c.input(0)); };
  const auto broadcasting = [](ShapeContext& c) { c.set_output(0, broadcast(c.input(0), c.input(1))); };
  OpRegistry ops;
  ops.add(Op("Placeholder").output("out", "T").type("T").attr("shape", Shape::unknown_rank()).shape(shape_attr));
  ops.add(Op("Const").output("out", "T").type("T").attr("value", AttrType::tensor).shape([](ShapeContext& c) {
    c.set_output(0, c.attributes().tensor("value").shape());
  }));
  ops.add(Op("Variable").output("handle", DType::resource).type("dtype").attr("shape", AttrType::shape).shape(shape_attr).kind(
      OpKind::stateful));
  ops.add(Op("ReadVariable").input("handle", DType::resource).output("value", "T").type("T").shape(same).kind(OpKind::stateful));
  for (const char* name : {"AssignVariable", "AssignAddVariable"})
    ops.add(Op(name).input("handle", DType::resource).input("value", "T").output("out", "T").type("T").shape(same).kind(
        OpKind::stateful));
  ops.add(Op("Identity").input("x", "T").output("y", "T").type("T").shape(same));
  ops.add(Op("NoOp"));
  ops.add(Op("Arg").output("out", "T").type("T").attr("index", std::int64_t{0}).attr("shape", Shape::unknown_rank()).shape(
      shape_attr));
  ops.add(Op("If")
              .input("cond", DType::boolean)
              .input_types("inputs", "Tin")
              .output_types("outputs", "Tout")
              .attr("Tout", AttrType::dtypes)
              .attr("then_branch", AttrType::function)
              .attr("else_branch", AttrType::function));
  ops.add(Op("Feed").output("out", "T").type("T").attr("index", AttrType::integer).attr("shape", AttrType::shape).shape(shape_attr));
  ops.add(Op("Fetch").input("x", "T").type("T").attr("index", AttrType::integer));
  ops.add(Op("Send").input("x", "T").type("T").attr("edge", AttrType::integer).attr("to", AttrType::string).kind(
      OpKind::departure));
  ops.add(Op("Recv")
              .output("out", "T")
              .type("T")
              .attr("shape", AttrType::shape)
              .attr("edge", AttrType::integer)
              .attr("from", AttrType::string)
              .shape(shape_attr)
              .kind(OpKind::arrival));
  ops.add(Op("Pull")
              .output("out", "T")
              .type("T")
              .attr("shape", AttrType::shape)
              .attr("slice", AttrType::integer)
              .attr("shard", AttrType::integer)
              .shape(shape_attr)
              .kind(OpKind::arrival));
  ops.add(Op("Push").input("gradient", "T").type("T").attr("slice", AttrType::integer).attr("shard", AttrType::integer).kind(
      OpKind::departure));
  ops.add(Op("PushSparse")
              .input("indices", DType::i64)
              .input("values", "T")
              .type("T")
              .attr("slice", AttrType::integer)
              .attr("shard", AttrType::integer)
              .kind(OpKind::departure));
  ops.add(Op("Add").input("a", "T").input("b", "T").output("sum", "T").type("T", kRealTypes).shape(broadcasting));
  ops.add(Op("Sub").input("a", "T").input("b", "T").output("difference", "T").type("T", kRealTypes).shape(broadcasting));
  ops.add(Op("Split2").input("x", "T").output("first", "T").output("second", "T").type("T"));
  ops.add(Op("Scale").input("x", "T").output("y", "T").type("T").attr("by", 1.0).shape(same));
  ops.add(Op("Random").output("out", "T").type("T").attr("shape", Shape{}).shape(shape_attr).kind(OpKind::stateful));
  ops.add(Op("Concat").input_list("xs", "T", "N").output("out", "T").type("T").attr("axis", AttrType::integer));
  ops.add(Op("Slice")
              .input("x", "T")
              .output("out", "T")
              .type("T")
              .attr("begin", AttrType::integers)
              .attr("size", AttrType::integers));
  ops.add(Op("ApplySGD").input("var", DType::resource).input("lr", "T").input("grad", "T").type("T").kind(OpKind::stateful));
  ops.add(Op("SparseApplySGD")
              .input("var", DType::resource)
              .input("lr", "T")
              .input("indices", DType::i64)
              .input("values", "T")
              .type("T")
              .kind(OpKind::stateful));
  ops.add(Op("ApplyAdam")
              .input("var", DType::resource)
              .input("m", DType::resource)
              .input("v", DType::resource)
              .input("lr", "T")
              .input("t", DType::i64)
              .input("grad", "T")
              .type("T")
              .attr("beta1", 0.9)
              .attr("beta2", 0.999)
              .attr("epsilon", 1e-7)
              .kind(OpKind::stateful));
  return ops;
}

inline const OpRegistry& toy_ops() {
  static const OpRegistry ops = make_toy_ops();
  return ops;
}

// Short ways to add nodes.
struct ToyGraph {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>(toy_ops());
  Graph& g = *graph;

  Output one(const std::string& op, const std::string& name, std::vector<Output> inputs = {}, Attributes attributes = {},
             const std::string& device = "") {
    return {graph.get(), g.add({.op = op, .name = name, .inputs = std::move(inputs), .attributes = std::move(attributes),
                                .device = device}).id, 0};
  }
  Output placeholder(const std::string& name, Shape shape = {}) {
    return one("Placeholder", name, {}, {{"T", DType::f32}, {"shape", shape}});
  }
  Output constant(const std::string& name, float value) { return constant(name, Tensor::scalar(value)); }
  Output constant(const std::string& name, const Tensor& value) {
    return one("Const", name, {}, {{"T", value.dtype()}, {"value", value}});
  }
  Output variable(const std::string& name, Shape shape, const std::string& device = "") {
    return one("Variable", name, {}, {{"dtype", DType::f32}, {"shape", shape}}, device);
  }
  Output read(const std::string& name, Output handle) { return one("ReadVariable", name, {handle}, {{"T", DType::f32}}); }
};

// "code: message" of the Error that f throws, or "no error".
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.to_string();
  }
  return "no error";
}

}  // namespace troupe
