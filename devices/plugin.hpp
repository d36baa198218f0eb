// Devices of accelerators come from libraries that are opened while the program runs, so that a program needs none of
// an accelerator's libraries to start. Such a library has copies of what it uses of Troupe; it and the program meet in
// abstract classes only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/devices/kernel.hpp>

namespace troupe {

struct AcceleratorOptions {
  DeviceName name;                 // complete
  std::uint64_t memory_limit = 0;  // bytes of buffers in use and cached; 0: none
  bool tf32 = false;               // products of f32 may round their operands to 10 bits of mantissa
  bool deterministic = true;       // the same bits in every run, also where that is slower
  bool recordings = true;          // segments that repeat are recorded, and run with one launch
  std::string no_nccl;             // why collectives must not go past the host; "": they may, where there is NCCL
};

// Who allocates on the calling thread: the program's AllocationScope is not that of the library.
using AllocationLabelSource = AllocationLabel (*)();

// What a library of devices has to offer.
class DevicePlugin {
 public:
  virtual ~DevicePlugin() = default;
  virtual std::string type() const = 0;         // of its devices: "GPU"
  virtual int count() const = 0;                // of this machine's devices
  virtual std::string description() const = 0;  // "CUDA 13.0: NVIDIA H200", or why there is none
  virtual std::unique_ptr<Device> make(int ordinal, const AcceleratorOptions& options) = 0;
  virtual void register_kernels(KernelRegistry& registry) = 0;
};

struct PluginResult {
  std::shared_ptr<DevicePlugin> plugin;  // null: there is none
  std::string why_not;                   // "no NVIDIA driver (libcuda.so.1)"; for people
};

// The library for NVIDIA's GPUs. Looks for the driver first, which costs some 20 us where there is none; opened once,
// and never closed. `path`: of libtroupe_cuda.so, opened also where there is no driver; "": beside the program, in
// ../lib beside it, where it was built or installed. Throws nothing.
PluginResult open_cuda_plugin(const std::string& path = "");

// What a library exports, with C linkage. They are compared before anything else is called.
std::string plugin_abi();
using PluginAbiFunction = const char* (*)();
using PluginFunction = DevicePlugin* (*)(AllocationLabelSource label);
inline constexpr const char* kPluginAbiSymbol = "troupe_plugin_abi";
inline constexpr const char* kPluginSymbol = "troupe_plugin";

}  // namespace troupe
