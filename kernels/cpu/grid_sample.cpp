// GridSample: images at the places of a grid.
#include <algorithm>
#include <cmath>
#include <vector>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/image_samples.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

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

}  // namespace

void register_grid_sample_kernels(KernelRegistry& registry) {
  add_sampler(registry, "GridSample", grid_settings, run_grid_sample);
  add_sampler(registry, "GridSampleGrad", grid_settings, run_grid_sample_grad);
}

}  // namespace troupe
