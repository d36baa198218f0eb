// ONNX's activations, limits, dropout and quantisation.
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

template <Output (*build)(Output, Name)>
void activation(OnnxNode& node) {
  node.set(build(node.in(0), {}));
}

// Of a normalisation that nothing else reads, it is an attribute.
void relu_node(OnnxNode& node) {
  const Output x = node.in(0);
  const Node& source = x.source();
  if (source.op->name != "BatchNormInference" || !node.is_only_reader(0) ||
      source.attributes.string("activation") != "none")
    return node.set(relu(x));
  x.graph->set_attribute(source, "activation", "relu");
  node.take_over();
  node.set(x);
}

template <Output (*build)(Output, double, Name)>
void activation_with_alpha(OnnxNode& node, double otherwise) {
  node.set(build(node.in(0), node.real("alpha", otherwise), {}));
}
void celu_node(OnnxNode& node) { activation_with_alpha<celu>(node, 1); }
void elu_node(OnnxNode& node) { activation_with_alpha<elu>(node, 1); }
void leaky_relu_node(OnnxNode& node) { activation_with_alpha<leaky_relu>(node, 0.01); }
void thresholded_relu_node(OnnxNode& node) { activation_with_alpha<thresholded_relu>(node, 1); }

void selu_node(OnnxNode& node) {
  const bool old = node.opset() < 6;
  const SeluOptions standard{.alpha = old ? 1.6732 : 1.67326319217681884765625,
                             .gamma = old ? 1.0507 : 1.05070102214813232421875};
  node.set(
      selu(node.in(0), {.alpha = node.real("alpha", standard.alpha), .gamma = node.real("gamma", standard.gamma)}));
}

