// Functions of tensors with NumPy's names: elementwise, reductions, linear algebra, random numbers. The package has
// their public forms, with defaults and documentation.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>

#include "apps/python/arguments.hpp"
#include "apps/python/comparisons.hpp"
#include "apps/python/dtypes.hpp"
#include "apps/python/operators.hpp"
#include <troupe/graph/builder/activations.hpp>
#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/linear.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/norm.hpp>
#include <troupe/graph/builder/order.hpp>
#include <troupe/graph/builder/random.hpp>
#include <troupe/graph/builder/reduce.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

using UnaryOp = Output (*)(Output, Name);
// Of floating numbers: NumPy makes floats of integers.
constexpr std::pair<const char*, UnaryOp> kFloatingFunctions[] = {
    {"exp", exp},         {"exp2", exp2},       {"expm1", expm1},       {"log", log},
    {"log2", log2},       {"log10", log10},     {"log1p", log1p},       {"sqrt", sqrt},
    {"rsqrt", rsqrt},     {"sin", sin},         {"cos", cos},           {"tan", tan},
    {"arcsin", asin},     {"arccos", acos},     {"arctan", atan},       {"sinh", sinh},
    {"cosh", cosh},       {"tanh", tanh},       {"arcsinh", asinh},     {"arccosh", acosh},
    {"arctanh", atanh},   {"erf", erf},         {"erfc", erfc},         {"lgamma", lgamma},
    {"digamma", digamma}, {"sigmoid", sigmoid}, {"softplus", softplus}, {"reciprocal", reciprocal},
};
// Of integers too, which stay as they are.
constexpr std::pair<const char*, UnaryOp> kRoundings[] = {{"floor", floor}, {"ceil", ceil}, {"round", round}};

Output squared(Output x) { return square(x.dtype() == DType::boolean ? cast(x, DType::i8) : x); }
Output sign_of(Output x) { return sign(x); }
Output nans(Output x) { return is_nan(as_floating(x)); }
Output infinities(Output x) { return is_inf(as_floating(x)); }
Output finites(Output x) { return is_finite(as_floating(x)); }
Output inverted(Output x) { return logical_not(cast(x, DType::boolean)); }
Output negated(Output x) { return neg(x); }
constexpr std::pair<const char*, Output (*)(Output)> kUnaryFunctions[] = {
    {"absolute", numpy_absolute}, {"sign", sign_of},         {"square", squared},
    {"negative", negated},        {"isnan", nans},           {"isinf", infinities},
    {"isfinite", finites},        {"logical_not", inverted}, {"invert", numpy_invert},
};

Output difference(Output a, Output b) { return sub(a, b); }
Output truth(Output x) { return cast(x, DType::boolean); }
Output both(Output a, Output b) { return logical_and(truth(a), truth(b)); }
Output either(Output a, Output b) { return logical_or(truth(a), truth(b)); }
Output one_of(Output a, Output b) { return logical_xor(truth(a), truth(b)); }
template <Output (*fn)(Output, Output, Name)>
Output of_floats(Output a, Output b) {
  return fn(as_floating(a), as_floating(b), {});
}
template <Output (*fn)(Output, Output, Name)>
Output of_both(Output a, Output b) {
  return fn(a, b, {});
}
constexpr std::pair<const char*, Output (*)(Output, Output)> kBinaryFunctions[] = {
    {"add", numpy_add},
    {"subtract", difference},
    {"multiply", numpy_multiply},
    {"divide", numpy_divide},
    {"floor_divide", numpy_floor_divide},
    {"remainder", numpy_remainder},
    {"power", numpy_power},
    {"maximum", numpy_maximum},
    {"minimum", numpy_minimum},
    {"fmod", of_both<truncate_mod>},
    {"arctan2", of_floats<atan2>},
    {"hypot", of_floats<hypot>},
    {"logaddexp", of_floats<log_add_exp>},
    {"xlogy", of_floats<xlogy>},
    {"squared_difference", of_both<squared_difference>},
    {"logical_and", both},
    {"logical_or", either},
    {"logical_xor", one_of},
    {"bitwise_and", numpy_and},
    {"bitwise_or", numpy_or},
    {"bitwise_xor", numpy_xor},
    {"left_shift", of_both<left_shift>},
    {"right_shift", of_both<right_shift>},
};

// ---- reductions

