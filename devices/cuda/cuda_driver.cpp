#include "troupe/devices/cuda/cuda_driver.hpp"

#include <troupe/devices/cuda/cuda_error.hpp>

namespace troupe {
namespace {

// While alive, lets the calling thread allocate and free memory during a capture, without capturing either.
class BesideCapture {
 public:
  BesideCapture() : status_(cudaThreadExchangeStreamCaptureMode(&mode_)) {}
  ~BesideCapture() {
    if (status_ == cudaSuccess) static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  BesideCapture(const BesideCapture&) = delete;
  BesideCapture& operator=(const BesideCapture&) = delete;
  cudaError_t status() const { return status_; }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  const cudaError_t status_;
};

class RealCudaDriver final : public CudaDriver {
 public:
  int device_count(std::string* why_none) override {
    int count = 0;
    if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
      static_cast<void>(cudaGetLastError());  // no GPU is not an error of later calls
      if (why_none) *why_none = fmt::format("no GPU: {} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
      return 0;
    }
    if (count == 0 && why_none) *why_none = "no GPU";
    return count;
  }

  CudaProperties properties(int ordinal) override {
    cudaDeviceProp p{};
    check_cuda(cudaGetDeviceProperties(&p, ordinal), "cudaGetDeviceProperties");
    std::string uuid;
    for (const char byte : p.uuid.bytes) uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return {.name = p.name,
            .uuid = std::move(uuid),
            .compute_major = p.major,
            .compute_minor = p.minor,
            .multiprocessors = p.multiProcessorCount,
            .memory_bytes = p.totalGlobalMem,
            .shared_bytes_per_block = p.sharedMemPerBlockOptin};
  }

  void use(int ordinal) override {
    // Queried each time: other code in the process (a library with its own runtime) may have changed it.
    int current = -1;
    if (cudaGetDevice(&current) == cudaSuccess && current == ordinal) return;
    check_cuda(cudaSetDevice(ordinal), "cudaSetDevice");
  }

  bool fatal(const Error& error) const override {
    const auto* failure = dynamic_cast<const CudaFailure*>(&error);
    return failure && failure->fatal();
  }

  void* allocate(std::size_t bytes) override {
    return allocated([](void** data, std::size_t size) { return cudaMalloc(data, size); }, bytes, "cudaMalloc");
  }
  void free(void* data) noexcept override {
    const BesideCapture beside;
    static_cast<void>(cudaFree(data));
  }
  void* allocate_pinned(std::size_t bytes) override {
    // Portable: pinned for all GPUs of the process.
    return allocated([](void** data, std::size_t size) { return cudaHostAlloc(data, size, cudaHostAllocPortable); },
                     bytes, "cudaHostAlloc");
  }
  void free_pinned(void* data) noexcept override {
    const BesideCapture beside;
    static_cast<void>(cudaFreeHost(data));
  }

  CudaStreamHandle make_stream() override {
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
  }
  void destroy(CudaStreamHandle stream) noexcept override { static_cast<void>(cudaStreamDestroy(stream)); }
  CudaEventHandle make_event() override {
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
               "cudaEventCreateWithFlags");
    return event;
  }
  void destroy(CudaEventHandle event) noexcept override { static_cast<void>(cudaEventDestroy(event)); }
  void record(CudaEventHandle event, CudaStreamHandle stream) override {
    check_cuda(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  void await(CudaEventHandle event) override { check_cuda(cudaEventSynchronize(event), "cudaEventSynchronize"); }
  void wait(CudaStreamHandle stream, CudaEventHandle event) override {
    check_cuda(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }

  void copy(void* to, const void* from, std::size_t bytes, CudaStreamHandle stream) override {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  }
  void clear(void* at, std::size_t bytes, CudaStreamHandle stream) override {
    check_cuda(cudaMemsetAsync(at, 0, bytes, stream), "cudaMemsetAsync");
  }
  void copy_peer(void* to, int to_ordinal, const void* from, int from_ordinal, std::size_t bytes,
                 CudaStreamHandle stream) override {
    check_cuda(cudaMemcpyPeerAsync(to, to_ordinal, from, from_ordinal, bytes, stream), "cudaMemcpyPeerAsync");
  }
  void begin_capture(CudaStreamHandle stream) override {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
  CudaGraphHandle end_capture(CudaStreamHandle stream) override {
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t executable = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check_cuda(status, "cudaGraphInstantiate");
    return executable;
  }
  void drop_capture(CudaStreamHandle stream) noexcept override {
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(stream, &graph));
    if (graph) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());  // the caller reports why it is dropped
  }
  void launch(CudaGraphHandle graph, CudaStreamHandle stream) override {
    check_cuda(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  }
  void destroy(CudaGraphHandle graph) noexcept override { static_cast<void>(cudaGraphExecDestroy(graph)); }
  bool enable_peer(int ordinal, int peer) override {
    int can = 0;
    check_cuda(cudaDeviceCanAccessPeer(&can, ordinal, peer), "cudaDeviceCanAccessPeer");
    if (can == 0) return false;
    use(ordinal);
    const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled) {
      static_cast<void>(cudaGetLastError());
      return true;
    }
    check_cuda(status, "cudaDeviceEnablePeerAccess");
    return true;
  }

 private:
  template <class Allocate>
  static void* allocated(Allocate allocate, std::size_t bytes, const char* call) {
    const BesideCapture beside;
    check_cuda(beside.status(), "cudaThreadExchangeStreamCaptureMode");
    void* data = nullptr;
    const cudaError_t status = allocate(&data, bytes);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // the caller retries or reports it
      return nullptr;
    }
    check_cuda(status, call);
    return data;
  }
};

}  // namespace

std::shared_ptr<CudaDriver> make_cuda_driver() { return std::make_shared<RealCudaDriver>(); }

}  // namespace troupe
