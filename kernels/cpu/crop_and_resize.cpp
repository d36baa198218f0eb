// CropAndResize: boxes of images, resized.
#include <algorithm>
#include <cmath>
#include <vector>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/image_samples.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// Element i of `count` between `begin` and `end` of a dimension, given as parts of it.
struct CropLine {
  double begin, end;
  std::int64_t count, size;

  double part(std::int64_t i) const {
    return count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0.5;
  }
  double at(std::int64_t i) const {
    const auto last = static_cast<double>(size - 1);
    return count > 1 ? begin * last + static_cast<double>(i) * ((end - begin) * last / static_cast<double>(count - 1))
                     : 0.5 * (begin + end) * last;
  }
};

template <class Run>
void with_crops(Device& device, const Shape& x, const Tensor& boxes, const Tensor& box_indices, std::int64_t rows,
                std::int64_t columns, bool nearest, double extrapolation, Run run) {
  check_rank("CropAndResize: x", x, 4);
  check_rank("CropAndResize: boxes", boxes.shape(), 2);
  if (boxes.shape()[1] != 4)
    invalid_argument("CropAndResize: boxes must be [b,4], but are {}", boxes.shape().to_string());
  if (rows < 0 || columns < 0) invalid_argument("CropAndResize: the size {} x {} is negative", rows, columns);
  const std::int64_t count = boxes.shape()[0], height = x[1], width = x[2];
  const Dims images = checked_dims(box_indices);
  check_images("CropAndResize", images, count, x[0]);
  const Shape y{count, rows, columns, x[3]};
  if (height * width == 0 && y.num_elements() > 0) invalid_argument("CropAndResize: x is {}", x.to_string());
  const Tensor wide = as_dtype(device, boxes, DType::f64);
  const double* all = wide.data<double>();
  const auto add = [&](std::int64_t group, std::int64_t place, Samples& to) {
    const double* box = all + 4 * group;
    const double down = CropLine{box[0], box[2], rows, height}.at(place / columns),
                 right = CropLine{box[1], box[3], columns, width}.at(place % columns);
    if (!(down >= 0 && down <= static_cast<double>(height - 1) && right >= 0 &&
          right <= static_cast<double>(width - 1)))
      return to.finish(true);
    if (nearest) {
      to.add(static_cast<std::int64_t>(std::round(down)) * width + static_cast<std::int64_t>(std::round(right)), 1);
      return to.finish();
    }
    const auto top = static_cast<std::int64_t>(down), left = static_cast<std::int64_t>(right);
    const std::int64_t bottom = std::min(top + 1, height - 1), end = std::min(left + 1, width - 1);
    const double v = down - static_cast<double>(top), h = right - static_cast<double>(left);
    to.add(top * width + left, (1 - v) * (1 - h), h - 1, v - 1);
    to.add(top * width + end, (1 - v) * h, -h, 1 - v);
    to.add(bottom * width + left, v * (1 - h), 1 - h, -v);
    to.add(bottom * width + end, v * h, h, v);
    to.finish();
  };
  const auto image = [&](std::int64_t group) { return images[static_cast<std::size_t>(group)]; };
  run(Sampling{.channels = x[3],
               .elements = height * width,
               .groups = count,
               .places = rows * columns,
               .channels_last = true,
               .image = image,
               .add = add,
               .extrapolation = extrapolation},
      y);
}

void run_crop_and_resize(KernelContext& c, bool nearest, double extrapolation) {
  const Dims size = checked_sizes(c.input(3), 2);
  with_crops(c.device(), c.input(0).shape(), c.input(1), c.input(2), size[0], size[1], nearest, extrapolation,
             [&](const Sampling& s, const Shape& y) { c.set_output(0, sampled(c.device(), s, c.input(0), y)); });
}
void run_crop_and_resize_grad(KernelContext& c, bool nearest) {
  const Tensor &dy = c.input(0), &x = c.input(1), &boxes = c.input(2);
  check_rank("CropAndResizeGrad: dy", dy.shape(), 4);
  const std::int64_t rows = dy.shape()[1], columns = dy.shape()[2];
  with_crops(c.device(), x.shape(), boxes, c.input(3), rows, columns, nearest, 0,
             [&](const Sampling& s, const Shape& y) {
               check_tensor("CropAndResizeGrad: dy", dy, x.dtype(), y);
               Tensor dx = sample_gradient(c.device(), s, dy, x);
               const std::vector<double> places = place_gradient(c.device(), s, x, dy);
               Tensor dboxes = Tensor::zeros(DType::f64, boxes.shape());
               const CropLine down{0, 1, rows, x.shape()[1]}, right{0, 1, columns, x.shape()[2]};
               const auto height = static_cast<double>(down.size - 1), width = static_cast<double>(right.size - 1);
               for (std::int64_t p = 0; p < s.groups * s.places; ++p) {
                 double* box = dboxes.mutable_data<double>() + p / s.places * 4;
                 const double v = down.part(p % s.places / columns), h = right.part(p % columns);
                 const double* d = places.data() + 2 * p;
                 box[0] += d[0] * height * (1 - v);
                 box[1] += d[1] * width * (1 - h);
                 box[2] += d[0] * height * v;
                 box[3] += d[1] * width * h;
               }
               c.set_output(0, std::move(dx));
               c.set_output(1, as_dtype(c.device(), dboxes, boxes.dtype()));
             });
}

}  // namespace

void register_crop_kernels(KernelRegistry& registry) {
  add_untyped(registry, "CropAndResize", [](const KernelInit& init) -> Kernel {
    return [nearest = init.attributes.string("mode") == "nearest", value = init.attributes.real("extrapolation_value")](
               KernelContext& c) { run_crop_and_resize(c, nearest, value); };
  });
  add_untyped(registry, "CropAndResizeGrad", [](const KernelInit& init) -> Kernel {
    return [nearest = init.attributes.string("mode") == "nearest"](KernelContext& c) {
      run_crop_and_resize_grad(c, nearest);
    };
  });
}

}  // namespace troupe
