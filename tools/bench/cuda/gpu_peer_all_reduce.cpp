// NCCL's all-reduce between GPU 0 and others of this process, from one thread.
#include <memory>
#include <thread>
#include <vector>

#include "tools/bench/cuda/gpu_peer_parts.hpp"
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/devices/cuda/nccl_driver.hpp>

namespace troupe {
namespace {

class AllReduce final : public GpuCall {
 public:
  AllReduce(int gpus, std::size_t bytes) : count_(bytes / sizeof(float)) {
    nccl_->version();
    const NcclId id = nccl_->make_id();
    for (int rank = 0; rank < gpus; ++rank) {
      Rank& r = ranks_.emplace_back();
      check_cuda(cudaSetDevice(rank), "cudaSetDevice");
      r.from = std::make_unique<PeerMemory>(bytes, DType::f32);
      r.to = std::make_unique<PeerMemory>(bytes);
      check_cuda(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
      r.comm = nccl_->join(gpus, rank, id);
    }
    settle();
  }
  AllReduce(const AllReduce&) = delete;
  AllReduce& operator=(const AllReduce&) = delete;
  ~AllReduce() override {
    for (const Rank& r : ranks_) {
      static_cast<void>(nccl_->abort(r.comm));
      static_cast<void>(cudaStreamDestroy(r.stream));
    }
  }

  void run(int times) override {
    for (int i = 0; i < times; ++i) {
      nccl_->start_group();
      for (const Rank& r : ranks_)
        nccl_->all_reduce(r.from->data(), r.to->data(), count_, DType::f32, Reduction::sum, r.comm, r.stream);
      nccl_->end_group();
      settle();
    }
    for (const Rank& r : ranks_) check_cuda(cudaStreamSynchronize(r.stream), "cudaStreamSynchronize");
  }

 private:
  struct Rank {
    std::unique_ptr<PeerMemory> from, to;
    cudaStream_t stream = nullptr;
    NcclHandle comm = nullptr;
  };
  void settle() const {
    for (const Rank& r : ranks_)
      while (!nccl_->settled(r.comm)) std::this_thread::yield();
  }

  std::shared_ptr<NcclDriver> nccl_ = make_nccl_driver();
  std::size_t count_;
  std::vector<Rank> ranks_;
};

}  // namespace

std::unique_ptr<GpuCall> peer_all_reduce(int gpus, std::size_t bytes) {
  return std::make_unique<AllReduce>(gpus, bytes);
}

}  // namespace troupe
