// Ops that sample images at computed places: GridSample, CropAndResize, RoiAlign, MaxRoiPool. A place becomes a few
// elements of the image with weights; the sums over them, and the gradients, are the same for all these ops.
#include <algorithm>
#include <cmath>
#include <vector>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/cast.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kSampleBlock = 64;       // places whose weights are computed together
constexpr std::int64_t kSampleGrain = 1 << 15;  // products

// Weighted elements of some places of a group.
struct Samples {
  std::vector<std::int64_t> starts;  // of each place, in the lists below
  std::vector<std::int64_t> elements;
  std::vector<double> weights, down, right;  // `down`, `right`: derivatives for the place's coordinates
  std::vector<char> outside;                 // places that have the extrapolation value

  void clear() {
    starts.assign(1, 0);
    for (auto* list : {&weights, &down, &right}) list->clear();
    elements.clear();
    outside.clear();
  }
  void add(std::int64_t element, double weight, double d = 0, double r = 0) {
    elements.push_back(element);
    weights.push_back(weight);
    down.push_back(d);
    right.push_back(r);
  }
  void finish(bool is_outside = false) {
    starts.push_back(std::ssize(elements));
    outside.push_back(is_outside);
  }
};

// What is sampled: `places` places of each of `groups`, all channels.
struct Sampling {
  std::int64_t channels, elements;  // of an image
  std::int64_t groups, places;
  bool channels_last;
  FunctionRef<std::int64_t(std::int64_t group)> image;
  FunctionRef<void(std::int64_t group, std::int64_t place, Samples& to)> add;
  bool max = false;  // the greatest product instead of their sum
  double extrapolation = 0;

  std::int64_t channel_stride() const { return channels_last ? 1 : elements; }
  std::int64_t element_stride() const { return channels_last ? channels : 1; }
};

// Calls fn(group, first place, Samples) for blocks of the places [begin, end) of all groups.
template <class Fn>
void for_each_block(const Sampling& s, std::int64_t begin, std::int64_t end, Fn fn) {
  Samples samples;
  while (begin < end) {
    const std::int64_t group = begin / s.places, first = begin % s.places;
    const std::int64_t count = std::min({kSampleBlock, end - begin, s.places - first});
    samples.clear();
    for (std::int64_t p = first; p < first + count; ++p) s.add(group, p, samples);
    fn(group, first, samples);
    begin += count;
  }
}

struct Terms {
  std::int64_t begin, end;
};
Terms terms_of(const Samples& samples, std::int64_t place) {
  return {samples.starts[static_cast<std::size_t>(place)], samples.starts[static_cast<std::size_t>(place) + 1]};
}

template <class T>
T product(const Samples& samples, std::int64_t term, const T* x, std::int64_t stride) {
  const auto t = static_cast<std::size_t>(term);
  return static_cast<T>(samples.weights[t]) * x[samples.elements[t] * stride];
}

// The first of the greatest products, or the last that is NaN; terms.end if there is none.
template <class T>
std::int64_t greatest(const Samples& samples, Terms terms, const T* x, std::int64_t stride) {
  std::int64_t best = terms.end;
  T most{};
  for (std::int64_t t = terms.begin; t < terms.end; ++t) {
    const T value = product(samples, t, x, stride);
    if (t == terms.begin || value > most || value != value) most = value, best = t;
  }
  return best;
}

template <class T>
T combined(const Samples& samples, std::int64_t place, const T* x, std::int64_t stride, bool max) {
  const Terms terms = terms_of(samples, place);
  if (max) {
    const std::int64_t best = greatest(samples, terms, x, stride);
    return best == terms.end ? T{} : product(samples, best, x, stride);
  }
  T out{};
  const std::int64_t* elements = samples.elements.data();
  const double* weights = samples.weights.data();
  for (std::int64_t t = terms.begin; t < terms.end; ++t) out += static_cast<T>(weights[t]) * x[elements[t] * stride];
  return out;
}

