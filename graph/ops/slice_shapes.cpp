// Shape functions of slices, pads and tiles (graph/ops/slices.cpp).
#include <algorithm>

#include <troupe/graph/builder/pad_mode.hpp>
#include <troupe/graph/known_values.hpp>
#include <troupe/graph/ops/array_shapes.hpp>
#include <troupe/graph/ops/shapes.hpp>
#include <troupe/graph/strided_range.hpp>

namespace troupe::shapes {
namespace {

// x, or a shape of the rank that the number of entries of a list shows: there is one for each dimension.
Shape ranked(const Shape& x, const KnownEntries& list, std::string_view input) {
  if (x.has_rank()) return x;
  if (list.size() > kMaxRank)
    invalid_argument("'{}' has {} entries; a shape has at most {} dimensions", input, list.size(), kMaxRank);
  return Shape::unknown(static_cast<int>(list.size()));
}

KnownEntries per_dimension(const ShapeContext& c, int index, std::string_view input, const Shape& x) {
  return known_entries(c, index, input, x.has_rank() ? x.rank() : kUnknown);
}

// Whether a list of entries, one for each dimension, tells nothing about the rank.
bool no_rank(const ShapeContext& c, int index, const Shape& x) {
  return !x.has_rank() && (!c.input(index).has_rank() || c.input(index)[0] == kUnknown) && !c.integers(index);
}

// The size of a slice [begin:end:stride] of a dimension, as far as it is known.
std::int64_t range_size_of_dim(std::int64_t size, std::optional<std::int64_t> begin, std::optional<std::int64_t> end,
                               std::optional<std::int64_t> stride) {
  if (stride && *stride == 0) invalid_argument("a stride is 0");
  if (size == 0) return 0;
  if (!begin || !end || !stride) return kUnknown;
  if (size != kUnknown) return strided_range(*begin, *end, *stride, size).count;
  // Empty whatever the size is.
  const bool same_side = (*begin < 0) == (*end < 0);
  return same_side && (*stride > 0 ? *begin >= *end : *begin <= *end) ? 0 : kUnknown;
}

// The shape of a strided slice of x: inputs first, first + 1, ... are begin, end, strides and axes.
Shape strided(const ShapeContext& c, const Shape& x, int first) {
  constexpr std::string_view kNames[] = {"begin", "end", "strides", "axes"};
  std::int64_t count = kUnknown;
  for (int i = 0; i < 4; ++i)
    count = merge_dim(count, with_rank(c.input(first + i), 1, kNames[i])[0], "the numbers of entries of the lists");
  if (!x.has_rank()) return x;
  if (count != kUnknown && count > x.rank()) invalid_argument("there are {} axes, but 'x' is {}", count, x.to_string());
  const auto given = known_vector(c, first + 3, "axes");
  if (!given) return Shape::unknown(x.rank());
  KnownEntries lists[3];
  for (int i = 0; i < 3; ++i) lists[i] = known_entries(c, first + i, kNames[i], std::ssize(*given));
  axes(*given, x.rank());  // each once
  Shape out = x;
  for (std::size_t i = 0; i < given->size(); ++i) {
    const int at = axis((*given)[i], x.rank());
    out.set_dim(at, range_size_of_dim(x[at], lists[0][i], lists[1][i], lists[2][i]));
  }
  return out;
}

}  // namespace

void slice(ShapeContext& c) {
  if (no_rank(c, 1, c.input(0)) && no_rank(c, 2, c.input(0))) return;
  KnownEntries begin = per_dimension(c, 1, "begin", c.input(0));
  KnownEntries size = per_dimension(c, 2, "size", c.input(0));
  const Shape x = ranked(c.input(0), begin.empty() ? size : begin, "begin");
  begin.resize(static_cast<std::size_t>(x.rank()));
  if (size.size() != begin.size() && !no_rank(c, 2, Shape::unknown_rank()))
    invalid_argument("'begin' has {} entries and 'size' {}", begin.size(), size.size());
  size.resize(begin.size());
  Shape out = x;
  for (int i = 0; i < x.rank(); ++i) {
    const auto from = begin[static_cast<std::size_t>(i)], count = size[static_cast<std::size_t>(i)];
    if ((from && *from < 0) || (count && *count < -1))
      invalid_argument("invalid slice: {} elements from {}", count.value_or(-1), from.value_or(0));
    if (from && count) checked_add(*from, *count);
    const std::int64_t least = from.value_or(0), most = x[i] == kUnknown ? kUnknown : x[i] - least;
    if (x[i] != kUnknown && (most < 0 || (count && *count > most)))
      invalid_argument("slice [{}, {}) of dimension {} is out of range for {}", least,
                       count.value_or(-1) < 0 ? "end" : std::to_string(least + *count), i, x.to_string());
    const bool to_end = count && *count == -1;
    out.set_dim(i, count && !to_end ? *count : to_end && from ? most : kUnknown);
  }
  c.set_output(0, out);
}

void slice_grad(ShapeContext& c) {
  if (no_rank(c, 2, c.input(1))) return c.set_output(0, c.input(1));
  const KnownEntries begin = per_dimension(c, 2, "begin", c.input(1));
  const Shape x = ranked(c.input(1), begin, "begin");
  const Shape dy = with_rank(c.input(0), x.rank(), "dy");
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t from = begin[static_cast<std::size_t>(i)].value_or(0);
    if (from < 0) invalid_argument("'begin' has the negative entry {}", from);
    if (x[i] != kUnknown && (from > x[i] || dy[i] > x[i] - from))
      invalid_argument("a slice {} from {} in dimension {} is out of range for {}", dy.to_string(), from, i,
                       x.to_string());
  }
  c.set_output(0, x);
}

