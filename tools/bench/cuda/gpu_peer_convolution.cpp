// cuDNN called directly: times all plans that it suggests and keeps the fastest as the baseline.
#include <chrono>
#include <utility>

#include "tools/bench/cuda/gpu_peer_parts.hpp"
#include <troupe/kernels/cuda/conv_engines.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

std::size_t bytes_of(DType dtype, std::int64_t elements) { return static_cast<std::size_t>(elements) * size_of(dtype); }

class Convolution final : public StreamCall {
 public:
  Convolution(int ordinal, const ConvKey& key)
      : StreamCall(ordinal),
        key_(key),
        image_(bytes_of(key.dtype, key.geometry.batch * key.geometry.image_size()), key.dtype),
        filter_(bytes_of(key.dtype, key.geometry.filter_size()), key.dtype),
        result_(bytes_of(key.dtype, key.geometry.batch * key.geometry.result_size()), key.dtype) {
    check_cudnn(cudnnCreate(&handle_), "cudnnCreate");
    check_cudnn(cudnnSetStream(handle_, stream()), "cudnnSetStream");
    double best = 0;
    for_each_plan(key_, {.handle = handle_}, [&](ConvPlan plan) {
      auto memory = std::make_unique<PeerMemory>(static_cast<std::size_t>(plan.workspace));
      const auto exchange = [&] {
        std::swap(plan_, plan);
        std::swap(workspace_, memory);
      };
      exchange();
      double seconds = 0;
      try {
        seconds = time();
      } catch (const Error& error) {
        if (error.code() == Code::unavailable) throw;
        exchange();
        return false;
      }
      if (plan.execution && seconds >= best)
        exchange();  // the previous plan was faster
      else
        best = seconds;
      return false;
    });
    if (!plan_.execution) fail(Code::unimplemented, "cuDNN has no plan for this convolution of {}", name(key.dtype));
  }
  ~Convolution() override {
    plan_.execution.reset();
    static_cast<void>(cudnnDestroy(handle_));
  }

 private:
  double time() {
    constexpr int kTimes = 10;
    run(3);
    const auto begin = std::chrono::steady_clock::now();
    run(kTimes);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kTimes;
  }
  void enqueue() override {
    execute_convolution(key_, plan_, handle_,
                        {.image = image_.data(), .filter = filter_.data(), .result = result_.data()},
                        workspace_->data());
  }

  ConvKey key_;
  PeerMemory image_, filter_, result_;
  cudnnHandle_t handle_ = nullptr;
  ConvPlan plan_;
  std::unique_ptr<PeerMemory> workspace_;
};

}  // namespace

std::unique_ptr<GpuCall> peer_convolution(int ordinal, ConvDirection direction, DType dtype,
                                          const ConvGeometry& geometry) {
  return std::make_unique<Convolution>(
      ordinal, ConvKey{.direction = direction, .dtype = dtype, .deterministic = false, .geometry = geometry});
}

}  // namespace troupe
