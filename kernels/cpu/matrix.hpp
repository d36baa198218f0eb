// Determinants, factors and inverses of matrices on the CPU, in double precision for all dtypes. [...,n,n]; a batch is
// computed in parallel. Functions throw invalid_argument, naming the shape, for matrices that are not square.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Matrices in a part of a batch whose matrices cost this number of multiply-adds each.
std::int64_t matrix_grain(double cost);

// The first matrix of a batch that cannot be computed, which is the same for any number of threads.
class FirstMatrix {
 public:
  explicit FirstMatrix(std::int64_t count) : count_(count), first_(count) {}
  void note(std::int64_t index);  // from any thread
  bool any() const { return first_ < count_; }
  // Its name in errors: "x[2,0]", or "x" if there is no batch.
  std::string name(std::string_view input, const Shape& batch) const;

 private:
  std::int64_t count_;
  std::atomic<std::int64_t> first_;
};

// The shape [...] of determinants.
Shape det_shape(const Shape& matrices);

// Determinants, by LU decomposition with partial pivoting.
void determinants(Parallelism& parallelism, const Tensor& x, Tensor& out);

// The sign of each determinant, -1, 0 or 1, and the logarithm of its magnitude: [...,2].
void log_determinants(Parallelism& parallelism, const Tensor& x, Tensor& out);

// Matrices of cofactors, det(x) inverse(x)^T, the derivatives of the determinant: by LU decomposition with complete
// pivoting, without a division by the last pivot, so that they are right for singular matrices too.
void cofactors(Parallelism& parallelism, const Tensor& x, Tensor& out);

// Lower triangular L with x = L L^T, of the lower triangles of x. Throws invalid_argument unless x is positive
// definite.
void cholesky_factors(Parallelism& parallelism, const Tensor& x, Tensor& out);

// Inverses; throws invalid_argument for a matrix whose decomposition has a pivot of 0.
void inverses(Parallelism& parallelism, const Tensor& x, Tensor& out);

}  // namespace troupe
