// What the peers of GPU kernels share: memory, a stream, and calls on it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "tools/bench/cuda/gpu_peers.hpp"

namespace troupe {

// Memory of the current GPU, filled with small numbers of `dtype` if it is given: what is multiplied decides how much
// power it takes.
class PeerMemory {
 public:
  explicit PeerMemory(std::size_t bytes, DType dtype = DType::invalid);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  ~PeerMemory();
  void* data() const { return data_; }  // null if of 0 bytes

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

// On the current GPU, which is `ordinal`.
std::unique_ptr<GpuCall> peer_product(int ordinal, DType dtype, bool tf32, std::int64_t m, std::int64_t n,
                                      std::int64_t k);
std::unique_ptr<GpuCall> peer_convolution(int ordinal, ConvDirection direction, DType dtype,
                                          const ConvGeometry& geometry);
std::unique_ptr<GpuCall> peer_chain(int ordinal, int kernels);
std::unique_ptr<GpuCall> peer_all_reduce(int gpus, std::size_t bytes);  // another GPU is the current one then

}  // namespace troupe
