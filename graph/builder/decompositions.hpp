// Builder API for decompositions of matrices [...,m,n], computed in double precision, one by one. Results of a matrix
// with NaN or infinite elements are NaN. Gradients of vectors are those of functions that do not depend on their signs;
// pairs of equal eigenvalues or singular values are left out of them.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

// The gap between 1 and the next number of a floating dtype. Throws invalid_argument for others.
double epsilon_of(DType dtype);

struct QrOptions {
  bool full_matrices = false;  // q [...,m,m], r [...,m,n]
  Name name{};
};
struct Qr {
  Output q{}, r{};
};
// x = q r, with orthonormal columns q [...,m,k] and an upper triangular r [...,k,n], k = min(m,n). Its diagonal may be
// negative, as LAPACK's. Gradients of m > n need full_matrices = false; the first k columns of x must be independent.
Qr qr(Output x, QrOptions options = {});

struct Eigh {
  Output values{};   // [...,n], ascending
  Output vectors{};  // [...,n,n]: orthonormal columns
};
// Of symmetric x [...,n,n], of which the lower triangle is read: x = vectors diag(values) vectors^T.
Eigh eigh(Output x, Name name = {});
Output eigvalsh(Output x, Name name = {});  // the values alone

struct SvdOptions {
  bool full_matrices = false;  // u [...,m,m], vh [...,n,n]: their gradients need m = n
  Name name{};
};
struct Svd {
  Output u{};   // [...,m,k]: orthonormal columns
  Output s{};   // [...,k]: at least 0, descending
  Output vh{};  // [...,k,n]: orthonormal rows
};
// x = u diag(s) vh, k = min(m,n).
Svd svd(Output x, SvdOptions options = {});
Output svdvals(Output x, Name name = {});  // s alone

struct RankOptions {
  // Singular values up to rtol times the largest count as 0; negative: max(m,n) epsilon_of(dtype).
  double rtol = -1;
  Name name{};
};
// The pseudo-inverse of Moore and Penrose [...,n,m]. Its gradient is that of matrices that keep their rank.
Output pinv(Output x, RankOptions options = {});
// The x [...,n,k] of least |a x - b|, and among several that of least |x|: for a [...,m,n], b [...,m,k].
Output lstsq(Output a, Output b, RankOptions options = {});
Output matrix_rank(Output x, RankOptions options = {});  // i64 [...]

}  // namespace troupe
