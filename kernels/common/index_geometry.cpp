#include "troupe/kernels/common/index_geometry.hpp"

#include <utility>

#include <troupe/kernels/common/gather_geometry.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::array<std::pair<std::string_view, ScatterCombine>, 6> kCombines{{{"none", ScatterCombine::none},
                                                                                {"add", ScatterCombine::add},
                                                                                {"sub", ScatterCombine::sub},
                                                                                {"mul", ScatterCombine::mul},
                                                                                {"max", ScatterCombine::max},
                                                                                {"min", ScatterCombine::min}}};

}  // namespace

ScatterCombine scatter_combine(std::string_view reduction) {
  for (const auto& [name, combine] : kCombines)
    if (name == reduction) return combine;
  invalid_argument("attribute 'reduction' is '{}', not none, add, sub, mul, max or min", reduction);
}

SliceGeometry::SliceGeometry(std::string_view op, const Shape& x, const Shape& indices, std::int64_t batch_dims) {
  if (indices.rank() < 1) invalid_argument("{}: the indices are a scalar", op);
  const int last = indices.rank() - 1;
  const std::int64_t given = indices.dim(last);
  if (batch_dims < 0 || batch_dims > last || given > x.rank() - batch_dims ||
      x.sub(0, static_cast<int>(batch_dims)) != indices.sub(0, static_cast<int>(batch_dims)))
    invalid_argument("{}: indices {} with {} batch dimensions do not fit {}", op, indices.to_string(), batch_dims,
                     x.to_string());
  const int batch = static_cast<int>(batch_dims);
  depth = static_cast<int>(given);
  const int from = batch + depth;
  result = indices.sub(0, last).concatenated(x.sub(from, x.rank()));
  count = product(indices, 0, last);
  inner = product(x, from, x.rank());
  batches = product(indices, 0, batch);
  per_batch = product(indices, batch, last);
  batch_stride = product(x, batch, x.rank());
  for (int d = 0; d < depth; ++d) {
    sizes[static_cast<std::size_t>(d)] = x.dim(batch + d);
    strides[static_cast<std::size_t>(d)] = product(x, batch + d + 1, x.rank());
  }
}

void check_element_indices(std::string_view op, const Shape& x, const Shape& indices, int axis) {
  const int rank = x.rank();
  bool fits = rank >= 1 && indices.rank() == rank;
  for (int d = 0; fits && d < rank; ++d) fits = d == axis || indices.dim(d) <= x.dim(d);
  if (!fits)
    invalid_argument("{}: indices {} do not fit {} along axis {}", op, indices.to_string(), x.to_string(), axis);
}

void check_updates(std::string_view op, const Tensor& data, const Tensor& updates, const Shape& shape) {
  if (updates.shape() != shape || updates.dtype() != data.dtype())
    invalid_argument("{}: updates are {}{}, but must be {}{}", op, name(updates.dtype()), updates.shape().to_string(),
                     name(data.dtype()), shape.to_string());
}

}  // namespace troupe
