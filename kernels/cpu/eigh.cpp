// Eigenvalues and eigenvectors of symmetric matrices by Eigen: tridiagonal form, then implicit QR steps.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Eigenvalues>

#include <troupe/kernels/cpu/decompositions.hpp>

namespace troupe {

bool find_eigh(const double* a, std::int64_t n, double* w, double* v) {
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> found(n);
  found.compute(Eigen::Map<const RowMajor>(a, n, n), v ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
  if (found.info() != Eigen::Success) return false;
  Eigen::Map<Eigen::VectorXd>(w, n) = found.eigenvalues();
  if (v) Eigen::Map<RowMajor>(v, n, n) = found.eigenvectors();
  return true;
}

}  // namespace troupe
