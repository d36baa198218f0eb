#include "troupe/graph/builder/image.hpp"

#include <limits>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

Output floats(Output x, const std::vector<double>& values) {
  Tensor t(DType::f32, Shape{std::ssize(values)});
  std::size_t i = 0;
  for (float& v : t.mutable_values<float>()) v = static_cast<float>(values[i++]);
  return constant(*x.graph, t);
}

template <class Enum, std::size_t kCount>
std::string choice_name(const std::array<std::string_view, kCount>& names, Enum value) {
  return std::string(names[static_cast<std::size_t>(value)]);
}

Output add_resize(Output x, Output scales, Output sizes, ResizeOptions o) {
  const Output roi = o.roi.valid() ? cast(o.roi, DType::f32) : floats(x, {});
  return add_op("Resize", {x, roi, scales, sizes},
                {{"mode", choice_name(kResizeModes, o.mode)},
                 {"coordinates", choice_name(kResizeCoordinates, o.coordinates)},
                 {"nearest_mode", choice_name(kNearestModes, o.nearest_mode)},
                 {"cubic_coeff_a", o.cubic_coeff_a},
                 {"exclude_outside", o.exclude_outside},
                 {"aspect", choice_name(kAspectPolicies, o.aspect)},
                 {"antialias", o.antialias},
                 {"axes", o.axes},
                 {"extrapolation_value", o.extrapolation_value}},
                std::move(o.name));
}

Output threshold(Output tensor, Output like, double otherwise) {
  if (!tensor.valid()) return constant(*like.graph, static_cast<float>(otherwise));
  return as_scalar(cast(tensor, DType::f32));
}

}  // namespace

Output resize(Output x, IntegersArg sizes, ResizeOptions options) {
  const Output list = sizes.in(x);
  return add_resize(x, floats(x, {}), list, std::move(options));
}
Output resize_by(Output x, Output scales, ResizeOptions options) {
  const Output list = cast(scales, DType::f32);
  return add_resize(x, list, IntegersArg(Integers{}).in(x), std::move(options));
}
Output resize_by(Output x, const std::vector<double>& scales, ResizeOptions options) {
  return resize_by(x, floats(x, scales), std::move(options));
}

Output grid_sample(Output x, Output grid, GridSampleOptions options) {
  return add_op("GridSample", {std::move(x), std::move(grid)},
                {{"mode", choice_name(kResizeModes, options.mode)},
                 {"padding", options.padding},
                 {"align_corners", options.align_corners}},
                std::move(options.name));
}

Output crop_and_resize(Output x, Output boxes, Output box_indices, IntegersArg crop_size,
                       CropAndResizeOptions options) {
  const Output images = cast(box_indices, DType::i64);
  return add_op(
      "CropAndResize", {x, boxes, images, crop_size.in(x)},
      {{"mode", choice_name(kResizeModes, options.mode)}, {"extrapolation_value", options.extrapolation_value}},
      std::move(options.name));
}

Output roi_align(Output x, Output rois, Output batch_indices, RoiAlignOptions options) {
  return add_op("RoiAlign", {x, rois, cast(batch_indices, DType::i64)},
                {{"output_height", options.output_height},
                 {"output_width", options.output_width},
                 {"sampling_ratio", options.sampling_ratio},
                 {"spatial_scale", options.spatial_scale},
                 {"half_pixel", options.half_pixel},
                 {"mode", std::string(options.max ? "max" : "avg")}},
                std::move(options.name));
}

Output max_roi_pool(Output x, Output rois, std::int64_t height, std::int64_t width, double spatial_scale, Name name) {
  return add_op("MaxRoiPool", {std::move(x), std::move(rois)},
                {{"output_height", height}, {"output_width", width}, {"spatial_scale", spatial_scale}},
                std::move(name));
}

Output non_max_suppression(Output boxes, Output scores, IntegersArg max_outputs, NonMaxSuppressionOptions options) {
  const Output most = max_outputs.scalar_in(boxes);
  const Output iou = threshold(options.iou_threshold_tensor, boxes, options.iou_threshold);
  const Output score = threshold(options.score_threshold_tensor, boxes,
                                 options.score_threshold.value_or(-std::numeric_limits<double>::infinity()));
  return add_op("NonMaxSuppression", {boxes, scores, most, iou, score},
                {{"center_point_box", options.center_point_box}}, std::move(options.name));
}
Output non_max_suppression_of_one(Output boxes, Output scores, IntegersArg max_outputs,
                                  NonMaxSuppressionOptions options) {
  Name name = std::move(options.name);
  options.name = {};
  const Output batch = expand_dims(boxes, 0);
  const Output all = non_max_suppression(batch, expand_dims(scores, {0, 1}), max_outputs, std::move(options));
  return reshape(slice(all, {0, 2}, {-1, 1}), Shape{kUnknown}, std::move(name));
}

}  // namespace troupe
