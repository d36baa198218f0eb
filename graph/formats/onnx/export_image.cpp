// Ops on images, and draws of random values by inputs.
#include <algorithm>

#include <troupe/graph/formats/onnx/onnx_export.hpp>

namespace troupe {
namespace {

OnnxName floats_of(const OnnxExportNode& node, std::initializer_list<float> values) {
  return node.constant(Tensor::of<float>(Shape{std::ssize(values)}, values));
}

// Resize has axes since opset 18: the entries of `list` at their places, and those of other dimensions from `other`.
template <class Other>
OnnxName entries_of_all(const OnnxExportNode& node, const OnnxName& list, const Integers& axes, std::int64_t rank,
                        std::int64_t offset, Other other) {
  OnnxNames parts;
  for (std::int64_t d = 0; d < rank; ++d) {
    const auto at = std::ranges::find_if(axes, [&](std::int64_t axis) { return axis == d || axis + rank == d; });
    parts.push_back(at == axes.end() ? other(d)
                                     : node.add("Gather", {list, node.integers({at - axes.begin() + offset})}));
  }
  return node.add("Concat", parts, {{"axis", std::int64_t{0}}});
}

// Entries of a list of one entry for each axis; others are `other`.
OnnxName resize_list(const OnnxExportNode& node, int input, const Integers& axes, float other) {
  if (axes.empty() || node.opset() >= 18) return node.in(input);
  const bool sizes = node.dtype(input) == DType::i64;
  const OnnxName shape = sizes ? node.add("Shape", {node.in(0)}) : OnnxName();
  return entries_of_all(node, node.in(input), axes, node.rank(0), 0, [&](std::int64_t d) {
    return sizes ? node.add("Gather", {shape, node.integers({d})}) : floats_of(node, {other});
  });
}

OnnxName region(const OnnxExportNode& node, const Integers& axes) {
  if (axes.empty() || node.opset() >= 18) return node.in(1);
  const std::int64_t rank = node.rank(0);
  const auto half = [&](std::int64_t offset, float other) {
    return entries_of_all(node, node.in(1), axes, rank, offset, [&](std::int64_t) { return floats_of(node, {other}); });
  };
  const OnnxName begins = half(0, 0), ends = half(std::ssize(axes), 1);
  return node.add("Concat", {begins, ends}, {{"axis", std::int64_t{0}}});
}

void write_resize(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  const std::string& coordinates = a.string("coordinates");
  if (a.boolean("antialias") || a.string("aspect") != "stretch") node.need_opset(18);
  if (coordinates == "half_pixel_symmetric") node.need_opset(19);
  // Removed in opset 13: places (j + 0.5) / scale are half a pixel after those of half_pixel.
  const bool for_nearest = coordinates == "tf_half_pixel_for_nn";
  if (for_nearest && (a.string("mode") != "nearest" ||
                      (a.string("nearest_mode") != "floor" && a.string("nearest_mode") != "round_prefer_floor")))
    fail(Code::unimplemented, "ONNX's Resize has no tf_half_pixel_for_nn since opset 13");
  const std::string& mode = a.string("nearest_mode");
  const std::string nearest = !for_nearest ? mode : mode == "floor" ? "round_prefer_ceil" : "ceil";
  const Integers& axes = a.integers("axes");
  const bool by_scales = node.known(3) ? node.known(3)->num_elements() == 0 : node.shape(3) == Shape{0};
  OnnxNames inputs{node.in(0), coordinates == "tf_crop_and_resize" ? region(node, axes) : OnnxName()};
  inputs.push_back(by_scales ? resize_list(node, 2, axes, 1) : OnnxName());
  if (!by_scales) inputs.push_back(resize_list(node, 3, axes, 1));
  Attributes written{{"mode", a.string("mode")},
                     {"coordinate_transformation_mode", for_nearest ? std::string("half_pixel") : coordinates},
                     {"nearest_mode", nearest},
                     {"cubic_coeff_a", a.real("cubic_coeff_a")},
                     {"exclude_outside", a.boolean("exclude_outside")},
                     {"extrapolation_value", a.real("extrapolation_value")}};
  if (node.opset() >= 18) {
    written.set("antialias", a.boolean("antialias"));
    written.set("keep_aspect_ratio_policy", a.string("aspect"));
    if (!axes.empty()) written.set("axes", axes);
  }
  node.set(node.add("Resize", inputs, written));
}

void write_grid_sample(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  const std::string& mode = a.string("mode");
  node.set(node.add("GridSample", node.all_inputs(),
                    {{"mode", mode == "nearest"  ? mode
                              : mode == "linear" ? std::string("bilinear")
                                                 : "bicubic"},
                     {"padding_mode", a.string("padding")},
                     {"align_corners", std::int64_t{a.boolean("align_corners")}}}));
}

void write_roi_align(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  node.set(node.add(
      "RoiAlign", node.all_inputs(),
      {{"mode", a.string("mode")},
       {"coordinate_transformation_mode", std::string(a.boolean("half_pixel") ? "half_pixel" : "output_half_pixel")},
       {"output_height", a.integer("output_height")},
       {"output_width", a.integer("output_width")},
       {"sampling_ratio", a.integer("sampling_ratio")},
       {"spatial_scale", a.real("spatial_scale")}}));
}

void write_max_roi_pool(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  node.set(node.add("MaxRoiPool", node.all_inputs(),
                    {{"pooled_shape", Integers{a.integer("output_height"), a.integer("output_width")}},
                     {"spatial_scale", a.real("spatial_scale")}}));
}

void write_non_max_suppression(OnnxExportNode& node) {
  node.set(node.add("NonMaxSuppression", node.all_inputs(),
                    {{"center_point_box", std::int64_t{node.attributes().boolean("center_point_box")}}}));
}

void write_bernoulli(OnnxExportNode& node) { node.set(node.add("Bernoulli", node.all_inputs())); }

void write_multinomial(OnnxExportNode& node) {
  const Integers count = node.known_integers(1, "the number of classes drawn");
  node.set(node.add("Multinomial", {node.in(0)}, {{"sample_size", count.at(0)}, {"dtype", DType::i64}}));
}

constexpr OnnxExportOp kImageWriters[] = {
    {"Bernoulli", write_bernoulli},
    {"GridSample", write_grid_sample},
    {"MaxRoiPool", write_max_roi_pool},
    {"Multinomial", write_multinomial},
    {"NonMaxSuppression", write_non_max_suppression},
    {"Resize", write_resize},
    {"RoiAlign", write_roi_align},
};

}  // namespace

std::span<const OnnxExportOp> onnx_image_writers() { return kImageWriters; }

}  // namespace troupe
