// Maxima, minima and their indices over axes.
#include <limits>

#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cpu/reduce_loops.hpp>

namespace troupe {
namespace {

// Op: MaximumOp or MinimumOp.
template <class T, class Op>
struct Extreme {
  using Lane = Compute<T>;
  using Acc = Lane;
  static constexpr bool kGreatest = std::is_same_v<Op, MaximumOp>;

  // A value that every other one beats.
  Lane lane() const {
    using Limits = std::numeric_limits<Lane>;
    if constexpr (Limits::has_infinity)
      return kGreatest ? -Limits::infinity() : Limits::infinity();
    else
      return kGreatest ? Limits::lowest() : Limits::max();
  }
  Acc acc() const { return lane(); }
  Lane step(Lane lane, T x) const { return Op{}(lane, static_cast<Lane>(x)); }
  Lane join(Lane a, Lane b) const { return Op{}(a, b); }
  Acc merge(Acc a, Acc b) const { return Op{}(a, b); }
  T finish(Acc acc) const { return static_cast<T>(acc); }
};

template <class T>
bool is_nan(T x) {
  return x != x;
}

constexpr std::int64_t kArgTile = 256;  // columns

// `next` beats `value`, or, if the last counts, equals it. NaN beats all.
template <class V>
bool beats(V next, V value, ArgExtreme kind) {
  if (is_nan(value)) return kind.last && is_nan(next);
  if (is_nan(next)) return true;
  return (kind.greatest ? next > value : next < value) || (kind.last && next == value);
}

// Short rows of floats are searched this many at a time, each in a lane of the registers.
constexpr std::int64_t kArgLanes = 16;
constexpr std::int64_t kShortRow = 64;

// kArgLanes rows of `size` <= kShortRow elements.
void arg_short_rows(const float* x, std::int64_t size, ArgExtreme kind, std::int64_t* out) {
  using Floats = float __attribute__((vector_size(kArgLanes * sizeof(float))));
  using Integers = std::int32_t __attribute__((vector_size(kArgLanes * sizeof(float))));
  Floats columns[kShortRow];
  for (std::int64_t k = 0; k < size; ++k)
    for (std::int64_t r = 0; r < kArgLanes; ++r) columns[k][r] = x[r * size + k];
  Floats best = columns[0];
  Integers at{};
  for (std::int32_t k = 1; k < static_cast<std::int32_t>(size); ++k) {  // beats(), without branches
    const Floats next = columns[k];
    const Integers better = kind.last ? (next != next) | (kind.greatest ? next >= best : next <= best)
                                      : (best == best) & ~(kind.greatest ? next <= best : next >= best);
    best = better ? next : best;
    at = better ? Integers{} + k : at;
  }
  for (std::int64_t r = 0; r < kArgLanes; ++r) out[r] = at[r];
}

// Results [begin, end) of one outer index: columns of [size, inner] at `x`, a tile at a time.
template <class T>
void arg_columns(const T* x, std::int64_t size, std::int64_t inner, std::int64_t columns, ArgExtreme kind,
                 std::int64_t* out) {
  std::array<Compute<T>, kArgTile> best;
  for (std::int64_t j = 0; j < columns; ++j) best[static_cast<std::size_t>(j)] = static_cast<Compute<T>>(x[j]);
  std::fill_n(out, columns, 0);
  for (std::int64_t k = 1; k < size; ++k)
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto next = static_cast<Compute<T>>(x[k * inner + j]);
      if (beats(next, best[static_cast<std::size_t>(j)], kind)) {
        best[static_cast<std::size_t>(j)] = next;
        out[j] = k;
      }
    }
}

template <class T>
std::int64_t arg_row(const T* x, std::int64_t size, ArgExtreme kind) {
  std::int64_t at = 0;
  auto best = static_cast<Compute<T>>(x[0]);
  for (std::int64_t k = 1; k < size; ++k) {
    const auto next = static_cast<Compute<T>>(x[k]);
    if (beats(next, best, kind)) {
      best = next;
      at = k;
    }
  }
  return at;
}

// x is laid out as [outer, size, inner], results as [outer, inner].
template <class T>
void arg_extreme_all(Parallelism& parallelism, const T* x, std::int64_t* out, std::int64_t outer, std::int64_t size,
                     std::int64_t inner, ArgExtreme kind) {
  const std::int64_t width = std::min(inner, kArgTile), tiles = (inner + kArgTile - 1) / kArgTile;
  const std::int64_t grain = std::max<std::int64_t>(kReduceChunk / (size * width), 1);
  parallelism.parallel_for(outer * tiles, grain, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t i = begin;
    if constexpr (std::is_same_v<T, float>)
      if (inner == 1 && size <= kShortRow)
        for (; i + kArgLanes <= end; i += kArgLanes) arg_short_rows(x + i * size, size, kind, out + i);
    for (; i < end; ++i) {
      if (inner == 1) {
        out[i] = arg_row(x + i * size, size, kind);
        continue;
      }
      const std::int64_t o = i / tiles, column = i % tiles * kArgTile;
      arg_columns(x + o * size * inner + column, size, inner, std::min(kArgTile, inner - column), kind,
                  out + o * inner + column);
    }
  });
}

template <class T>
void extremes(Parallelism& parallelism, const ReducePlan& plan, const T* x, T* out, bool greatest) {
  if (greatest)
    run_reduce(parallelism, Extreme<T, MaximumOp>{}, plan, x, out);
  else
    run_reduce(parallelism, Extreme<T, MinimumOp>{}, plan, x, out);
}

}  // namespace

void reduce_extremes(Parallelism& parallelism, const ReducePlan& plan, const Tensor& x, Tensor& out, bool greatest) {
  if (x.dtype() == DType::boolean) {  // 0 and 1
    const auto* from = reinterpret_cast<const std::uint8_t*>(x.data<bool>());
    auto* to = reinterpret_cast<std::uint8_t*>(out.mutable_data<bool>());
    extremes(parallelism, plan, from, to, greatest);
    for (std::int64_t i = 0; i < out.num_elements(); ++i) to[i] = std::min<std::uint8_t>(to[i], 1);  // all of none: 255
    return;
  }
  dispatch(RealTypes{}, x.dtype(),
           [&]<class T>() { extremes(parallelism, plan, x.data<T>(), out.mutable_data<T>(), greatest); });
}

Tensor arg_extreme(Device& device, const Tensor& x, std::int64_t given, ArgExtreme kind) {
  const int axis = checked_axis(given, x.shape().rank());
  const std::int64_t size = x.shape().dim(axis);
  if (size == 0)
    invalid_argument("{}: dimension {} of {} is empty", kind.greatest ? "ArgMax" : "ArgMin", axis,
                     x.shape().to_string());
  Tensor out = device.allocator().tensor(DType::i64, x.shape().without(axis));
  if (out.num_elements() == 0) return out;
  const std::int64_t inner = x.shape().sub(axis + 1, x.shape().rank()).num_elements();
  dispatch(RealTypes{}, x.dtype(), [&]<class T>() {
    arg_extreme_all(device.parallelism(), x.data<T>(), out.mutable_data<std::int64_t>(), out.num_elements() / inner,
                    size, inner, kind);
  });
  return out;
}

}  // namespace troupe
