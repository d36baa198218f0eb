// The schedule of a node LearningRate for the GPU.
#pragma once

#include <optional>

#include <troupe/kernels/cuda/schedule.hpp>
#include <troupe/messages/attributes.hpp>

namespace troupe {

// None if it has too many changes for a kernel's argument. Throws invalid_argument for what is no schedule.
std::optional<CudaSchedule> cuda_schedule(const Attributes& attributes);

}  // namespace troupe
