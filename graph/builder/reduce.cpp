#include "troupe/graph/builder/reduce.hpp"

namespace troupe {
namespace {

Output reduce(const char* op, Output x, Integers axes, ReduceOptions options) {
  return add_op(op, {x}, {{"axes", std::move(axes)}, {"keep_dims", options.keep_dims}}, std::move(options.name));
}

}  // namespace

Output sum(Output x, Integers axes, ReduceOptions options) {
  return reduce("Sum", x, std::move(axes), std::move(options));
}
Output mean(Output x, Integers axes, ReduceOptions options) {
  return reduce("Mean", x, std::move(axes), std::move(options));
}
Output max(Output x, Integers axes, ReduceOptions options) {
  return reduce("Max", x, std::move(axes), std::move(options));
}
Output min(Output x, Integers axes, ReduceOptions options) {
  return reduce("Min", x, std::move(axes), std::move(options));
}
Output arg_max(Output x, std::int64_t axis, Name name) {
  return add_op("ArgMax", {x}, {{"axis", axis}}, std::move(name));
}
Output l2_loss(Output x, Name name) { return add_op("L2Loss", {x}, {}, std::move(name)); }

}  // namespace troupe
