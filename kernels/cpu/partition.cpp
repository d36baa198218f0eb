// Elements chosen by their values: NonZero; rows dealt out and put together: DynamicPartition, DynamicStitch,
// InvertPermutation.
#include <algorithm>
#include <limits>
#include <vector>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/index_moves.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kNonZeroPart = 32768;

// Calls fn with a predicate: whether element i is not zero. Elements are compared by their bits, without the sign of a
// float.
template <class Fn>
void with_non_zero(const Tensor& x, Fn fn) {
  const auto by_bits = [&]<class E>() {
    const E mask = is_floating(x.dtype()) ? static_cast<E>(static_cast<E>(~E{0}) >> 1) : static_cast<E>(~E{0});
    const E* bits = reinterpret_cast<const E*>(x.raw());
    fn([bits, mask](std::int64_t i) { return (bits[i] & mask) != 0; });
  };
  switch (size_of(x.dtype())) {
    case 1:
      return by_bits.template operator()<std::uint8_t>();
    case 2:
      return by_bits.template operator()<std::uint16_t>();
    case 4:
      return by_bits.template operator()<std::uint32_t>();
    default:
      return by_bits.template operator()<std::uint64_t>();
  }
}

// Writes the coordinates of element `at` to column `column` of [rank, count].
void write_coordinates(const Shape& shape, std::int64_t at, std::int64_t* out, std::int64_t count,
                       std::int64_t column) {
  for (int d = shape.rank(); d-- > 0; at /= shape.dim(d)) out[d * count + column] = at % shape.dim(d);
}

void non_zero(KernelContext& c) {
  const Tensor& x = c.input(0);
  const std::int64_t size = x.num_elements(), parts = (size + kNonZeroPart - 1) / kNonZeroPart;
  std::vector<std::int64_t> starts(static_cast<std::size_t>(parts) + 1);
  with_non_zero(x, [&](auto counts) {
    c.parallelism().parallel_for(size, kNonZeroPart, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t found = 0;
      for (std::int64_t i = begin; i < end; ++i) found += counts(i);
      starts[static_cast<std::size_t>(begin / kNonZeroPart) + 1] = found;
    });
  });
  for (std::size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  const std::int64_t count = starts.back();
  Tensor out = c.allocate(DType::i64, Shape{x.shape().rank(), count});
  std::int64_t* to = out.mutable_data<std::int64_t>();
  if (x.shape().rank() > 0 && count > 0)
    with_non_zero(x, [&](auto counts) {
      c.parallelism().parallel_for(size, kNonZeroPart, [&](std::int64_t begin, std::int64_t end) {
        std::int64_t column = starts[static_cast<std::size_t>(begin / kNonZeroPart)];
        for (std::int64_t i = begin; i < end; ++i)
          if (counts(i)) write_coordinates(x.shape(), i, to, count, column++);
      });
    });
  c.set_output(0, std::move(out));
}

// Shape of the part of `x` that each element of `indices` stands for.
Shape row_shape(const char* op, const Tensor& x, const Tensor& indices) {
  const int rank = indices.shape().rank();
  if (rank > x.shape().rank() || x.shape().sub(0, rank) != indices.shape())
    invalid_argument("{}: indices {} do not fit {}", op, indices.shape().to_string(), x.shape().to_string());
  return x.shape().sub(rank, x.shape().rank());
}

std::vector<std::int64_t> integers_of(const Tensor& indices) {
  return dispatch(IndexTypes{}, indices.dtype(), [&]<class I>() {
    const auto values = indices.values<I>();
    return std::vector<std::int64_t>(values.begin(), values.end());
  });
}

