// Cumulative sums, products, extrema and log-sum-exps along an axis. Rows along the last axis are summed a vector
// register at a time; others by rows of whole registers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/index_moves.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

struct CumulativeOptions {
  bool exclusive = false;
  bool reverse = false;
};

struct CumulativeSum {
  template <class V>
  V operator()(V a, V b) const {
    return a + b;
  }
  static constexpr int identity = 0;
};
struct CumulativeProduct {
  template <class V>
  V operator()(V a, V b) const {
    return a * b;
  }
  static constexpr int identity = 1;
};

// Sixteen floats, or as many bytes of another type.
template <class T>
struct RowVector {
  typedef T Type __attribute__((vector_size(64)));
  static constexpr int kLanes = 64 / sizeof(T);
};

// Moves lanes by `distance` towards the end (in reverse: the beginning); those left empty come from `fill`.
template <int distance, bool reverse, class V, std::size_t... I>
V shifted(V v, V fill, std::index_sequence<I...>) {
  constexpr int kLanes = sizeof...(I);
  if constexpr (reverse)
    return __builtin_shufflevector(
        fill, v,
        (static_cast<int>(I) + distance < kLanes ? kLanes + static_cast<int>(I) + distance : static_cast<int>(I))...);
  else
    return __builtin_shufflevector(
        fill, v, (static_cast<int>(I) < distance ? static_cast<int>(I) : kLanes + static_cast<int>(I) - distance)...);
}

// One row: results of whole registers in a logarithmic number of steps, which only a carry links.
template <class T, class Op, bool reverse>
void cumulate_row(const T* x, T* out, std::int64_t count, bool exclusive) {
  using V = typename RowVector<T>::Type;
  constexpr int kLanes = RowVector<T>::kLanes;
  using Lanes = std::make_index_sequence<static_cast<std::size_t>(kLanes)>;
  const V identity = V{} + static_cast<T>(Op::identity);
  T carry = static_cast<T>(Op::identity);
  std::int64_t done = 0;
  for (; done + kLanes <= count; done += kLanes) {
    const std::int64_t at = reverse ? count - done - kLanes : done;
    V v;
    std::memcpy(&v, x + at, sizeof v);
    v = Op{}(shifted<1, reverse>(v, identity, Lanes{}), v);
    v = Op{}(shifted<2, reverse>(v, identity, Lanes{}), v);
    v = Op{}(shifted<4, reverse>(v, identity, Lanes{}), v);
    if constexpr (kLanes == 16) v = Op{}(shifted<8, reverse>(v, identity, Lanes{}), v);
    const V before = V{} + carry;
    const V sum = Op{}(before, v);
    carry = sum[reverse ? 0 : kLanes - 1];
    const V result = exclusive ? shifted<1, reverse>(sum, before, Lanes{}) : sum;
    std::memcpy(out + at, &result, sizeof result);
  }
  for (; done < count; ++done) {
    const std::int64_t at = reverse ? count - done - 1 : done;
    const T next = static_cast<T>(Op{}(carry, x[at]));
    out[at] = exclusive ? carry : next;
    carry = next;
  }
}

// Columns [begin, end) of [size, inner]: each row from the one before.
template <class T, class Op>
void cumulate_columns(const T* x, T* out, AxisView view, std::int64_t begin, std::int64_t end,
                      CumulativeOptions options) {
  const std::int64_t step = options.reverse ? -view.inner : view.inner;
  std::int64_t at = options.reverse ? (view.size - 1) * view.inner : 0;
  for (std::int64_t s = 0; s < view.size; ++s, at += step) {
    T* to = out + at;
    if (s == 0) {
      for (std::int64_t j = begin; j < end; ++j) to[j] = options.exclusive ? static_cast<T>(Op::identity) : x[at + j];
      continue;
    }
    const T *from = x + at - (options.exclusive ? step : 0), *before = to - step;
    for (std::int64_t j = begin; j < end; ++j) to[j] = static_cast<T>(Op{}(before[j], from[j]));
  }
}

constexpr std::int64_t kColumnsPerPart = 1024;