using Reduce = Output (*)(Output, Axes, ReduceOptions);
Output as_is(Output x) { return x; }
// Sums and products of small integers are of 64 bits, as in NumPy.
Output widened(Output x) {
  const DType dtype = x.dtype();
  if (dtype == DType::boolean || is_integer(dtype))
    return cast(x, is_unsigned(dtype) && dtype != DType::boolean ? DType::u64 : DType::i64);
  return x;
}
// Means of integers are f64.
Output as_mean(Output x) { return is_integer(x.dtype()) || x.dtype() == DType::boolean ? cast(x, DType::f64) : x; }
Output as_numbers(Output x) { return x.dtype() == DType::boolean ? cast(x, DType::i8) : x; }
struct Reduction {
  const char* name;
  Reduce fn;
  Output (*before)(Output);
};
constexpr Reduction kReductions[] = {
    {"sum", sum, widened},
    {"prod", prod, widened},
    {"mean", mean, as_mean},
    {"max", max, as_numbers},
    {"min", min, as_numbers},
    {"any", reduce_any, truth},
    {"all", reduce_all, truth},
    {"var", variance, as_mean},
    {"std", standard_deviation, as_mean},
    {"logsumexp", log_sum_exp, as_floating},
    {"count_nonzero", count_nonzero, as_is},
    {"l1_norm", reduce_l1, as_floating},
    {"l2_norm", reduce_l2, as_floating},
    {"log_sum", log_sum, as_floating},
    {"sum_square", sum_square, widened},
};

nb::object reduced(const Reduction& reduction, nb::handle x, nb::handle axis, bool keepdims) {
  const auto axes = integers_of(axis, reduction.name);
  return call({x}, [&](const Outputs& xs) {
    const Output from = reduction.before(xs[0]);
    // Over no axes: each element by itself.
    const Output out = axes && axes->empty() ? reduction.fn(expand_dims(from, Integers{0}), Integers{0}, {})
                                             : reduction.fn(from, axes.value_or(Integers{}), {.keep_dims = keepdims});
    const bool extremum = reduction.fn == static_cast<Reduce>(max) || reduction.fn == static_cast<Reduce>(min);
    return extremum && xs[0].dtype() == DType::boolean ? cast(out, DType::boolean) : out;
  });
}

nb::object arg_extremum(nb::handle x, nb::handle axis, bool keepdims, bool greatest) {
  const auto axes = integers_of(axis, greatest ? "argmax" : "argmin");
  return call({x}, [&](const Outputs& xs) {
    const Output from = as_numbers(axes ? xs[0] : reshape(xs[0], Shape{-1}));
    const Integers at = axes.value_or(Integers{0});
    const Output found = greatest ? arg_max(from, at) : arg_min(from, at);
    if (!keepdims) return found;
    if (axes) return expand_dims(found, at);
    return reshape(found, Shape(Integers(static_cast<std::size_t>(xs[0].shape().rank()), 1)));
  });
}

void bind_reductions(nb::module_& m) {
  for (const Reduction& reduction : kReductions)
    m.def(
        reduction.name,
        [&reduction](nb::handle x, nb::handle axis, bool keepdims) { return reduced(reduction, x, axis, keepdims); },
        "x"_a, "axis"_a.none(), "keepdims"_a);
  m.def(
      "argmax", [](nb::handle x, nb::handle axis, bool keepdims) { return arg_extremum(x, axis, keepdims, true); },
      "x"_a, "axis"_a.none(), "keepdims"_a);
  m.def(
      "argmin", [](nb::handle x, nb::handle axis, bool keepdims) { return arg_extremum(x, axis, keepdims, false); },
      "x"_a, "axis"_a.none(), "keepdims"_a);
  const auto running = [&](const char* name, Output (*fn)(Output, std::int64_t, CumulativeOptions)) {
    m.def(
        name,
        [fn](nb::handle x, std::optional<std::int64_t> axis, bool exclusive, bool reverse) {
          return call({x}, [&](const Outputs& xs) {
            const Output from = axis ? xs[0] : reshape(xs[0], Shape{-1});
            return fn(widened(from), axis.value_or(0), {.exclusive = exclusive, .reverse = reverse});
          });
        },
        "x"_a, "axis"_a.none(), "exclusive"_a, "reverse"_a);
  };
  running("cumsum", static_cast<Output (*)(Output, std::int64_t, CumulativeOptions)>(cumsum));
  running("cumprod", static_cast<Output (*)(Output, std::int64_t, CumulativeOptions)>(cumprod));
  running("cumulative_logsumexp", cumulative_logsumexp);
  const auto extremum = [&](const char* name,
                            CumulativeExtremum (*fn)(Output, std::int64_t, CumulativeExtremumOptions)) {
    m.def(name, [fn](nb::handle x, std::int64_t axis, bool reverse) {
      return call({x}, [&](const Outputs& xs) {
        const CumulativeExtremum found = fn(as_numbers(xs[0]), axis, {.reverse = reverse});
        return Outputs{found.values, found.indices};
      });
    });
  };
  extremum("cummax", cumulative_max);
  extremum("cummin", cumulative_min);
  m.def("add_n", [](nb::handle xs) { return call_list(xs, [](const Outputs& all) { return add_n(all); }); });
  m.def("polygamma", [](std::int64_t n, nb::handle x) {
    return call({x}, [&](const Outputs& xs) { return polygamma(as_floating(xs[0]), n); });
  });
  m.def(
      "clip_by_norm",
      [](nb::handle x, double limit, nb::handle axis) {
        const Integers axes = integers_of(axis, "clip_by_norm").value_or(Integers{});
        return call({x}, [&](const Outputs& xs) { return clip_by_norm(as_floating(xs[0]), limit, axes); });
      },
      "x"_a, "clip_norm"_a, "axis"_a.none());
}

