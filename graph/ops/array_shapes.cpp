#include "troupe/graph/ops/array_shapes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <troupe/graph/known_values.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe::shapes {
namespace {

// A list attribute with one entry for each dimension of `x`. Returns x with that rank.
Shape per_dimension(const Shape& x, const std::vector<std::int64_t>& list, std::string_view attr) {
  if (x.has_rank() && static_cast<std::size_t>(x.rank()) != list.size())
    invalid_argument("attribute '{}' has {} entries, but 'x' is {}", attr, list.size(), x.to_string());
  if (list.size() > kMaxRank)
    invalid_argument("attribute '{}' has {} entries; a shape has at most {}", attr, list.size(), kMaxRank);
  return x.has_rank() ? x : Shape::unknown(static_cast<int>(list.size()));
}

std::int64_t entry(const std::vector<std::int64_t>& list, int i) { return list[static_cast<std::size_t>(i)]; }

// Checks that both have the same number of elements, if both are fully known.
void check_same_size(const Shape& from, const Shape& to) {
  if (from.fully_known() && to.fully_known() && from.num_elements() != to.num_elements())
    invalid_argument("cannot reshape {} ({} elements) to {} ({} elements)", from.to_string(), from.num_elements(),
                     to.to_string(), to.num_elements());
}

// The dimension that -1 stands for; unknown if it cannot be deduced.
std::int64_t deduced_dim(const Shape& from, const Shape& to, int wildcard) {
  if (!from.fully_known()) return kUnknown;
  Shape rest = to;
  rest.set_dim(wildcard, 1);
  const std::int64_t others = rest.num_elements();
  const std::int64_t total = from.num_elements();
  if (others == 0 || total % others != 0)
    invalid_argument("cannot reshape {} ({} elements) to {}", from.to_string(), total, to.to_string());
  return total / others;
}

// x with the dimension along `axis` set to `size`.
Shape along_axis(const Shape& x, int axis, std::int64_t size) {
  Shape out = x;
  out.set_dim(axis, size);
  return out;
}

std::int64_t real_range_size(double start, double limit, double delta) {
  const double count = std::ceil((limit - start) / delta);
  if (!(count < 9e18)) invalid_argument("a range from {} to {} by {} is too long", start, limit, delta);
  return count > 0 ? static_cast<std::int64_t>(count) : 0;
}

std::int64_t integer_range_size(__int128 start, __int128 limit, __int128 step) {
  const __int128 distance = limit - start;
  if ((distance > 0) != (step > 0) || distance == 0) return 0;
  const __int128 count = (distance + step + (step > 0 ? -1 : 1)) / step;
  if (count > std::numeric_limits<std::int64_t>::max())
    invalid_argument("a range of {} elements is too long", static_cast<double>(count));
  return static_cast<std::int64_t>(count);
}

std::int64_t range_size(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  return dispatch(RealTypes{}, start.dtype(), [&]<class T>() {
    const auto [from, to, step] = std::array{start.item<T>(), limit.item<T>(), delta.item<T>()};
    if (static_cast<Compute<T>>(step) == Compute<T>{0}) invalid_argument("'delta' is zero");
    if constexpr (std::is_integral_v<T>) {
      return integer_range_size(from, to, step);
    } else {
      const auto number = [](T x) { return static_cast<double>(static_cast<Compute<T>>(x)); };
      return real_range_size(number(from), number(to), number(step));
    }
  });
}

}  // namespace

void reshape(ShapeContext& c) {
  const Shape& x = c.input(0);
  const bool copy_zeros = c.attributes().boolean("copy_zeros");
  const Shape count = with_rank(c.input(1), 1, "shape");
  if (count[0] > kMaxRank) invalid_argument("a shape has at most {} dimensions, not {}", kMaxRank, count[0]);
  const auto wanted = c.integers(1);
  if (!wanted) {
    if (count[0] != kUnknown) c.set_output(0, Shape::unknown(static_cast<int>(count[0])));
    return;
  }
  Shape to = Shape::unknown(static_cast<int>(wanted->values.size()));
  Shape from_rest = x, to_rest = to;  // without the dimensions copied
  int wildcard = -1;
  bool complete = true;
  for (int i = 0; i < to.rank(); ++i) {
    const auto dim = wanted->values[static_cast<std::size_t>(i)];
    complete = complete && dim.has_value();
    if (!dim) continue;
    if (*dim < -1) invalid_argument("dimension {} of a shape is {}; it must not be negative", i, *dim);
    if (*dim == -1 && wildcard >= 0) invalid_argument("only one dimension may be -1: {}", to.to_string());
    if (*dim == -1) wildcard = i;
    const bool copied = *dim == 0 && copy_zeros;
    if (copied && x.has_rank() && i >= x.rank())
      invalid_argument("dimension {} of a shape is 0, but {} has no such dimension", i, x.to_string());
    if (copied && x.has_rank()) {
      to.set_dim(i, x[i]);
      from_rest.set_dim(i, 1);
      to_rest.set_dim(i, 1);
    }
    if (*dim >= 0 && !copied) {
      to.set_dim(i, *dim);
      to_rest.set_dim(i, *dim);
    }
  }
  if (wildcard >= 0 && complete)
    to.set_dim(wildcard, x.has_rank() ? deduced_dim(from_rest, to_rest, wildcard) : kUnknown);
  else if (complete)
    check_same_size(x, to);
  c.set_output(0, to);
}

