// Unique: groups equal elements, or slices along an axis, by sorting them stably.
#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/index_moves.hpp>
#include <troupe/kernels/cpu/sort_keys.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// Items in ascending order, equal ones by number; starts[i]: order[i] differs from the item before.
struct ItemOrder {
  std::vector<std::int64_t> order;
  std::vector<char> starts;
};

template <class E>
ItemOrder order_of(const E* items, std::int64_t count, std::int64_t width) {
  ItemOrder out{.order = std::vector<std::int64_t>(static_cast<std::size_t>(count)), .starts = {}};
  std::iota(out.order.begin(), out.order.end(), 0);
  const auto item = [=](std::int64_t i) { return std::span(items + i * width, static_cast<std::size_t>(width)); };
  std::ranges::stable_sort(out.order, [&](std::int64_t a, std::int64_t b) {
    return std::ranges::lexicographical_compare(item(a), item(b));
  });
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    out.starts.push_back(i == 0 || !std::ranges::equal(item(out.order[at - 1]), item(out.order[at])));
  }
  return out;
}

template <class K>
ItemOrder order_of_numbers(const Tensor& x, std::int64_t count, std::int64_t width) {
  std::vector<K> keys(static_cast<std::size_t>(count * width));
  order_keys(x, 0, count * width, K{0}, keys.data());
  if (width != 1) return order_of(keys.data(), count, width);
  std::vector<Indexed<K>> words(keys.size()), room(keys.size());
  for (std::int64_t i = 0; i < count; ++i)
    words[static_cast<std::size_t>(i)] = indexed(keys[static_cast<std::size_t>(i)], i);
  const Indexed<K>* sorted = count > 0 ? sort_indexed(words.data(), room.data(), count) : nullptr;
  ItemOrder out;
  K before{};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = index_of(sorted[i]);
    const K key = keys[static_cast<std::size_t>(number)];
    out.order.push_back(number);
    out.starts.push_back(i == 0 || key != before);
    before = key;
  }
  return out;
}

// Groups, by value or by their first items.
struct ItemGroups {
  std::vector<std::int64_t> first, inverse, counts;
};

ItemGroups group(const ItemOrder& items, bool sorted) {
  ItemGroups out;
  out.inverse.resize(items.order.size());
  for (std::size_t i = 0; i < items.order.size(); ++i) {
    if (items.starts[i]) {
      out.first.push_back(items.order[i]);
      out.counts.push_back(0);
    }
    ++out.counts.back();
    out.inverse[static_cast<std::size_t>(items.order[i])] = std::ssize(out.first) - 1;
  }
  if (sorted) return out;
  std::vector<std::int64_t> order(out.first.size()), rank(out.first.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::int64_t g) { return out.first[static_cast<std::size_t>(g)]; });
  ItemGroups by_first{.first = {}, .inverse = std::move(out.inverse), .counts = {}};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto g = static_cast<std::size_t>(order[i]);
    rank[g] = static_cast<std::int64_t>(i);
    by_first.first.push_back(out.first[g]);
    by_first.counts.push_back(out.counts[g]);
  }
  for (std::int64_t& g : by_first.inverse) g = rank[static_cast<std::size_t>(g)];
  return by_first;
}

Tensor vector_of(const std::vector<std::int64_t>& values) {
  return Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values);
}

void unique(KernelContext& c, const std::vector<std::int64_t>& axes, bool sorted) {
  const bool flat = axes.empty();
  const Shape shape = flat ? Shape{c.input(0).num_elements()} : c.input(0).shape();
  const int axis = flat ? 0 : checked_axis(axes[0], shape.rank());
  const std::int64_t count = shape.dim(axis);
  check_row_length("Unique", count);
  // Items first: [count, width].
  Tensor x = c.input(0).reshaped(shape);
  if (axis > 0) {
    const AxisView view = view_axis(shape, axis);
    const std::int64_t items_first[] = {1, 0, 2};
    x = transpose(c.device(), x.reshaped(Shape{view.outer, view.size, view.inner}), items_first);
  }
  const std::int64_t width = count == 0 ? 0 : x.num_elements() / count;
  const ItemOrder items = x.dtype() == DType::string
                              ? order_of(x.data<std::string>(), count, width)
                              : with_keys(x.dtype(), [&]<class K>() { return order_of_numbers<K>(x, count, width); });
  const ItemGroups groups = group(items, sorted);
  // The first item of each group, taken along the axis of the original.
  const AxisView view = view_axis(shape, axis);
  Shape result = shape;
  result.set_dim(axis, std::ssize(groups.first));
  Tensor y = c.allocate(x.dtype(), result);
  const Piece piece = piece_of(x.dtype(), view.inner);
  std::vector<std::int64_t> offsets;
  for (const std::int64_t i : groups.first) offsets.push_back(i * piece.bytes);
  if (piece.bytes > 0)
    for (std::int64_t o = 0; o < view.outer; ++o)
      move_from(c.input(0).raw() + o * view.size * piece.bytes, offsets.data(), std::ssize(offsets), piece,
                y.mutable_raw() + o * std::ssize(offsets) * piece.bytes);
  c.set_output(0, std::move(y));
  c.set_output(1, vector_of(groups.first));
  c.set_output(2, vector_of(groups.inverse));
  c.set_output(3, vector_of(groups.counts));
}

}  // namespace

void register_unique_kernels(KernelRegistry& registry) {
  add_untyped(registry, "Unique", [](const KernelInit& init) -> Kernel {
    return [axes = init.attributes.integers("axes"), sorted = init.attributes.boolean("sorted")](KernelContext& c) {
      unique(c, axes, sorted);
    };
  });
}

}  // namespace troupe
