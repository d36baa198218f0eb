// Which kernels write over an input, and which return a view of one: what the memory of plans is worked out from
// (scheduler/plan/memory_plan.hpp). A kernel that is not named here may still do either; its memory is planned less
// well.
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {

void register_reuse(KernelRegistry& registry) {
  for (const char* op : {"Identity", "StopGradient", "Reshape", "ReshapeLike", "Squeeze", "ExpandDims"})
    registry.set_reuse(op, "CPU", Reuse::view);
  for (const char* op : {"Neg",
                         "Abs",
                         "Sign",
                         "Square",
                         "Relu",
                         "Exp",
                         "Log",
                         "Log1p",
                         "Sqrt",
                         "Rsqrt",
                         "Tanh",
                         "Sigmoid",
                         "Softplus",
                         "Floor",
                         "Erf",
                         "LeakyRelu",
                         "LogicalNot",
                         "Add",
                         "Sub",
                         "Mul",
                         "Maximum",
                         "Minimum",
                         "SquaredDifference",
                         "Div",
                         "Pow",
                         "LogicalAnd",
                         "LogicalOr",
                         "ReluGrad",
                         "SigmoidGrad",
                         "TanhGrad",
                         "LeakyReluGrad",
                         "BiasAdd",
                         "AddN",
                         "Dropout",
                         "FusedElementwise"})
    registry.set_reuse(op, "CPU", Reuse::in_place);
}

}  // namespace troupe