// ---- linear algebra

void bind_linear(nb::module_& m) {
  m.def(
      "matmul",
      [](nb::handle a, nb::handle b, bool transpose_a, bool transpose_b) {
        return call_promoted({a, b}, [&](const Outputs& x) {
          return matmul(x[0], x[1], {.transpose_a = transpose_a, .transpose_b = transpose_b});
        });
      },
      "a"_a, "b"_a, "transpose_a"_a, "transpose_b"_a);
  m.def("einsum", [](const std::string& equation, nb::handle operands) {
    return call_list(operands, [&](const Outputs& xs) { return einsum(equation, xs); });
  });
  m.def("tensordot", [](nb::handle a, nb::handle b, const Integers& axes_a, const Integers& axes_b) {
    return call_promoted({a, b}, [&](const Outputs& x) { return tensordot(x[0], x[1], axes_a, axes_b); });
  });
  m.def("tensordot_last", [](nb::handle a, nb::handle b, std::int64_t axes) {
    return call_promoted({a, b}, [&](const Outputs& x) { return tensordot(x[0], x[1], axes); });
  });
  const auto pairs = [&](const char* name, Output (*fn)(Output, Output)) {
    m.def(name, [fn](nb::handle a, nb::handle b) {
      return call_promoted({a, b}, [&](const Outputs& x) { return fn(x[0], x[1]); });
    });
  };
  pairs("outer", [](Output a, Output b) { return outer(a, b); });
  pairs("inner", [](Output a, Output b) { return inner(a, b); });
  m.def("trace", [](nb::handle x) { return call({x}, [](const Outputs& xs) { return trace(widened(xs[0])); }); });
}

// ---- random numbers

RandomOptions random_options(nb::handle dtype, std::int64_t seed) {
  RandomOptions options;
  options.seed = seed;
  if (!dtype.is_none()) options.dtype = dtype_from(dtype);
  return options;
}
template <class Draw>
nb::object drawn(nb::handle shape, const char* function, const Draw& draw) {
  const Shape wanted = shape_from(shape, function);
  const CallGraph of{&eager_graph()};
  const auto run = [&] { return draw(*of.graph, wanted); };
  if (wanted.num_elements() < kReleaseFrom) return to_python(of, run());
  Output out;
  {
    const ReleasedForOp released;
    out = run();
  }
  return to_python(of, out);
}

