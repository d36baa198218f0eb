// Neural networks: dropout.
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

void dropout_shape(ShapeContext& c) {
  shapes::with_rank(c.input(1), 0, "rate");
  if (const Tensor* rate = c.constant(1)) {
    const double value = rate->item<double>();
    if (!(value >= 0 && value < 1)) invalid_argument("the dropout rate is {}, not in [0, 1)", value);
  }
  c.set_output(0, c.input(0));
  c.set_output(1, c.input(0));
}
void dropout_gradient(GradientContext& c) { c.set(0, c.grad(0) * c.output(1)); }

}  // namespace

void register_nn_ops(OpRegistry& ops) {
  ops.add(Op("Dropout")
              .input("x", "T")
              .input("rate", DType::f64)
              .output("y", "T")
              .output("mask", "T")
              .type("T", kFloatTypes)
              .attr("seed", std::int64_t{0})
              .shape(dropout_shape)
              .gradient(dropout_gradient)
              .stateful());
}

}  // namespace troupe
