// Ops on images: resizing, and sampling at computed places.
#include <algorithm>

#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>
#include <troupe/graph/resize.hpp>

namespace troupe {
namespace {

const std::string& choice_of(const Attributes& attributes, std::string_view name,
                             std::initializer_list<std::string_view> allowed) {
  const std::string& value = attributes.string(name);
  if (std::ranges::find(allowed, value) != allowed.end()) return value;
  std::string all;
  for (const std::string_view choice : allowed) all += (all.empty() ? "" : ", ") + std::string(choice);
  invalid_argument("attribute '{}' is '{}', but must be one of {}", name, value, all);
}

// Resize.

// The f32 values of input `index`, if they are known.
std::optional<std::vector<float>> known_floats(const ShapeContext& c, int index) {
  const Tensor* value = c.constant(index);
  if (value == nullptr || value->dtype() != DType::f32) return std::nullopt;
  const auto all = value->values<float>();
  return std::vector<float>(all.begin(), all.end());
}

std::vector<int> resized_axes(const Attributes& attributes, int rank) {
  std::vector<int> axes;
  for (const std::int64_t axis : attributes.integers("axes")) axes.push_back(shapes::axis(axis, rank));
  if (axes.empty())
    for (int d = 0; d < rank; ++d) axes.push_back(d);
  std::vector<int> sorted = axes;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) invalid_argument("an axis is given twice");
  return axes;
}

// Of x resized; inputs from `first` on are roi, scales and sizes.
Shape resized_shape(const ShapeContext& c, Shape x, int first) {
  const Attributes& a = c.attributes();
  resize_choice<ResizeMode>(kResizeModes, "mode", a.string("mode"));
  resize_choice<ResizeCoordinates>(kResizeCoordinates, "coordinates", a.string("coordinates"));
  resize_choice<NearestMode>(kNearestModes, "nearest_mode", a.string("nearest_mode"));
  const auto policy = resize_choice<AspectPolicy>(kAspectPolicies, "aspect", a.string("aspect"));
  for (int i = first; i < first + 3; ++i) shapes::with_rank(c.input(i), 1, "roi, scales and sizes");
  if (!x.has_rank()) return x;
  const std::vector<int> axes = resized_axes(a, x.rank());
  const auto check = [&](std::string_view what, std::int64_t count) {
    if (count != kUnknown && count != 0 && count != std::ssize(axes))
      invalid_argument("there are {} {} for {} axes", count, what, axes.size());
  };
  const Shape scale_count = shapes::with_rank(c.input(first + 1), 1, "scales"),
              size_count = shapes::with_rank(c.input(first + 2), 1, "sizes");
  check("scales", scale_count[0]);
  check("sizes", size_count[0]);
  if (scale_count[0] != kUnknown && size_count[0] != kUnknown && (scale_count[0] == 0) == (size_count[0] == 0) &&
      !axes.empty())
    invalid_argument("one of scales and sizes must be given");
  const auto scales = known_floats(c, first + 1);
  const shapes::KnownEntries sizes = shapes::known_entries(c, first + 2, "sizes", kUnknown);
  std::vector<std::int64_t> before, wanted;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::int64_t& size = before.emplace_back(x[axes[i]]);
    if (sizes.size() == axes.size())
      wanted.push_back(sizes[i].value_or(kUnknown));
    else
      wanted.push_back(kUnknown);
    if (scales && scales->size() == axes.size() && size != kUnknown) {
      x.set_dim(axes[i], resized_by_scale(size, (*scales)[i]).size);
    } else {
      x.set_dim(axes[i], policy == AspectPolicy::stretch ? wanted.back() : kUnknown);
    }
  }
  const bool known =
      std::ranges::find(before, kUnknown) == before.end() && std::ranges::find(wanted, kUnknown) == wanted.end();
  if (policy == AspectPolicy::stretch || !known) return x;
  std::vector<ResizedDim> out(axes.size());
  resize_to(before, wanted, policy, out);
  for (std::size_t i = 0; i < axes.size(); ++i) x.set_dim(axes[i], out[i].size);
  return x;
}

void resize_shape(ShapeContext& c) { c.set_output(0, resized_shape(c, c.input(0), 1)); }
void resize_grad_shape(ShapeContext& c) {
  shapes::merge(c.input(0), "dy", resized_shape(c, c.input(1), 2), "the resized x");
  c.set_output(0, c.input(1));
}