template <class T>
void sample(Parallelism& parallelism, const Sampling& s, const T* x, T* y) {
  const std::int64_t total = s.groups * s.places, stride = s.element_stride();
  parallelism.parallel_for(
      total, std::max<std::int64_t>(kSampleGrain / (4 * s.channels), 1), [&](std::int64_t begin, std::int64_t end) {
        for_each_block(s, begin, end, [&](std::int64_t group, std::int64_t first, const Samples& samples) {
          const T* image = x + s.image(group) * s.elements * s.channels;
          const std::int64_t count = std::ssize(samples.outside);
          T* to = y + group * s.places * s.channels;
          const auto set = [&](std::int64_t p, std::int64_t c, T& out) {
            out = samples.outside[static_cast<std::size_t>(p)] != 0
                      ? static_cast<T>(s.extrapolation)
                      : combined(samples, p, image + c * s.channel_stride(), stride, s.max);
          };
          if (s.channels_last) {
            for (std::int64_t p = 0; p < count; ++p)
              for (std::int64_t c = 0; c < s.channels; ++c) set(p, c, to[(first + p) * s.channels + c]);
          } else {
            for (std::int64_t c = 0; c < s.channels; ++c)
              for (std::int64_t p = 0; p < count; ++p) set(p, c, to[c * s.places + first + p]);
          }
        });
      });
}

// Adds the gradient for x to dx. Channels are independent, so parts of them may run at once. x is read for maxima only.
template <class T>
void add_sample_gradient(Parallelism& parallelism, const Sampling& s, const T* dy, const T* x, T* dx) {
  constexpr std::int64_t kParts = 8;  // each computes all weights
  const std::int64_t stride = s.element_stride();
  parallelism.parallel_for(
      s.channels, (s.channels + kParts - 1) / kParts, [&](std::int64_t first_channel, std::int64_t last_channel) {
        for_each_block(s, 0, s.groups * s.places, [&](std::int64_t group, std::int64_t first, const Samples& samples) {
          const std::int64_t image = s.image(group) * s.elements * s.channels;
          const T* from = dy + group * s.places * s.channels;
          const auto add = [&](std::int64_t p, std::int64_t c, T d) {
            T* to = dx + image + c * s.channel_stride();
            Terms terms = terms_of(samples, p);
            if (s.max) {
              const std::int64_t best = greatest(samples, terms, x + image + c * s.channel_stride(), stride);
              terms = {best, std::min(best + 1, terms.end)};
            }
            for (std::int64_t t = terms.begin; t < terms.end; ++t)
              to[samples.elements[static_cast<std::size_t>(t)] * stride] +=
                  static_cast<T>(samples.weights[static_cast<std::size_t>(t)]) * d;
          };
          const std::int64_t count = std::ssize(samples.outside);
          if (s.channels_last) {
            for (std::int64_t p = 0; p < count; ++p)
              for (std::int64_t c = first_channel; c < last_channel; ++c) add(p, c, from[(first + p) * s.channels + c]);
          } else {
            for (std::int64_t c = first_channel; c < last_channel; ++c)
              for (std::int64_t p = 0; p < count; ++p) add(p, c, from[c * s.places + first + p]);
          }
        });
      });
}

