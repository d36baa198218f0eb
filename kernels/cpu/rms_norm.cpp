#include "troupe/kernels/cpu/rms_norm.hpp"

#include <cmath>
#include <limits>

#include <troupe/kernels/cpu/lanes.hpp>
#include <troupe/kernels/cpu/norm_rows.hpp>

namespace troupe {
namespace {

// Minimum rows per part.
std::int64_t rows_per_part(NormRows rows) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 13) / std::max<std::int64_t>(1, rows.width));
}

Shape without_last(const Tensor& x) { return x.shape().sub(0, x.shape().rank() - 1); }

}  // namespace

void rms_norm(Parallelism& parallelism, const Tensor& x, const Tensor& scale, double epsilon, Tensor& y,
              Tensor& inverse) {
  const NormRows rows = norm_rows("RMSNorm: x", x.shape());
  check_tensor("RMSNorm: y", y, x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    using U = Compute<T>;
    check_tensor("RMSNorm: scale", scale, dtype_of<U>, Shape{rows.width});
    check_tensor("RMSNorm: inverse", inverse, dtype_of<U>, without_last(x));
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    const U* by = scale.data<U>();
    U* inverses = inverse.mutable_data<U>();
    if (rows.width == 0) std::fill_n(inverses, inverse.num_elements(), std::numeric_limits<U>::quiet_NaN());
    parallelism.parallel_for(rows.count, rows_per_part(rows), [=](std::int64_t begin, std::int64_t end) {
      const std::int64_t width = rows.width;
      const ScratchArray<U> room(2 * width);
      U* result = room.data() + width;
      for (std::int64_t i = begin; i < end; ++i) {
        const U* row = widened(from + i * width, width, room.data());
        const U squares = sum_of<U>(width, [row](std::int64_t j) { return row[j] * row[j]; });
        const U factor =
            static_cast<U>(1 / std::sqrt(static_cast<double>(squares) / static_cast<double>(width) + epsilon));
        inverses[i] = factor;
        for (std::int64_t j = 0; j < width; ++j) result[j] = row[j] * factor * by[j];
        narrowed(result, width, to + i * width);
      }
    });
  });
}

void rms_norm_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& x, const Tensor& scale,
                   const Tensor& inverse, Tensor& dx, Tensor& dscale) {
  const NormRows rows = norm_rows("RMSNormGrad: x", x.shape());
  check_tensor("RMSNormGrad: dy", dy, x.dtype(), x.shape());
  check_tensor("RMSNormGrad: dx", dx, x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    using U = Compute<T>;
    check_tensor("RMSNormGrad: scale", scale, dtype_of<U>, Shape{rows.width});
    check_tensor("RMSNormGrad: inverse", inverse, dtype_of<U>, without_last(x));
    check_tensor("RMSNormGrad: dscale", dscale, dtype_of<U>, Shape{rows.width});
    const T *flows = dy.data<T>(), *values = x.data<T>();
    const U *by = scale.data<U>(), *inverses = inverse.data<U>();
    const std::int64_t width = rows.width;
    const auto add_row = [=](std::int64_t i, U* room, U* sums) {
      const U *v = widened(values + i * width, width, room), *d = widened(flows + i * width, width, room + width);
      for (std::int64_t j = 0; j < width; ++j) sums[j] += d[j] * (v[j] * inverses[i]);
    };
    const ColumnSums<U, decltype(add_row)> sums(parallelism, rows, 2, add_row);
    for (std::int64_t j = 0; j < width; ++j) dscale.mutable_data<U>()[j] = static_cast<U>(sums.first(j));
    T* to = dx.mutable_data<T>();
    parallelism.parallel_for(rows.count, rows_per_part(rows), [=](std::int64_t begin, std::int64_t end) {
      const ScratchArray<U> room(3 * width);
      U *d_room = room.data(), *v_room = d_room + width, *result = v_room + width;
      for (std::int64_t i = begin; i < end; ++i) {
        const U *v = widened(values + i * width, width, v_room), *d = widened(flows + i * width, width, d_room);
        const U factor = inverses[i];
        const U b =
            sum_of<U>(width, [=](std::int64_t j) { return d[j] * by[j] * (v[j] * factor); }) / static_cast<U>(width);
        for (std::int64_t j = 0; j < width; ++j) result[j] = factor * (d[j] * by[j] - v[j] * factor * b);
        narrowed(result, width, to + i * width);
      }
    });
  });
}

}  // namespace troupe