Attributes resize_attributes(const GradientContext& c) {
  Attributes out;
  for (const char* key :
       {"mode", "coordinates", "nearest_mode", "cubic_coeff_a", "exclude_outside", "aspect", "antialias", "axes"})
    out.set(key, c.attributes().all().find(key)->second);
  return out;
}
void resize_gradient(GradientContext& c) {
  c.set(0, add_op("ResizeGrad", {c.grad(), c.input(0), c.input(1), c.input(2), c.input(3)}, resize_attributes(c)));
}
// Both are linear, but for extrapolated elements, which are constant.
void resize_grad_gradient(GradientContext& c) {
  c.set(0, add_op("Resize", {c.grad(), c.input(2), c.input(3), c.input(4)}, resize_attributes(c)));
}

Op with_resize_attributes(Op op) {
  return op.input("roi", DType::f32)
      .input("scales", DType::f32)
      .input("sizes", DType::i64)
      .attr("mode", std::string("nearest"))
      .attr("coordinates", std::string("half_pixel"))
      .attr("nearest_mode", std::string("round_prefer_floor"))
      .attr("cubic_coeff_a", -0.75)
      .attr("exclude_outside", false)
      .attr("aspect", std::string("stretch"))
      .attr("antialias", false)
      .attr("axes", std::vector<std::int64_t>{});
}

void register_resizes(OpRegistry& ops) {
  ops.add(with_resize_attributes(Op("Resize").input("x", "T"))
              .output("y", "T")
              .type("T", kTensorTypes)
              .attr("extrapolation_value", 0.0)
              .shape(resize_shape)
              .gradient(resize_gradient));
  ops.add(with_resize_attributes(Op("ResizeGrad").input("dy", "T").input_shape("x", "T"))
              .output("dx", "T")
              .type("T", kFloatTypes)
              .shape(resize_grad_shape)
              .gradient(resize_grad_gradient));
}

// Samples.

void grid_sample_shape(ShapeContext& c) {
  choice_of(c.attributes(), "mode", {"nearest", "linear", "cubic"});
  choice_of(c.attributes(), "padding", {"zeros", "border", "reflection"});
  const Shape x = shapes::with_rank(c.input(0), 4, "x"), grid = shapes::with_rank(c.input(1), 4, "grid");
  shapes::merge_dim(grid[3], 2, "the number of coordinates of a place and 2");
  const std::int64_t batch = shapes::merge_dim(x[0], grid[0], "the batches of x and grid");
  c.set_output(0, Shape{batch, x[1], grid[1], grid[2]});
}
void sample_grad_shape(ShapeContext& c) {
  c.set_output(0, c.input(1));
  c.set_output(1, c.input(2));
}
void sample_dx_shape(ShapeContext& c) { c.set_output(0, c.input(1)); }

Attributes sample_attributes(GradientContext& c) {
  return {{"mode", c.attributes().string("mode")},
          {"padding", c.attributes().string("padding")},
          {"align_corners", c.attributes().boolean("align_corners")}};
}

void grid_sample_gradient(GradientContext& c) {
  const Outputs grads = add_outputs("GridSampleGrad", {c.grad(), c.input(0), c.input(1)}, sample_attributes(c));
  c.set(0, grads[0]);
  // A nearest element does not change with the place.
  if (c.attributes().string("mode") != "nearest") c.set(1, grads[1]);
}

// The gradient op is linear in dy: <g, dx> = <dy, what the op makes of g>. Its gradient for places is not
// differentiated.
void require_places_once(GradientContext& c, std::string_view places) {
  if (c.has_grad(1)) fail(Code::unimplemented, "the gradient for {} is not differentiated again", places);
}

void grid_sample_grad_gradient(GradientContext& c) {
  require_places_once(c, "the grid");
  const Attributes attributes = sample_attributes(c);
  const Output g = c.grad(0);
  if (c.needs(0)) c.set(0, add_op("GridSample", {g, c.input(2)}, attributes));
  if (!c.needs(2) || c.attributes().string("mode") == "nearest") return;
  c.set(2, add_outputs("GridSampleGrad", {c.input(0), g, c.input(2)}, attributes)[1]);
}

