#include "troupe/graph/ops/values.hpp"

#include <algorithm>

namespace troupe::values {
namespace {

// The output of an op that changes no element: a scalar or vector, as its inferred shape says.
Known shaped(ValueContext& c, KnownIntegers value) {
  const Shape& shape = c.node().output_shapes.empty() ? Shape::unknown_rank() : c.node().output_shapes[0];
  if (!shape.has_rank() || shape.rank() > 1) return std::nullopt;
  value.scalar = shape.is_scalar();
  return value;
}

}  // namespace

Known shape_of(ValueContext& c) {
  const Shape& x = c.input_shape(0);
  if (!x.has_rank()) return std::nullopt;
  KnownIntegers out;
  for (const std::int64_t d : x.dims())
    out.values.push_back(d == kUnknown ? std::nullopt : std::optional<std::int64_t>(d));
  return out;
}

Known size_of(ValueContext& c) {
  const Shape& x = c.input_shape(0);
  if (!x.has_rank() || !x.fully_known()) return std::nullopt;
  return KnownIntegers{.scalar = true, .values = {x.num_elements()}};
}

Known same(ValueContext& c) {
  const KnownIntegers* x = c.input(0);
  return x ? shaped(c, *x) : std::nullopt;
}

Known stretch(ValueContext& c) {
  const KnownIntegers* dims = c.input(0);
  const KnownIntegers* value = c.input(1);
  if (!dims || !value || dims->values.size() > 1 || value->values.size() != 1 || !dims->complete()) return std::nullopt;
  const std::int64_t count = dims->values.empty() ? 1 : *dims->values[0];
  if (count < 0 || count > kMaxKnownIntegers) return std::nullopt;
  return KnownIntegers{.scalar = dims->values.empty(), .values = {static_cast<std::size_t>(count), value->values[0]}};
}

Known range(ValueContext& c) {
  std::int64_t given[3];
  for (int i = 0; i < 3; ++i) {
    const KnownIntegers* x = c.input(i);
    if (!x || x->values.size() != 1 || !x->values[0]) return std::nullopt;
    given[i] = *x->values[0];
  }
  const auto [start, limit, delta] = given;
  KnownIntegers out;
  if (delta == 0) return std::nullopt;
  for (__int128 v = start; delta > 0 ? v < limit : v > limit; v += delta) {
    if (std::ssize(out.values) == kMaxKnownIntegers) return std::nullopt;
    out.values.emplace_back(static_cast<std::int64_t>(v));
  }
  return out;
}

Known concat(ValueContext& c) {
  KnownIntegers out;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Shape& shape = c.input_shape(i);
    if (!shape.has_rank() || shape.rank() != 1) return std::nullopt;
    const KnownIntegers* x = c.input(i);
    if (!x && (shape[0] == kUnknown || shape[0] > kMaxKnownIntegers)) return std::nullopt;
    if (x)
      out.values.insert(out.values.end(), x->values.begin(), x->values.end());
    else
      out.values.resize(out.values.size() + static_cast<std::size_t>(shape[0]));
  }
  return out;
}

Known stack(ValueContext& c) {
  KnownIntegers out;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.input_shape(i).has_rank() || !c.input_shape(i).is_scalar()) return std::nullopt;
    const KnownIntegers* x = c.input(i);
    out.values.push_back(x ? x->values.at(0) : std::nullopt);
  }
  return out;
}

Known gather(ValueContext& c) {
  const KnownIntegers* table = c.input(0);
  const KnownIntegers* indices = c.input(1);
  if (!table || table->scalar || !indices) return std::nullopt;
  KnownIntegers out{.scalar = indices->scalar, .values = {}};
  const auto size = std::ssize(table->values);
  for (const auto& index : indices->values) {
    const bool inside = index && *index >= -size && *index < size;
    out.values.push_back(inside ? table->values[static_cast<std::size_t>(*index < 0 ? *index + size : *index)]
                                : std::nullopt);
  }
  return out;
}

Known slice(ValueContext& c) {
  const KnownIntegers* x = c.input(0);
  const auto& begin = c.node().attributes.integers("begin");
  const auto& size = c.node().attributes.integers("size");
  if (!x || x->scalar || begin.size() != 1 || begin[0] < 0 || begin[0] > std::ssize(x->values)) return std::nullopt;
  const std::int64_t count = size[0] < 0 ? std::ssize(x->values) - begin[0] : size[0];
  if (count > std::ssize(x->values) - begin[0]) return std::nullopt;
  return KnownIntegers{.values = {x->values.begin() + begin[0], x->values.begin() + begin[0] + count}};
}

ValueFn binary(Combine combine) {
  return [combine](ValueContext& c) -> Known {
    const KnownIntegers* a = c.input(0);
    const KnownIntegers* b = c.input(1);
    if (!a || !b) return std::nullopt;
    const std::size_t count = a->values.size() == 1 ? b->values.size() : a->values.size();
    if (b->values.size() != 1 && b->values.size() != count) return std::nullopt;
    KnownIntegers out{.scalar = a->scalar && b->scalar, .values = {}};
    for (std::size_t i = 0; i < count; ++i) {
      const auto x = a->values[a->values.size() == 1 ? 0 : i], y = b->values[b->values.size() == 1 ? 0 : i];
      out.values.push_back(x && y ? combine(*x, *y) : std::nullopt);
    }
    return out;
  };
}

}  // namespace troupe::values
