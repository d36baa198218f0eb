// Baselines for GPU kernels: libraries called directly, copies, a hand-written CUDA graph. They are in a separate
// library (libtroupe_cuda_bench.so) that troupe-bench loads at run time, since programs do not link CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <troupe/kernels/cuda/conv_plan.hpp>

namespace troupe {

// Work that a GPU repeats on its own memory. All functions throw Error for what CUDA and its libraries report.
class GpuCall {
 public:
  virtual ~GpuCall() = default;
  // Enqueues the work `times` times on its own stream and waits until all are done.
  virtual void run(int times) = 0;
};

class GpuPeers {
 public:
  virtual ~GpuPeers() = default;
  // a [m,k] x b [k,n] by cuBLASLt: its heuristic's first choice, unrestricted.
  virtual std::unique_ptr<GpuCall> product(DType dtype, bool tf32, std::int64_t m, std::int64_t n, std::int64_t k) = 0;
  // cuDNN in its own layouts: the fastest measured plan of all those it suggests that round as ours do.
  virtual std::unique_ptr<GpuCall> convolution(ConvDirection direction, DType dtype, const ConvGeometry& geometry) = 0;
  // Copies `bytes` bytes within the GPU: reads and writes that many.
  virtual std::unique_ptr<GpuCall> device_copy(std::size_t bytes) = 0;
  // cudaMemcpyAsync between pinned memory and the GPU.
  virtual std::unique_ptr<GpuCall> host_copy(std::size_t bytes, bool to_device) = 0;
  // A chain of kernels of 32 threads as one CUDA graph.
  virtual std::unique_ptr<GpuCall> chain(int kernels) = 0;
  // ncclAllReduce of `bytes` bytes of f32 between GPUs 0 to `gpus` - 1.
  virtual std::unique_ptr<GpuCall> all_reduce(int gpus, std::size_t bytes) = 0;
};

// Exported with C linkage by libtroupe_cuda_bench.so. Returns the baselines of one GPU, owned by the caller. Throws
// Error.
using GpuPeersFunction = GpuPeers* (*)(int ordinal);
inline constexpr const char* kGpuPeersSymbol = "troupe_gpu_peers";

}  // namespace troupe
