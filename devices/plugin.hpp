// Accelerator devices come from libraries opened at run time, so that a program starts without the accelerator's
// libraries. Such a library has its own copies of the Troupe code it uses; it and the program share only abstract
// classes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/devices/kernel.hpp>

namespace troupe {

struct AcceleratorOptions {
  DeviceName name;                 // complete
  std::uint64_t memory_limit = 0;  // maximum bytes of buffers in use and cached; 0: none
  bool tf32 = false;               // f32 products may round their operands to 10 bits of mantissa
  bool deterministic = true;       // bit-identical in every run, even where slower
  bool recordings = true;          // repeated segments are recorded and run with one launch
  std::string no_nccl;             // why collectives must go through the host; "": they need not, if NCCL is there
};

// Labels allocations of the calling thread: the program's AllocationScope is not the library's.
using AllocationLabelSource = AllocationLabel (*)();

// A library of devices.
class DevicePlugin {
 public:
  virtual ~DevicePlugin() = default;
  // Of its devices, as in the names of devices (/device:GPU:0) and KernelDef: "GPU", "TPU". A capital letter, then up
  // to 15 capital letters, digits and underscores. Their memory, if the host cannot read it, is of
  // MemorySpace::Kind::cuda, whatever the type.
  virtual std::string type() const = 0;
  virtual int count() const = 0;                // number of devices on this machine
  virtual std::string description() const = 0;  // "CUDA 13.0: NVIDIA H200", or why there is none
  virtual std::unique_ptr<Device> make(int ordinal, const AcceleratorOptions& options) = 0;
  virtual void register_kernels(KernelRegistry& registry) = 0;
};

struct PluginResult {
  std::shared_ptr<DevicePlugin> plugin;  // null: none
  std::string why_not;                   // "no NVIDIA driver (libcuda.so.1)"; for users
};

// Opens a library of devices of any type, once; it is never closed. Throws nothing.
PluginResult open_device_plugin(const std::string& path);

// The same for NVIDIA GPUs. Looks for the driver first, which costs about 20 us where there is none. `path`: of
// libtroupe_cuda.so, opened even without a driver; "": searched beside the program, in ../lib beside it, and where it
// was built or installed.
PluginResult open_cuda_plugin(const std::string& path = "");

// The library's exports, with C linkage. Both ABI strings are compared before anything else is called.
std::string plugin_abi();
using PluginAbiFunction = const char* (*)();
using PluginFunction = DevicePlugin* (*)(AllocationLabelSource label);
inline constexpr const char* kPluginAbiSymbol = "troupe_plugin_abi";
inline constexpr const char* kPluginSymbol = "troupe_plugin";

}  // namespace troupe
