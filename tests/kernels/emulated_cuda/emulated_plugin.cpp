// The library of the emulated GPU, which programs open in place of that of NVIDIA's.
#include "tests/kernels/emulated_cuda/emulated_gpu.hpp"
#include <troupe/kernels/cuda/cuda_kernels.hpp>

namespace troupe::testing {
namespace {

class EmulatedPlugin final : public DevicePlugin {
 public:
  std::string type() const override { return "GPU"; }
  int count() const override { return 1; }
  std::string description() const override { return "an emulated GPU"; }
  std::unique_ptr<Device> make(int, const AcceleratorOptions&) override { return make_emulated_gpu(); }
  void register_kernels(KernelRegistry& registry) override { register_cuda_kernels(registry); }
};

}  // namespace
}  // namespace troupe::testing

extern "C" __attribute__((visibility("default"))) const char* troupe_plugin_abi() {
  static const std::string abi = troupe::plugin_abi();
  return abi.c_str();
}

extern "C" __attribute__((visibility("default"))) troupe::DevicePlugin* troupe_plugin(troupe::AllocationLabelSource) {
  return new troupe::testing::EmulatedPlugin;
}
