// Schedules for the GPU.
#pragma once

#include <optional>

#include <troupe/graph/optimizers/schedules.hpp>
#include <troupe/kernels/cuda/schedule.hpp>

namespace troupe {

// `schedule` makes sense: problem() is "". None if it has too many changes for a kernel's argument.
std::optional<CudaSchedule> cuda_schedule(const Schedule& schedule);

}  // namespace troupe
