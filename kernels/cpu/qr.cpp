// QR decomposition by Eigen: blocked Householder reflections.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/QR>

#include <troupe/kernels/cpu/decompositions.hpp>
#include <troupe/kernels/cpu/scratch.hpp>

namespace troupe {

void find_qr(double* a, std::int64_t m, std::int64_t n, std::int64_t columns, double* q, double* r) {
  using Matrix = Eigen::MatrixXd;
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const ScratchArray<double> packed(m * n), basis(m * columns);
  Eigen::Map<Matrix> matrix(packed.data(), m, n), orthogonal(basis.data(), m, columns);
  matrix = Eigen::Map<const RowMajor>(a, m, n);
  const Eigen::HouseholderQR<Eigen::Ref<Matrix>> found(matrix);
  orthogonal.setIdentity();
  orthogonal.applyOnTheLeft(found.householderQ());
  Eigen::Map<RowMajor>(q, m, columns) = orthogonal;
  if (!r) return;
  for (std::int64_t i = 0; i < columns; ++i)
    for (std::int64_t j = 0; j < n; ++j) r[i * n + j] = j < i ? 0 : matrix(i, j);
}

}  // namespace troupe
