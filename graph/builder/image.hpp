// Builder API for images: resizing, and sampling at computed places.
#pragma once

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/resize.hpp>

namespace troupe {

struct ResizeOptions {
  ResizeMode mode = ResizeMode::linear;
  Integers axes{1, 2};  // those of NHWC; {2, 3} for NCHW, {} for all
  ResizeCoordinates coordinates = ResizeCoordinates::half_pixel;
  NearestMode nearest_mode = NearestMode::round_prefer_floor;
  double cubic_coeff_a = -0.75;  // TensorFlow: -0.5
  bool exclude_outside = false;  // weights of places outside x become 0, and the others are scaled up
  AspectPolicy aspect = AspectPolicy::stretch;
  bool antialias = false;          // smooth as much as the scale wants where x is made smaller
  double extrapolation_value = 0;  // outside x with tf_crop_and_resize
  Output roi{};                    // f32 [2n]: begins, then ends, of the axes, in [0, 1]; for tf_crop_and_resize
  Name name{};
};
// x with the axes resized to `sizes`, one for each axis, or by `scales`, f32. ONNX's Resize (opset 19) has the
// formulas. Axes are interpolated one after the other, integers in floats, with the result cast.
Output resize(Output x, IntegersArg sizes, ResizeOptions options = {});
Output resize_by(Output x, Output scales, ResizeOptions options = {});
Output resize_by(Output x, const std::vector<double>& scales, ResizeOptions options = {});

struct GridSampleOptions {
  ResizeMode mode = ResizeMode::linear;
  std::string padding = "zeros";  // outside x; or "border", "reflection"
  bool align_corners = false;     // -1 and 1 are the centres of the outermost elements, not their outer edges
  Name name{};
};
// x [n,c,h,w] at the places grid [n,rows,columns,2], each (x, y) in [-1, 1]: [n,c,rows,columns].
Output grid_sample(Output x, Output grid, GridSampleOptions options = {});

struct CropAndResizeOptions {
  ResizeMode mode = ResizeMode::linear;  // or nearest
  double extrapolation_value = 0;        // outside x
  Name name{};
};
// TensorFlow's: boxes [b,4] of (y1, x1, y2, x2) in [0, 1] of the images box_indices [b] of x [n,h,w,c], each resized to
// crop_size, with the corners at the corners: [b,rows,columns,c].
Output crop_and_resize(Output x, Output boxes, Output box_indices, IntegersArg crop_size,
                       CropAndResizeOptions options = {});

struct RoiAlignOptions {
  std::int64_t output_height = 1;
  std::int64_t output_width = 1;
  std::int64_t sampling_ratio = 0;  // samples of a bin in each direction; 0: one for each element it covers
  double spatial_scale = 1;         // of the regions' coordinates
  bool half_pixel = true;           // ONNX's output_half_pixel if false: as in opset 10
  bool max = false;                 // the greatest weighted element instead of the mean
  Name name{};
};
// Regions rois [r,4] of (x1, y1, x2, y2) of the images batch_indices [r] of x [n,c,h,w]: [r,c,height,width]. He et al.,
// "Mask R-CNN" (2017).
Output roi_align(Output x, Output rois, Output batch_indices, RoiAlignOptions options = {});
// Regions rois [r,5] of (image, x1, y1, x2, y2), inclusive: the greatest element of each bin. Girshick, "Fast R-CNN"
// (2015).
Output max_roi_pool(Output x, Output rois, std::int64_t height, std::int64_t width, double spatial_scale = 1,
                    Name name = {});

struct NonMaxSuppressionOptions {
  double iou_threshold = 0.5;               // greater overlaps suppress
  Output iou_threshold_tensor{};            // f32, instead
  std::optional<double> score_threshold{};  // only greater scores count
  Output score_threshold_tensor{};
  bool center_point_box =
      false;  // boxes are (x, y, width, height) around a centre, instead of two corners (y, x, y, x)
  Name name{};
};
// Boxes of descending score that do not overlap those before. ONNX's: boxes [n,b,4], scores [n,classes,b], f32, at most
// max_outputs of each image and class: i64 [selected,3] of (image, class, box). Equal scores: the earlier box first.
Output non_max_suppression(Output boxes, Output scores, IntegersArg max_outputs, NonMaxSuppressionOptions options = {});
// TensorFlow's: boxes [b,4], scores [b]: i64 [selected].
Output non_max_suppression_of_one(Output boxes, Output scores, IntegersArg max_outputs,
                                  NonMaxSuppressionOptions options = {});

}  // namespace troupe