void dynamic_partition(KernelContext& c, std::int64_t parts) {
  const Tensor& x = c.input(0);
  const Shape row = row_shape("DynamicPartition", x, c.input(1));
  const Piece piece = piece_of(x.dtype(), product(row, 0, row.rank()));
  std::vector<std::vector<std::int64_t>> offsets(static_cast<std::size_t>(parts));
  const std::vector<std::int64_t> owners = integers_of(c.input(1));
  for (std::int64_t i = 0; i < std::ssize(owners); ++i) {
    const std::int64_t part = owners[static_cast<std::size_t>(i)];
    if (part < 0 || part >= parts) throw_bad_index("DynamicPartition", part, i, parts, false);
    offsets[static_cast<std::size_t>(part)].push_back(i * piece.bytes);
  }
  for (std::int64_t p = 0; p < parts; ++p) {
    const auto& mine = offsets[static_cast<std::size_t>(p)];
    Tensor out = c.allocate(x.dtype(), Shape{std::ssize(mine)}.concatenated(row));
    if (piece.bytes > 0) move_from(x.raw(), mine.data(), std::ssize(mine), piece, out.mutable_raw());
    c.set_output(static_cast<int>(p), std::move(out));
  }
}

// Rows that no index names are zeros; of two rows for one index the later wins.
void dynamic_stitch(KernelContext& c) {
  const int count = c.num_inputs() / 2;
  std::int64_t rows = 0;
  Shape row;
  for (int n = 0; n < count; ++n) {
    const Shape mine = row_shape("DynamicStitch", c.input(count + n), c.input(n));
    if (n > 0 && mine != row)
      invalid_argument("DynamicStitch: rows of input {} are {}, those before are {}", n, mine.to_string(),
                       row.to_string());
    row = mine;
    const std::vector<std::int64_t> indices = integers_of(c.input(n));
    for (std::int64_t i = 0; i < std::ssize(indices); ++i) {
      const std::int64_t index = indices[static_cast<std::size_t>(i)];
      if (index < 0 || index == std::numeric_limits<std::int64_t>::max())
        invalid_argument("DynamicStitch: index {} (element {} of input {}) is not a row", index, i, n);
      rows = std::max(rows, index + 1);
    }
  }
  const DType dtype = c.input(count).dtype();
  Tensor out = make_zeros(c.device(), dtype, Shape{rows}.concatenated(row));
  const Piece piece = piece_of(dtype, product(row, 0, row.rank()));
  for (int n = 0; n < count && piece.bytes > 0; ++n) {
    std::vector<std::int64_t> offsets = integers_of(c.input(n));
    for (std::int64_t& offset : offsets) offset *= piece.bytes;
    move_to(c.input(count + n).raw(), offsets.data(), std::ssize(offsets), piece, out.mutable_raw());
  }
  c.set_output(0, std::move(out));
}

template <class T>
void invert_permutation(KernelContext& c) {
  const Tensor& x = c.input(0);
  if (x.shape().rank() != 1) invalid_argument("InvertPermutation: x is {}, not a vector", x.shape().to_string());
  Tensor out = c.allocate(x.dtype(), x.shape());
  const T* from = x.data<T>();
  T* to = out.mutable_data<T>();
  const std::int64_t n = x.num_elements();
  std::fill_n(to, n, T{-1});
  for (std::int64_t i = 0; i < n; ++i) {
    if (from[i] < 0 || from[i] >= n) throw_bad_index("InvertPermutation", from[i], i, n, false);
    if (to[from[i]] != -1) invalid_argument("InvertPermutation: {} occurs twice", from[i]);
    to[from[i]] = static_cast<T>(i);
  }
  c.set_output(0, std::move(out));
}

}  // namespace

void register_partition_kernels(KernelRegistry& registry) {
  add_untyped(registry, "NonZero", [](const KernelInit&) -> Kernel { return non_zero; });
  add_untyped(registry, "DynamicPartition", [](const KernelInit& init) -> Kernel {
    return [parts = std::ssize(init.output_types)](KernelContext& c) { dynamic_partition(c, parts); };
  });
  add_untyped(registry, "DynamicStitch", [](const KernelInit&) -> Kernel { return dynamic_stitch; });
  add_kernels(registry, "InvertPermutation", IndexTypes{}, []<class T>(KernelContext& c) { invert_permutation<T>(c); });
}

}  // namespace troupe
