// QuantizeLinear and DequantizeLinear.
#include <cmath>
#include <vector>

#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {
namespace {

using ScaleTypes = FloatTypes;
using QuantizedTypes = Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t>;

// The shape of `parameter`, a scalar or a vector along the axis of x, that broadcasts to x's.
Shape parameter_shape(std::string_view what, const Shape& parameter, const Shape& x, std::int64_t axis) {
  if (parameter.num_elements() == 1 && parameter.rank() <= 1) return Shape{};
  const std::int64_t at = axis < 0 ? axis + x.rank() : axis;
  if (at < 0 || at >= x.rank()) invalid_argument("attribute 'axis' is {}, but x has {} dimensions", axis, x.rank());
  const std::int64_t size = x.dim(static_cast<int>(at));
  if (parameter.rank() != 1 || parameter.dim(0) != size)
    invalid_argument("{} must be a scalar or have the {} elements of axis {} of x, but its shape is {}", what, size,
                     axis, parameter.to_string());
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.rank() - at), 1);
  dims[0] = size;
  return Shape(dims);
}

// The elements as W: there are few of them.
template <class W>
std::vector<W> parameters(const Tensor& t) {
  return dispatch(RealTypes{}, t.dtype(), [&]<class T>() {
    std::vector<W> out;
    for (const T& value : t.values<T>()) out.push_back(static_cast<W>(static_cast<Compute<T>>(value)));
    return out;
  });
}

// Walks x with its parameters: fn(first element, number of elements, index of the parameters, step of the index).
template <class Fn>
void walk(KernelContext& context, std::int64_t axis, Fn fn) {
  const Shape x = context.input(0).shape();
  if (context.input(1).shape() != context.input(2).shape())
    invalid_argument("scale is {}, but zero_point is {}: they must have one shape",
                     context.input(1).shape().to_string(), context.input(2).shape().to_string());
  const std::array<Shape, 2> shapes{x, parameter_shape("scale", context.input(1).shape(), x, axis)};
  const BroadcastPlan plan = plan_broadcast(x, shapes);
  context.parallelism().parallel_for(x.num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_stretch(plan, begin, end, [&](std::int64_t at, const auto& offsets, std::int64_t count) {
      const bool moves = plan.inner_contiguous(1) && shapes[1].rank() > 0;
      for (std::int64_t i = 0; i < count; i += kNarrowBlock)
        fn(at + i, std::min(kNarrowBlock, count - i), offsets[1] + (moves ? i : 0), moves);
    });
  });
}

// C: float or double.
template <class C, class Q>
void quantize_block(const C* x, const C* scale, const C* zero, bool moves, Q* out, std::int64_t count) {
  constexpr auto kLow = static_cast<C>(std::numeric_limits<Q>::min()),
                 kHigh = static_cast<C>(std::numeric_limits<Q>::max());
  const auto one = [](C value, C step, C start) {
    C q = std::nearbyint(value / step);
    q = (q == q ? q : C{0}) + start;
    q = q > kHigh ? kHigh : q;
    return static_cast<Q>(static_cast<std::int32_t>(q < kLow ? kLow : q));
  };
  if (moves) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = one(x[i], scale[i], zero[i]);
  } else {
    const C step = *scale, start = *zero;
    for (std::int64_t i = 0; i < count; ++i) out[i] = one(x[i], step, start);
  }
}

template <class C, class Q>
void dequantize_block(const Q* x, const C* scale, const std::int32_t* zero, bool moves, C* out, std::int64_t count) {
  const auto one = [](Q value, C step, std::int32_t start) {
    return static_cast<C>(SubOp{}(static_cast<std::int32_t>(value), start)) * step;
  };
  if (moves) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = one(x[i], scale[i], zero[i]);
  } else {
    const C step = *scale;
    const std::int32_t start = *zero;
    for (std::int64_t i = 0; i < count; ++i) out[i] = one(x[i], step, start);
  }
}

template <class T, class Q>
void quantize(KernelContext& context, std::int64_t axis) {
  const T* x = context.input(0).data<T>();
  using C = Compute<T>;
  const std::vector<C> scale = parameters<C>(context.input(1)), zero = parameters<C>(context.input(2));
  Tensor out = context.allocate(dtype_of<Q>, context.input(0).shape());
  Q* to = out.mutable_data<Q>();
  walk(context, axis, [&](std::int64_t at, std::int64_t count, std::int64_t parameter, bool moves) {
    C room[kNarrowBlock];
    quantize_block(widened(x + at, room, count), scale.data() + parameter, zero.data() + parameter, moves, to + at,
                   count);
  });
  context.set_output(0, std::move(out));
}

template <class T, class Q>
void dequantize(KernelContext& context, std::int64_t axis) {
  const Q* x = context.input(0).data<Q>();
  using C = Compute<T>;
  const std::vector<C> scale = parameters<C>(context.input(1));
  const std::vector<std::int32_t> zero = parameters<std::int32_t>(context.input(2));
  Tensor out = context.allocate(dtype_of<T>, context.input(0).shape());
  T* to = out.mutable_data<T>();
  walk(context, axis, [&](std::int64_t at, std::int64_t count, std::int64_t parameter, bool moves) {
    write_blocks(to + at, count, [&](std::int64_t begin, std::int64_t n, C* result) {
      const std::int64_t first = parameter + (moves ? begin : 0);
      dequantize_block(x + at + begin, scale.data() + first, zero.data() + first, moves, result, n);
    });
  });
  context.set_output(0, std::move(out));
}

void check_dtypes(const KernelContext& context, int float_input) {
  if (context.input(1).dtype() != context.input(float_input).dtype())
    invalid_argument("scale is {}, not {}", name(context.input(1).dtype()), name(context.input(float_input).dtype()));
}

}  // namespace

void register_quantize_kernels(KernelRegistry& registry) {
  registry.add({"QuantizeLinear", "CPU", dtypes_of(ScaleTypes{}), [](const KernelInit& init) -> Kernel {
                  return [axis = init.attributes.integer("axis")](KernelContext& context) {
                    check_dtypes(context, 0);
                    dispatch(ScaleTypes{}, context.input(0).dtype(), [&]<class T>() {
                      dispatch(QuantizedTypes{}, context.input(2).dtype(),
                               [&]<class Q>() { quantize<T, Q>(context, axis); });
                    });
                  };
                }});
  registry.add({"DequantizeLinear", "CPU", dtypes_of(ScaleTypes{}), [](const KernelInit& init) -> Kernel {
                  return [axis = init.attributes.integer("axis")](KernelContext& context) {
                    if (context.input(2).dtype() != context.input(0).dtype())
                      invalid_argument("zero_point is {}, but x is {}", name(context.input(2).dtype()),
                                       name(context.input(0).dtype()));
                    dispatch(ScaleTypes{}, context.input(1).dtype(), [&]<class T>() {
                      dispatch(QuantizedTypes{} + Types<std::int32_t>{}, context.input(0).dtype(),
                               [&]<class Q>() { dequantize<T, Q>(context, axis); });
                    });
                  };
                }});
}

}  // namespace troupe