// Calls fn(outer, begin, end) for columns [begin, end) of each slice of `view`.
template <class Fn>
void for_each_columns(Parallelism& parallelism, const AxisView& view, Fn fn) {
  const std::int64_t blocks = (view.inner + kColumnsPerPart - 1) / kColumnsPerPart;
  const std::int64_t grain = rows_per_part(view.size * std::min(view.inner, kColumnsPerPart));
  parallelism.parallel_for(view.outer * blocks, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = i % blocks * kColumnsPerPart;
      fn(i / blocks, begin, std::min(begin + kColumnsPerPart, view.inner));
    }
  });
}

template <class Op, class T>
void cumulate(Parallelism& parallelism, const T* x, T* out, const AxisView& view, CumulativeOptions options) {
  if constexpr (sizeof(T) >= 4) {
    if (view.inner == 1) {
      parallelism.parallel_for(view.outer, rows_per_part(view.size), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t at = row * view.size;
          if (options.reverse)
            cumulate_row<T, Op, true>(x + at, out + at, view.size, options.exclusive);
          else
            cumulate_row<T, Op, false>(x + at, out + at, view.size, options.exclusive);
        }
      });
      return;
    }
  }
  for_each_columns(parallelism, view, [&](std::int64_t outer, std::int64_t begin, std::int64_t end) {
    const std::int64_t at = outer * view.size * view.inner;
    cumulate_columns<T, Op>(x + at, out + at, view, begin, end, options);
  });
}

AxisView axis_input(const char* op, const Tensor& x, const Tensor& axis) {
  if (axis.num_elements() != 1) invalid_argument("{}: the axis is {}, not a scalar", op, axis.shape().to_string());
  if (x.shape().rank() < 1) invalid_argument("{}: x is a scalar", op);
  return view_axis(x.shape(), checked_axis(axis.item<std::int64_t>(), x.shape().rank()));
}

// Calls fn(x as f32, out as f32) for 16-bit floats, fn(x, out) for other dtypes.
template <class Fn>
Tensor in_floats(KernelContext& c, const Tensor& x, Fn fn) {
  Tensor out = c.allocate(x.dtype(), x.shape());
  if (size_of(x.dtype()) != 2 || !is_floating(x.dtype())) {
    fn(x, out);
    return out;
  }
  Tensor wide(DType::f32, x.shape()), result(DType::f32, x.shape());
  dispatch(Types<Half, BFloat16>{}, x.dtype(), [&]<class T>() {
    convert_elements(c.parallelism(), x.data<T>(), wide.mutable_data<float>(), x.num_elements());
    fn(wide, result);
    convert_elements(c.parallelism(), result.data<float>(), out.mutable_data<T>(), x.num_elements());
  });
  return out;
}

// Signed integers as unsigned ones, whose arithmetic wraps.
template <class Op>
void cumulate_any(KernelContext& c, const char* op, CumulativeOptions options) {
  const Tensor& input = c.input(0);
  const AxisView view = axis_input(op, input, c.input(1));
  c.set_output(0, in_floats(c, input, [&](const Tensor& x, Tensor& out) {
                 const auto run = [&]<class T>() {
                   cumulate<Op>(c.parallelism(), reinterpret_cast<const T*>(x.raw()),
                                reinterpret_cast<T*>(out.mutable_raw()), view, options);
                 };
                 if (x.num_elements() == 0) return;
                 if (x.dtype() == DType::f32) return run.template operator()<float>();
                 if (x.dtype() == DType::f64) return run.template operator()<double>();
                 switch (size_of(x.dtype())) {
                   case 1:
                     return run.template operator()<std::uint8_t>();
                   case 2:
                     return run.template operator()<std::uint16_t>();
                   case 4:
                     return run.template operator()<std::uint32_t>();
                   default:
                     return run.template operator()<std::uint64_t>();
                 }
               }));
}

