#include "troupe/kernels/cpu/batch_norm.hpp"

#include <algorithm>
#include <cmath>

#include <troupe/kernels/cpu/norm_rows.hpp>

namespace troupe {
namespace {

// One number per channel, in the type used for arithmetic on T.
template <class T>
class Channels {
 public:
  explicit Channels(std::int64_t width) : values_(std::max<std::int64_t>(1, width)) {}
  T* data() const { return values_.data(); }
  T& operator[](std::int64_t j) const { return values_[j]; }

 private:
  ScratchArray<T> values_;
};

// Mean and sum of squared distances per channel, block by block: [block][mean, distance][channel].
template <class T>
void block_moments(Parallelism& parallelism, const T* x, NormRows rows, double* moments) {
  using U = Compute<T>;
  const std::int64_t width = rows.width, block = rows.block();
  parallelism.parallel_for(rows.count, block, [=](std::int64_t begin, std::int64_t end) {
    const ScratchArray<U> room(4 * width);
    U *row = room.data(), *mean = row + width, *rest = mean + width, *squares = rest + width;
    const U count = static_cast<U>(end - begin);
    std::fill_n(mean, 3 * width, U{0});
    for (std::int64_t i = begin; i < end; ++i) add_to(widened(x + i * width, width, row), width, mean);
    for (std::int64_t j = 0; j < width; ++j) mean[j] /= count;
    for (std::int64_t i = begin; i < end; ++i) {
      const U* values = widened(x + i * width, width, row);
      for (std::int64_t j = 0; j < width; ++j) {
        const U distance = values[j] - mean[j];
        rest[j] += distance;  // corrects the rounding of the mean
        squares[j] += distance * distance;
      }
    }
    double* out = moments + begin / block * 2 * width;
    for (std::int64_t j = 0; j < width; ++j) {
      const double off = static_cast<double>(rest[j]) / static_cast<double>(count);
      out[j] = static_cast<double>(mean[j]) + off;
      out[width + j] = static_cast<double>(squares[j]) - off * static_cast<double>(rest[j]);
    }
  });
}

// Merges all blocks into the first.
void join_moments(NormRows rows, double* moments) {
  double *mean = moments, *distance = moments + rows.width;
  for (std::int64_t begin = rows.block(), b = 1; begin < rows.count; begin += rows.block(), ++b) {
    const double *other = moments + b * 2 * rows.width, *other_distance = other + rows.width;
    const auto before = static_cast<double>(begin),
               more = static_cast<double>(std::min(rows.block(), rows.count - begin));
    const double weight = more / (before + more);
    for (std::int64_t j = 0; j < rows.width; ++j) {
      const double apart = other[j] - mean[j];
      mean[j] += apart * weight;
      distance[j] += other_distance[j] + apart * apart * before * weight;
    }
  }
}

// y = (x - mean) factor + offset.
template <class T>
void apply(Parallelism& parallelism, const T* x, NormRows rows, const Compute<T>* mean, const Compute<T>* factor,
           const Compute<T>* offset, bool relu, T* y) {
  using U = Compute<T>;
  const std::int64_t width = rows.width;
  parallelism.parallel_for(rows.count, rows.block(), [=](std::int64_t begin, std::int64_t end) {
    const ScratchArray<U> room(2 * width);
    U *row = room.data(), *result = row + width;
    for (std::int64_t i = begin; i < end; ++i) {
      const U* values = widened(x + i * width, width, row);
      for (std::int64_t j = 0; j < width; ++j) result[j] = (values[j] - mean[j]) * factor[j] + offset[j];
      if (relu)
        for (std::int64_t j = 0; j < width; ++j) result[j] = result[j] < 0 ? U{0} : result[j];
      narrowed(result, width, y + i * width);
    }
  });
}

// Values of the forward step that the gradient needs.
template <class T>
struct Forward {
  using U = Compute<T>;
  const U *mean, *inverse, *factor, *offset;
  bool relu;
};

// The gradient before relu: `kept` receives y, computed as in apply(), and then dy where y > 0, else 0.
template <class T>
const Compute<T>* flow(const Compute<T>* dy, const Compute<T>* x, std::int64_t width, const Forward<T>& f,
                       Compute<T>* kept) {
  using U = Compute<T>;
  if (!f.relu) return dy;
  for (std::int64_t j = 0; j < width; ++j) kept[j] = (x[j] - f.mean[j]) * f.factor[j] + f.offset[j];
  if constexpr (!std::is_same_v<T, U>) round_to<T>(kept, width);
  for (std::int64_t j = 0; j < width; ++j) kept[j] = kept[j] > 0 ? dy[j] : U{0};
  return kept;
}

// dx = factor (dy - a - x^ b), where a is the mean of dy and b the mean of dy x^.
template <class T>
void apply_grad(Parallelism& parallelism, const T* dy, const T* x, NormRows rows, const Forward<T>& f,
                const Compute<T>* a, const Compute<T>* b, T* dx) {
  using U = Compute<T>;
  const std::int64_t width = rows.width;
  parallelism.parallel_for(rows.count, rows.block(), [=](std::int64_t begin, std::int64_t end) {
    const ScratchArray<U> room(4 * width);
    U *dy_row = room.data(), *x_row = dy_row + width, *kept = x_row + width, *result = kept + width;
    for (std::int64_t i = begin; i < end; ++i) {
      const U* values = widened(x + i * width, width, x_row);
      const U* d = flow<T>(widened(dy + i * width, width, dy_row), values, width, f, kept);
      for (std::int64_t j = 0; j < width; ++j)
        result[j] = f.factor[j] * (d[j] - a[j] - (values[j] - f.mean[j]) * f.inverse[j] * b[j]);
      narrowed(result, width, dx + i * width);
    }
  });
}

template <class U>
void check_channels(const char* what, const Tensor& t, NormRows rows) {
  check_tensor(what, t, dtype_of<U>, Shape{rows.width});
}

template <class U>
void multiply(const U* scale, const U* inverse, std::int64_t width, U* out) {
  for (std::int64_t j = 0; j < width; ++j) out[j] = scale[j] * inverse[j];
}

}  // namespace

void batch_norm(Parallelism& parallelism, const Tensor& x, const BatchNormScale& by, double epsilon, Tensor& y,
                BatchNormStatistics statistics) {
  const NormRows rows = norm_rows("BatchNorm: x", x.shape());
  if (rows.count == 0 && rows.width > 0)
    invalid_argument("BatchNorm: x {} has no rows, so it has no mean", x.shape().to_string());
  check_tensor("BatchNorm: y", y, x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    using U = Compute<T>;
    check_channels<U>("BatchNorm: scale", by.scale, rows);
    check_channels<U>("BatchNorm: offset", by.offset, rows);
    for (const Tensor* t : {&statistics.mean, &statistics.variance, &statistics.inverse_deviation})
      check_channels<U>("BatchNorm: statistic", *t, rows);
    const ScratchArray<double> moments(std::max<std::int64_t>(1, rows.blocks() * 2 * rows.width));
    block_moments(parallelism, x.data<T>(), rows, moments.data());
    join_moments(rows, moments.data());
    U *mean = statistics.mean.mutable_data<U>(), *variance = statistics.variance.mutable_data<U>(),
      *inverse = statistics.inverse_deviation.mutable_data<U>();
    const auto count = static_cast<double>(rows.count);
    for (std::int64_t j = 0; j < rows.width; ++j) {
      const double distance = moments[rows.width + j];
      mean[j] = static_cast<U>(moments[j]);
      variance[j] = static_cast<U>(distance / std::max(1.0, count - 1));
      inverse[j] = static_cast<U>(1 / std::sqrt(distance / count + epsilon));
    }
    const Channels<U> factor(rows.width);
    multiply<U>(by.scale.data<U>(), inverse, rows.width, factor.data());
    apply(parallelism, x.data<T>(), rows, mean, factor.data(), by.offset.data<U>(), by.relu, y.mutable_data<T>());
  });
}

