// The geometry of Gather and GatherGrad: a table as [batch, outer, rows, inner], and indices as [batch, count]; the
// result is [batch, outer, count, inner].
#pragma once

#include <cstdint>
#include <string_view>

#include <troupe/messages/attributes.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

struct GatherAttributes {
  GatherAttributes() = default;  // rows of a table
  explicit GatherAttributes(const Attributes& attributes)
      : axis(attributes.integer("axis")),
        batch_dims(attributes.integer("batch_dims")),
        from_end(attributes.boolean("from_end")) {}
  std::int64_t axis = 0, batch_dims = 0;
  bool from_end = false;  // negative indices count from the end
};

struct GatherGeometry {
  // Throws invalid_argument for shapes that do not fit.
  GatherGeometry(std::string_view op, const Shape& table, const Shape& indices, const GatherAttributes& attributes);
  std::int64_t slices() const { return batch * outer; }
  std::int64_t places() const { return slices() * count; }

  Shape result;
  std::int64_t batch, outer, rows, inner, count;
  bool from_end;
};

// Product of dimensions [begin, end); 0 if one of them is.
std::int64_t product(const Shape& shape, int begin, int end);

}  // namespace troupe
