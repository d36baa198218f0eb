#include "troupe/graph/ops/values.hpp"

#include <algorithm>

#include <troupe/graph/known_values.hpp>
#include <troupe/graph/strided_range.hpp>

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
  using Values = std::vector<std::optional<std::int64_t>>;  // braces would make a list of two
  return KnownIntegers{.scalar = dims->values.empty(),
                       .values = Values(static_cast<std::size_t>(count), value->values[0])};
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
  const KnownIntegers *x = c.input(0), *begin = c.input(1), *size = c.input(2);
  if (!x || x->scalar) return std::nullopt;
  if (!begin || !size || begin->values.size() != 1 || size->values.size() != 1) return std::nullopt;
  const auto from = begin->values[0], wanted = size->values[0];
  if (!from || !wanted || *from < 0 || *from > std::ssize(x->values)) return std::nullopt;
  const std::int64_t count = *wanted < 0 ? std::ssize(x->values) - *from : *wanted;
  if (count > std::ssize(x->values) - *from) return std::nullopt;
  return KnownIntegers{.values = {x->values.begin() + *from, x->values.begin() + *from + count}};
}

Known strided_slice(ValueContext& c) {
  const KnownIntegers* x = c.input(0);
  if (!x || x->scalar) return std::nullopt;
  std::int64_t given[3];
  for (int i = 0; i < 4; ++i) {
    const KnownIntegers* list = c.input(1 + i);
    if (list && list->values.empty() && i == 0) return *x;
    if (!list || list->values.size() != 1 || !list->values[0]) return std::nullopt;
    if (i < 3) given[i] = *list->values[0];
  }
  if (given[2] == 0) return std::nullopt;
  const StridedRange range = strided_range(given[0], given[1], given[2], std::ssize(x->values));
  KnownIntegers out;
  for (std::int64_t i = 0; i < range.count; ++i)
    out.values.push_back(x->values[static_cast<std::size_t>(range.begin + i * range.stride)]);
  return out;
}

Known reverse(ValueContext& c) {
  const KnownIntegers *x = c.input(0), *axes = c.input(1);
  if (!x || x->scalar || !axes || !axes->complete()) return std::nullopt;
  KnownIntegers out = *x;
  if (!axes->values.empty()) std::ranges::reverse(out.values);
  return out;
}

Known split(ValueContext& c) {
  const KnownIntegers* x = c.input(0);
  if (!x || x->scalar) return std::nullopt;
  std::int64_t begin = 0, size = 0;
  for (int i = 0; i <= c.output(); ++i) {
    const Shape& part = c.node().output_shapes[static_cast<std::size_t>(i)];
    if (!part.has_rank() || !part.fully_known()) return std::nullopt;
    begin += size;
    size = part.num_elements();
  }
  if (begin + size > std::ssize(x->values)) return std::nullopt;
  const bool scalar = c.node().output_shapes[static_cast<std::size_t>(c.output())].is_scalar();
  return KnownIntegers{.scalar = scalar, .values = {x->values.begin() + begin, x->values.begin() + begin + size}};
}

Known broadcast_to(ValueContext& c) {
  const KnownIntegers* x = c.input(0);
  if (!x || c.node().output_shapes.empty()) return std::nullopt;
  const Shape& shape = c.node().output_shapes[0];
  if (!shape.has_rank() || shape.rank() > 1 || !shape.fully_known()) return std::nullopt;
  const auto count = static_cast<std::size_t>(shape.num_elements());
  if (x->values.size() == count) return KnownIntegers{.scalar = shape.is_scalar(), .values = x->values};
  if (x->values.size() != 1 || std::ssize(x->values) > kMaxKnownIntegers) return std::nullopt;
  if (shape.num_elements() > kMaxKnownIntegers) return std::nullopt;
  return KnownIntegers{.values = std::vector<std::optional<std::int64_t>>(count, x->values[0])};
}

Known tile(ValueContext& c) {
  const KnownIntegers *x = c.input(0), *multiples = c.input(1);
  if (!x || x->scalar || !multiples || multiples->values.size() != 1 || !multiples->values[0]) return std::nullopt;
  const std::int64_t times = *multiples->values[0];
  if (times < 0 || (times > 0 && std::ssize(x->values) > kMaxKnownIntegers / times)) return std::nullopt;
  KnownIntegers out;
  for (std::int64_t i = 0; i < times; ++i) out.values.insert(out.values.end(), x->values.begin(), x->values.end());
  return out;
}

Known pad(ValueContext& c) {
  const KnownIntegers *x = c.input(0), *pads = c.input(1), *value = c.input(2);
  if (!x || x->scalar || !pads || pads->values.size() != 2 || !pads->complete()) return std::nullopt;
  if (c.node().attributes.string("mode") != "constant") return std::nullopt;
  const auto filler = value && value->values.size() == 1 ? value->values[0] : std::nullopt;
  const std::int64_t before = *pads->values[0], after = *pads->values[1], size = std::ssize(x->values);
  if (std::max(before, after) > kMaxKnownIntegers || std::min(before, after) < -size || size + before + after < 0)
    return std::nullopt;
  KnownIntegers out;
  for (std::int64_t i = -before; i < size + after; ++i)
    out.values.push_back(i >= 0 && i < size ? x->values[static_cast<std::size_t>(i)] : filler);
  return out;
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
