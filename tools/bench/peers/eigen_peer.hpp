// Eigen called directly, on one thread.
#pragma once

#include <cstdint>

namespace troupe::bench {

// c = a b: a [m,k], b [k,n], c [m,n], row-major.
void eigen_matmul(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* c);

}  // namespace troupe::bench