// The gradients for the coordinates of all places: (down, right) of each.
template <class T>
std::vector<double> place_gradients(Parallelism& parallelism, const Sampling& s, const T* x, const T* dy) {
  std::vector<double> out(static_cast<std::size_t>(2 * s.groups * s.places));
  parallelism.parallel_for(
      s.groups * s.places, std::max<std::int64_t>(kSampleGrain / (8 * s.channels), 1),
      [&](std::int64_t begin, std::int64_t end) {
        for_each_block(s, begin, end, [&](std::int64_t group, std::int64_t first, const Samples& samples) {
          const T* image = x + s.image(group) * s.elements * s.channels;
          const T* from = dy + group * s.places * s.channels;
          for (std::int64_t p = 0; p < std::ssize(samples.outside); ++p) {
            double down = 0, right = 0;
            for (std::int64_t c = 0; c < s.channels; ++c) {
              const auto d = static_cast<double>(s.channels_last ? from[(first + p) * s.channels + c]
                                                                 : from[c * s.places + first + p]);
              for (auto t = static_cast<std::size_t>(samples.starts[static_cast<std::size_t>(p)]);
                   t < static_cast<std::size_t>(samples.starts[static_cast<std::size_t>(p) + 1]); ++t) {
                const auto value =
                    static_cast<double>(image[c * s.channel_stride() + samples.elements[t] * s.element_stride()]);
                down += d * samples.down[t] * value;
                right += d * samples.right[t] * value;
              }
            }
            double* to = out.data() + 2 * (group * s.places + first + p);
            to[0] = down;
            to[1] = right;
          }
        });
      });
  return out;
}

// Kernels compute in f32 and f64.
DType sample_dtype(DType dtype) {
  return dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64 || dtype == DType::u32 || dtype == DType::u64
             ? DType::f64
             : DType::f32;
}
Tensor as_dtype(Device& device, const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : cast(device, x, dtype);
}

Tensor sampled(Device& device, const Sampling& s, const Tensor& x, const Shape& shape) {
  const Tensor from = as_dtype(device, x, sample_dtype(x.dtype()));
  Tensor y = device.allocator().tensor(from.dtype(), shape);
  if (y.num_elements() == 0) return as_dtype(device, y, x.dtype());
  dispatch(WideFloatTypes{}, y.dtype(),
           [&]<class T>() { sample(device.parallelism(), s, from.data<T>(), y.mutable_data<T>()); });
  return as_dtype(device, y, x.dtype());
}
// x: read for maxima only.
Tensor sample_gradient(Device& device, const Sampling& s, const Tensor& dy, const Tensor& x) {
  const DType dtype = sample_dtype(dy.dtype());
  const Tensor from = as_dtype(device, dy, dtype), images = s.max ? as_dtype(device, x, dtype) : Tensor();
  Tensor dx = make_zeros(device, dtype, x.shape());
  if (dx.num_elements() > 0 && dy.num_elements() > 0)
    dispatch(WideFloatTypes{}, dx.dtype(), [&]<class T>() {
      add_sample_gradient(device.parallelism(), s, from.data<T>(), s.max ? images.data<T>() : nullptr,
                          dx.mutable_data<T>());
    });
  return as_dtype(device, dx, dy.dtype());
}
std::vector<double> place_gradient(Device& device, const Sampling& s, const Tensor& x, const Tensor& dy) {
  if (dy.num_elements() == 0) return std::vector<double>(static_cast<std::size_t>(2 * s.groups * s.places));
  const DType dtype = sample_dtype(x.dtype());
  const Tensor image = as_dtype(device, x, dtype), from = as_dtype(device, dy, dtype);
  std::vector<double> out;
  dispatch(WideFloatTypes{}, dtype,
           [&]<class T>() { out = place_gradients(device.parallelism(), s, image.data<T>(), from.data<T>()); });
  return out;
}

void check_images(std::string_view op, Dims images, std::int64_t groups, std::int64_t count) {
  if (std::ssize(images) != groups)
    invalid_argument("{}: there are {} numbers of images for {} regions", op, images.size(), groups);
  for (const std::int64_t image : images)
    if (image < 0 || image >= count) invalid_argument("{}: image {} is not one of {}", op, image, count);
}

// GridSample.

enum class GridPadding { zeros, border, reflection };

struct GridSettings {
  std::string mode;
  GridPadding padding;
  bool align_corners;
};
GridSettings grid_settings(const Attributes& a) {
  const std::string &mode = a.string("mode"), &padding = a.string("padding");
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    invalid_argument("attribute 'mode' is '{}', but must be nearest, linear or cubic", mode);
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    invalid_argument("attribute 'padding' is '{}', but must be zeros, border or reflection", padding);
  return {mode,
          padding == "zeros"    ? GridPadding::zeros
          : padding == "border" ? GridPadding::border
                                : GridPadding::reflection,
          a.boolean("align_corners")};
}

