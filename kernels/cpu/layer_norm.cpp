#include "troupe/kernels/cpu/layer_norm.hpp"

#include <cmath>
#include <limits>

#include <troupe/kernels/cpu/lanes.hpp>
#include <troupe/kernels/cpu/norm_rows.hpp>

namespace troupe {
namespace {

// Minimum rows per part; a part keeps no state, so there may be many parts.
std::int64_t grain(NormRows rows) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 13) / std::max<std::int64_t>(1, rows.width));
}

template <class U>
void normalise_row(const U* x, std::int64_t width, double epsilon, const U* scale, const U* offset, U* y, U& mean,
                   U& inverse) {
  const U count = static_cast<U>(width);
  const U rounded = sum_of<U>(width, [x](std::int64_t j) { return x[j]; }) / count;
  const U rest = sum_of<U>(width, [=](std::int64_t j) { return x[j] - rounded; });  // corrects the rounding of the mean
  const U squares = sum_of<U>(width, [=](std::int64_t j) { return (x[j] - rounded) * (x[j] - rounded); });
  const double off = static_cast<double>(rest) / static_cast<double>(width);
  mean = static_cast<U>(static_cast<double>(rounded) + off);
  const double distance = static_cast<double>(squares) - off * static_cast<double>(rest);
  inverse = static_cast<U>(1 / std::sqrt(distance / static_cast<double>(width) + epsilon));
  for (std::int64_t j = 0; j < width; ++j) y[j] = (x[j] - mean) * inverse * scale[j] + offset[j];
}

template <class U>
void normalise_row_grad(const U* dy, const U* x, std::int64_t width, const U* scale, U mean, U inverse, U* dx) {
  const U count = static_cast<U>(width);
  const U a = sum_of<U>(width, [=](std::int64_t j) { return dy[j] * scale[j]; }) / count;
  const U b = sum_of<U>(width, [=](std::int64_t j) { return dy[j] * scale[j] * ((x[j] - mean) * inverse); }) / count;
  for (std::int64_t j = 0; j < width; ++j) dx[j] = inverse * (dy[j] * scale[j] - a - (x[j] - mean) * inverse * b);
}

Shape statistics_shape(const Tensor& x) { return x.shape().sub(0, x.shape().rank() - 1); }

}  // namespace

void layer_norm(Parallelism& parallelism, const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon,
                Tensor& y, Tensor& mean, Tensor& inverse_deviation) {
  const NormRows rows = norm_rows("LayerNorm: x", x.shape());
  check_tensor("LayerNorm: y", y, x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    using U = Compute<T>;
    check_tensor("LayerNorm: scale", scale, dtype_of<U>, Shape{rows.width});
    check_tensor("LayerNorm: offset", offset, dtype_of<U>, Shape{rows.width});
    check_tensor("LayerNorm: mean", mean, dtype_of<U>, statistics_shape(x));
    check_tensor("LayerNorm: inverse_deviation", inverse_deviation, dtype_of<U>, statistics_shape(x));
    const U *by = scale.data<U>(), *add = offset.data<U>();
    U *means = mean.mutable_data<U>(), *inverses = inverse_deviation.mutable_data<U>();
    if (rows.width == 0) {
      std::fill_n(means, mean.num_elements(), std::numeric_limits<U>::quiet_NaN());
      std::fill_n(inverses, mean.num_elements(), std::numeric_limits<U>::quiet_NaN());
    }
    parallelism.parallel_for(rows.count, grain(rows),
                             [=, from = x.data<T>(), to = y.mutable_data<T>()](std::int64_t begin, std::int64_t end) {
                               const ScratchArray<U> room(2 * rows.width);
                               U* result = room.data() + rows.width;
                               for (std::int64_t i = begin; i < end; ++i) {
                                 normalise_row<U>(widened(from + i * rows.width, rows.width, room.data()), rows.width,
                                                  epsilon, by, add, result, means[i], inverses[i]);
                                 narrowed(result, rows.width, to + i * rows.width);
                               }
                             });
  });
}

void layer_norm_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& x, const Tensor& scale,
                     const Tensor& mean, const Tensor& inverse_deviation, Tensor& dx, Tensor& dscale, Tensor& doffset) {
  const NormRows rows = norm_rows("LayerNormGrad: x", x.shape());
  check_tensor("LayerNormGrad: dy", dy, x.dtype(), x.shape());
  check_tensor("LayerNormGrad: dx", dx, x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    using U = Compute<T>;
    check_tensor("LayerNormGrad: scale", scale, dtype_of<U>, Shape{rows.width});
    check_tensor("LayerNormGrad: mean", mean, dtype_of<U>, statistics_shape(x));
    check_tensor("LayerNormGrad: inverse_deviation", inverse_deviation, dtype_of<U>, statistics_shape(x));
    check_tensor("LayerNormGrad: dscale", dscale, dtype_of<U>, Shape{rows.width});
    check_tensor("LayerNormGrad: doffset", doffset, dtype_of<U>, Shape{rows.width});
    const T *flows = dy.data<T>(), *values = x.data<T>();
    const U *by = scale.data<U>(), *means = mean.data<U>(), *inverses = inverse_deviation.data<U>();
    const std::int64_t width = rows.width;
    const auto add_row = [=](std::int64_t i, U* room, U* sums) {
      const U *x_row = widened(values + i * width, width, room), *d = widened(flows + i * width, width, room + width);
      for (std::int64_t j = 0; j < width; ++j) {
        sums[j] += d[j];
        sums[width + j] += d[j] * ((x_row[j] - means[i]) * inverses[i]);
      }
    };
    const ColumnSums<U, decltype(add_row)> sums(parallelism, rows, 2, add_row);
    for (std::int64_t j = 0; j < width; ++j) {
      doffset.mutable_data<U>()[j] = static_cast<U>(sums.first(j));
      dscale.mutable_data<U>()[j] = static_cast<U>(sums.second(j));
    }
    parallelism.parallel_for(
        rows.count, grain(rows), [=, to = dx.mutable_data<T>()](std::int64_t begin, std::int64_t end) {
          const ScratchArray<U> room(3 * width);
          U *dy_row = room.data(), *x_row = dy_row + width, *result = x_row + width;
          for (std::int64_t i = begin; i < end; ++i) {
            normalise_row_grad<U>(widened(flows + i * width, width, dy_row), widened(values + i * width, width, x_row),
                                  width, by, means[i], inverses[i], result);
            narrowed(result, width, to + i * width);
          }
        });
  });
}

}  // namespace troupe
