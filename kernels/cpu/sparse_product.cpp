// Products of sparse matrices and dense ones, and elements of products of dense ones. Each element of a result is
// summed in the order of the sparse matrix's elements, on one thread.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include <troupe/kernels/cpu/index_moves.hpp>
#include <troupe/kernels/cpu/lanes.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/sparse_indices.hpp>
#include <troupe/kernels/cpu/sparse_kernels.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// Elements whose coordinates are checked, and cut into rows, while they are in the cache.
constexpr std::int64_t kBlock = 2048;
// Rows of a large b are fetched this many elements ahead, and as many bytes of each.
constexpr std::int64_t kAhead = 8, kFetched = 1024, kLarge = 1 << 20;

// The elements of a sparse matrix: element i is at row row(i) of the product, and multiplies row column(i) of b.
template <class T>
struct SparseElements {
  const std::int64_t* places;  // [count,2]
  const T* values;
  std::int64_t count;
  std::int64_t rows, columns;
  int row_of, column_of;  // 0 and 1, or of the adjoint 1 and 0

  std::int64_t row(std::int64_t i) const { return places[2 * i + row_of]; }
  std::int64_t column(std::int64_t i) const { return places[2 * i + column_of]; }
};

enum class Placed : std::uint8_t { in_order, in_any_order, outside };

// Where elements [begin,end) are in a matrix of this shape; in order: no row is before that of the element before it.
Placed placed(const std::int64_t* places, const Shape& shape, int row_of, std::int64_t begin, std::int64_t end) {
  const auto rows = static_cast<std::uint64_t>(shape[0]), columns = static_cast<std::uint64_t>(shape[1]);
  std::uint64_t outside = 0, before = 0;  // sums of bits, which vector registers have
  for (std::int64_t i = begin; i < end; ++i) {
    outside |= static_cast<std::uint64_t>(static_cast<std::uint64_t>(places[2 * i]) >= rows);
    outside |= static_cast<std::uint64_t>(static_cast<std::uint64_t>(places[2 * i + 1]) >= columns);
  }
  for (std::int64_t i = std::max<std::int64_t>(begin, 1); i < end; ++i)
    before |= static_cast<std::uint64_t>(places[2 * i + row_of] < places[2 * i - 2 + row_of]);
  return outside != 0 ? Placed::outside : before != 0 ? Placed::in_any_order : Placed::in_order;
}

// Sums `N` columns of the elements [begin,end), which are of one row.
template <int N, class T>
void sum_few(const SparseElements<T>& a, std::int64_t begin, std::int64_t end, const T* b, std::int64_t width,
             T* __restrict to) {
  using U = Compute<T>;
  U sums[N] = {};
  for (std::int64_t i = begin; i < end; ++i) {
    const U value = static_cast<U>(a.values[i]);
    const T* __restrict from = b + a.column(i) * width;
    for (int j = 0; j < N; ++j) sums[j] += value * static_cast<U>(from[j]);
  }
  for (int j = 0; j < N; ++j) to[j] = static_cast<T>(sums[j]);
}

// The same for `N` vectors of `Lanes` columns.
template <int N, int Lanes, class T>
void sum_vectors(const SparseElements<T>& a, std::int64_t begin, std::int64_t end, const T* b, std::int64_t width,
                 T* __restrict to) {
  using Vector [[gnu::vector_size(Lanes * sizeof(T))]] = T;
  Vector sums[N] = {};
  for (std::int64_t i = begin; i < end; ++i) {
    const T value = a.values[i];
    const T* from = b + a.column(i) * width;
    for (int j = 0; j < N; ++j) {
      Vector x;
      std::memcpy(&x, from + j * Lanes, sizeof x);
      sums[j] += value * x;
    }
  }
  std::memcpy(to, sums, sizeof sums);
}