void batch_norm_inference(Parallelism& parallelism, const Tensor& x, const BatchNormScale& by, const Tensor& mean,
                          const Tensor& variance, double epsilon, Tensor& y) {
  const NormRows rows = norm_rows("BatchNormInference: x", x.shape());
  check_tensor("BatchNormInference: y", y, x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    using U = Compute<T>;
    check_channels<U>("BatchNormInference: scale", by.scale, rows);
    check_channels<U>("BatchNormInference: offset", by.offset, rows);
    check_channels<U>("BatchNormInference: mean", mean, rows);
    check_channels<U>("BatchNormInference: variance", variance, rows);
    const Channels<U> inverse(rows.width);
    for (std::int64_t j = 0; j < rows.width; ++j)
      inverse[j] = static_cast<U>(1 / std::sqrt(static_cast<double>(variance.data<U>()[j]) + epsilon));
    const Channels<U> factor(rows.width);
    multiply<U>(by.scale.data<U>(), inverse.data(), rows.width, factor.data());
    apply(parallelism, x.data<T>(), rows, mean.data<U>(), factor.data(), by.offset.data<U>(), by.relu,
          y.mutable_data<T>());
  });
}

void batch_norm_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& x, const BatchNormScale& by,
                     const Tensor& mean, const Tensor& inverse_deviation, Tensor& dx, Tensor& dscale, Tensor& doffset) {
  const NormRows rows = norm_rows("BatchNormGrad: x", x.shape());
  check_tensor("BatchNormGrad: dy", dy, x.dtype(), x.shape());
  check_tensor("BatchNormGrad: dx", dx, x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    using U = Compute<T>;
    check_channels<U>("BatchNormGrad: scale", by.scale, rows);
    check_channels<U>("BatchNormGrad: offset", by.offset, rows);
    check_channels<U>("BatchNormGrad: mean", mean, rows);
    check_channels<U>("BatchNormGrad: inverse_deviation", inverse_deviation, rows);
    check_channels<U>("BatchNormGrad: dscale", dscale, rows);
    check_channels<U>("BatchNormGrad: doffset", doffset, rows);
    const Channels<U> factor(rows.width);
    multiply<U>(by.scale.data<U>(), inverse_deviation.data<U>(), rows.width, factor.data());
    const Forward<T> forward{mean.data<U>(), inverse_deviation.data<U>(), factor.data(), by.offset.data<U>(), by.relu};
    const std::int64_t width = rows.width;
    const auto add_row = [=, dy = dy.data<T>(), x = x.data<T>()](std::int64_t i, U* room, U* sums) {
      const U* values = widened(x + i * width, width, room);
      const U* d = flow<T>(widened(dy + i * width, width, room + width), values, width, forward, room + 2 * width);
      for (std::int64_t j = 0; j < width; ++j) {
        sums[j] += d[j];
        sums[width + j] += d[j] * ((values[j] - forward.mean[j]) * forward.inverse[j]);
      }
    };
    const ColumnSums<U, decltype(add_row)> sums(parallelism, rows, 3, add_row);
    const Channels<U> a(width), b(width);
    for (std::int64_t j = 0; j < width; ++j) {
      doffset.mutable_data<U>()[j] = static_cast<U>(sums.first(j));
      dscale.mutable_data<U>()[j] = static_cast<U>(sums.second(j));
      a[j] = static_cast<U>(sums.first(j) / static_cast<double>(rows.count));
      b[j] = static_cast<U>(sums.second(j) / static_cast<double>(rows.count));
    }
    apply_grad(parallelism, dy.data<T>(), x.data<T>(), rows, forward, a.data(), b.data(), dx.mutable_data<T>());
  });
}

}  // namespace troupe
