// Debugging: ops that look at tensors, stop a step, or call the program.
#include <troupe/graph/builder/debug.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

void pass_on_gradient(GradientContext& c) { c.set(0, c.grad()); }
// What flows back through a checked tensor is checked as well.
void check_numerics_gradient(GradientContext& c) {
  c.set(0, check_numerics(c.grad(), "the gradient: " + c.attributes().string("message")));
}

}  // namespace

void register_debug_ops(OpRegistry& ops) {
  ops.add(Op("Assert")
              .input("cond", DType::boolean)
              .input_types("data", "Tdata")
              .attr("message", std::string())
              .attr("summarize", std::int64_t{8})
              .no_gradient()
              .has_effects());
  ops.add(Op("Print")
              .input("x", "T")
              .input_types("data", "Tdata")
              .output("y", "T")
              .type("T")
              .attr("message", std::string())
              .attr("summarize", std::int64_t{8})
              .shape(shapes::same_as(0))
              .gradient(pass_on_gradient)
              .has_effects());
  // `context`: what the error describes beside x.
  ops.add(Op("CheckNumerics")
              .input("x", "T")
              .input_types("context", "Tcontext")
              .output("y", "T")
              .type("T", kFloatTypes)
              .attr("message", std::string())
              .shape(shapes::same_as(0))
              .gradient(check_numerics_gradient)
              .has_effects());
  // `function` numbers a function of the process that has the number `process` (graph/host_functions.hpp).
  ops.add(Op("HostCall")
              .input_types("inputs", "Tin")
              .output_types("outputs", "Tout")
              .attr("function", AttrType::integer)
              .attr("process", AttrType::integer)
              .no_gradient()
              .has_effects());
}

}  // namespace troupe
