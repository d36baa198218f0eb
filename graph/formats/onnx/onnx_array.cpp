// ONNX's ops that make, move and reshape tensors.
#include <limits>

#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

void constant_node(OnnxNode& node) {
  Graph& graph = node.graph();
  if (node.has_attr("value")) return node.set(constant(graph, node.tensor("value")));
  if (node.has_attr("value_int")) return node.set(constant<std::int64_t>(graph, node.integer("value_int")));
  if (node.has_attr("value_float"))
    return node.set(constant<float>(graph, static_cast<float>(node.real("value_float"))));
  if (node.has_attr("value_string")) return node.set(constant<std::string>(graph, node.string("value_string")));
  const auto vector = [&]<class T>(const std::vector<T>& values) {
    node.set(constant(graph, Tensor::of<T>(Shape{std::ssize(values)}, values)));
  };
  if (node.has_attr("value_ints")) return vector(node.integers("value_ints"));
  if (node.has_attr("value_strings")) return vector(node.strings("value_strings"));
  if (node.has_attr("value_floats")) {
    const std::vector<double> values = node.reals("value_floats");
    return vector(std::vector<float>(values.begin(), values.end()));
  }
  fail(Code::unimplemented, "only dense values are supported");
}

void identity_node(OnnxNode& node) {
  if (node.only_names_output() && !node.type(0).is_list()) return node.set(node.in(0));
  node.type(0).is_list() ? node.set(0, node.in(0), node.type(0)) : node.set(identity(node.in(0)));
}

void reshape_node(OnnxNode& node) {
  const IntegersArg shape = node.has_attr("shape") ? IntegersArg(node.integers("shape")) : IntegersArg(node.in(1));
  node.set(node.integer("allowzero", 0) != 0 ? reshape(node.in(0), node.in(1))
                                             : reshape_copying_zeros(node.in(0), shape));
}

// Not a node yet where its readers take what it is made from: images NHWC, and products.
void transpose_node(OnnxNode& node) {
  const Integers perm = node.integers("perm", Integers{});
  if (node.images(0).valid() && perm == kOnnxFromImages) return node.set(node.images(0));
  const Shape& shape = node.in(0).shape();
  const bool fits = shape.has_rank() && shape.rank() == std::ssize(perm);
  const bool images = fits && perm == kOnnxToImages && node.some_reader(0, takes_images);
  const bool operand =
      fits && exchanges_last_two(perm) && node.all_readers(0, [](std::string_view op) { return op == "MatMul"; });
  if (images || operand) return node.set_view(0, node.in(0), perm);
  node.set(transpose(node.in(0), perm));
}

// Axes of NCHW in NHWC.
std::int64_t nhwc_axis(std::int64_t axis) {
  if (axis < -4 || axis > 3) invalid_argument("axis {} is out of range for images", axis);
  return kOnnxToImages[static_cast<std::size_t>(axis < 0 ? axis + 4 : axis)];
}

void concat_node(OnnxNode& node) {
  Outputs images;
  for (int i = 0; i < node.num_inputs() && std::ssize(images) == i; ++i)
    if (const Output x = node.images(i); x.valid()) images.push_back(x);
  if (!images.empty() && std::ssize(images) == node.num_inputs())
    return node.set_images(0, concat(images, nhwc_axis(node.integer("axis"))));
  node.set(concat(node.all_inputs(),
                  node.integer("axis", node.opset() < 4 ? std::optional<std::int64_t>(1) : std::nullopt)));
}
void shape_node(OnnxNode& node) {
  const Output shape = shape_of(node.in(0));
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const std::int64_t start = node.integer("start", 0), end = node.integer("end", kEnd);
  node.set(start == 0 && end == kEnd ? shape : strided_slice(shape, start, end));
}
void size_node(OnnxNode& node) { node.set(element_count(node.in(0))); }

constexpr OnnxOp kArrayOps[] = {
    {"Concat", concat_node, OnnxImages::itself},
    {"Constant", constant_node},
    {"Identity", identity_node, OnnxImages::elementwise},
    {"Reshape", reshape_node},
    {"Shape", shape_node},
    {"Size", size_node},
    {"Transpose", transpose_node},
};

}  // namespace

std::span<const OnnxOp> onnx_array_ops() { return kArrayOps; }

}  // namespace troupe
