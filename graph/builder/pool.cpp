#include "troupe/graph/builder/pool.hpp"

#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/reduce.hpp>

namespace troupe {
namespace {

Attributes pool_attributes_of(const PoolOptions& options) {
  return {{"ksize", options.ksize},
          {"strides", options.strides},
          {"dilations", options.dilations},
          {"padding", to_string(options.padding)},
          {"pads", options.pads},
          {"ceil_mode", options.ceil_mode},
          {"data_format", to_string(options.format)}};
}

std::string name_of(PoolDivisor divisor) {
  return divisor == PoolDivisor::existing ? "existing" : divisor == PoolDivisor::padded ? "padded" : "one";
}

Output to_power(Output x, double p) {
  const Output positive = abs(x);
  if (p == 1) return positive;
  return p == 2 ? square(x) : pow(positive, scalar_like(x, p));
}

// sum^(1/p) with the gradient 0 at 0.
Output to_root(Output sum, double p) {
  if (p == 1) return sum;
  const Output is_zero = equal(sum, scalar_like(sum, 0));
  const Output positive = select(is_zero, ones_like(sum), sum);
  const Output root = p == 2 ? sqrt(positive) : pow(positive, scalar_like(sum, 1 / p));
  return select(is_zero, zeros_like(sum), root);
}

void check_power(double p) {
  if (!(p > 0)) invalid_argument("the p of a norm must be above 0, not {}", p);
}

Integers spatial_axes(Output x, DataFormat format) {
  const Shape& shape = x.shape();
  if (!shape.has_rank() || shape.rank() < 3)
    invalid_argument("a global pool needs an image of known rank, 3 or more, not {}", shape.to_string());
  Integers axes;
  for (int i = format == DataFormat::channels_first ? 2 : 1; static_cast<int>(axes.size()) < shape.rank() - 2; ++i)
    axes.push_back(i);
  return axes;
}

}  // namespace

Output max_pool(Output x, PoolOptions options) {
  return add_op("MaxPool", {std::move(x)}, pool_attributes_of(options), std::move(options.name));
}
Output avg_pool(Output x, PoolOptions options, PoolDivisor divisor) {
  Attributes attributes = pool_attributes_of(options);
  attributes.set("divisor", name_of(divisor));
  return add_op("AvgPool", {x}, std::move(attributes), std::move(options.name));
}
MaxPoolOutputs max_pool_with_indices(Output x, PoolOptions options) {
  const Outputs out = add_outputs("MaxPoolWithIndices", {x}, pool_attributes_of(options), std::move(options.name));
  return {out[0], out[1]};
}
Output max_unpool(Output x, Output indices, Output shape, Name name) {
  return add_op("MaxUnpool", {std::move(x), std::move(indices), std::move(shape)}, {}, std::move(name));
}
Output lp_pool(Output x, double p, PoolOptions options) {
  check_power(p);
  return to_root(avg_pool(to_power(x, p), std::move(options), PoolDivisor::one), p);
}

Output global_avg_pool(Output x, DataFormat format) { return mean(x, spatial_axes(x, format), {.keep_dims = true}); }
Output global_max_pool(Output x, DataFormat format) { return max(x, spatial_axes(x, format), {.keep_dims = true}); }
Output global_lp_pool(Output x, double p, DataFormat format) {
  check_power(p);
  return to_root(sum(to_power(x, p), spatial_axes(x, format), {.keep_dims = true}), p);
}

}  // namespace troupe
