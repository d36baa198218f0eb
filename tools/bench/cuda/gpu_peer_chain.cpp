// A chain of tiny kernels, captured into a CUDA graph by hand and replayed.
#include "tools/bench/cuda/gpu_peer_launch.hpp"
#include "tools/bench/cuda/gpu_peer_parts.hpp"
#include <troupe/devices/cuda/cuda_error.hpp>

namespace troupe {
namespace {

class Chain final : public StreamCall {
 public:
  Chain(int ordinal, int kernels) : StreamCall(ordinal), data_(32 * sizeof(float), DType::f32) {
    check_cuda(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaError_t launched = cudaSuccess;
    for (int i = 0; i < kernels && launched == cudaSuccess; ++i)
      launched = launch_tiny(static_cast<float*>(data_.data()), stream());
    cudaGraph_t graph = nullptr;
    const cudaError_t captured = cudaStreamEndCapture(stream(), &graph);
    check_cuda(launched, "a tiny kernel");
    check_cuda(captured, "cudaStreamEndCapture");
    const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check_cuda(made, "cudaGraphInstantiate");
  }
  ~Chain() override { static_cast<void>(cudaGraphExecDestroy(executable_)); }

 private:
  void enqueue() override { check_cuda(cudaGraphLaunch(executable_, stream()), "cudaGraphLaunch"); }

  PeerMemory data_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

std::unique_ptr<GpuCall> peer_chain(int ordinal, int kernels) { return std::make_unique<Chain>(ordinal, kernels); }

}  // namespace troupe
