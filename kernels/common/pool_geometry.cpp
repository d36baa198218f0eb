#include "troupe/kernels/common/pool_geometry.hpp"

#include <troupe/kernels/common/tensor_checks.hpp>

namespace troupe {
namespace {

constexpr std::array<std::pair<std::string_view, Divisor>, 3> kDivisors{
    {{"existing", Divisor::existing}, {"padded", Divisor::padded}, {"one", Divisor::one}}};

int spatial_of(const Shape& x, const PoolAttributes& options) {
  const int spatial = static_cast<int>(options.windows.kernel.size());
  check_window_options(options.windows, spatial);
  check_rank("pooling: x", x, spatial + 2);
  return spatial;
}

WindowAxis axis_of(const Shape& x, const PoolAttributes& options, int i, int spatial) {
  return window_axis(options.windows, i, spatial, x[options.windows.spatial_axis() + i],
                     options.windows.kernel[static_cast<std::size_t>(i)]);
}

}  // namespace

PoolAttributes pool_attributes(const Attributes& attributes) {
  PoolAttributes out{.windows = window_options(attributes)};
  if (!attributes.has("divisor")) return out;
  for (const auto& [name, divisor] : kDivisors)
    if (attributes.string("divisor") == name) out.divisor = divisor;
  return out;
}

PoolGeometry pool_geometry(const Shape& x, const PoolAttributes& options) {
  const int spatial = spatial_of(x, options);
  const std::int64_t channels = x[options.windows.channel_axis(spatial + 2)];
  const bool first = options.windows.channels_first();
  PoolGeometry g{.batch = first ? x[0] * channels : x[0], .channels = first ? 1 : channels};
  const std::array<WindowAxis*, kMaxSpatial> axes{&g.depth, &g.rows, &g.columns};
  for (int i = 0; i < spatial; ++i)
    *axes[static_cast<std::size_t>(kMaxSpatial - spatial + i)] = axis_of(x, options, i, spatial);
  return g;
}

Shape pool_shape(const Shape& x, const PoolAttributes& options) {
  const int spatial = spatial_of(x, options);
  Shape y = x;
  for (int i = 0; i < spatial; ++i)
    y.set_dim(options.windows.spatial_axis() + i, axis_of(x, options, i, spatial).output);
  return y;
}

}  // namespace troupe