// A coordinate of a place in elements, and its derivative for the given one.
struct GridCoordinate {
  double at = 0;
  double slope = 0;
};

// `at` reflected at both borders until it lies between them.
GridCoordinate reflected(GridCoordinate c, double low, double high) {
  const double range = high - low;
  if (!(range > 0)) return {low, 0};
  if (c.at >= low && c.at <= high) return c;
  const bool below = c.at < low;
  const double beyond = below ? low - c.at : c.at - high;
  const double turns = std::floor(beyond / range), rest = std::fmod(beyond, range);
  const bool from_low = (std::fmod(turns, 2) == 0) == below;
  // Away from the border at which it was reflected last.
  return {from_low ? low + rest : high - rest, from_low == below ? -c.slope : c.slope};
}

GridCoordinate grid_coordinate(double given, std::int64_t size, const GridSettings& s) {
  const auto n = static_cast<double>(size);
  GridCoordinate c = s.align_corners ? GridCoordinate{(given + 1) / 2 * (n - 1), (n - 1) / 2}
                                     : GridCoordinate{((given + 1) * n - 1) / 2, n / 2};
  if (!std::isfinite(c.at)) c = {c.at > 0 ? n + 8 : -8.0, 0};  // outside
  if (s.mode == "nearest") c = {std::nearbyint(c.at), 0};
  const double low = s.align_corners ? 0 : -0.5, high = s.align_corners ? n - 1 : n - 0.5;
  if (c.at < low || c.at > high) {
    if (s.padding == GridPadding::border) c = {std::clamp(c.at, 0.0, n - 1), 0};
    if (s.padding == GridPadding::reflection) c = reflected(c, low, high);
  }
  c.at = std::clamp(c.at, -8.0, n + 8);  // nothing lies farther out
  return c;
}

// The element at place p of a dimension; -1 if there is none.
std::int64_t padded_element(std::int64_t p, std::int64_t size, const GridSettings& s) {
  if (p >= 0 && p < size) return p;
  if (s.padding == GridPadding::zeros) return -1;
  if (s.padding == GridPadding::border) return std::clamp<std::int64_t>(p, 0, size - 1);
  const double low = s.align_corners ? 0 : -0.5, high = static_cast<double>(size) - (s.align_corners ? 1 : 0.5);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(reflected({static_cast<double>(p), 0}, low, high).at), 0,
                                  size - 1);
}

// The elements around a coordinate, their weights and these weights' slopes.
struct GridTaps {
  int count = 0;
  std::array<std::int64_t, 4> elements{};
  std::array<double, 4> weights{}, slopes{};
};

GridTaps grid_taps(GridCoordinate c, std::int64_t size, const GridSettings& s) {
  GridTaps taps;
  const double floor = std::floor(c.at), part = c.at - floor;
  const auto first = static_cast<std::int64_t>(floor);
  const auto add = [&](std::int64_t p, double weight, double slope) {
    const auto at = static_cast<std::size_t>(taps.count++);
    taps.elements[at] = padded_element(p, size, s);
    taps.weights[at] = weight;
    taps.slopes[at] = slope;
  };
  if (s.mode == "nearest") {
    add(static_cast<std::int64_t>(c.at), 1, 0);
  } else if (s.mode == "linear") {
    add(first, 1 - part, -c.slope);
    add(first + 1, part, c.slope);
  } else {
    constexpr double a = -0.75;
    for (int k = -1; k <= 2; ++k) {
      const double x = std::abs(part - k);
      const double weight = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
      const double slope = x <= 1 ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a;
      add(first + k, weight, (part < k ? -slope : slope) * c.slope);
    }
  }
  return taps;
}

