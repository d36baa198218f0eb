// What a task may do with the GPUs of its machine.
#pragma once

#include <string>

namespace troupe {

// GPUs of the machine: a task runs on them what they have kernels for and what asks for no other device.
struct GpuOptions {
  int count = -1;             // how many; -1: all there are. More than there are is refused
  bool tf32 = false;          // products of f32 may round their operands to 10 bits of mantissa
  bool deterministic = true;  // the same bits in every run, also where a GPU would be faster without
  bool recordings = true;     // segments that repeat become CUDA graphs
  bool nccl = true;           // GPUs of tasks exchange tensors over NCCL, where all of them have it
  std::string plugin{};       // libtroupe_cuda.so; "": looked for (devices/plugin.hpp)
};

}  // namespace troupe
