// The library with the peers of GPU kernels, opened at run time.
#pragma once

#include <memory>
#include <string>

#include "tools/bench/cuda/gpu_peers.hpp"

namespace troupe::bench {

// Why what needs so many GPUs cannot be measured here: "no NVIDIA driver (libcuda.so.1)", "it needs 2 GPUs, there is
// 1"; "" if it can.
std::string why_not_on(int gpus);

// Of an image and a filter, padded to SAME.
ConvGeometry same_convolution(const Shape& x, const Shape& filter, std::int64_t stride);

// Of GPU 0. Throws failed_precondition if the library is not there.
std::shared_ptr<GpuPeers> gpu_peers();

}  // namespace troupe::bench
