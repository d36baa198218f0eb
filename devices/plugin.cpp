#include "troupe/devices/plugin.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libtroupe_cuda.so";

// Existing candidates for the library's path, likeliest first.
std::vector<fs::path> places(const std::string& path) {
  std::vector<fs::path> all;
  if (!path.empty()) {
    all.push_back(fs::absolute(path));  // with a slash: dlopen() searches nowhere else
  } else {
    std::error_code none;
    const fs::path program = fs::read_symlink("/proc/self/exe", none);
    if (!program.empty()) {
      const fs::path folder = program.parent_path();
      all = {folder / kLibrary, folder.parent_path() / "lib" / kLibrary};
    }
    all.push_back(fs::path(TROUPE_PLUGIN_PLACE) / kLibrary);
  }
  std::erase_if(all, [](const fs::path& p) {
    std::error_code none;
    return !fs::exists(p, none);
  });
  return all;
}

PluginResult open_plugin(const std::string& path) {
  const auto none = [](std::string why) { return PluginResult{nullptr, std::move(why)}; };
  if (path.empty() && !dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) return none("no NVIDIA driver (libcuda.so.1)");
  const std::vector<fs::path> found = places(path);
  if (found.empty()) return none(fmt::format("no {}", path.empty() ? kLibrary : path));
  const std::string name = found.front().string();
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return none(dlerror());
  const auto abi = reinterpret_cast<PluginAbiFunction>(dlsym(library, kPluginAbiSymbol));
  const auto make = reinterpret_cast<PluginFunction>(dlsym(library, kPluginSymbol));
  if (!abi || !make) return none(fmt::format("{} is not a Troupe device library", name));
  if (abi() != plugin_abi())
    return none(fmt::format("{} is from another build: it has '{}', this program '{}'", name, abi(), plugin_abi()));
  try {
    return {std::shared_ptr<DevicePlugin>(make(&AllocationScope::label)), ""};
  } catch (...) {
    return none(fmt::format("{}: {}", name, current_error().message()));
  }
}

}  // namespace

std::string plugin_abi() {
  return fmt::format("troupe {} g++ {} {}.{}.{}.{}.{}.{}", TROUPE_VERSION, __VERSION__, sizeof(Tensor), sizeof(Shape),
                     sizeof(KernelInit), sizeof(KernelRegistry), sizeof(AcceleratorOptions), sizeof(AllocatorStats));
}

PluginResult open_device_plugin(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, PluginResult> opened;
  const std::lock_guard lock(mutex);
  PluginResult& result = opened[path];
  if (!result.plugin) result = open_plugin(path);
  return result;
}

PluginResult open_cuda_plugin(const std::string& path) { return open_device_plugin(path); }

}  // namespace troupe
