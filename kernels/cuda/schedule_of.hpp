// Conversion of schedules for the GPU.
#pragma once

#include <optional>

#include <troupe/graph/optimizers/schedules.hpp>
#include <troupe/kernels/cuda/schedule.hpp>

namespace troupe {

// Requires a valid `schedule`: problem() is "". Returns nullopt if it has too many changes for a kernel argument.
std::optional<CudaSchedule> cuda_schedule(const Schedule& schedule);

}  // namespace troupe
