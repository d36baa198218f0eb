// Memory of a GPU, and host memory that it copies straight from and to, for CachingAllocator.
#pragma once

#include <memory>

#include <troupe/devices/caching_allocator.hpp>
#include <troupe/devices/cuda/cuda_driver.hpp>

namespace troupe {

std::shared_ptr<MemorySource> cuda_memory(std::shared_ptr<CudaDriver> driver, int ordinal);
std::shared_ptr<MemorySource> pinned_memory(std::shared_ptr<CudaDriver> driver, int ordinal);

}  // namespace troupe
