// fused_elementwise.cu, whose kernel takes the memory that its launch asks for by an array that others define: here it
// is one.
#include "tests/kernels/emulated_cuda/cuda_runtime.h"
#undef __shared__
#define __shared__

#include <troupe/kernels/cuda/fused_elementwise.cu>

namespace troupe::device {
namespace {

uint4 kept[emulated_cuda::kSharedBytes / sizeof(uint4)];

}  // namespace
}  // namespace troupe::device
