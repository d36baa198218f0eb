#include "troupe/kernels/common/gather_geometry.hpp"

#include <algorithm>

#include <troupe/kernels/common/movement.hpp>

namespace troupe {

GatherGeometry::GatherGeometry(std::string_view op, const Shape& table, const Shape& indices,
                               const GatherAttributes& attributes)
    : from_end(attributes.from_end) {
  if (table.rank() < 1) invalid_argument("{}: the table is a scalar", op);
  const int axis = checked_axis(attributes.axis, table.rank());
  const std::int64_t given = attributes.batch_dims, dims = given < 0 ? given + indices.rank() : given;
  if (dims < 0 || dims > std::min(axis, indices.rank()) ||
      table.sub(0, static_cast<int>(dims)) != indices.sub(0, static_cast<int>(dims)))
    invalid_argument("{}: axis {} and {} batch dimensions do not fit a table {} with indices {}", op, attributes.axis,
                     given, table.to_string(), indices.to_string());
  const int batch_dims = static_cast<int>(dims);
  result = table.sub(0, axis)
               .concatenated(indices.sub(batch_dims, indices.rank()))
               .concatenated(table.sub(axis + 1, table.rank()));
  batch = product(table, 0, batch_dims);
  outer = product(table, batch_dims, axis);
  rows = table.dim(axis);
  inner = product(table, axis + 1, table.rank());
  count = product(indices, batch_dims, indices.rank());
}

std::int64_t product(const Shape& shape, int begin, int end) {
  const auto dims = shape.dims().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  if (std::ranges::find(dims, 0) != dims.end()) return 0;  // the others may overflow
  std::int64_t out = 1;
  for (const std::int64_t d : dims) out *= d;
  return out;
}

}  // namespace troupe