// All columns of a row. Those of floats in vectors of 64 bytes, eight at a time.
template <class T>
void sum_row(const SparseElements<T>& a, std::int64_t begin, std::int64_t end, const T* b, std::int64_t width, T* to) {
  std::int64_t j = 0;
  if constexpr (std::is_floating_point_v<T>) {
    constexpr int kLanes = 64 / sizeof(T);
    for (; j + 8 * kLanes <= width; j += 8 * kLanes) sum_vectors<8, kLanes>(a, begin, end, b + j, width, to + j);
    for (; j + 4 * kLanes <= width; j += 4 * kLanes) sum_vectors<4, kLanes>(a, begin, end, b + j, width, to + j);
    for (; j + 2 * kLanes <= width; j += 2 * kLanes) sum_vectors<2, kLanes>(a, begin, end, b + j, width, to + j);
    for (; j + kLanes <= width; j += kLanes) sum_vectors<1, kLanes>(a, begin, end, b + j, width, to + j);
    for (; j + kLanes / 2 <= width; j += kLanes / 2) sum_vectors<1, kLanes / 2>(a, begin, end, b + j, width, to + j);
    for (; j + 4 <= width; j += 4) sum_vectors<1, 4>(a, begin, end, b + j, width, to + j);
  } else {
    for (; j + 16 <= width; j += 16) sum_few<16>(a, begin, end, b + j, width, to + j);
    for (; j + 4 <= width; j += 4) sum_few<4>(a, begin, end, b + j, width, to + j);
  }
  for (; j < width; ++j) sum_few<1>(a, begin, end, b + j, width, to + j);
}

template <class T>
void fetch_ahead(const SparseElements<T>& a, std::int64_t begin, std::int64_t end, const T* b, std::int64_t width) {
  const std::int64_t bytes = std::min<std::int64_t>(width * static_cast<std::int64_t>(sizeof(T)), kFetched);
  for (std::int64_t i = begin + kAhead; i < std::min(end + kAhead, a.count); ++i) {
    const char* coming = reinterpret_cast<const char*>(b + a.column(i) * width);
    for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(coming + at);
  }
}

// The rows of the product whose first element is in [begin,end), and those without elements before them; the last call
// also those behind. The rows ascend.
template <class T>
void multiply_rows(const SparseElements<T>& a, std::int64_t begin, std::int64_t end, const T* b, std::int64_t width,
                   T* y) {
  std::int64_t i = begin;
  while (i > 0 && i < a.count && a.row(i) == a.row(i - 1)) ++i;
  std::int64_t next = i == 0 ? 0 : a.row(i - 1) + 1;  // the first row that is not yet written
  const bool large = a.columns * width * static_cast<std::int64_t>(sizeof(T)) > kLarge;
  std::int32_t starts[kBlock + 1];  // of rows, after i
  while (i < end) {
    const std::int64_t stop = std::min(end, i + kBlock);
    starts[0] = 0;
    int rows = 1;
    for (std::int64_t k = i + 1; k < stop; ++k) {
      starts[rows] = static_cast<std::int32_t>(k - i);
      rows += a.row(k) != a.row(k - 1);
    }
    std::int64_t last = stop;
    while (last < a.count && a.row(last) == a.row(stop - 1)) ++last;
    for (int k = 0; k < rows; ++k) {
      const std::int64_t from = i + starts[k], to = k + 1 < rows ? i + starts[k + 1] : last, row = a.row(from);
      if (row != next) std::fill(y + next * width, y + row * width, T());
      if (large) fetch_ahead(a, from, to, b, width);
      sum_row(a, from, to, b, width, y + row * width);
      next = row + 1;
    }
    i = last;
  }
  if (end == a.count) std::fill(y + next * width, y + a.rows * width, T());
}

// `sum` or 0, without a branch that the processor would have to guess.
template <class U>
U sum_or_zero(U sum, bool keep) {
  using Bits = std::conditional_t<sizeof(U) == 8, std::uint64_t, std::uint32_t>;
  return std::bit_cast<U>(std::bit_cast<Bits>(sum) & -static_cast<Bits>(keep));
}

