// Random values. The ops are stateless: values derive from (seed, step, slot, node name); see docs/design/numerics.md.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

void random_shape(ShapeContext& c) { c.set_output(0, shapes::known_dims(c, 0, "shape")); }

Op random_op(std::string name) {
  return Op(std::move(name))
      .input("shape", DType::i64)
      .output("out", "T")
      .type("T", kFloatTypes, DType::f32)
      .attr("seed", std::int64_t{0})
      .shape(random_shape)
      .no_gradient()
      .stateful();
}

// Each element depends on the element of x at its place.
Op drawn_op(std::string name, const char* parameter) {
  return Op(std::move(name))
      .input(parameter, "T")
      .output("out", "T")
      .type("T", kFloatTypes)
      .attr("seed", std::int64_t{0})
      .shape(shapes::same_as(0))
      .stateful();
}

void integers_shape(ShapeContext& c) {
  random_shape(c);
  for (const int i : {1, 2}) shapes::with_rank(c.input(i), 0, i == 1 ? "low" : "high");
  const auto low = shapes::known_scalar(c, 1), high = shapes::known_scalar(c, 2);
  if (low && high && *low >= *high) invalid_argument("'low' is {}: it must be less than 'high', {}", *low, *high);
}

void multinomial_shape(ShapeContext& c) {
  const Shape logits = shapes::with_rank(c.input(0), 2, "logits");
  shapes::with_rank(c.input(1), 0, "count");
  const auto count = shapes::known_scalar(c, 1);
  if (count && *count < 0) invalid_argument("'count' is {}: it must not be negative", *count);
  c.set_output(0, Shape{logits[0], count.value_or(kUnknown)});
}

void permutation_shape(ShapeContext& c) {
  shapes::with_rank(c.input(0), 0, "n");
  const auto n = shapes::known_scalar(c, 0);
  if (n && *n < 0) invalid_argument("'n' is {}: it must not be negative", *n);
  c.set_output(0, Shape{n.value_or(kUnknown)});
}

}  // namespace

void register_random_ops(OpRegistry& ops) {
  ops.add(random_op("RandomUniform").attr("minval", 0.0).attr("maxval", 1.0));
  ops.add(random_op("RandomNormal").attr("mean", 0.0).attr("stddev", 1.0));
  ops.add(random_op("TruncatedNormal").attr("mean", 0.0).attr("stddev", 1.0));
  ops.add(Op("RandomIntegers")
              .input("shape", DType::i64)
              .input("low", "T")
              .input("high", "T")
              .output("out", "T")
              .type("T", kIndexTypes)
              .attr("seed", std::int64_t{0})
              .shape(integers_shape)
              .no_gradient()
              .stateful());
  ops.add(drawn_op("Bernoulli", "p").no_gradient());
  ops.add(drawn_op("RandomGamma", "alpha"));
  ops.add(drawn_op("RandomPoisson", "rate").no_gradient());
  ops.add(Op("Multinomial")
              .input("logits", "T")
              .input("count", DType::i64)
              .output("out", DType::i64)
              .type("T", kFloatTypes)
              .attr("seed", std::int64_t{0})
              .shape(multinomial_shape)
              .no_gradient()
              .stateful());
  ops.add(Op("RandomPermutation")
              .input("n", DType::i64)
              .output("out", DType::i64)
              .attr("seed", std::int64_t{0})
              .shape(permutation_shape)
              .no_gradient()
              .stateful());
}

}  // namespace troupe
