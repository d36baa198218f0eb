#include "tools/bench/peers/eigen_peer.hpp"

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

namespace troupe::bench {

void eigen_matmul(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* c) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix>(c, m, n).noalias() = Eigen::Map<const Matrix>(a, m, k) * Eigen::Map<const Matrix>(b, k, n);
}

}  // namespace troupe::bench
