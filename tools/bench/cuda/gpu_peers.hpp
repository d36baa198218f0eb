// What GPU kernels are measured beside: libraries called directly, copies, a hand-written CUDA graph. In a library of
// its own (libtroupe_cuda_bench.so) that troupe-bench opens, since programs link nothing of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <troupe/kernels/cuda/conv_plan.hpp>

namespace troupe {

// Work that a GPU does again and again on memory of its own. All throw Error for what CUDA and its libraries report.
class GpuCall {
 public:
  virtual ~GpuCall() = default;
  // Enqueues it `times` times on a stream of its own, and waits until all are done.
  virtual void run(int times) = 0;
};

class GpuPeers {
 public:
  virtual ~GpuPeers() = default;
  // a [m,k] x b [k,n] by cuBLASLt: what its heuristic names first, without any restriction.
  virtual std::unique_ptr<GpuCall> product(DType dtype, bool tf32, std::int64_t m, std::int64_t n, std::int64_t k) = 0;
  // By cuDNN in its own layouts: the fastest here of all plans that it suggests and that round as ours do.
  virtual std::unique_ptr<GpuCall> convolution(ConvDirection direction, DType dtype, const ConvGeometry& geometry) = 0;
  // Copies so many bytes within the GPU: as many are read, and as many written.
  virtual std::unique_ptr<GpuCall> device_copy(std::size_t bytes) = 0;
  // cudaMemcpyAsync between pinned memory and the GPU.
  virtual std::unique_ptr<GpuCall> host_copy(std::size_t bytes, bool to_device) = 0;
  // A chain of kernels of 32 threads as one CUDA graph.
  virtual std::unique_ptr<GpuCall> chain(int kernels) = 0;
  // ncclAllReduce of so many bytes of f32 between GPUs 0 to `gpus` - 1.
  virtual std::unique_ptr<GpuCall> all_reduce(int gpus, std::size_t bytes) = 0;
};

// Exported with C linkage by libtroupe_cuda_bench.so: of one GPU; the caller owns it. Throws Error.
using GpuPeersFunction = GpuPeers* (*)(int ordinal);
inline constexpr const char* kGpuPeersSymbol = "troupe_gpu_peers";

}  // namespace troupe
