// Which kernels write over an input, and which return a view of one: what the memory of plans is worked out from
// (scheduler/plan/memory_plan.hpp). A kernel that is not named here may still do either; its memory is planned less
// well.
#pragma once

#include <string_view>

#include <troupe/devices/kernel.hpp>

namespace troupe {

// After the kernels of this device type are registered.
void register_reuse(KernelRegistry& registry, std::string_view device_type);

}  // namespace troupe
