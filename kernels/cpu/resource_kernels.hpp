// Kernels of resources (graph/ops/resources.cpp).
#pragma once

#include <troupe/devices/kernel.hpp>

namespace troupe {

void register_resource_kernels(KernelRegistry& registry);

}  // namespace troupe
