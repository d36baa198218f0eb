#include "troupe/kernels/common/reuse.hpp"

#include <troupe/graph/elementwise_vocabulary.hpp>

namespace troupe {

void register_reuse(KernelRegistry& registry, std::string_view device_type) {
  for (const char* op : {"Identity", "StopGradient", "Reshape", "ReshapeLike", "Squeeze", "ExpandDims"})
    registry.set_reuse(op, device_type, Reuse::view);
#define TROUPE_NAME(NAME) #NAME,
  for (const char* op :
       {"LeakyRelu",
        "LogicalNot",
        "Div",
        "Pow",
        "LogicalAnd",
        "LogicalOr",
        "ReluGrad",
        "LeakyReluGrad",
        "BiasAdd",
        "AddN",
        "Dropout",
        "FusedElementwise",
        "FloorDiv",
        "FloorMod",
        "TruncateMod",
        "Atan2",
        "Xlogy",
        "Polygamma",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "BitwiseNot",
        "LeftShift",
        "RightShift",
        TROUPE_UNARY_OPS(TROUPE_NAME) TROUPE_ARITHMETIC_OPS(TROUPE_NAME) TROUPE_FLOAT_GRADIENT_OPS(TROUPE_NAME)})
    registry.set_reuse(op, device_type, Reuse::in_place);
}
#undef TROUPE_NAME

}  // namespace troupe
