// Functions of images: samples, regions, windows, blocks. The package has their public forms, with defaults and
// documentation.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/arguments.hpp"
#include <troupe/graph/builder/conv.hpp>
#include <troupe/graph/builder/image.hpp>
#include <troupe/graph/builder/layout.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/pool.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

using Text = std::string;

ResizeMode sample_mode(const Text& method, const char* function) {
  if (method == "nearest") return ResizeMode::nearest;
  if (method == "bilinear") return ResizeMode::linear;
  if (method == "bicubic") return ResizeMode::cubic;
  invalid_argument("{}: the method is 'nearest', 'bilinear' or 'bicubic', not '{}'", function, method);
}

void bind_regions(nb::module_& m) {
  m.def("grid_sample", [](nb::handle x, nb::handle grid, const Text& method, const Text& padding, bool align_corners) {
    const ResizeMode mode = sample_mode(method, "grid_sample");
    return call_promoted({x, grid}, [&](const Outputs& xs) {
      return grid_sample(xs[0], xs[1], {.mode = mode, .padding = padding, .align_corners = align_corners});
    });
  });
  m.def("crop_and_resize", [](nb::handle images, nb::handle boxes, nb::handle box_indices, const Integers& size,
                              const Text& method, double extrapolation_value) {
    const ResizeMode mode = sample_mode(method, "crop_and_resize");
    return call({images, boxes, box_indices}, [&](const Outputs& xs) {
      return crop_and_resize(xs[0], cast(xs[1], DType::f32), xs[2], size,
                             {.mode = mode, .extrapolation_value = extrapolation_value});
    });
  });
  m.def("roi_align", [](nb::handle x, nb::handle rois, nb::handle batch_indices, const Integers& size,
                        std::int64_t sampling_ratio, double spatial_scale, bool half_pixel, bool max) {
    if (size.size() != 2) invalid_argument("roi_align: the size is (height, width), not {} numbers", size.size());
    return call({x, rois, batch_indices}, [&](const Outputs& xs) {
      return roi_align(xs[0], cast(xs[1], xs[0].dtype()), cast(xs[2], DType::i64),
                       {.output_height = size[0],
                        .output_width = size[1],
                        .sampling_ratio = sampling_ratio,
                        .spatial_scale = spatial_scale,
                        .half_pixel = half_pixel,
                        .max = max});
    });
  });
  m.def("max_roi_pool", [](nb::handle x, nb::handle rois, const Integers& size, double spatial_scale) {
    if (size.size() != 2) invalid_argument("max_roi_pool: the size is (height, width), not {} numbers", size.size());
    return call({x, rois}, [&](const Outputs& xs) {
      return max_roi_pool(xs[0], cast(xs[1], xs[0].dtype()), size[0], size[1], spatial_scale);
    });
  });
  const auto suppression = [&](const char* name, auto fn) {
    m.def(
        name,
        [fn](nb::handle boxes, nb::handle scores, std::int64_t most, double iou, std::optional<double> score,
             bool center_point_box) {
          return call({boxes, scores}, [&](const Outputs& xs) {
            NonMaxSuppressionOptions o;
            o.iou_threshold = iou;
            o.score_threshold = score;
            o.center_point_box = center_point_box;
            return fn(cast(xs[0], DType::f32), cast(xs[1], DType::f32), most, o);
          });
        },
        "boxes"_a, "scores"_a, "max_output_size"_a, "iou_threshold"_a, "score_threshold"_a.none(),
        "center_point_box"_a);
  };
  const auto of_batch = [](Output boxes, Output scores, std::int64_t most, const NonMaxSuppressionOptions& o) {
    return non_max_suppression(boxes, scores, most, o);
  };
  const auto of_one = [](Output boxes, Output scores, std::int64_t most, const NonMaxSuppressionOptions& o) {
    return non_max_suppression_of_one(boxes, scores, most, o);
  };
  suppression("batched_non_max_suppression", of_batch);
  suppression("non_max_suppression", of_one);
}