// The extremum of what came before and its place along the axis: the first of equal ones. NaN stays.
template <class T, bool least>
void cumulative_extremum(KernelContext& c, bool reverse) {
  const Tensor& x = c.input(0);
  const AxisView view = axis_input(least ? "CumMin" : "CumMax", x, c.input(1));
  Tensor out = c.allocate(x.dtype(), x.shape()), index = c.allocate(DType::i64, x.shape());
  const T* from = x.data<T>();
  T* to = out.mutable_data<T>();
  std::int64_t* places = index.mutable_data<std::int64_t>();
  for_each_columns(c.parallelism(), view, [&](std::int64_t outer, std::int64_t begin, std::int64_t end) {
    const std::int64_t step = reverse ? -view.inner : view.inner;
    for (std::int64_t s = 0; s < view.size; ++s) {
      const std::int64_t along = reverse ? view.size - 1 - s : s, at = (outer * view.size + along) * view.inner;
      for (std::int64_t j = at + begin; j < at + end; ++j) {
        const auto value = static_cast<Compute<T>>(from[j]);
        const auto best = static_cast<Compute<T>>(to[s == 0 ? j : j - step]);
        const bool better = (least ? value < best : value > best) | ((value != value) & (best == best)) | (s == 0);
        to[j] = better ? from[j] : to[j - step];
        places[j] = better ? along : places[j - step];
      }
    }
  });
  c.set_output(0, std::move(out));
  c.set_output(1, std::move(index));
}

// log(exp(a) + exp(b)).
double log_add_exp(double a, double b) {
  if (a == b) return a + 0.69314718055994530942;  // infinities too
  const double distance = std::abs(a - b);
  return distance != distance ? distance : std::max(a, b) + std::log1p(std::exp(-distance));
}

// Calls fn(at) with the place of element p of a lane, for each lane of the view.
template <class Fn>
void for_each_lane(Parallelism& parallelism, const AxisView& view, bool reverse, Fn fn) {
  if (view.size == 0) return;
  for_each_columns(parallelism, view, [&](std::int64_t outer, std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      const std::int64_t first = outer * view.size * view.inner + j;
      if (reverse)
        fn([&, first](std::int64_t p) { return first + (view.size - 1 - p) * view.inner; });
      else
        fn([&, first](std::int64_t p) { return first + p * view.inner; });
    }
  });
}

template <class T>
void cumulative_log_sum_exp(KernelContext& c, CumulativeOptions options) {
  const Tensor& x = c.input(0);
  const AxisView view = axis_input("CumLogSumExp", x, c.input(1));
  Tensor out = c.allocate(x.dtype(), x.shape());
  const T* from = x.data<T>();
  T* to = out.mutable_data<T>();
  for_each_lane(c.parallelism(), view, options.reverse, [&](auto at) {
    double sum = -std::numeric_limits<double>::infinity();
    for (std::int64_t p = 0; p < view.size; ++p) {
      const double next = log_add_exp(sum, static_cast<double>(static_cast<Compute<T>>(from[at(p)])));
      to[at(p)] = static_cast<T>(static_cast<Compute<T>>(options.exclusive ? sum : next));
      sum = next;
    }
  });
  c.set_output(0, std::move(out));
}

void check_like(const char* op, const Tensor& x, const Tensor& other) {
  if (other.shape() != x.shape())
    invalid_argument("{}: x is {}, but a gradient or result is {}", op, x.shape().to_string(),
                     other.shape().to_string());
}

// Without divisions, so also right where elements are 0: dx_p = (x_0 ... x_{p-1}) s_p, s_p = dy_p + x_{p+1} s_{p+1}
// (exclusive: s_p = dy_{p+1} + x_{p+1} s_{p+1}).
template <class T>
void cumulative_product_gradient(KernelContext& c, CumulativeOptions options) {
  const Tensor &x = c.input(0), &dy = c.input(1);
  check_like("CumProdGrad", x, dy);
  const AxisView view = axis_input("CumProdGrad", x, c.input(2));
  Tensor out = c.allocate(x.dtype(), x.shape());
  const T *factors = x.data<T>(), *gradients = dy.data<T>();
  T* to = out.mutable_data<T>();
  const std::int64_t n = view.size;
  for_each_lane(c.parallelism(), view, options.reverse, [&](auto at) {
    const auto factor = [&](std::int64_t p) { return static_cast<double>(static_cast<Compute<T>>(factors[at(p)])); };
    double product = 1;
    for (std::int64_t p = 0; p < n; ++p) {
      to[at(p)] = static_cast<T>(static_cast<Compute<T>>(product));
      product *= factor(p);
    }
    double sum = 0;
    for (std::int64_t p = n; p-- > 0;) {
      const std::int64_t g = options.exclusive ? p + 1 : p;
      const double gradient = g < n ? static_cast<double>(static_cast<Compute<T>>(gradients[at(g)])) : 0;
      sum = gradient + (p + 1 < n ? factor(p + 1) * sum : 0);
      const auto before = static_cast<double>(static_cast<Compute<T>>(to[at(p)]));
      to[at(p)] = static_cast<T>(static_cast<Compute<T>>(before * sum));
    }
  });
  c.set_output(0, std::move(out));
}

