#include "troupe/kernels/common/pool_geometry.hpp"

#include <troupe/kernels/common/tensor_checks.hpp>

namespace troupe {

PoolAttributes pool_attributes(const Attributes& attributes) {
  return {.size = pair_attribute(attributes, "ksize"),
          .strides = pair_attribute(attributes, "strides"),
          .padding = parse_padding(attributes.string("padding"))};
}

PoolGeometry pool_geometry(const Shape& x, const PoolAttributes& options) {
  check_rank("pooling: x (NHWC)", x, 4);
  return {.batch = x[0],
          .channels = x[3],
          .rows = window_axis("pooling: height", x[1], options.size[0], options.strides[0], options.padding),
          .columns = window_axis("pooling: width", x[2], options.size[1], options.strides[1], options.padding)};
}

Shape pool_shape(const Shape& x, const PoolAttributes& options) { return pool_geometry(x, options).result_shape(); }

}  // namespace troupe
