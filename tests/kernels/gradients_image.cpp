// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {

std::vector<GradientCase> image_gradients() {
  std::vector<GradientCase> out;
  const auto add = [&](std::string name, std::vector<Shape> shapes, std::function<Output(const Outputs&)> f) {
    out.push_back({.name = std::move(name), .shapes = std::move(shapes), .build = of([f](const Outputs& x) {
                                                                           return square(f(x));
                                                                         })});
  };
  const auto once = [&](std::string name, std::vector<Shape> shapes, double low, double high,
                        std::function<Output(const Outputs&)> f) {
    add(std::move(name), std::move(shapes), std::move(f));
    out.back().low = low;
    out.back().high = high;
    out.back().twice = false;
  };
  // Of places that are constants.
  const auto twice = [&](std::string name, std::vector<Shape> shapes, std::function<Output(const Outputs&)> f) {
    add(std::move(name), std::move(shapes), std::move(f));
  };
  const Tensor places = Tensor::of<double>(Shape{1, 1, 2, 2}, {0.1, -0.4, 0.7, 0.9});
  const auto list = [](Output x, std::initializer_list<std::int64_t> numbers) {
    return constant<std::int64_t>(*x.graph, numbers);
  };
  add("ResizeLinear", {{1, 3, 2, 2}}, [](auto& x) { return resize(x[0], {5, 3}); });
  add("ResizeCubic", {{1, 2, 3, 4}}, [](auto& x) {
    return resize(x[0], {5, 3}, {.mode = ResizeMode::cubic, .axes = {2, 3}, .exclude_outside = true});
  });
  add("ResizeNearest", {{3, 4}}, [](auto& x) {
    return resize_by(x[0], {1.7, 0.6}, {.mode = ResizeMode::nearest, .axes = {}});
  });
  add("ResizeSmoothly", {{1, 5, 4, 1}}, [](auto& x) { return resize(x[0], {2, 3}, {.antialias = true}); });
  add("ResizeRegion", {{4, 3}}, [](auto& x) {
    const Output roi = constant<float>(*x[0].graph, {-0.1f, 0.2f, 0.8f, 0.9f});
    return resize(
        x[0], {5, 3},
        {.axes = {}, .coordinates = ResizeCoordinates::tf_crop_and_resize, .extrapolation_value = 3, .roi = roi});
  });
  add("ResizeGrad", {{5}, {3}}, [](auto& x) {
    Graph& graph = *x[0].graph;
    const Output none = constant(graph, Tensor(DType::f32, Shape{0}));
    return add_op("ResizeGrad", {x[0], x[1], none, none, constant<std::int64_t>(graph, {5})},
                  {{"mode", std::string("linear")}});
  });
  for (const char* padding : {"zeros", "border", "reflection"})
    for (const bool corners : {false, true})
      once(std::string("GridSample_") + padding + (corners ? "_corners" : ""), {{1, 2, 3, 4}, {1, 2, 3, 2}}, -1.4, 1.4,
           [=](auto& x) { return grid_sample(x[0], x[1], {.padding = padding, .align_corners = corners}); });
  for (const char* padding : {"zeros", "reflection"})
    once(std::string("GridSampleCubic_") + padding, {{1, 2, 3, 4}, {1, 2, 3, 2}}, -1.4, 1.4,
         [=](auto& x) { return grid_sample(x[0], x[1], {.mode = ResizeMode::cubic, .padding = padding}); });
  for (const auto& [name, mode] :
       {std::pair{"", ResizeMode::linear}, {"Nearest", ResizeMode::nearest}, {"Cubic", ResizeMode::cubic}})
    twice(std::string("GridSampleOfPlaces") + name, {{1, 2, 3, 4}}, [=, mode = mode](auto& x) {
      return grid_sample(x[0], constant(*x[0].graph, places), {.mode = mode, .padding = "reflection"});
    });
  // The gradient for x depends on the places, too.
  once("GridSampleGradOfPlaces", {{1, 2, 2, 2}, {1, 2, 2, 2}}, -0.9, 0.9, [](auto& x) {
    const Outputs found = add_outputs("GridSampleGrad", {x[0], zeros_like(x[0]), x[1]});
    return found[0];
  });
  twice("CropAndResizeOfBoxes", {{2, 4, 3, 2}}, [=](auto& x) {
    const Output boxes = constant(*x[0].graph, Tensor::of<double>(Shape{2, 4}, {0.1, 0.2, 0.7, 0.9, 0.3, 0, 0.9, 0.8}));
    return crop_and_resize(x[0], boxes, list(x[0], {1, 0}), {2, 3});
  });
  once("CropAndResizeGradOfBoxes", {{1, 2, 2, 2}, {1, 4}}, 0.05, 0.95, [=](auto& x) {
    const Output image = constant(*x[0].graph, Tensor::zeros(DType::f64, Shape{1, 4, 3, 2}));
    return add_outputs("CropAndResizeGrad", {x[0], image, x[1], list(x[0], {0})})[0];
  });
  once("CropAndResize", {{2, 4, 3, 2}, {3, 4}}, 0.05, 0.95, [=](auto& x) {
    return crop_and_resize(x[0], x[1], list(x[0], {1, 0, 1}), {2, 3});
  });
  once("CropAndResizeToOne", {{1, 4, 3, 1}, {2, 4}}, 0.05, 0.95, [=](auto& x) {
    return crop_and_resize(x[0], x[1], list(x[0], {0, 0}), {1, 1});
  });
  const Tensor regions = Tensor::of<double>(Shape{2, 4}, {0.4, 0.2, 2.9, 3.7, -1.0, 0.5, 5.0, 3.5});
  twice("RoiAlign", {{2, 2, 4, 5}}, [=](auto& x) {
    const Output rois = constant(*x[0].graph, regions);
    return roi_align(x[0], rois, list(x[0], {1, 0}), {.output_height = 2, .output_width = 3});
  });
  once("RoiAlignMax", {{2, 2, 4, 5}}, -1, 1, [=](auto& x) {
    const Output rois = constant(*x[0].graph, regions);
    return roi_align(x[0], rois, list(x[0], {1, 0}), {.output_height = 2, .output_width = 3, .max = true});
  });
  once("MaxRoiPool", {{2, 2, 4, 5}}, -1, 1, [](auto& x) {
    const Tensor rois = Tensor::of<double>(Shape{3, 5}, {1, 0, 1, 3, 2, 0, 0, 0, 4, 3, 0, 2, 2, 3, 3});
    return max_roi_pool(x[0], constant(*x[0].graph, rois), 2, 2);
  });
  return out;
}

}  // namespace troupe::testing