// multiply_rows() for a vector b. Four runs of rows are summed at once, as one sum waits for the other.
template <class T>
void multiply_vector(const SparseElements<T>& a, std::int64_t begin, std::int64_t end, const T* b, T* y) {
  using U = Compute<T>;
  constexpr int kRuns = 4;
  const auto row_start = [&](std::int64_t i) {
    while (i > 0 && i < a.count && a.row(i) == a.row(i - 1)) ++i;
    return i;
  };
  const std::int64_t first = row_start(begin), last = std::max(first, row_start(end));
  std::fill(y + (first == 0 ? 0 : a.row(first - 1) + 1), y + (end == a.count ? a.rows : a.row(last - 1) + 1), T());
  std::int64_t starts[kRuns + 1], shared = last - first;
  for (int r = 0; r <= kRuns; ++r) starts[r] = std::min(last, row_start(first + (last - first) * r / kRuns));
  for (int r = 0; r < kRuns; ++r) shared = std::min(shared, starts[r + 1] - starts[r]);
  U sums[kRuns] = {};
  std::int64_t rows[kRuns] = {-1, -1, -1, -1};
  const auto add = [&](int r, std::int64_t i) {
    const std::int64_t row = a.row(i);
    sums[r] = sum_or_zero(sums[r], row == rows[r]) + static_cast<U>(a.values[i]) * static_cast<U>(b[a.column(i)]);
    rows[r] = row;
    y[row] = static_cast<T>(sums[r]);
  };
  for (std::int64_t k = 0; k < shared; ++k)
    for (int r = 0; r < kRuns; ++r) add(r, starts[r] + k);
  for (int r = 0; r < kRuns; ++r)
    for (std::int64_t i = starts[r] + shared; i < starts[r + 1]; ++i) add(r, i);
}

// Adds columns [first,last) of all elements, in their order, to y.
template <class T, class U>
void add_columns(const SparseElements<T>& a, const T* b, std::int64_t width, U* y, std::int64_t first,
                 std::int64_t last) {
  for (std::int64_t i = 0; i < a.count; ++i) {
    const U value = static_cast<U>(a.values[i]);
    const T* __restrict from = b + a.column(i) * width;
    U* __restrict to = y + a.row(i) * width;
    for (std::int64_t j = first; j < last; ++j) to[j] += value * static_cast<U>(from[j]);
  }
}

// For rows in any order: parts own columns.
template <class T>
void multiply_unordered(Parallelism& parallelism, const SparseElements<T>& a, const T* b, std::int64_t width, T* y) {
  using U = Compute<T>;
  constexpr std::int64_t kColumns = 64;
  const ScratchArray<U> wide(std::is_same_v<T, U> ? 0 : a.rows * width);
  U* sums = wide.data();
  if constexpr (std::is_same_v<T, U>) sums = y;
  std::fill_n(sums, a.rows * width, U());
  parallelism.parallel_for(width, kColumns,
                           [&](std::int64_t first, std::int64_t last) { add_columns(a, b, width, sums, first, last); });
  if constexpr (!std::is_same_v<T, U>)
    std::transform(sums, sums + a.rows * width, y, [](U x) { return static_cast<T>(x); });
}

// Throws for elements outside of the matrix. With one thread a block of whole rows is checked just before it is
// multiplied.
template <class T>
void multiply(Parallelism& parallelism, const SparseElements<T>& a, const T* b, std::int64_t width, T* y,
              const SparseIndices& at) {
  std::atomic<bool> outside = false, ordered = true;
  const auto check = [&](std::int64_t begin, std::int64_t end) {
    const Placed found = placed(a.places, at.shape(), a.row_of, begin, end);
    if (found == Placed::outside) outside = true;
    if (found == Placed::in_any_order) ordered = false;
    return found == Placed::in_order;
  };
  const auto multiply_part = [&](std::int64_t begin, std::int64_t end) {
    if (width == 1) return multiply_vector(a, begin, end, b, y);
    multiply_rows(a, begin, end, b, width, y);
  };
  const std::int64_t grain = std::max(kBlock, rows_per_part(width));
  if (a.count == 0) {
    std::fill_n(y, a.rows * width, T());
  } else if (parallelism.threads() == 1) {
    for (std::int64_t i = 0, end = 0; i < a.count && ordered && !outside; i = end) {
      end = std::min(i + kBlock, a.count);
      while (end < a.count && a.row(end) == a.row(end - 1)) ++end;
      if (check(i, end)) multiply_part(i, end);
    }
  } else {
    parallelism.parallel_for(a.count, 16 * kBlock, [&](std::int64_t begin, std::int64_t end) { check(begin, end); });
    if (ordered && !outside) parallelism.parallel_for(a.count, grain, multiply_part);
  }
  if (!ordered || outside) {
    for (std::int64_t i = 0; i < a.count; ++i)
      if (!at.is_inside(i)) at.throw_outside(i);
    multiply_unordered(parallelism, a, b, width, y);
  }
}

