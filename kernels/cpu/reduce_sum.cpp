// Sums, means and sums of squares over axes.
#include <troupe/kernels/cpu/reduce_loops.hpp>

namespace troupe {
namespace {

template <class T>
struct Sum {
  static constexpr bool kInteger = std::is_integral_v<T>;
  using Lane = std::conditional_t<kInteger, std::uint64_t, Compute<T>>;
  using Acc = std::conditional_t<kInteger, std::uint64_t, double>;

  double divisor;

  Lane lane() const { return 0; }
  Acc acc() const { return 0; }
  Lane step(Lane lane, T x) const { return lane + static_cast<Lane>(x); }
  Lane join(Lane a, Lane b) const { return a + b; }
  Acc merge(Acc a, Acc b) const { return a + b; }
  T finish(Acc acc) const {
    if constexpr (std::is_unsigned_v<T>)
      return static_cast<T>(acc / static_cast<std::uint64_t>(divisor));
    else if constexpr (kInteger)  // the minimum divided by -1 cannot occur: counts are positive
      return static_cast<T>(static_cast<std::int64_t>(acc) / static_cast<std::int64_t>(divisor));
    else
      return static_cast<T>(static_cast<Compute<T>>(acc / divisor));
  }
};

template <class T>
struct SquareSum : Sum<T> {
  using Lane = typename Sum<T>::Lane;
  Lane step(Lane lane, T x) const { return lane + static_cast<Lane>(x) * static_cast<Lane>(x); }
};

}  // namespace

void reduce_sums(Parallelism& parallelism, const ReducePlan& plan, const Tensor& x, Tensor& out, double divisor) {
  dispatch(RealTypes{}, x.dtype(),
           [&]<class T>() { run_reduce(parallelism, Sum<T>{divisor}, plan, x.data<T>(), out.mutable_data<T>()); });
}

void reduce_square_sums(Parallelism& parallelism, const ReducePlan& plan, const Tensor& x, Tensor& out,
                        double divisor) {
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    run_reduce(parallelism, SquareSum<T>{{divisor}}, plan, x.data<T>(), out.mutable_data<T>());
  });
}

}  // namespace troupe
