// Which kernels write over an input, and which return a view of one; twin of kernels/cpu/reuse.cpp.
#include <troupe/kernels/cuda/cuda_kernels.hpp>

namespace troupe {

void register_cuda_elementwise_reuse(KernelRegistry& registry) {
  for (const char* op : {"Reshape", "ReshapeLike", "Squeeze", "ExpandDims"}) registry.set_reuse(op, "GPU", Reuse::view);
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
                         "AddN",
                         "FusedElementwise"})
    registry.set_reuse(op, "GPU", Reuse::in_place);
}

}  // namespace troupe
