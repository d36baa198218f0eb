#include "tools/bench/cuda/gpu_peers.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "tools/bench/cuda/gpu_peer_parts.hpp"
#include <troupe/devices/cuda/cuda_error.hpp>

namespace troupe {
namespace {

class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes) {
    check_cuda(cudaHostAlloc(&data_, bytes, cudaHostAllocDefault), "cudaHostAlloc");
    std::fill_n(static_cast<std::byte*>(data_), bytes, std::byte{1});
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() { static_cast<void>(cudaFreeHost(data_)); }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

class DeviceCopy final : public StreamCall {
 public:
  DeviceCopy(int ordinal, std::size_t bytes)
      : StreamCall(ordinal), bytes_(bytes), from_(bytes, DType::f32), to_(bytes) {}

 private:
  void enqueue() override {
    check_cuda(cudaMemcpyAsync(to_.data(), from_.data(), bytes_, cudaMemcpyDeviceToDevice, stream()),
               "cudaMemcpyAsync");
  }

  std::size_t bytes_;
  PeerMemory from_, to_;
};

class HostCopy final : public StreamCall {
 public:
  HostCopy(int ordinal, std::size_t bytes, bool to_device)
      : StreamCall(ordinal), bytes_(bytes), to_device_(to_device), host_(bytes), device_(bytes) {}

 private:
  void enqueue() override {
    if (to_device_)
      check_cuda(cudaMemcpyAsync(device_.data(), host_.data(), bytes_, cudaMemcpyHostToDevice, stream()),
                 "cudaMemcpyAsync");
    else
      check_cuda(cudaMemcpyAsync(host_.data(), device_.data(), bytes_, cudaMemcpyDeviceToHost, stream()),
                 "cudaMemcpyAsync");
  }

  std::size_t bytes_;
  bool to_device_;
  PinnedMemory host_;
  PeerMemory device_;
};

class Peers final : public GpuPeers {
 public:
  explicit Peers(int ordinal) : ordinal_(ordinal) { use(); }
  std::unique_ptr<GpuCall> product(DType dtype, bool tf32, std::int64_t m, std::int64_t n, std::int64_t k) override {
    use();
    return peer_product(ordinal_, dtype, tf32, m, n, k);
  }
  std::unique_ptr<GpuCall> convolution(ConvDirection direction, DType dtype, const ConvGeometry& geometry) override {
    use();
    return peer_convolution(ordinal_, direction, dtype, geometry);
  }
  std::unique_ptr<GpuCall> device_copy(std::size_t bytes) override {
    use();
    return std::make_unique<DeviceCopy>(ordinal_, bytes);
  }
  std::unique_ptr<GpuCall> host_copy(std::size_t bytes, bool to_device) override {
    use();
    return std::make_unique<HostCopy>(ordinal_, bytes, to_device);
  }
  std::unique_ptr<GpuCall> chain(int kernels) override {
    use();
    return peer_chain(ordinal_, kernels);
  }
  std::unique_ptr<GpuCall> all_reduce(int gpus, std::size_t bytes) override { return peer_all_reduce(gpus, bytes); }

 private:
  void use() const { check_cuda(cudaSetDevice(ordinal_), "cudaSetDevice"); }

  int ordinal_;
};

// A block of numbers in [-1, 1), for filling memory by repetition.
std::vector<std::byte> numbers(DType dtype) {
  constexpr std::size_t kCount = std::size_t{1} << 18;
  std::mt19937 engine(1);
  std::vector<std::byte> out(kCount * size_of(dtype));
  for (std::size_t i = 0; i < kCount; ++i) {
    const float x = static_cast<float>(engine() >> 8) * 0x1p-23f - 1.0f;
    const auto put = [&](auto value) {
      std::copy_n(reinterpret_cast<const std::byte*>(&value), sizeof(value), out.data() + i * sizeof(value));
    };
    switch (dtype) {
      case DType::f32:
        put(x);
        break;
      case DType::f16:
        put(Half(x));
        break;
      case DType::bf16:
        put(BFloat16(x));
        break;
      default:
        fail(Code::unimplemented, "no numbers of {}", name(dtype));
    }
  }
  return out;
}

}  // namespace

PeerMemory::PeerMemory(std::size_t bytes, DType dtype) {
  const std::vector<std::byte> block = dtype == DType::invalid ? std::vector<std::byte>{} : numbers(dtype);
  if (bytes == 0) return;
  check_cuda(cudaMalloc(&data_, bytes), "cudaMalloc");
  try {
    check_cuda(cudaMemset(data_, 0, bytes), "cudaMemset");
    for (std::size_t at = 0; at < bytes && !block.empty(); at += block.size())
      check_cuda(cudaMemcpy(static_cast<std::byte*>(data_) + at, block.data(), std::min(block.size(), bytes - at),
                            cudaMemcpyHostToDevice),
                 "cudaMemcpy");
    // The streams of calls do not synchronise with the default stream.
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  } catch (...) {
    static_cast<void>(cudaFree(data_));
    throw;
  }
}

PeerMemory::~PeerMemory() { static_cast<void>(cudaFree(data_)); }

StreamCall::StreamCall(int ordinal) : ordinal_(ordinal) {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

StreamCall::~StreamCall() { static_cast<void>(cudaStreamDestroy(stream_)); }

void StreamCall::run(int times) {
  check_cuda(cudaSetDevice(ordinal_), "cudaSetDevice");
  for (int i = 0; i < times; ++i) enqueue();
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

}  // namespace troupe

extern "C" __attribute__((visibility("default"))) troupe::GpuPeers* troupe_gpu_peers(int ordinal) {
  return new troupe::Peers(ordinal);
}
