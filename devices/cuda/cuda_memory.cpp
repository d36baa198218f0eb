#include "troupe/devices/cuda/cuda_memory.hpp"

namespace troupe {
namespace {

class CudaMemory final : public MemorySource {
 public:
  CudaMemory(std::shared_ptr<CudaDriver> driver, int ordinal) : driver_(std::move(driver)), ordinal_(ordinal) {}
  void* allocate(std::size_t bytes) override {
    driver_->use(ordinal_);
    return driver_->allocate(bytes);
  }
  // CUDA itself waits for kernels that may still use it.
  void free(void* data, std::size_t) noexcept override { driver_->free(data); }
  MemorySpace space() const override { return {MemorySpace::Kind::cuda, ordinal_}; }
  std::size_t largest_kept() const override {
    return std::size_t{1} << 36;
  }  // to free memory makes all of the GPU wait

 private:
  std::shared_ptr<CudaDriver> driver_;
  int ordinal_;
};

class PinnedMemory final : public MemorySource {
 public:
  PinnedMemory(std::shared_ptr<CudaDriver> driver, int ordinal) : driver_(std::move(driver)), ordinal_(ordinal) {}
  void* allocate(std::size_t bytes) override {
    driver_->use(ordinal_);
    return driver_->allocate_pinned(bytes);
  }
  void free(void* data, std::size_t) noexcept override { driver_->free_pinned(data); }
  MemorySpace space() const override { return {MemorySpace::Kind::pinned, ordinal_}; }
  std::size_t largest_kept() const override { return std::size_t{1} << 30; }

 private:
  std::shared_ptr<CudaDriver> driver_;
  int ordinal_;
};

}  // namespace

std::shared_ptr<MemorySource> cuda_memory(std::shared_ptr<CudaDriver> driver, int ordinal) {
  return std::make_shared<CudaMemory>(std::move(driver), ordinal);
}
std::shared_ptr<MemorySource> pinned_memory(std::shared_ptr<CudaDriver> driver, int ordinal) {
  return std::make_shared<PinnedMemory>(std::move(driver), ordinal);
}

}  // namespace troupe