// A dense matrix, or a copy that is its transpose.
template <class T>
Tensor transposed(KernelContext& c, const Tensor& x) {
  const std::int64_t m = x.shape()[0], n = x.shape()[1];
  Tensor out = c.allocate(x.dtype(), Shape{n, m});
  const T* from = x.data<T>();
  T* to = out.mutable_data<T>();
  c.parallelism().parallel_for(n, rows_per_part(m), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = begin; j < end; ++j) to[j * m + i] = from[i * n + j];
  });
  return out;
}

template <class T>
void sparse_dense_product(KernelContext& c, bool adjoint_a, bool adjoint_b) {
  const SparseIndices at("SparseDenseMatMul", c.input(0), c.input(2));
  const Tensor& values = c.input(1);
  Tensor b = c.input(3);
  if (at.rank() != 2 || b.shape().rank() != 2 || values.shape() != Shape{at.count()} ||
      at.shape()[adjoint_a ? 0 : 1] != b.shape()[adjoint_b ? 1 : 0])
    invalid_argument("SparseDenseMatMul: {} values of a sparse matrix {}{} and a dense one {}{} have no product",
                     values.shape().to_string(), at.shape().to_string(), adjoint_a ? " (adjoint)" : "",
                     b.shape().to_string(), adjoint_b ? " (adjoint)" : "");
  if (adjoint_b) b = transposed<T>(c, b);
  const int row_of = adjoint_a ? 1 : 0;
  const std::int64_t width = b.shape()[1], rows = at.shape()[row_of];
  Tensor y = c.allocate(values.dtype(), Shape{rows, width});
  const SparseElements<T> a{.places = c.input(0).template data<std::int64_t>(),
                            .values = values.data<T>(),
                            .count = at.count(),
                            .rows = rows,
                            .columns = at.shape()[1 - row_of],
                            .row_of = row_of,
                            .column_of = 1 - row_of};
  multiply(c.parallelism(), a, b.data<T>(), width, y.mutable_data<T>(), at);
  c.set_output(0, std::move(y));
}

template <class T>
void sampled_product(KernelContext& c) {
  using U = Compute<T>;
  const Tensor &indices = c.input(0), &x = c.input(1), &y = c.input(2);
  const Shape &left = x.shape(), &right = y.shape();
  if (left.rank() != 2 || right.rank() != 2 || left[1] != right[1] || indices.shape().rank() != 2 ||
      indices.shape()[1] != 2)
    invalid_argument("SampledMatMul: indices {}, x {} and y {} must be [n,2], [m,k] and [p,k]",
                     indices.shape().to_string(), left.to_string(), right.to_string());
  Tensor out = c.allocate(x.dtype(), Shape{indices.shape()[0]});
  const std::int64_t width = left[1];
  const std::int64_t* at = indices.data<std::int64_t>();
  const T *xs = x.data<T>(), *ys = y.data<T>();
  T* to = out.mutable_data<T>();
  c.parallelism().parallel_for(indices.shape()[0], rows_per_part(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = at[2 * i], column = at[2 * i + 1];
      if (row < 0 || row >= left[0] || column < 0 || column >= right[0])
        invalid_argument("SampledMatMul: element {} is at [{},{}], outside of the product [{},{}]", i, row, column,
                         left[0], right[0]);
      const T *a = xs + row * width, *b = ys + column * width;
      to[i] =
          static_cast<T>(sum_of<U>(width, [&](std::int64_t j) { return static_cast<U>(a[j]) * static_cast<U>(b[j]); }));
    }
  });
  c.set_output(0, std::move(out));
}

}  // namespace

void register_sparse_product_kernels(KernelRegistry& registry) {
  add_factories(
      registry, "SparseDenseMatMul", FloatTypes{} + IndexTypes{}, []<class T>(const KernelInit& init) -> Kernel {
        return [adjoint_a = init.attributes.boolean("adjoint_a"), adjoint_b = init.attributes.boolean("adjoint_b")](
                   KernelContext& c) { sparse_dense_product<T>(c, adjoint_a, adjoint_b); };
      });
  add_kernels(registry, "SampledMatMul", FloatTypes{}, []<class T>(KernelContext& c) { sampled_product<T>(c); });
}

}  // namespace troupe
