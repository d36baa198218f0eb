// RoiAlign and MaxRoiPool: regions of images, reduced to grids of one size.
#include <algorithm>
#include <cmath>
#include <vector>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/image_samples.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

struct RoiSettings {
  std::int64_t rows, columns, ratio;
  double scale;
  bool half_pixel;
  bool max;
};
RoiSettings roi_settings(const Attributes& a) {
  return {a.integer("output_height"), a.integer("output_width"), a.integer("sampling_ratio"),
          a.real("spatial_scale"),    a.boolean("half_pixel"),   a.has("mode") && a.string("mode") == "max"};
}

// Adds four weighted elements around a sample, divided by `count`. `keep`: those of weight 0, too.
void add_roi_sample(double y, double x, std::int64_t height, std::int64_t width, double count, bool keep, Samples& to) {
  if (y < -1 || y > static_cast<double>(height) || x < -1 || x > static_cast<double>(width)) {
    if (keep) to.add(0, 0);
    return;
  }
  const auto split = [](double at, std::int64_t size, std::int64_t& low, std::int64_t& high, double& part) {
    at = std::max(at, 0.0);
    low = std::min(static_cast<std::int64_t>(at), size - 1);
    high = std::min(low + 1, size - 1);
    part = low == size - 1 ? 0 : at - static_cast<double>(low);
  };
  std::int64_t top, bottom, left, right;
  double v, h;
  split(y, height, top, bottom, v);
  split(x, width, left, right, h);
  to.add(top * width + left, (1 - v) * (1 - h) / count);
  to.add(top * width + right, (1 - v) * h / count);
  to.add(bottom * width + left, v * (1 - h) / count);
  to.add(bottom * width + right, v * h / count);
}

template <class Run>
void with_regions(Device& device, const Shape& x, const Tensor& rois, const Tensor& batch_indices, const RoiSettings& s,
                  Run run) {
  check_rank("RoiAlign: x", x, 4);
  check_rank("RoiAlign: rois", rois.shape(), 2);
  if (rois.shape()[1] != 4) invalid_argument("RoiAlign: rois must be [r,4], but are {}", rois.shape().to_string());
  const std::int64_t count = rois.shape()[0], height = x[2], width = x[3];
  const Dims images = checked_dims(batch_indices);
  check_images("RoiAlign", images, count, x[0]);
  const Shape y{count, x[1], s.rows, s.columns};
  if (height * width == 0 && y.num_elements() > 0) invalid_argument("RoiAlign: x is {}", x.to_string());
  const Tensor wide = as_dtype(device, rois, DType::f64);
  const double* all = wide.data<double>();
  const double offset = s.half_pixel ? 0.5 : 0;
  const auto add = [&](std::int64_t group, std::int64_t place, Samples& to) {
    const double* roi = all + 4 * group;
    const double left = roi[0] * s.scale - offset, top = roi[1] * s.scale - offset;
    double across = roi[2] * s.scale - offset - left, down = roi[3] * s.scale - offset - top;
    if (!s.half_pixel) across = std::max(across, 1.0), down = std::max(down, 1.0);
    const double bin_height = down / static_cast<double>(s.rows), bin_width = across / static_cast<double>(s.columns);
    const double sample_rows = s.ratio > 0 ? static_cast<double>(s.ratio) : std::ceil(bin_height),
                 sample_columns = s.ratio > 0 ? static_cast<double>(s.ratio) : std::ceil(bin_width);
    constexpr double kMostSamples = 1 << 20;
    if (!(std::max(sample_rows, 1.0) * std::max(sample_columns, 1.0) <= kMostSamples) || !std::isfinite(left + top))
      invalid_argument("RoiAlign: region {}, ({}, {}) to ({}, {}), is too large", group, roi[0], roi[1], roi[2],
                       roi[3]);
    const double samples = std::max(sample_rows * sample_columns, 1.0);
    for (double r = 0; r < sample_rows; ++r)
      for (double c = 0; c < sample_columns; ++c)
        add_roi_sample(
            top + static_cast<double>(place / s.columns) * bin_height + (r + 0.5) * bin_height / sample_rows,
            left + static_cast<double>(place % s.columns) * bin_width + (c + 0.5) * bin_width / sample_columns, height,
            width, s.max ? 1 : samples, s.max, to);
    to.finish();
  };
  const auto image = [&](std::int64_t group) { return images[static_cast<std::size_t>(group)]; };
  run(Sampling{.channels = x[1],
               .elements = height * width,
               .groups = count,
               .places = s.rows * s.columns,
               .channels_last = false,
               .image = image,
               .add = add,
               .max = s.max},
      y);
}

