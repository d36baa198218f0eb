// Decompositions of one matrix, in double precision, on the calling thread. Matrices are row-major and not empty, their
// elements finite. Bits depend on sizes and values alone, provided that memory is aligned to 64 bytes.
#pragma once

#include <cstdint>

#include <troupe/devices/kernel.hpp>

namespace troupe {

// Of Qr, Eigh, Svd and PseudoInverse: part of register_matrix_kernels().
void add_decomposition_kernels(KernelRegistry& registry);

// The first `columns` columns, at least min(m,n) of the m, of the orthogonal Q [m,columns] with a = Q R, by Householder
// reflections, and the upper triangular R [columns,n] (null: not wanted). The diagonal of R has LAPACK's signs. Changes
// a [m,n].
void find_qr(double* a, std::int64_t m, std::int64_t n, std::int64_t columns, double* q, double* r);

// Eigenvalues w [n] of the symmetric matrix whose lower triangle is that of a [n,n], ascending, and, unless v is null,
// orthonormal eigenvectors, the columns of v [n,n]. Returns whether the iteration has converged.
[[nodiscard]] bool find_eigh(const double* a, std::int64_t n, double* w, double* v);

// a [m,n] = U diag(s) Vh, with s [min(m,n)] descending, and, unless they are null, orthonormal columns u [m,k] and rows
// vh [k,n]: k = min(m,n), or if `full` m and n. Even small singular values of columns of different sizes are accurate.
// Returns whether the iteration has converged.
[[nodiscard]] bool find_svd(const double* a, std::int64_t m, std::int64_t n, bool full, double* u, double* s,
                            double* vh);

}  // namespace troupe
