// State: constants, feeds, variables, function arguments and If.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>
#include <troupe/graph/ops/values.hpp>

namespace troupe {
namespace {

void const_shape(ShapeContext& c) {
  const Tensor& value = c.attributes().tensor("value");
  if (value.dtype() != c.attributes().dtype("T"))
    invalid_argument("the constant's value is {}, but its attribute 'T' says {}", name(value.dtype()),
                     name(c.attributes().dtype("T")));
  c.set_output(0, value.shape());
}

void assign_shape(ShapeContext& c) { c.set_output(0, shapes::merge(c.input(0), "handle", c.input(1), "value")); }

void identity_gradient(GradientContext& c) { c.set(0, c.grad()); }
// Reached only between floating dtypes: no gradient flows through others.
void cast_gradient(GradientContext& c) { c.set(0, cast(c.grad(), c.input(0).dtype())); }

Op assign_op(std::string name, std::vector<DType> types) {
  return Op(std::move(name))
      .input("handle", DType::resource)
      .input("value", "T")
      .output("value", "T")
      .type("T", std::move(types))
      .shape(assign_shape)
      .stateful();
}

}  // namespace

void register_state_ops(OpRegistry& ops) {
  ops.add(Op("Placeholder")
              .output("out", "T")
              .type("T")
              .attr("shape", Shape::unknown_rank())
              .shape(shapes::from_attribute())
              .role(OpRole::placeholder));
  ops.add(Op("Const")
              .output("out", "T")
              .type("T")
              .attr("value", AttrType::tensor)
              .shape(const_shape)
              .role(OpRole::constant));
  ops.add(Op("Variable")
              .output("handle", DType::resource)
              .type("T")
              .attr("shape", AttrType::shape)
              .shape(shapes::from_attribute())
              .role(OpRole::variable));
  ops.add(Op("ReadVariable")
              .input("handle", DType::resource)
              .output("value", "T")
              .type("T")
              .shape(shapes::same_as(0))
              .stateful()
              .reads_only());
  ops.add(assign_op("AssignVariable", {}));
  ops.add(assign_op("InitializeVariable", {}));  // assigns if the variable has no value
  ops.add(assign_op("AssignAddVariable", kRealTypes));
  ops.add(assign_op("AssignSubVariable", kRealTypes));
  ops.add(Op("Identity")
              .input("x", "T")
              .output("y", "T")
              .type("T")
              .shape(shapes::same_as(0))
              .value(values::same)
              .gradient(identity_gradient)
              .precision(PrecisionClass::follower)
              .forwards());
  ops.add(Op("StopGradient").input("x", "T").output("y", "T").type("T").shape(shapes::same_as(0)).no_gradient());
  ops.add(Op("NoOp"));
  ops.add(Op("Cast")
              .input("x", "SrcT")
              .output("y", "DstT")
              .type("SrcT", kDataTypes)
              .type("DstT", kDataTypes)
              .shape(shapes::same_as(0))
              .value(values::same)
              .gradient(cast_gradient));
}

}  // namespace troupe