void run_roi_align(KernelContext& c, const RoiSettings& settings) {
  with_regions(c.device(), c.input(0).shape(), c.input(1), c.input(2), settings,
               [&](const Sampling& s, const Shape& y) { c.set_output(0, sampled(c.device(), s, c.input(0), y)); });
}
void run_roi_align_grad(KernelContext& c, const RoiSettings& settings) {
  const Tensor& x = c.input(1);
  with_regions(c.device(), x.shape(), c.input(2), c.input(3), settings, [&](const Sampling& s, const Shape& y) {
    check_tensor("RoiAlignGrad: dy", c.input(0), c.input(0).dtype(), y);
    c.set_output(0, sample_gradient(c.device(), s, c.input(0), x));
  });
}
void run_roi_align_max_grad(KernelContext& c, const RoiSettings& settings) {
  RoiSettings of_max = settings;
  of_max.max = true;
  run_roi_align_grad(c, of_max);
}

// MaxRoiPool.

// The elements of bin i of a region's dimension: [begin, end).
struct RoiBin {
  std::int64_t begin, end;
};
RoiBin roi_bin(double low, double high, double scale, std::int64_t i, std::int64_t bins, std::int64_t size) {
  const double first = std::round(low * scale), last = std::round(high * scale);
  const double width = std::max(last - first + 1, 1.0) / static_cast<double>(bins);
  const auto clamped = [&](double at) {
    return at > 0 ? static_cast<std::int64_t>(std::min(at, static_cast<double>(size))) : 0;
  };
  return {clamped(first + std::floor(static_cast<double>(i) * width)),
          clamped(first + std::ceil(static_cast<double>(i + 1) * width))};
}

struct MaxRoiSettings {
  std::int64_t rows, columns;
  double scale;
};
MaxRoiSettings max_roi_settings(const Attributes& a) {
  return {a.integer("output_height"), a.integer("output_width"), a.real("spatial_scale")};
}

// Regions [r,5] of images [n,c,h,w].
struct MaxRegions {
  MaxRoiSettings s;
  Shape x, y;
  Tensor rois;  // f64

  // Calls fn(i, number of the element of channel `channel` of x, or -1) for each bin i of y's region and channel.
  template <class T, class Fn>
  void for_each_bin(const T* data, std::int64_t region, std::int64_t channel, Fn fn) const {
    const double* roi = rois.data<double>() + region * 5;
    const std::int64_t height = x[2], width = x[3], bins = s.rows * s.columns;
    const std::int64_t first = (static_cast<std::int64_t>(roi[0]) * x[1] + channel) * height * width;
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      const RoiBin v = roi_bin(roi[2], roi[4], s.scale, bin / s.columns, s.rows, height),
                   h = roi_bin(roi[1], roi[3], s.scale, bin % s.columns, s.columns, width);
      std::int64_t best = -1;  // of an empty bin
      for (std::int64_t r = v.begin; r < v.end; ++r)
        for (std::int64_t c = h.begin; c < h.end; ++c) {
          const std::int64_t at = first + r * width + c;
          if (best < 0 || data[at] > data[best] || data[at] != data[at]) best = at;
        }
      fn((region * x[1] + channel) * bins + bin, best);
    }
  }
};

