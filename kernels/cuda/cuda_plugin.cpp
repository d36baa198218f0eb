// Entry points of the plug-in.
#include <mutex>
#include <set>

#include <troupe/devices/cuda/cuda_driver.hpp>
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/devices/cuda/nccl_driver.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/parts_sum_launch.hpp>

namespace troupe {
namespace {

class CudaPlugin final : public DevicePlugin {
 public:
  explicit CudaPlugin(AllocationLabelSource label) : label_(label) {
    count_ = driver_->device_count(&description_);
    for (int i = 0; i < count_; ++i) description_ += (i == 0 ? "" : ", ") + driver_->properties(i).name;
  }
  std::string type() const override { return "GPU"; }
  int count() const override { return count_; }
  std::string description() const override { return description_; }
  std::unique_ptr<Device> make(int ordinal, const AcceleratorOptions& options) override {
    if (ordinal < 0 || ordinal >= count_) invalid_argument("there is no GPU {}; there are {}", ordinal, count_);
    const CudaCollectives collectives{
        .nccl = nccl_,
        .sum =
            [](const PartsSum& sum, CudaStreamHandle stream) {
              check_cuda(launch_parts_sum(sum, stream), "the kernel that adds up parts of an all-reduce");
            },
        .load_sum = [] { check_cuda(load_parts_sum(), "the kernels that add up parts of an all-reduce"); }};
    auto device = make_cuda_device(driver_, ordinal, options, label_, collectives);
    // Only GPUs that this process uses: touching another one takes hundreds of MiB of its memory.
    const std::lock_guard lock(mutex_);
    for (const int other : made_) {
      if (other == ordinal) continue;
      driver_->enable_peer(ordinal, other);
      driver_->enable_peer(other, ordinal);
    }
    made_.insert(ordinal);
    return device;
  }
  void register_kernels(KernelRegistry& registry) override { register_cuda_kernels(registry); }

 private:
  AllocationLabelSource label_;
  std::shared_ptr<CudaDriver> driver_ = make_cuda_driver();
  std::shared_ptr<NcclDriver> nccl_ = make_nccl_driver();
  int count_ = 0;
  std::string description_;
  std::mutex mutex_;
  std::set<int> made_;
};

}  // namespace
}  // namespace troupe

extern "C" __attribute__((visibility("default"))) const char* troupe_plugin_abi() {
  static const std::string abi = troupe::plugin_abi();
  return abi.c_str();
}

extern "C" __attribute__((visibility("default"))) troupe::DevicePlugin* troupe_plugin(
    troupe::AllocationLabelSource label) {
  return new troupe::CudaPlugin(label);
}