PoolOptions pool_options(const Integers& ksize, const Integers& strides, const Text& padding, const Integers& pads,
                         const Text& data_format) {
  PoolOptions o;
  o.ksize = ksize;
  o.strides = strides;
  o.padding = pads.empty() ? parse_padding(padding) : Padding::explicit_pads;
  o.pads = pads;
  o.format = parse_data_format(data_format);
  return o;
}

void bind_pools(nb::module_& m) {
  m.def("max_pool_with_indices", [](nb::handle x, const Integers& ksize, const Integers& strides, const Text& padding,
                                    const Integers& pads, const Text& data_format) {
    const PoolOptions o = pool_options(ksize, strides, padding, pads, data_format);
    return call({x}, [&](const Outputs& xs) {
      const MaxPoolOutputs out = max_pool_with_indices(xs[0], o);
      return Outputs{out.y, out.indices};
    });
  });
  m.def("lp_pool", [](nb::handle x, double p, const Integers& ksize, const Integers& strides, const Text& padding,
                      const Integers& pads, const Text& data_format) {
    const PoolOptions o = pool_options(ksize, strides, padding, pads, data_format);
    return call({x}, [&](const Outputs& xs) { return lp_pool(xs[0], p, o); });
  });
  m.def("max_unpool", [](nb::handle x, nb::handle indices, nb::handle shape) {
    return call({x, indices, shape},
                [](const Outputs& xs) { return max_unpool(xs[0], cast(xs[1], DType::i64), cast(xs[2], DType::i64)); });
  });
  const auto global = [&](const char* name, Output (*fn)(Output, DataFormat)) {
    m.def(name, [fn](nb::handle x, const Text& data_format) {
      return call({x}, [&](const Outputs& xs) { return fn(xs[0], parse_data_format(data_format)); });
    });
  };
  global("global_avg_pool", global_avg_pool);
  global("global_max_pool", global_max_pool);
  m.def("global_lp_pool", [](nb::handle x, double p, const Text& data_format) {
    return call({x}, [&](const Outputs& xs) { return global_lp_pool(xs[0], p, parse_data_format(data_format)); });
  });
}

void bind_blocks(nb::module_& m) {
  m.def("im2col", [](nb::handle x, const Integers& block, const Integers& strides, const Integers& dilations,
                     const Integers& pads) {
    return call({x}, [&](const Outputs& xs) {
      return im2col(xs[0], block, {.strides = strides, .dilations = dilations, .pads = pads});
    });
  });
  m.def("col2im", [](nb::handle columns, const Integers& image, const Integers& block, const Integers& strides,
                     const Integers& dilations, const Integers& pads) {
    return call({columns}, [&](const Outputs& xs) {
      return col2im(xs[0], image, block, {.strides = strides, .dilations = dilations, .pads = pads});
    });
  });
  const auto depth = [&](const char* name, Output (*fn)(Output, std::int64_t, DepthOptions)) {
    m.def(name, [fn](nb::handle x, std::int64_t block, const Text& data_format) {
      const bool last = parse_data_format(data_format) == DataFormat::channels_last;
      return call({x}, [&](const Outputs& xs) { return fn(xs[0], block, {.channels_last = last}); });
    });
  };
  depth("depth_to_space", depth_to_space);
  depth("space_to_depth", space_to_depth);
  const auto batch = [&](const char* name, Output (*fn)(Output, IntegersArg, IntegersArg, Name)) {
    m.def(name, [fn](nb::handle x, const Integers& block, const Integers& pads) {
      return call({x}, [&](const Outputs& xs) { return fn(xs[0], block, pads, {}); });
    });
  };
  batch("space_to_batch", space_to_batch);
  batch("batch_to_space", batch_to_space);
}

}  // namespace

void bind_image_functions(nb::module_& m) {
  bind_regions(m);
  bind_pools(m);
  bind_blocks(m);
}

}  // namespace troupe::python