void crop_and_resize_shape(ShapeContext& c) {
  choice_of(c.attributes(), "mode", {"nearest", "linear"});
  const Shape x = shapes::with_rank(c.input(0), 4, "x"), boxes = shapes::with_rank(c.input(1), 2, "boxes");
  const Shape images = shapes::with_rank(c.input(2), 1, "box_indices");
  shapes::merge_dim(boxes[1], 4, "the number of coordinates of a box and 4");
  const std::int64_t count = shapes::merge_dim(boxes[0], images[0], "the numbers of boxes and of their images");
  const shapes::KnownEntries size = shapes::known_entries(c, 3, "crop_size", 2);
  c.set_output(0, Shape{count, size[0].value_or(kUnknown), size[1].value_or(kUnknown), x[3]});
}
void crop_and_resize_gradient(GradientContext& c) {
  const Outputs grads = add_outputs("CropAndResizeGrad", {c.grad(), c.input(0), c.input(1), c.input(2)},
                                    {{"mode", c.attributes().string("mode")}});
  c.set(0, grads[0]);
  if (c.attributes().string("mode") == "linear") c.set(1, grads[1]);
}

void crop_and_resize_grad_gradient(GradientContext& c) {
  require_places_once(c, "the boxes");
  const Attributes mode{{"mode", c.attributes().string("mode")}};
  const Output g = c.grad(0);
  if (c.needs(0)) {
    const Output size = slice(shape_of(c.input(0)), {1}, {2});
    c.set(0, add_op("CropAndResize", {g, c.input(2), c.input(3), size}, mode));
  }
  if (c.needs(2) && c.attributes().string("mode") == "linear")
    c.set(2, add_outputs("CropAndResizeGrad", {c.input(0), g, c.input(2), c.input(3)}, mode)[1]);
}

void roi_align_shape(ShapeContext& c) {
  choice_of(c.attributes(), "mode", {"avg", "max"});
  const std::int64_t rows = shapes::bounded(c.attributes(), "output_height", 0, 1 << 20),
                     columns = shapes::bounded(c.attributes(), "output_width", 0, 1 << 20);
  shapes::bounded(c.attributes(), "sampling_ratio", 0, 256);
  const Shape x = shapes::with_rank(c.input(0), 4, "x"), rois = shapes::with_rank(c.input(1), 2, "rois");
  const Shape images = shapes::with_rank(c.input(2), 1, "batch_indices");
  shapes::merge_dim(rois[1], 4, "the number of coordinates of a region and 4");
  const std::int64_t count = shapes::merge_dim(rois[0], images[0], "the numbers of regions and of their images");
  c.set_output(0, Shape{count, x[1], rows, columns});
}
constexpr const char* kRoiAttributes[] = {"sampling_ratio", "spatial_scale", "half_pixel", "output_height",
                                          "output_width"};

void roi_align_gradient(GradientContext& c) {
  if (c.needs(1)) fail(Code::unimplemented, "RoiAlign has no gradient for its regions; use stop_gradient(rois)");
  Attributes attributes;
  for (const char* key : kRoiAttributes) attributes.set(key, c.attributes().all().find(key)->second);
  const char* op = c.attributes().string("mode") == "max" ? "RoiAlignMaxGrad" : "RoiAlignGrad";
  c.set(0, add_op(op, {c.grad(), c.input(0), c.input(1), c.input(2)}, std::move(attributes)));
}
void roi_align_grad_gradient(GradientContext& c) {
  if (c.needs(2)) fail(Code::unimplemented, "RoiAlign has no gradient for its regions; use stop_gradient(rois)");
  Attributes attributes;
  for (const char* key : kRoiAttributes) attributes.set(key, c.attributes().all().find(key)->second);
  if (c.needs(0)) c.set(0, add_op("RoiAlign", {c.grad(), c.input(2), c.input(3)}, std::move(attributes)));
}

void max_roi_pool_gradient(GradientContext& c) {
  Attributes attributes;
  for (const char* key : {"output_height", "output_width", "spatial_scale"})
    attributes.set(key, c.attributes().all().find(key)->second);
  c.set(0, add_op("MaxRoiPoolGrad", {c.grad(), c.input(0), c.input(1)}, std::move(attributes)));
}

void max_roi_pool_shape(ShapeContext& c) {
  const std::int64_t rows = shapes::bounded(c.attributes(), "output_height", 1, 1 << 20),
                     columns = shapes::bounded(c.attributes(), "output_width", 1, 1 << 20);
  const Shape x = shapes::with_rank(c.input(0), 4, "x"), rois = shapes::with_rank(c.input(1), 2, "rois");
  shapes::merge_dim(rois[1], 5, "the number of values of a region and 5");
  c.set_output(0, Shape{rois[0], x[1], rows, columns});
}

void non_max_suppression_shape(ShapeContext& c) {
  const Shape boxes = shapes::with_rank(c.input(0), 3, "boxes"), scores = shapes::with_rank(c.input(1), 3, "scores");
  shapes::merge_dim(boxes[0], scores[0], "the batches of boxes and scores");
  shapes::merge_dim(boxes[1], scores[2], "the numbers of boxes and of scores");
  shapes::merge_dim(boxes[2], 4, "the number of coordinates of a box and 4");
  c.set_output(0, Shape{kUnknown, 3});
}

