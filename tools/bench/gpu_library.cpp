#include "tools/bench/gpu_library.hpp"

#include <dlfcn.h>

#include "tools/bench/child.hpp"
#include <troupe/devices/plugin.hpp>
#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::bench {

std::string why_not_on(int gpus) {
  const PluginResult cuda = open_cuda_plugin();
  if (!cuda.plugin) return cuda.why_not;
  const int there = cuda.plugin->count();
  if (there == 0) return cuda.plugin->description();
  return there < gpus ? fmt::format("needs {} GPUs, but there {} {}", gpus, there == 1 ? "is" : "are", there) : "";
}

ConvGeometry same_convolution(const Shape& x, const Shape& filter, std::int64_t stride) {
  return conv_geometry(x, filter, {.windows = {.strides = {stride, stride}, .padding = Padding::same}});
}

std::shared_ptr<GpuPeers> gpu_peers() {
  const std::string path = build_directory() + "/lib/libtroupe_cuda_bench.so";
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
  if (!library) fail(Code::failed_precondition, "{}; was it built without CUDA?", dlerror());
  const auto make = reinterpret_cast<GpuPeersFunction>(dlsym(library, kGpuPeersSymbol));
  if (!make) fail(Code::failed_precondition, "{} has no symbol {}", path, kGpuPeersSymbol);
  return std::shared_ptr<GpuPeers>(make(0));
}

}  // namespace troupe::bench