// dx_p = exp(x_p - y_p) r_p, r_p = dy_p + exp(y_p - y_{p+1}) r_{p+1}: no exponent is above 0. Exclusive results are
// those of the elements before.
template <class T>
void cumulative_log_sum_exp_gradient(KernelContext& c, CumulativeOptions options) {
  const Tensor &x = c.input(0), &y = c.input(1), &dy = c.input(2);
  check_like("CumLogSumExpGrad", x, y);
  check_like("CumLogSumExpGrad", x, dy);
  const AxisView view = axis_input("CumLogSumExpGrad", x, c.input(3));
  Tensor out = c.allocate(x.dtype(), x.shape());
  T* to = out.mutable_data<T>();
  const std::int64_t n = view.size;
  for_each_lane(c.parallelism(), view, options.reverse, [&](auto at) {
    const auto value = [&](const Tensor& t, std::int64_t p) {
      return static_cast<double>(static_cast<Compute<T>>(t.data<T>()[at(p)]));
    };
    double sum = 0, next = 0;  // r and y of the place after
    for (std::int64_t p = n; p-- > 0;) {
      const double here = value(x, p);
      const bool nothing = std::isinf(here) && here < 0;
      double dx = options.exclusive && p + 1 < n && !nothing ? std::exp(here - next) * sum : 0;
      const double result = value(y, p);
      const bool empty = std::isinf(result) && result < 0;
      sum = value(dy, p) + (p + 1 < n && !empty ? std::exp(result - next) * sum : 0);
      next = result;
      if (!options.exclusive && !nothing) dx = std::exp(here - result) * sum;
      to[at(p)] = static_cast<T>(static_cast<Compute<T>>(dx));
    }
  });
  c.set_output(0, std::move(out));
}

CumulativeOptions cumulative_options(const KernelInit& init) {
  return {init.attributes.boolean("exclusive"), init.attributes.boolean("reverse")};
}

}  // namespace

void register_cumulative_kernels(KernelRegistry& registry) {
  add_untyped(registry, "CumSum", [](const KernelInit& init) -> Kernel {
    return [o = cumulative_options(init)](KernelContext& c) { cumulate_any<CumulativeSum>(c, "CumSum", o); };
  });
  add_untyped(registry, "CumProd", [](const KernelInit& init) -> Kernel {
    return [o = cumulative_options(init)](KernelContext& c) { cumulate_any<CumulativeProduct>(c, "CumProd", o); };
  });
  add_factories(registry, "CumMax", RealTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [r = init.attributes.boolean("reverse")](KernelContext& c) { cumulative_extremum<T, false>(c, r); };
  });
  add_factories(registry, "CumMin", RealTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [r = init.attributes.boolean("reverse")](KernelContext& c) { cumulative_extremum<T, true>(c, r); };
  });
  add_factories(registry, "CumLogSumExp", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [o = cumulative_options(init)](KernelContext& c) { cumulative_log_sum_exp<T>(c, o); };
  });
  add_factories(registry, "CumProdGrad", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [o = cumulative_options(init)](KernelContext& c) { cumulative_product_gradient<T>(c, o); };
  });
  add_factories(registry, "CumLogSumExpGrad", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [o = cumulative_options(init)](KernelContext& c) { cumulative_log_sum_exp_gradient<T>(c, o); };
  });
}

}  // namespace troupe