// Calls run(Sampling, shape of y).
template <class Run>
void with_grid(Device& device, const Shape& x, const Tensor& grid, const GridSettings& s, Run run) {
  check_rank("GridSample: x", x, 4);
  check_rank("GridSample: grid", grid.shape(), 4);
  const Shape g = grid.shape();
  if (g[0] != x[0] || g[3] != 2)
    invalid_argument("GridSample: grid {} does not fit x {}: it must be [{},rows,columns,2]", g.to_string(),
                     x.to_string(), x[0]);
  const Shape y{x[0], x[1], g[1], g[2]};
  const std::int64_t height = x[2], width = x[3];
  if (height * width == 0 && y.num_elements() > 0) invalid_argument("GridSample: x is {}", x.to_string());
  const Tensor wide = as_dtype(device, grid, DType::f64);
  const double* places = wide.data<double>();
  const std::int64_t count = g[1] * g[2];
  const auto add = [&](std::int64_t group, std::int64_t place, Samples& to) {
    const double* at = places + 2 * (group * count + place);
    const GridTaps columns = grid_taps(grid_coordinate(at[0], width, s), width, s),
                   rows = grid_taps(grid_coordinate(at[1], height, s), height, s);
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows.count); ++r)
      for (std::size_t c = 0; c < static_cast<std::size_t>(columns.count); ++c)
        if (rows.elements[r] >= 0 && columns.elements[c] >= 0)
          to.add(rows.elements[r] * width + columns.elements[c], rows.weights[r] * columns.weights[c],
                 rows.slopes[r] * columns.weights[c], rows.weights[r] * columns.slopes[c]);
    to.finish();
  };
  const auto image = [](std::int64_t group) { return group; };
  run(Sampling{.channels = x[1],
               .elements = height * width,
               .groups = x[0],
               .places = count,
               .channels_last = false,
               .image = image,
               .add = add},
      y);
}

void run_grid_sample(KernelContext& c, const GridSettings& settings) {
  with_grid(c.device(), c.input(0).shape(), c.input(1), settings,
            [&](const Sampling& s, const Shape& y) { c.set_output(0, sampled(c.device(), s, c.input(0), y)); });
}
void run_grid_sample_grad(KernelContext& c, const GridSettings& settings) {
  const Tensor &dy = c.input(0), &x = c.input(1), &grid = c.input(2);
  with_grid(c.device(), x.shape(), grid, settings, [&](const Sampling& s, const Shape& y) {
    check_tensor("GridSampleGrad: dy", dy, x.dtype(), y);
    Tensor dx = sample_gradient(c.device(), s, dy, x);
    const std::vector<double> places = place_gradient(c.device(), s, x, dy);
    Tensor dgrid(DType::f64, grid.shape());
    double* to = dgrid.mutable_data<double>();
    for (std::size_t p = 0; p + 1 < places.size(); p += 2) {  // (down, right) to (x, y)
      to[p] = places[p + 1];
      to[p + 1] = places[p];
    }
    c.set_output(0, std::move(dx));
    c.set_output(1, as_dtype(c.device(), dgrid, grid.dtype()));
  });
}

// CropAndResize.

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

// RoiAlign.

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
void run_roi_align_max_grad(KernelContext& c, RoiSettings settings) {
  settings.max = true;
  run_roi_align_grad(c, settings);
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

void register_image_sample_kernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, auto settings_of, auto run) {
    add_untyped(registry, op, [=](const KernelInit& init) -> Kernel {
      return [run, settings = settings_of(init.attributes)](KernelContext& c) { run(c, settings); };
    });
  };
  add("GridSample", grid_settings, run_grid_sample);
  add("GridSampleGrad", grid_settings, run_grid_sample_grad);
  add("RoiAlign", roi_settings, run_roi_align);
  add("RoiAlignGrad", roi_settings, run_roi_align_grad);
  add("RoiAlignMaxGrad", roi_settings, run_roi_align_max_grad);
  add("MaxRoiPool", max_roi_settings, run_max_roi_pool);
  add("MaxRoiPoolGrad", max_roi_settings, run_max_roi_pool_grad);
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
