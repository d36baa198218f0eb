// Random values. The ops are stateless: values derive from (seed, step, slot, node name); see docs/design/numerics.md.
#include <troupe/graph/ops/families.hpp>

namespace troupe {
namespace {

void random_shape(ShapeContext& c) {
  const Shape& shape = c.attributes().shape("shape");
  if (!shape.fully_known()) invalid_argument("attribute 'shape' must be fully known, not {}", shape.to_string());
  shape.num_elements();  // throws on overflow
  c.set_output(0, shape);
}

Op random_op(std::string name) {
  return Op(std::move(name))
      .output("out", "T")
      .type("T", kFloatTypes, DType::f32)
      .attr("shape", AttrType::shape)
      .attr("seed", std::int64_t{0})
      .shape(random_shape)
      .no_gradient()
      .stateful();
}

}  // namespace

void register_random_ops(OpRegistry& ops) {
  ops.add(random_op("RandomUniform").attr("minval", 0.0).attr("maxval", 1.0));
  ops.add(random_op("RandomNormal").attr("mean", 0.0).attr("stddev", 1.0));
  ops.add(random_op("TruncatedNormal").attr("mean", 0.0).attr("stddev", 1.0));
}

}  // namespace troupe
