// The library with the GPU benchmark peers, opened at run time.
#pragma once

#include <memory>
#include <string>

#include "tools/bench/cuda/gpu_peers.hpp"

namespace troupe::bench {

// Why a case that needs `gpus` GPUs cannot run here: "no NVIDIA driver (libcuda.so.1)", "needs 2 GPUs, but there is 1";
// "" if it can.
std::string why_not_on(int gpus);

// For an image and a filter, with SAME padding.
ConvGeometry same_convolution(const Shape& x, const Shape& filter, std::int64_t stride);

// Peers on GPU 0. Throws failed_precondition if the library is missing.
std::shared_ptr<GpuPeers> gpu_peers();

}  // namespace troupe::bench
