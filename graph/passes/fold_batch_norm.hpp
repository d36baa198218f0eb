// Batch normalisation folded into the convolution before it: inference only, because it changes bits.
#pragma once

#include <cstddef>
#include <memory>

#include <troupe/graph/passes/groups.hpp>

namespace troupe {

// Where all but x are constants,
//   scale (conv(x, filter) + bias - mean) / sqrt(variance + epsilon) + offset
// becomes conv(x, filter f) + (bias - mean) f + offset with f = scale / sqrt(variance + epsilon) (Jacob et al.,
// "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018, 3.2): elements
// differ by at most 1e-5 of the largest. The convolution has channels last and nothing else reads its result; the bias
// may be missing. The new filter and bias are left to fold_constants, which keeps results up to `max_bytes`: larger
// filters are not touched.
std::unique_ptr<Graph> fold_batch_norm(const Graph& graph, std::size_t max_bytes, PassNotes& notes);

}  // namespace troupe