void transpose(ShapeContext& c) {
  const auto& perm = c.attributes().integers("perm");
  if (perm.empty()) {
    Shape out = c.input(0);
    for (int i = 0; i < out.rank(); ++i) out.set_dim(i, c.input(0)[-1 - i]);
    c.set_output(0, out);
    return;
  }
  const Shape x = per_dimension(c.input(0), perm, "perm");
  for (std::int64_t p : perm)
    if (p < 0) invalid_argument("attribute 'perm' has the negative entry {}", p);
  axes(perm, x.rank());  // every axis once
  Shape out = x;
  for (int i = 0; i < x.rank(); ++i) out.set_dim(i, x[static_cast<int>(entry(perm, i))]);
  c.set_output(0, out);
}

void concat(ShapeContext& c) {
  if (c.num_inputs() == 0) invalid_argument("needs at least one input");
  Shape out = Shape::unknown_rank();
  std::int64_t size = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Shape& x = at_least_rank(c.input(i), 1, "xs");
    if (!x.has_rank()) {
      size = kUnknown;
      continue;
    }
    const int at = axis(c.attributes().integer("axis"), x.rank());
    size = size == kUnknown || x[at] == kUnknown ? kUnknown : checked_add(size, x[at]);
    const auto merged = out.merged(along_axis(x, at, kUnknown));
    if (!merged)
      invalid_argument("input {} is {}, but except along axis {} it must match the others, {}", i, x.to_string(), at,
                       out.to_string());
    out = *merged;
  }
  if (out.has_rank()) out.set_dim(axis(c.attributes().integer("axis"), out.rank()), size);
  c.set_output(0, out);
}

void split(ShapeContext& c) {
  const std::int64_t parts = bounded(c.attributes(), "N", 1, 1'000'000);
  const Shape& x = at_least_rank(c.input(0), 1, "x");
  if (!x.has_rank()) return;
  const int at = axis(c.attributes().integer("axis"), x.rank());
  if (x[at] != kUnknown && x[at] % parts != 0)
    invalid_argument("{} cannot be split into {} equal parts along axis {}", x.to_string(), parts, at);
  const Shape part = along_axis(x, at, x[at] == kUnknown ? kUnknown : x[at] / parts);
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, part);
}

void split_sizes(ShapeContext& c) {
  const std::int64_t parts = bounded(c.attributes(), "N", 0, 1'000'000);
  const KnownEntries sizes = known_entries(c, 1, "sizes", parts);
  std::int64_t total = 0;
  for (const auto& s : sizes) {
    if (s && *s < 0) invalid_argument("'sizes' has the negative entry {}", *s);
    total = s && total != kUnknown ? checked_add(total, *s) : kUnknown;
  }
  const Shape& x = at_least_rank(c.input(0), 1, "x");
  if (!x.has_rank()) return;
  const int at = axis(c.attributes().integer("axis"), x.rank());
  merge_dim(x[at], total, "the size along the axis and the sum of 'sizes'");
  for (int i = 0; i < c.num_outputs(); ++i)
    c.set_output(i, along_axis(x, at, sizes[static_cast<std::size_t>(i)].value_or(kUnknown)));
}

void stack(ShapeContext& c) {
  if (c.num_inputs() == 0) invalid_argument("needs at least one input");
  Shape x = Shape::unknown_rank();
  for (int i = 0; i < c.num_inputs(); ++i) x = merge(x, "xs[0]", c.input(i), "xs[" + std::to_string(i) + "]");
  if (!x.has_rank()) return;
  const int at = axis(c.attributes().integer("axis"), x.rank() + 1);
  c.set_output(0, x.sub(0, at).with_appended(c.num_inputs()).concatenated(x.sub(at, x.rank())));
}

