// ONNX's random ops. Their values are those of Troupe's generator (docs/design/numerics.md).
#include <bit>

#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

RandomOptions random_options(OnnxNode& node, DType dtype) {
  RandomOptions options{.dtype = dtype};
  if (node.has_attr("seed")) options.seed = std::bit_cast<std::int32_t>(static_cast<float>(node.real("seed")));
  return options;
}

Output shape_attribute(OnnxNode& node) {
  const Integers shape = node.integers("shape");
  return constant(node.graph(), Tensor::of<std::int64_t>(Shape{std::ssize(shape)}, shape));
}

Output uniform(OnnxNode& node, Output shape, DType dtype) {
  return random_uniform(shape, node.real("low", 0), node.real("high", 1), random_options(node, dtype));
}
Output normal(OnnxNode& node, Output shape, DType dtype) {
  return random_normal(shape, node.real("mean", 0), node.real("scale", 1), random_options(node, dtype));
}

void uniform_node(OnnxNode& node) { node.set(uniform(node, shape_attribute(node), node.dtype("dtype", DType::f32))); }
void normal_node(OnnxNode& node) { node.set(normal(node, shape_attribute(node), node.dtype("dtype", DType::f32))); }
void uniform_like_node(OnnxNode& node) {
  node.set(uniform(node, shape_of(node.in(0)), node.dtype("dtype", node.in(0).dtype())));
}
void normal_like_node(OnnxNode& node) {
  node.set(normal(node, shape_of(node.in(0)), node.dtype("dtype", node.in(0).dtype())));
}

void bernoulli_node(OnnxNode& node) {
  const DType dtype = node.in(0).dtype();
  node.set(cast(bernoulli(node.in(0), random_options(node, dtype)), node.dtype("dtype", dtype)));
}
void multinomial_node(OnnxNode& node) {
  const Output drawn =
      multinomial(node.in(0), node.integer("sample_size", 1), random_options(node, node.in(0).dtype()));
  node.set(cast(drawn, node.dtype("dtype", DType::i32)));
}

constexpr OnnxOp kRandomOps[] = {
    {"Bernoulli", bernoulli_node},          {"Multinomial", multinomial_node}, {"RandomNormal", normal_node},
    {"RandomNormalLike", normal_like_node}, {"RandomUniform", uniform_node},   {"RandomUniformLike", uniform_like_node},
};

}  // namespace

std::span<const OnnxOp> onnx_random_ops() { return kRandomOps; }

}  // namespace troupe
