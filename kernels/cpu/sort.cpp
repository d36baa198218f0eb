// Sort and ArgSort: stable, by radix.
#include <cmath>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/index_moves.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/sort_keys.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// Elements that compare equal and differ in bits, zeros and NaN, get the order of the input.
template <class T>
void restore_bits(const T* x, T* sorted, std::int64_t count, bool descending) {
  if constexpr (std::is_integral_v<T>) return;
  const auto number = [](T v) { return static_cast<Compute<T>>(v); };
  bool nan = false, negative_zero = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto v = number(x[i]);
    nan |= v != v;
    negative_zero |= (v == 0) & std::signbit(v);
  }
  if (nan) {
    T* to = sorted;
    if (!descending)
      for (to = sorted + count; to > sorted && number(to[-1]) != number(to[-1]);) --to;
    for (std::int64_t i = 0; i < count; ++i)
      if (number(x[i]) != number(x[i])) *to++ = x[i];
  }
  if (negative_zero) {
    std::int64_t at = 0;
    while (number(sorted[at]) != 0) ++at;
    for (std::int64_t i = 0; i < count; ++i)
      if (number(x[i]) == 0) sorted[at++] = x[i];
  }
}

template <class K>
void sort_rows(Device& device, const Tensor& x, Tensor& out, std::int64_t count, bool descending) {
  const std::int64_t rows = x.num_elements() / count;
  device.parallelism().parallel_for(rows, rows_per_part(count), [&](std::int64_t begin, std::int64_t end) {
    const ScratchArray<K> keys(count), room(count);
    const K flip = descending ? ~K{0} : K{0};
    for (std::int64_t row = begin; row < end; ++row) {
      order_keys(x, row * count, count, flip, keys.data());
      const K* sorted = sort_words(keys.data(), room.data(), count);
      dispatch(DataTypes{}, x.dtype(), [&]<class T>() {
        if constexpr (std::is_same_v<KeyOf<T>, K>) {
          T* to = out.mutable_data<T>() + row * count;
          for (std::int64_t i = 0; i < count; ++i) to[i] = element_of<T>(sorted[i] ^ flip);
          restore_bits(x.data<T>() + row * count, to, count, descending);
        }
      });
    }
  });
}

template <class K>
void arg_sort_rows(Device& device, const Tensor& x, std::int64_t* out, std::int64_t count, bool descending) {
  const std::int64_t rows = x.num_elements() / count;
  device.parallelism().parallel_for(rows, rows_per_part(count), [&](std::int64_t begin, std::int64_t end) {
    const ScratchArray<K> keys(count);
    const ScratchArray<Indexed<K>> words(count), room(count);
    for (std::int64_t row = begin; row < end; ++row) {
      order_keys(x, row * count, count, descending ? ~K{0} : K{0}, keys.data());
      for (std::int64_t i = 0; i < count; ++i) words[i] = indexed(keys[i], i);
      const Indexed<K>* sorted = sort_indexed(words.data(), room.data(), count);
      for (std::int64_t i = 0; i < count; ++i) out[row * count + i] = index_of(sorted[i]);
    }
  });
}

// x with the sorted axis last; its length is not 0.
struct SortView {
  SortView(KernelContext& c, std::string_view op, std::int64_t attribute) {
    const Shape& shape = c.input(0).shape();
    if (shape.rank() < 1) invalid_argument("{}: x is a scalar", op);
    axis = checked_axis(attribute, shape.rank());
    count = shape.dim(axis);
    check_row_length(op, count);
    x = with_axis_last(c.device(), c.input(0), axis);
  }
  Tensor x;
  int axis;
  std::int64_t count;
};

void sort(KernelContext& c, std::int64_t attribute, bool descending) {
  if (c.input(0).num_elements() == 0) return c.set_output(0, c.input(0));
  const SortView view(c, "Sort", attribute);
  Tensor out = c.device().allocator().tensor(view.x.dtype(), view.x.shape());
  with_keys(view.x.dtype(), [&]<class K>() { sort_rows<K>(c.device(), view.x, out, view.count, descending); });
  c.set_output(0, with_last_at(c.device(), out, view.axis));
}

void arg_sort(KernelContext& c, std::int64_t attribute, bool descending) {
  if (c.input(0).num_elements() == 0) return c.set_output(0, c.allocate(DType::i64, c.input(0).shape()));
  const SortView view(c, "ArgSort", attribute);
  Tensor out = c.device().allocator().tensor(DType::i64, view.x.shape());
  with_keys(view.x.dtype(), [&]<class K>() {
    arg_sort_rows<K>(c.device(), view.x, out.mutable_data<std::int64_t>(), view.count, descending);
  });
  c.set_output(0, with_last_at(c.device(), out, view.axis));
}

template <class Fn>
void register_sort(KernelRegistry& registry, const char* op, Fn fn) {
  add_untyped(registry, op, [fn](const KernelInit& init) -> Kernel {
    return [fn, axis = init.attributes.integer("axis"),
            descending = init.attributes.boolean("descending")](KernelContext& c) { fn(c, axis, descending); };
  });
}

}  // namespace

void register_sort_kernels(KernelRegistry& registry) {
  register_sort(registry, "Sort", sort);
  register_sort(registry, "ArgSort", arg_sort);
}

}  // namespace troupe
