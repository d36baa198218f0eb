// Declares which kernels write over an input and which return a view of one: memory plans are computed from this
// (scheduler/plan/memory_plan.hpp). A kernel not listed here may still do either; its memory is planned less tightly.
#pragma once

#include <string_view>

#include <troupe/devices/kernel.hpp>

namespace troupe {

// Call after the kernels of this device type are registered.
void register_reuse(KernelRegistry& registry, std::string_view device_type);

}  // namespace troupe