void unstack(ShapeContext& c) {
  const std::int64_t parts = bounded(c.attributes(), "N", 0, 1'000'000);
  const Shape& x = at_least_rank(c.input(0), 1, "x");
  if (!x.has_rank()) return;
  const int at = axis(c.attributes().integer("axis"), x.rank());
  merge_dim(x[at], parts, "the size along the axis and attribute 'N'");
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, x.without(at));
}

void squeeze(ShapeContext& c) {
  const Shape count = with_rank(c.input(1), 1, "axes");
  const auto given = known_vector(c, 1, "axes");
  const Shape& x = c.input(0);
  if (!x.has_rank()) return;
  if (!given) {
    if (count[0] > x.rank()) invalid_argument("'axes' has {} entries for {}", count[0], x.to_string());
    if (count[0] > 0) c.set_output(0, Shape::unknown(x.rank() - static_cast<int>(count[0])));
    return;
  }
  const std::vector<int> dropped = axes(*given, x.rank());
  std::vector<std::int64_t> dims;
  for (int i = 0; i < x.rank(); ++i) {
    const bool named = std::ranges::binary_search(dropped, i);
    if (named && x[i] != 1 && x[i] != kUnknown)
      invalid_argument("dimension {} of {} is not of size 1", i, x.to_string());
    if (given->empty() && x[i] == kUnknown) return;  // the rank depends on it
    if (named || (given->empty() && x[i] == 1)) continue;
    dims.push_back(x[i]);
  }
  c.set_output(0, Shape(dims));
}

void expand_dims(ShapeContext& c) {
  const Shape count = with_rank(c.input(1), 1, "axes");
  const auto given = known_vector(c, 1, "axes");
  const Shape& x = c.input(0);
  if (!x.has_rank() || count[0] == kUnknown) return;
  const std::int64_t rank = checked_add(x.rank(), count[0]);
  if (rank > kMaxRank) invalid_argument("a shape has at most {} dimensions, not {}", kMaxRank, rank);
  if (!given) return c.set_output(0, Shape::unknown(static_cast<int>(rank)));
  const std::vector<int> added = axes(*given, static_cast<int>(rank));
  std::vector<std::int64_t> dims;
  int next = 0;
  for (int i = 0; i < rank; ++i) dims.push_back(std::ranges::binary_search(added, i) ? 1 : x[next++]);
  c.set_output(0, Shape(dims));
}

void broadcast_to(ShapeContext& c) {
  const Shape shape = known_dims(c, 1, "shape");
  c.set_output(0, broadcast(c.input(0), shape));
}

void reshape_like(ShapeContext& c) {
  check_same_size(c.input(0), c.input(1));
  c.set_output(0, c.input(1));
}

void one_hot(ShapeContext& c) {
  const auto depth = known_scalar(c, 1);
  if (depth && *depth < 0) invalid_argument("'depth' is {}: it must not be negative", *depth);
  const Shape values = with_rank(c.input(2), 1, "values");
  merge_dim(values[0], 2, "the size of 'values' (off, on) and 2");
  const Shape& indices = c.input(0);
  if (!indices.has_rank()) return;
  if (indices.rank() == kMaxRank) invalid_argument("a shape has at most {} dimensions", kMaxRank);
  const int at = axis(c.attributes().integer("axis"), indices.rank() + 1);
  c.set_output(
      0, indices.sub(0, at).with_appended(depth.value_or(kUnknown)).concatenated(indices.sub(at, indices.rank())));
}

void fill(ShapeContext& c) {
  with_rank(c.input(1), 0, "value");
  c.set_output(0, known_dims(c, 0, "dims"));
}

void range(ShapeContext& c) {
  with_rank(c.input(0), 0, "start");
  with_rank(c.input(1), 0, "limit");
  with_rank(c.input(2), 0, "delta");
  const Tensor *start = c.constant(0), *limit = c.constant(1), *delta = c.constant(2);
  std::int64_t size = kUnknown;
  if (start && limit && delta) {
    size = range_size(*start, *limit, *delta);
  } else if (const auto from = known_scalar(c, 0), to = known_scalar(c, 1), step = known_scalar(c, 2);
             from && to && step) {
    if (*step == 0) invalid_argument("'delta' is zero");
    size = integer_range_size(*from, *to, *step);
  }
  c.set_output(0, Shape{size});
}

}  // namespace troupe::shapes