Op roi_op(Op op, DType images) {
  return op.input("rois", "T")
      .input("batch_indices", images)
      .attr("output_height", std::int64_t{1})
      .attr("output_width", std::int64_t{1})
      .attr("sampling_ratio", std::int64_t{0})
      .attr("spatial_scale", 1.0)
      .attr("half_pixel", true);
}

void register_samples(OpRegistry& ops) {
  ops.add(Op("GridSample")
              .input("x", "T")
              .input("grid", "G")
              .output("y", "T")
              .type("T", kDataTypes)
              .type("G", kFloatTypes)
              .attr("mode", std::string("linear"))
              .attr("padding", std::string("zeros"))
              .attr("align_corners", false)
              .shape(grid_sample_shape)
              .gradient(grid_sample_gradient));
  ops.add(Op("GridSampleGrad")
              .input("dy", "T")
              .input("x", "T")
              .input("grid", "G")
              .output("dx", "T")
              .output("dgrid", "G")
              .type("T", kFloatTypes)
              .type("G", kFloatTypes)
              .attr("mode", std::string("linear"))
              .attr("padding", std::string("zeros"))
              .attr("align_corners", false)
              .shape(sample_grad_shape)
              .gradient(grid_sample_grad_gradient));
  ops.add(Op("CropAndResize")
              .input("x", "T")
              .input("boxes", "B")
              .input("box_indices", DType::i64)
              .input("crop_size", DType::i64)
              .output("y", "T")
              .type("T", kFloatTypes)
              .type("B", kFloatTypes)
              .attr("mode", std::string("linear"))
              .attr("extrapolation_value", 0.0)
              .shape(crop_and_resize_shape)
              .gradient(crop_and_resize_gradient));
  ops.add(Op("CropAndResizeGrad")
              .input("dy", "T")
              .input("x", "T")
              .input("boxes", "B")
              .input("box_indices", DType::i64)
              .output("dx", "T")
              .output("dboxes", "B")
              .type("T", kFloatTypes)
              .type("B", kFloatTypes)
              .attr("mode", std::string("linear"))
              .shape(sample_grad_shape)
              .gradient(crop_and_resize_grad_gradient));
  ops.add(roi_op(Op("RoiAlign").input("x", "T"), DType::i64)
              .output("y", "T")
              .type("T", kFloatTypes)
              .attr("mode", std::string("avg"))
              .shape(roi_align_shape)
              .gradient(roi_align_gradient));
  ops.add(roi_op(Op("RoiAlignGrad").input("dy", "T").input_shape("x", "T"), DType::i64)
              .output("dx", "T")
              .type("T", kFloatTypes)
              .shape(sample_dx_shape)
              .gradient(roi_align_grad_gradient));
  ops.add(roi_op(Op("RoiAlignMaxGrad").input("dy", "T").input("x", "T"), DType::i64)
              .output("dx", "T")
              .type("T", kFloatTypes)
              .shape(sample_dx_shape));
  ops.add(Op("MaxRoiPool")
              .input("x", "T")
              .input("rois", "T")
              .output("y", "T")
              .type("T", kFloatTypes)
              .attr("output_height", std::int64_t{1})
              .attr("output_width", std::int64_t{1})
              .attr("spatial_scale", 1.0)
              .shape(max_roi_pool_shape)
              .gradient(max_roi_pool_gradient));
  ops.add(Op("MaxRoiPoolGrad")
              .input("dy", "T")
              .input("x", "T")
              .input("rois", "T")
              .output("dx", "T")
              .type("T", kFloatTypes)
              .attr("output_height", std::int64_t{1})
              .attr("output_width", std::int64_t{1})
              .attr("spatial_scale", 1.0)
              .shape(sample_dx_shape));
}

}  // namespace

void register_image_ops(OpRegistry& ops) {
  register_resizes(ops);
  register_samples(ops);
  ops.add(Op("NonMaxSuppression")
              .input("boxes", DType::f32)
              .input("scores", DType::f32)
              .input("max_outputs", DType::i64)
              .input("iou_threshold", DType::f32)
              .input("score_threshold", DType::f32)
              .output("selected", DType::i64)
              .attr("center_point_box", false)
              .shape(non_max_suppression_shape)
              .no_gradient());
}

}  // namespace troupe
