// Maxima, minima and ArgMax over axes.
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

// x is laid out as [outer, size, inner], results as [outer, inner].
template <class T>
void arg_max_all(Parallelism& parallelism, const T* x, std::int64_t* out, std::int64_t outer, std::int64_t size,
                 std::int64_t inner) {
  const std::int64_t grain = std::max<std::int64_t>(kReduceChunk / size, 1);
  parallelism.parallel_for(outer * inner, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* from = x + i / inner * size * inner + i % inner;
      std::int64_t best = 0;
      auto value = static_cast<Compute<T>>(from[0]);
      for (std::int64_t k = 1; k < size && !is_nan(value); ++k) {
        const auto next = static_cast<Compute<T>>(from[k * inner]);
        if (next > value || is_nan(next)) {
          best = k;
          value = next;
        }
      }
      out[i] = best;
    }
  });
}

}  // namespace

void reduce_extremes(Parallelism& parallelism, const ReducePlan& plan, const Tensor& x, Tensor& out, bool greatest) {
  dispatch(RealTypes{}, x.dtype(), [&]<class T>() {
    if (greatest)
      run_reduce(parallelism, Extreme<T, MaximumOp>{}, plan, x.data<T>(), out.mutable_data<T>());
    else
      run_reduce(parallelism, Extreme<T, MinimumOp>{}, plan, x.data<T>(), out.mutable_data<T>());
  });
}

Tensor arg_max(Device& device, const Tensor& x, std::int64_t axis_attribute) {
  const int axis = checked_axis(axis_attribute, x.shape().rank());
  const std::int64_t size = x.shape().dim(axis);
  if (size == 0) invalid_argument("ArgMax: dimension {} of {} is empty", axis, x.shape().to_string());
  Tensor out = device.allocator().tensor(DType::i64, x.shape().without(axis));
  if (out.num_elements() == 0) return out;
  const std::int64_t inner = x.shape().sub(axis + 1, x.shape().rank()).num_elements();
  dispatch(RealTypes{}, x.dtype(), [&]<class T>() {
    arg_max_all(device.parallelism(), x.data<T>(), out.mutable_data<std::int64_t>(), out.num_elements() / inner, size,
                inner);
  });
  return out;
}

}  // namespace troupe
