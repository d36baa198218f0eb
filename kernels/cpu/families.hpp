// The CPU kernels: one registration function per family of ops, all called from kernels/kernels.cpp.
#pragma once

#include "devices/kernel.hpp"

namespace troupe {

void register_conv_kernels(KernelRegistry& registry);
void register_linear_kernels(KernelRegistry& registry);
void register_pool_kernels(KernelRegistry& registry);
void register_softmax_kernels(KernelRegistry& registry);
void register_training_kernels(KernelRegistry& registry);

}  // namespace troupe