void gelu_node(OnnxNode& node) {
  const std::string approximate = node.string("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    invalid_argument("attribute 'approximate' is '{}', not none or tanh", approximate);
  node.set(gelu(node.in(0), {.approximate = approximate == "tanh"}));
}

void hard_sigmoid_node(OnnxNode& node) {
  node.set(hard_sigmoid(node.in(0), {.alpha = node.real("alpha", 0.2), .beta = node.real("beta", 0.5)}));
}

void shrink_node(OnnxNode& node) {
  node.set(shrink(node.in(0), {.bias = node.real("bias", 0), .threshold = node.real("lambd", 0.5)}));
}

// Up to opset 6 a vector of slopes belongs to axis 1.
void prelu_node(OnnxNode& node) {
  const Output x = node.in(0);
  Output slope = node.in(1);
  if (node.opset() < 7 && slope.shape().has_rank() && slope.shape().rank() == 1 && x.shape().has_rank())
    for (int d = 2; d < x.shape().rank(); ++d) slope = expand_dims(slope, -1);
  node.set(prelu(x, slope));
}

// Up to opset 10 the bounds are attributes.
void clip_node(OnnxNode& node) {
  const Output x = node.in(0);
  if (node.opset() >= 11)
    return node.set(clip(x, node.has(1) ? node.in(1) : Output(), node.has(2) ? node.in(2) : Output()));
  const Output low = node.has_attr("min") ? scalar_like(x, node.real("min")) : Output();
  const Output high = node.has_attr("max") ? scalar_like(x, node.real("max")) : Output();
  node.set(clip(x, low, high));
}

// ---- dropout

// Opset 7 to 11 have no training mode. From 12 on the ratio and the mode are inputs: without training the rate is 0.
void dropout_node(OnnxNode& node) {
  const Output x = node.in(0);
  const bool inputs = node.opset() >= 12;
  const auto mode = inputs && node.has(2) ? node.known(2) : std::nullopt;
  const bool training =
      inputs ? node.has(2) && (!mode || mode->item<bool>()) : node.opset() < 7 && node.integer("is_test", 0) == 0;
  if (!training) {
    node.set(0, identity(x));
    if (node.wants(1)) node.set(1, node.opset() < 7 ? ones_like(x) : cast(ones_like(x), DType::boolean));
    return;
  }
  Output rate = inputs && node.has(1) ? cast(node.in(1), DType::f64)
                                      : constant(node.graph(), inputs ? 0.5 : node.real("ratio", 0.5));
  if (!mode && inputs) rate = select(node.in(2), rate, constant(node.graph(), 0.0));
  const DropoutOutputs out = dropout(x, as_scalar(rate), {.seed = node.integer("seed", 0)});
  node.set(0, out.y);
  if (node.wants(1)) node.set(1, node.opset() < 7 ? out.mask : cast(out.mask, DType::boolean));
}

// ---- quantisation

// A scale or zero point; of one element, as a scalar: models mix [] and [1].
Output steps_in(const OnnxNode& node, int index) {
  const Output given = node.in(index);
  const Shape& shape = given.shape();
  if (!shape.has_rank() || shape.rank() != 1 || shape[0] != 1) return given;
  const auto known = node.known(index);
  return known ? constant(node.graph(), known->reshaped(Shape{})) : as_scalar(given);
}
// A zero point, also one that is left out.
Output zero_of(const OnnxNode& node, Output scale, DType dtype) {
  if (node.has(2)) return steps_in(node, 2);
  if (scale.shape().fully_known()) return constant(node.graph(), Tensor::zeros(dtype, scale.shape()));
  return cast(zeros_like(scale), dtype);
}

// Images stay as they are where one step is that of all elements.
Output images_of_one_step(const OnnxNode& node, Output scale) {
  const Shape& shape = scale.shape();
  return shape.fully_known() && shape.num_elements() == 1 ? node.images(0) : Output();
}

void refuse_blocks(const OnnxNode& node) {
  if (node.integer("block_size", 0) != 0)
    fail(Code::unimplemented, "attribute 'block_size' is {}: scales of blocks are not supported",
         node.integer("block_size"));
}

void quantize_linear_node(OnnxNode& node) {
  refuse_blocks(node);
  Output scale = steps_in(node, 1);
  const Output images = images_of_one_step(node, scale);
  Output x = images.valid() ? images : node.in(0);
  if (x.dtype() != scale.dtype()) {
    x = cast(x, DType::f32);
    scale = cast(scale, DType::f32);
  }
  const DType dtype = node.has_attr("output_dtype") ? node.dtype("output_dtype") : DType::u8;
  const Output zero = zero_of(node, scale, dtype);
  if (images.valid()) return node.set_images(0, quantize_linear(x, scale, zero));
  node.set(quantize_linear(x, scale, zero, {.axis = node.integer("axis", 1)}));
}

void dequantize_linear_node(OnnxNode& node) {
  refuse_blocks(node);
  const Output scale = steps_in(node, 1), images = images_of_one_step(node, scale);
  const Output x = images.valid() ? images : node.in(0);
  const Output zero = zero_of(node, scale, x.dtype());
  if (images.valid()) return node.set_images(0, dequantize_linear(x, scale, zero));
  node.set(dequantize_linear(x, scale, zero, {.axis = node.integer("axis", 1)}));
}

void dynamic_quantize_linear_node(OnnxNode& node) {
  const DynamicallyQuantized out = dynamic_quantize_linear(node.in(0));
  node.set(0, out.y);
  node.set(1, out.scale);
  node.set(2, out.zero_point);
}

constexpr OnnxOp kElementwiseOps[] = {
    {"Celu", celu_node, OnnxImages::elementwise},
    {"Clip", clip_node, OnnxImages::elementwise},
    {"DequantizeLinear", dequantize_linear_node, OnnxImages::itself},
    {"Dropout", dropout_node},
    {"DynamicQuantizeLinear", dynamic_quantize_linear_node},
    {"Elu", elu_node, OnnxImages::elementwise},
    {"Gelu", gelu_node, OnnxImages::elementwise},
    {"HardSigmoid", hard_sigmoid_node, OnnxImages::elementwise},
    {"HardSwish", activation<hard_swish>, OnnxImages::elementwise},
    {"LeakyRelu", leaky_relu_node, OnnxImages::elementwise},
    {"Mish", activation<mish>, OnnxImages::elementwise},
    {"PRelu", prelu_node, OnnxImages::elementwise},
    {"QuantizeLinear", quantize_linear_node, OnnxImages::itself},
    {"Relu", relu_node, OnnxImages::elementwise},
    {"Selu", selu_node, OnnxImages::elementwise},
    {"Shrink", shrink_node, OnnxImages::elementwise},
    {"Sigmoid", activation<sigmoid>, OnnxImages::elementwise},
    {"Softplus", activation<softplus>, OnnxImages::elementwise},
    {"Softsign", activation<softsign>, OnnxImages::elementwise},
    {"ThresholdedRelu", thresholded_relu_node, OnnxImages::elementwise},
};

}  // namespace

std::span<const OnnxOp> onnx_elementwise_ops() { return kElementwiseOps; }

}  // namespace troupe