void strided_slice(ShapeContext& c) { c.set_output(0, strided(c, c.input(0), 1)); }

void strided_slice_grad(ShapeContext& c) {
  merge(strided(c, c.input(1), 2), "the slice", c.input(0), "dy");
  c.set_output(0, c.input(1));
}

void pad(ShapeContext& c) {
  parse_pad_mode(c.attributes().string("mode"));
  with_rank(c.input(2), 0, "value");
  const Shape& given = c.input(0);
  if (no_rank(c, 1, given)) return;
  const KnownEntries pads = known_entries(c, 1, "pads", given.has_rank() ? 2 * given.rank() : kUnknown);
  if (pads.size() % 2 != 0) invalid_argument("'pads' has {} entries, an odd number", pads.size());
  const std::size_t rank = pads.size() / 2;
  if (rank > kMaxRank)
    invalid_argument("'pads' has {} entries; a shape has at most {} dimensions", pads.size(), kMaxRank);
  Shape out = given.has_rank() ? given : Shape::unknown(static_cast<int>(rank));
  for (std::size_t d = 0; d < rank; ++d) {
    const int i = static_cast<int>(d);
    if (!pads[d] || !pads[rank + d]) {
      out.set_dim(i, kUnknown);
      continue;
    }
    const std::int64_t added = checked_add(*pads[d], *pads[rank + d]);
    if (out[i] == kUnknown) continue;
    const std::int64_t before = *pads[d], after = *pads[rank + d], size = checked_add(out[i], added);
    const bool crops = before < -out[i] || after < -out[i];
    if (crops || size < 0 || std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0) < -out[i])
      invalid_argument("pads of {} and {} crop more than dimension {} of {}", *pads[d], *pads[rank + d], i,
                       given.to_string());
    out.set_dim(i, size);
  }
  c.set_output(0, out);
}

void pad_grad(ShapeContext& c) {
  parse_pad_mode(c.attributes().string("mode"));
  const Shape& x = c.input(1);
  known_entries(c, 2, "pads", x.has_rank() ? 2 * x.rank() : kUnknown);
  if (x.has_rank()) with_rank(c.input(0), x.rank(), "dy");
  c.set_output(0, x);
}

void tile(ShapeContext& c) {
  if (no_rank(c, 1, c.input(0))) return;
  const KnownEntries multiples = per_dimension(c, 1, "multiples", c.input(0));
  const Shape x = ranked(c.input(0), multiples, "multiples");
  Shape out = x;
  for (int i = 0; i < x.rank(); ++i) {
    const auto times = multiples[static_cast<std::size_t>(i)];
    if (times && *times < 0) invalid_argument("'multiples' has the negative entry {}", *times);
    out.set_dim(i, !times || x[i] == kUnknown ? kUnknown : checked_mul(x[i], *times));
  }
  c.set_output(0, out);
}

void tile_grad(ShapeContext& c) {
  if (no_rank(c, 2, c.input(1))) return c.set_output(0, c.input(1));
  const KnownEntries multiples = per_dimension(c, 2, "multiples", c.input(1));
  const Shape x = ranked(c.input(1), multiples, "multiples");
  const Shape dy = with_rank(c.input(0), x.rank(), "dy");
  for (int i = 0; i < x.rank(); ++i) {
    const auto times = multiples[static_cast<std::size_t>(i)];
    if (times && *times < 0) invalid_argument("'multiples' has the negative entry {}", *times);
    if (times && x[i] != kUnknown)
      merge_dim(dy[i], checked_mul(x[i], *times), "the sizes of 'dy' and of the tiled 'x'");
  }
  c.set_output(0, x);
}

}  // namespace troupe::shapes
