// ONNX's ops on images.
#include <algorithm>

#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

ResizeMode mode_of(const std::string& name) {
  if (name == "bilinear") return ResizeMode::linear;
  if (name == "bicubic") return ResizeMode::cubic;
  return resize_choice<ResizeMode>(kResizeModes, "mode", name);
}

// The values of an f32 input, as a constant if they are known.
Output float_list(OnnxNode& node, int index) {
  if (const auto value = node.known(index); value && value->dtype() == DType::f32)
    return constant(node.graph(), *value);
  return cast(node.in(index), DType::f32);
}

// An optional input may be there and empty.
bool has_elements(OnnxNode& node, int index) {
  return node.has(index) && !(node.in(index).shape().fully_known() && node.in(index).shape().num_elements() == 0);
}

// Upsample, and Resize up to opset 10: nearest elements are those before, or those after where x is made smaller.
ResizeOptions early_resize(const std::string& mode, bool smaller) {
  return {.mode = mode_of(mode),
          .axes = {},
          .coordinates = ResizeCoordinates::asymmetric,
          .nearest_mode = smaller ? NearestMode::ceil : NearestMode::floor};
}

void upsample_node(OnnxNode& node) {
  const std::string mode = node.string("mode", "nearest");
  if (node.opset() < 7) {
    const std::vector<double> scales{1, 1, node.real("height_scale"), node.real("width_scale")};
    node.set(resize_by(node.in(0), scales, early_resize(mode, false)));
  } else if (node.has(1)) {
    node.set(resize_by(node.in(0), float_list(node, 1), early_resize(mode, false)));
  } else {
    node.set(resize_by(node.in(0), node.reals("scales"), early_resize(mode, false)));
  }
}

void resize_node(OnnxNode& node) {
  const Output x = node.in(0);
  const std::string mode = node.string("mode", "nearest");
  if (node.opset() < 11) {
    const auto scales = node.known(1);
    const bool smaller = scales && scales->dtype() == DType::f32 &&
                         std::ranges::all_of(scales->values<float>(), [](float scale) { return scale <= 1; });
    return node.set(resize_by(x, float_list(node, 1), early_resize(mode, smaller)));
  }
  ResizeOptions options{
      .mode = mode_of(mode),
      .axes = node.integers("axes", Integers{}),
      .coordinates = resize_choice<ResizeCoordinates>(kResizeCoordinates, "coordinate_transformation_mode",
                                                      node.string("coordinate_transformation_mode", "half_pixel")),
      .nearest_mode =
          resize_choice<NearestMode>(kNearestModes, "nearest_mode", node.string("nearest_mode", "round_prefer_floor")),
      .cubic_coeff_a = node.real("cubic_coeff_a", -0.75),
      .exclude_outside = node.integer("exclude_outside", 0) != 0,
      .aspect = resize_choice<AspectPolicy>(kAspectPolicies, "keep_aspect_ratio_policy",
                                            node.string("keep_aspect_ratio_policy", "stretch")),
      .antialias = node.integer("antialias", 0) != 0,
      .extrapolation_value = node.real("extrapolation_value", 0)};
  if (options.coordinates == ResizeCoordinates::tf_crop_and_resize) options.roi = float_list(node, 1);
  if (has_elements(node, 3))
    node.set(resize(x, cast(node.in(3), DType::i64), std::move(options)));
  else if (node.has(2))
    node.set(resize_by(x, float_list(node, 2), std::move(options)));
  else
    invalid_argument("neither scales nor sizes are given");
}

void grid_sample_node(OnnxNode& node) {
  node.set(grid_sample(node.in(0), node.in(1),
                       {.mode = mode_of(node.string("mode", "linear")),
                        .padding = node.string("padding_mode", "zeros"),
                        .align_corners = node.integer("align_corners", 0) != 0}));
}

void roi_align_node(OnnxNode& node) {
  const std::string coordinates =
      node.string("coordinate_transformation_mode", node.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    invalid_argument("'coordinate_transformation_mode' is '{}', not half_pixel or output_half_pixel", coordinates);
  node.set(roi_align(node.in(0), node.in(1), node.in(2),
                     {.output_height = node.integer("output_height", 1),
                      .output_width = node.integer("output_width", 1),
                      .sampling_ratio = node.integer("sampling_ratio", 0),
                      .spatial_scale = node.real("spatial_scale", 1),
                      .half_pixel = coordinates == "half_pixel",
                      .max = node.string("mode", "avg") == "max"}));
}

void max_roi_pool_node(OnnxNode& node) {
  const Integers shape = node.integers("pooled_shape");
  if (shape.size() != 2) invalid_argument("'pooled_shape' has {} numbers, not 2", shape.size());
  node.set(max_roi_pool(node.in(0), node.in(1), shape[0], shape[1], node.real("spatial_scale", 1)));
}

void non_max_suppression_node(OnnxNode& node) {
  NonMaxSuppressionOptions options{.iou_threshold = 0, .center_point_box = node.integer("center_point_box", 0) != 0};
  if (has_elements(node, 3)) options.iou_threshold_tensor = node.in(3);
  if (has_elements(node, 4)) options.score_threshold_tensor = node.in(4);
  const IntegersArg most =
      has_elements(node, 2) ? IntegersArg(as_scalar(cast(node.in(2), DType::i64))) : IntegersArg(0);
  node.set(non_max_suppression(node.in(0), node.in(1), most, std::move(options)));
}

constexpr OnnxOp kImageOps[] = {
    {"GridSample", grid_sample_node},
    {"MaxRoiPool", max_roi_pool_node},
    {"NonMaxSuppression", non_max_suppression_node},
    {"Resize", resize_node},
    {"RoiAlign", roi_align_node},
    {"Upsample", upsample_node},
};

}  // namespace

std::span<const OnnxOp> onnx_image_ops() { return kImageOps; }

}  // namespace troupe
