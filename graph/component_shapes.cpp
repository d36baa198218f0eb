#include "troupe/graph/component_shapes.hpp"

#include <algorithm>
#include <span>

#include <troupe/messages/error.hpp>

namespace troupe {

std::vector<std::int64_t> packed_shapes(const std::vector<Shape>& shapes) {
  std::vector<std::int64_t> packed;
  for (const Shape& shape : shapes) {
    packed.push_back(shape.has_rank() ? shape.rank() : -1);
    packed.insert(packed.end(), shape.dims().begin(), shape.dims().end());
  }
  return packed;
}

std::vector<Shape> unpacked_shapes(const std::vector<std::int64_t>& packed, std::size_t count) {
  std::vector<Shape> shapes;
  std::span rest = packed;
  while (!rest.empty()) {
    const std::int64_t rank = rest[0];
    rest = rest.subspan(1);
    if (rank < 0) {
      shapes.push_back(Shape::unknown_rank());
      continue;
    }
    if (rank > std::ssize(rest)) break;
    const auto dims = rest.first(static_cast<std::size_t>(rank));
    rest = rest.subspan(dims.size());
    shapes.push_back(Shape(std::vector<std::int64_t>(dims.begin(), dims.end())));
  }
  if (!rest.empty() || shapes.size() != count)
    invalid_argument("the shapes are not those of {} component{}", count, count == 1 ? "" : "s");
  return shapes;
}

}  // namespace troupe
