// Shared by the GPU baselines: memory, a stream, and calls on it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "tools/bench/cuda/gpu_peers.hpp"

namespace troupe {

// Memory of the current GPU, filled with small numbers of `dtype` if one is given: the values multiplied affect power
// draw.
class PeerMemory {
 public:
  explicit PeerMemory(std::size_t bytes, DType dtype = DType::invalid);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  ~PeerMemory();
  void* data() const { return data_; }  // null if 0 bytes

 private:
  void* data_ = nullptr;
};

class StreamCall : public GpuCall {
 public:
  void run(int times) final;

 protected:
  explicit StreamCall(int ordinal);
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;
  ~StreamCall() override;
  virtual void enqueue() = 0;
  cudaStream_t stream() const { return stream_; }

 private:
  int ordinal_;
  cudaStream_t stream_ = nullptr;
};

// On the current GPU, whose number is `ordinal`.
std::unique_ptr<GpuCall> peer_product(int ordinal, DType dtype, bool tf32, std::int64_t m, std::int64_t n,
                                      std::int64_t k);
std::unique_ptr<GpuCall> peer_convolution(int ordinal, ConvDirection direction, DType dtype,
                                          const ConvGeometry& geometry);
std::unique_ptr<GpuCall> peer_chain(int ordinal, int kernels);
std::unique_ptr<GpuCall> peer_all_reduce(int gpus, std::size_t bytes);  // leaves another GPU current

}  // namespace troupe
