// Products over axes: of floating types in double, so that a partial product overflows only where double does, and
// rounded once.
#include <troupe/kernels/cpu/cast.hpp>
#include <troupe/kernels/cpu/reduce_loops.hpp>

namespace troupe {
namespace {

template <class T>
struct Product {
  using Acc = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
  using Lane = Acc;

  Lane lane() const { return 1; }
  Acc acc() const { return 1; }
  Lane step(Lane lane, T x) const { return lane * static_cast<Lane>(x); }
  Lane join(Lane a, Lane b) const { return a * b; }
  Acc merge(Acc a, Acc b) const { return a * b; }
  T finish(Acc acc) const { return static_cast<T>(acc); }
};

}  // namespace

Tensor reduce_products(Device& device, const ReducePlan& plan, const Tensor& x, Tensor out) {
  using Computed = Types<float, double, std::int64_t>;
  const DType dtype = x.dtype();
  const DType computed = is_integer(dtype) ? DType::i64 : dtype == DType::f64 ? DType::f64 : DType::f32;
  const Tensor wide = dtype == computed ? x : cast(device, x, computed);
  Tensor products = dtype == computed ? std::move(out) : device.allocator().tensor(computed, out.shape());
  dispatch(Computed{}, computed, [&]<class T>() {
    run_reduce(device.parallelism(), Product<T>{}, plan, wide.data<T>(), products.mutable_data<T>());
  });
  return dtype == computed ? products : cast(device, products, dtype);  // integers: modulo 2^bits
}

}  // namespace troupe
