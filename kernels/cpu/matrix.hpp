// Determinants, factors and inverses of matrices on the CPU, in double precision for all dtypes. [...,n,n]; a batch is
// computed in parallel. Functions throw invalid_argument, naming the shape, for matrices that are not square.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

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
