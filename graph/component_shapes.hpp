// The shapes of several components in one attribute of integers: of each its rank and dimensions, -1 for unknown ones.
#pragma once

#include <cstdint>
#include <vector>

#include <troupe/messages/shape.hpp>

namespace troupe {

std::vector<std::int64_t> packed_shapes(const std::vector<Shape>& shapes);
// Throws invalid_argument if `packed` is not `count` shapes.
std::vector<Shape> unpacked_shapes(const std::vector<std::int64_t>& packed, std::size_t count);

}  // namespace troupe