MaxRegions max_regions(Device& device, const Shape& x, const Tensor& rois, const MaxRoiSettings& s) {
  check_rank("MaxRoiPool: x", x, 4);
  check_rank("MaxRoiPool: rois", rois.shape(), 2);
  if (rois.shape()[1] != 5) invalid_argument("MaxRoiPool: rois must be [r,5], but are {}", rois.shape().to_string());
  MaxRegions out{
      .s = s, .x = x, .y = Shape{rois.shape()[0], x[1], s.rows, s.columns}, .rois = as_dtype(device, rois, DType::f64)};
  for (std::int64_t r = 0; r < rois.shape()[0]; ++r)
    if (const double image = out.rois.data<double>()[5 * r]; !(image >= 0 && image < static_cast<double>(x[0])))
      invalid_argument("MaxRoiPool: image {} is not one of {}", image, x[0]);
  return out;
}

void run_max_roi_pool(KernelContext& c, const MaxRoiSettings& settings) {
  Device& device = c.device();
  const Tensor& x = c.input(0);
  const MaxRegions regions = max_regions(device, x.shape(), c.input(1), settings);
  const Tensor from = as_dtype(device, x, sample_dtype(x.dtype()));
  Tensor y = device.allocator().tensor(from.dtype(), regions.y);
  if (y.num_elements() > 0)
    dispatch(WideFloatTypes{}, y.dtype(), [&]<class T>() {
      const T* data = from.data<T>();
      T* to = y.mutable_data<T>();
      const std::int64_t channels = x.shape()[1];
      device.parallelism().parallel_for(regions.y[0] * channels, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          regions.for_each_bin(data, i / channels, i % channels,
                               [&](std::int64_t bin, std::int64_t best) { to[bin] = best < 0 ? T{} : data[best]; });
      });
    });
  c.set_output(0, as_dtype(device, y, x.dtype()));
}

// Channels are independent; regions of an image are not.
void run_max_roi_pool_grad(KernelContext& c, const MaxRoiSettings& settings) {
  Device& device = c.device();
  const Tensor &dy = c.input(0), &x = c.input(1);
  const MaxRegions regions = max_regions(device, x.shape(), c.input(2), settings);
  check_tensor("MaxRoiPoolGrad: dy", dy, x.dtype(), regions.y);
  const DType dtype = sample_dtype(x.dtype());
  const Tensor from = as_dtype(device, x, dtype), gradients = as_dtype(device, dy, dtype);
  Tensor dx = make_zeros(device, dtype, x.shape());
  if (dy.num_elements() > 0 && dx.num_elements() > 0)
    dispatch(WideFloatTypes{}, dtype, [&]<class T>() {
      const T *data = from.data<T>(), *flow = gradients.data<T>();
      T* to = dx.mutable_data<T>();
      device.parallelism().parallel_for(x.shape()[1], 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t channel = begin; channel < end; ++channel)
          for (std::int64_t region = 0; region < regions.y[0]; ++region)
            regions.for_each_bin(data, region, channel, [&](std::int64_t bin, std::int64_t best) {
              if (best >= 0) to[best] += flow[bin];
            });
      });
    });
  c.set_output(0, as_dtype(device, dx, x.dtype()));
}

}  // namespace

void register_region_kernels(KernelRegistry& registry) {
  add_sampler(registry, "RoiAlign", roi_settings, run_roi_align);
  add_sampler(registry, "RoiAlignGrad", roi_settings, run_roi_align_grad);
  add_sampler(registry, "RoiAlignMaxGrad", roi_settings, run_roi_align_max_grad);
  add_sampler(registry, "MaxRoiPool", max_roi_settings, run_max_roi_pool);
  add_sampler(registry, "MaxRoiPoolGrad", max_roi_settings, run_max_roi_pool_grad);
}

}  // namespace troupe