void bind_random(nb::module_& m) {
  m.def(
      "random_uniform",
      [](nb::handle shape, double low, double high, nb::handle dtype, std::int64_t seed) {
        return drawn(shape, "uniform", [&](Graph& g, const Shape& s) {
          return random_uniform(g, s, low, high, random_options(dtype, seed));
        });
      },
      "shape"_a, "low"_a, "high"_a, "dtype"_a.none(), "seed"_a);
  m.def(
      "random_normal",
      [](nb::handle shape, double mean, double stddev, nb::handle dtype, std::int64_t seed) {
        return drawn(shape, "normal", [&](Graph& g, const Shape& s) {
          return random_normal(g, s, mean, stddev, random_options(dtype, seed));
        });
      },
      "shape"_a, "mean"_a, "stddev"_a, "dtype"_a.none(), "seed"_a);
  m.def(
      "random_truncated_normal",
      [](nb::handle shape, double mean, double stddev, nb::handle dtype, std::int64_t seed) {
        return drawn(shape, "truncated_normal", [&](Graph& g, const Shape& s) {
          return truncated_normal(g, s, mean, stddev, random_options(dtype, seed));
        });
      },
      "shape"_a, "mean"_a, "stddev"_a, "dtype"_a.none(), "seed"_a);
  m.def(
      "random_exponential",
      [](nb::handle shape, double rate, nb::handle dtype, std::int64_t seed) {
        return drawn(shape, "exponential", [&](Graph& g, const Shape& s) {
          return random_exponential(g, s, rate, random_options(dtype, seed));
        });
      },
      "shape"_a, "rate"_a, "dtype"_a.none(), "seed"_a);
  m.def(
      "random_integers",
      [](nb::handle shape, std::int64_t low, std::int64_t high, nb::handle dtype, std::int64_t seed) {
        RandomOptions options = random_options(dtype, seed);
        if (dtype.is_none()) options.dtype = DType::i64;
        return drawn(shape, "integers",
                     [&](Graph& g, const Shape& s) { return random_integers(g, s, low, high, std::move(options)); });
      },
      "shape"_a, "low"_a, "high"_a, "dtype"_a.none(), "seed"_a);
  m.def("random_permutation", [](std::int64_t n, std::int64_t seed) {
    const CallGraph of{&eager_graph()};
    return to_python(of, random_permutation(*of.graph, n, {.dtype = DType::i64, .seed = seed}));
  });
  const auto of_tensor = [&](const char* name, Output (*fn)(Output, RandomOptions)) {
    m.def(name, [fn](nb::handle x, std::int64_t seed) {
      return call({x}, [&](const Outputs& xs) { return fn(xs[0], {.seed = seed}); });
    });
  };
  of_tensor("random_shuffle", shuffle);
  of_tensor("random_bernoulli", bernoulli);
  of_tensor("random_gamma", random_gamma);
  of_tensor("random_poisson", random_poisson);
  m.def("random_categorical", [](nb::handle logits, std::int64_t count, std::int64_t seed) {
    return call({logits}, [&](const Outputs& xs) { return multinomial(xs[0], count, {.seed = seed}); });
  });
}

}  // namespace

void bind_math_functions(nb::module_& m) {
  for (const auto& [name, fn] : kFloatingFunctions)
    m.def(
        name,
        [fn = fn](nb::handle x) { return call({x}, [fn](const Outputs& xs) { return fn(as_floating(xs[0]), {}); }); },
        "x"_a);
  for (const auto& [name, fn] : kRoundings)
    m.def(
        name,
        [fn = fn](nb::handle x) {
          return call({x}, [fn](const Outputs& xs) { return is_floating(xs[0].dtype()) ? fn(xs[0], {}) : xs[0]; });
        },
        "x"_a);
  for (const auto& [name, fn] : kUnaryFunctions)
    m.def(
        name, [fn = fn](nb::handle x) { return call({x}, [fn](const Outputs& xs) { return fn(xs[0]); }); }, "x"_a);
  for (const auto& [name, fn] : kBinaryFunctions)
    m.def(
        name,
        [fn = fn](nb::handle a, nb::handle b) {
          return call_promoted({a, b}, [fn](const Outputs& x) { return fn(x[0], x[1]); });
        },
        "a"_a, "b"_a);
  constexpr std::pair<const char*, int> kComparisons[] = {
      {"less", Py_LT},      {"less_equal", Py_LE}, {"equal", Py_EQ},
      {"not_equal", Py_NE}, {"greater", Py_GT},    {"greater_equal", Py_GE},
  };
  for (const auto& [name, which] : kComparisons)
    m.def(
        name, [which = which](nb::handle a, nb::handle b) { return compare(a, b, which); }, "a"_a, "b"_a);
  m.def(
      "cast",
      [](nb::handle x, nb::handle dtype) {
        const DType to = dtype_from(dtype);
        return call({x}, [&](const Outputs& xs) { return cast(xs[0], to); });
      },
      "x"_a, "dtype"_a);
  m.def(
      "clip",
      [](nb::handle x, nb::handle low, nb::handle high) {
        return call_promoted({x, low, high}, [](const Outputs& xs) { return clip(xs[0], xs[1], xs[2]); });
      },
      "x"_a, "low"_a.none(), "high"_a.none());
  m.def(
      "where",
      [](nb::handle condition, nb::handle a, nb::handle b) {
        const nb::handle all[] = {condition, a, b};
        const CallGraph of = CallGraph::of(all);
        Outputs xs = promoted(of, std::span(all).subspan(1));
        xs.insert(xs.begin(), truth(operand(of, condition)));
        return to_python(of, call_released(of, xs, [](const Outputs& x) { return select(x[0], x[1], x[2]); }));
      },
      "condition"_a, "a"_a, "b"_a);
  bind_reductions(m);
  bind_linear(m);
  bind_random(m);
}

}  // namespace troupe::python
