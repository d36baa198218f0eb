#include "troupe/graph/builder/decompositions.hpp"

#include <cmath>
#include <limits>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/linear.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/reduce.hpp>

namespace troupe {

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::epsilon();
    case DType::f32:
      return static_cast<double>(std::numeric_limits<float>::epsilon());
    case DType::f16:
      return std::ldexp(1.0, -10);
    case DType::bf16:
      return std::ldexp(1.0, -7);
    default:
      invalid_argument("{} is no floating dtype", name(dtype));
  }
}

Qr qr(Output x, QrOptions options) {
  const Outputs out = add_outputs("Qr", {x}, {{"full_matrices", options.full_matrices}}, std::move(options.name));
  return {out[0], out[1]};
}

Eigh eigh(Output x, Name name) {
  const Outputs out = add_outputs("Eigh", {x}, {}, std::move(name));
  return {out[0], out[1]};
}
Output eigvalsh(Output x, Name name) { return add_op("Eigh", {x}, {{"compute_v", false}}, std::move(name)); }

Svd svd(Output x, SvdOptions options) {
  const Outputs out = add_outputs("Svd", {x}, {{"full_matrices", options.full_matrices}}, std::move(options.name));
  return {out[0], out[1], out[2]};
}
Output svdvals(Output x, Name name) { return add_outputs("Svd", {x}, {{"compute_uv", false}}, std::move(name))[1]; }

Output pinv(Output x, RankOptions options) {
  return add_op("PseudoInverse", {x}, {{"rtol", options.rtol}}, std::move(options.name));
}
Output lstsq(Output a, Output b, RankOptions options) {
  const Output inverse = pinv(a, {.rtol = options.rtol});
  return matmul(inverse, b, {.name = std::move(options.name)});
}
Output matrix_rank(Output x, RankOptions options) {
  const Output s = svdvals(x);
  Output rtol = scalar_like(s, options.rtol);
  if (options.rtol < 0) {
    const Output sizes = strided_slice(shape_of(x), Integers{-2}, Integers{std::numeric_limits<std::int64_t>::max()});
    rtol = cast(max(sizes), s.dtype()) * epsilon_of(s.dtype());
  }
  const Output largest = max(s, Integers{-1}, {.keep_dims = true});
  return count_nonzero(greater(s, rtol * largest), Integers{-1}, {.name = std::move(options.name)});
}

}  // namespace troupe
