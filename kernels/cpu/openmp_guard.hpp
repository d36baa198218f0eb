// Keeps oneDNN on the calling thread.
#pragma once

#include <troupe/devices/cpu/openmp.hpp>

namespace troupe {

// While alive, OpenMP regions started by this thread have one thread. Device threads are set up that way already; an
// application thread that calls a kernel function directly is not, and would get different bits.
class OpenMpGuard {
 public:
  OpenMpGuard() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OpenMpGuard() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OpenMpGuard(const OpenMpGuard&) = delete;
  OpenMpGuard& operator=(const OpenMpGuard&) = delete;

 private:
  int before_;
};

}  // namespace troupe
