#include "troupe/kernels/common/reuse.hpp"

namespace troupe {

void register_reuse(KernelRegistry& registry, std::string_view device_type) {
  for (const char* op : {"Identity", "StopGradient", "Reshape", "ReshapeLike", "Squeeze", "ExpandDims"})
    registry.set_reuse(op, device_type, Reuse::view);
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
    registry.set_reuse(op, device_type, Reuse::in_place);
}

}  // namespace troupe
