// The first GPU of the library that this program is made for.
#include "tests/kernels/kernel_target.hpp"
#include "tests/paths.hpp"
#include <troupe/devices/plugin.hpp>

namespace troupe::testing {
namespace {

KernelTarget gpu_target() {
  KernelTarget target{.type = "GPU"};
  const std::string library = TROUPE_GPU_LIBRARY;  // "": the one of NVIDIA's
  const PluginResult opened = open_cuda_plugin(library.empty() ? "" : built_library(library));
  if (!opened.plugin) {
    target.why_none = opened.why_not;
  } else if (opened.plugin->count() == 0) {
    target.why_none = opened.plugin->description();
  } else {
    target.register_kernels = [plugin = opened.plugin](KernelRegistry& registry) {
      plugin->register_kernels(registry);
    };
    const auto gpu = std::make_shared<std::shared_ptr<Device>>();
    target.device = [plugin = opened.plugin, gpu](int) {
      if (!*gpu) *gpu = plugin->make(0, {.name = DeviceName::parse("/job:test/task:0/device:GPU:0")});
      return *gpu;
    };
    target.close = [gpu] { gpu->reset(); };
  }
  return target;
}

}  // namespace

const KernelTarget& kernel_target() {
  static const KernelTarget target = gpu_target();
  return target;
}

}  // namespace troupe::testing
