// Products in QDQ form become products of bytes: inference only, because it changes bits.
#pragma once

#include <memory>

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// Where x and weights are DequantizeLinear of bytes with constant scales, and the weights, the bias and what follows
// has no other reader,
//   [QuantizeLinear] [Relu] [Add residual] [bias] Conv | MatMul
// becomes one QuantizedConv or QuantizedMatMul (kernels/cpu/quantized.hpp), and MaxPool between bytes of equal steps
// pools bytes. The residual is DequantizeLinear of bytes too; between it and the product there may be a QuantizeLinear
// and DequantizeLinear, whose rounding is left out. An f32 result differs from that of the graph by float rounding of
// its terms; one of 8 bits by one step where it is in the middle between two, and in addition by the half step of each
// rounding left out. Weights are i8 after subtraction of their zero points; bytes of images with channels first are
// transposed before and after.
std::unique_ptr<Graph> quantized_products(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
