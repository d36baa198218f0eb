#include "troupe/graph/builder/reduce.hpp"

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

Output reduce(const char* op, Output x, const Axes& axes, ReduceOptions options) {
  return add_op(op, {x, axes.in(x)}, {{"keep_dims", options.keep_dims}}, std::move(options.name));
}

Output arg(const char* op, Output x, const IntegersArg& axis, ArgOptions options) {
  return add_op(op, {x, axis.scalar_in(x)}, {{"select_last_index", options.select_last_index}},
                std::move(options.name));
}

// Axes as one tensor, for functions that need them in several nodes.
Axes shared(const Axes& axes, Output x) { return axes.in(x); }

}  // namespace

Output sum(Output x, Axes axes, ReduceOptions options) { return reduce("Sum", x, axes, std::move(options)); }
Output mean(Output x, Axes axes, ReduceOptions options) { return reduce("Mean", x, axes, std::move(options)); }
Output max(Output x, Axes axes, ReduceOptions options) { return reduce("Max", x, axes, std::move(options)); }
Output min(Output x, Axes axes, ReduceOptions options) { return reduce("Min", x, axes, std::move(options)); }
Output prod(Output x, Axes axes, ReduceOptions options) { return reduce("Prod", x, axes, std::move(options)); }
Output reduce_all(Output x, Axes axes, ReduceOptions options) { return reduce("All", x, axes, std::move(options)); }
Output reduce_any(Output x, Axes axes, ReduceOptions options) { return reduce("Any", x, axes, std::move(options)); }

Output reduce_l1(Output x, Axes axes, ReduceOptions options) { return sum(abs(x), axes, std::move(options)); }

Output reduce_l2(Output x, Axes axes, ReduceOptions options) {
  const Output squares = sum(square(x), axes, {.keep_dims = options.keep_dims});
  // The root's derivative at 0 is infinite: there the result is the constant 0.
  const Output none = equal(squares, scalar_like(squares, 0));
  const Output safe = select(none, scalar_like(squares, 1), squares);
  const Output root = sqrt(safe);
  return select(none, scalar_like(squares, 0), root, std::move(options.name));
}

Output sum_square(Output x, Axes axes, ReduceOptions options) { return sum(square(x), axes, std::move(options)); }

Output log_sum(Output x, Axes axes, ReduceOptions options) {
  return log(sum(x, axes, {.keep_dims = options.keep_dims}), std::move(options.name));
}

// m + log(sum(exp(x - m))) with the maximum m. An infinite m would give inf - inf: then 0 does as well.
Output log_sum_exp(Output x, Axes axes, ReduceOptions options) {
  const Axes over = shared(axes, x);
  const Output greatest = stop_gradient(max(x, over, {.keep_dims = true}));
  const Output zero = scalar_like(x, 0);
  const Output finite = equal(greatest - greatest, zero);
  const Output shift = select(finite, greatest, zero);
  const Output total = sum(exp(x - shift), over, {.keep_dims = options.keep_dims});
  const Output logarithm = log(total);
  return add(logarithm, options.keep_dims ? shift : reshape_like(shift, logarithm), std::move(options.name));
}

Output count_nonzero(Output x, Axes axes, ReduceOptions options) {
  if (!x.valid()) invalid_argument("count_nonzero: x is not a tensor");
  Output counted = x;
  if (x.dtype() != DType::boolean) counted = not_equal(x, scalar_like(x, 0));
  return sum(cast(counted, DType::i64), axes, std::move(options));
}

Output variance(Output x, Axes axes, ReduceOptions options) {
  const Axes over = shared(axes, x);
  const Output center = mean(x, over, {.keep_dims = true});
  return mean(squared_difference(x, center), over, std::move(options));
}

Output standard_deviation(Output x, Axes axes, ReduceOptions options) {
  return sqrt(variance(x, axes, {.keep_dims = options.keep_dims}), std::move(options.name));
}

Moments moments(Output x, Axes axes, ReduceOptions options) {
  const Axes over = shared(axes, x);
  const Output center = mean(x, over, {.keep_dims = true});
  const std::string& name = options.name;
  const Output spread = mean(squared_difference(x, center), over,
                             {.keep_dims = options.keep_dims, .name = name.empty() ? name : name + "/variance"});
  if (options.keep_dims) return {center, spread};
  return {reshape_like(center, spread, name.empty() ? name : name + "/mean"), spread};
}

Output arg_max(Output x, IntegersArg axis, ArgOptions options) { return arg("ArgMax", x, axis, std::move(options)); }
Output arg_min(Output x, IntegersArg axis, ArgOptions options) { return arg("ArgMin", x, axis, std::move(options)); }

Output l2_loss(Output x, Name name) { return add_op("L2Loss", {std::move(x)}, {}, std::move(name)); }

}  // namespace troupe
