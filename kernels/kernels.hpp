// The list of all kernels.
#pragma once

#include <troupe/devices/kernel.hpp>

namespace troupe {

void register_all_kernels(KernelRegistry& registry);

}  // namespace troupe
