// How a task uses the GPUs of its machine.
#pragma once

#include <string>

namespace troupe {

// GPUs run all ops that have a GPU kernel and request no other device.
struct GpuOptions {
  int count = -1;             // -1: all; more than present is an error
  bool tf32 = false;          // f32 products may round their operands to 10 bits of mantissa
  bool deterministic = true;  // bit-identical results in every run, even if slower
  bool recordings = true;     // repeated segments become CUDA graphs
  bool nccl = true;           // GPUs of different tasks exchange tensors over NCCL if all of them have it
  std::string plugin{};       // path of libtroupe_cuda.so; "": search for it (devices/plugin.hpp)
};

}  // namespace troupe
