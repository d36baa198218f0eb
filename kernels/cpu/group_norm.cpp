#include "troupe/kernels/cpu/group_norm.hpp"

#include <cmath>
#include <limits>

#include <troupe/kernels/cpu/lanes.hpp>
#include <troupe/kernels/cpu/norm_rows.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kMomentBlock = 4096;  // elements

using Groups = ChannelGroups;

// Minimum groups per part.
std::int64_t grain_of(const Groups& g) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 13) / std::max<std::int64_t>(1, g.size()));
}

// Mean and mean squared distance of a group.
struct GroupMoments {
  double mean = 0;
  double variance = 0;
};

template <class U>
GroupMoments moments_of(const U* x, std::int64_t size) {
  double mean = 0, distance = 0;
  for (std::int64_t begin = 0; begin < size; begin += kMomentBlock) {
    const std::int64_t n = std::min(kMomentBlock, size - begin);
    const U* block = x + begin;
    const U rounded = sum_of<U>(n, [block](std::int64_t j) { return block[j]; }) / static_cast<U>(n);
    const U rest = sum_of<U>(n, [=](std::int64_t j) { return block[j] - rounded; });  // corrects the mean's rounding
    const U squares = sum_of<U>(n, [=](std::int64_t j) { return (block[j] - rounded) * (block[j] - rounded); });
    const double off = static_cast<double>(rest) / static_cast<double>(n);
    const double block_mean = static_cast<double>(rounded) + off;
    const double block_distance = static_cast<double>(squares) - off * static_cast<double>(rest);
    const double apart = block_mean - mean;
    const double weight = static_cast<double>(n) / static_cast<double>(begin + n);
    mean += apart * weight;
    distance += block_distance + apart * apart * static_cast<double>(begin) * weight;
  }
  return {mean, distance / static_cast<double>(size)};
}

// The sum of term(0), ..., term(n - 1): short runs in U, and these in double.
template <class U, class Term>
double long_sum(std::int64_t n, Term term) {
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kMomentBlock)
    total += static_cast<double>(
        sum_of<U>(std::min(kMomentBlock, n - begin), [&](std::int64_t j) { return term(begin + j); }));
  return total;
}

template <class U>
void normalise_group(const U* x, const Groups& g, const U* scale, const U* offset, U mean, U inverse, U* y) {
  for (std::int64_t c = 0; c < g.channels; ++c) {
    const U factor = inverse * scale[c], add = offset[c];
    const U* from = x + c * g.positions;
    U* to = y + c * g.positions;
    for (std::int64_t j = 0; j < g.positions; ++j) to[j] = (from[j] - mean) * factor + add;
  }
}

// Writes the sums of dy and of dy x^ of each channel of a group, [first, second][channel], and dx.
template <class U>
void group_gradient(const U* dy, const U* x, const Groups& g, const U* scale, U mean, U inverse, double* sums, U* dx) {
  double first = 0, second = 0;
  for (std::int64_t c = 0; c < g.channels; ++c) {
    const U *d = dy + c * g.positions, *v = x + c * g.positions;
    sums[c] = long_sum<U>(g.positions, [=](std::int64_t j) { return d[j]; });
    sums[g.channels + c] = long_sum<U>(g.positions, [=](std::int64_t j) { return d[j] * ((v[j] - mean) * inverse); });
    first += sums[c] * static_cast<double>(scale[c]);
    second += sums[g.channels + c] * static_cast<double>(scale[c]);
  }
  const U a = static_cast<U>(first / static_cast<double>(g.size()));
  const U b = static_cast<U>(second / static_cast<double>(g.size()));
  for (std::int64_t c = 0; c < g.channels; ++c) {
    const U *d = dy + c * g.positions, *v = x + c * g.positions;
    U* to = dx + c * g.positions;
    const U by = scale[c];
    for (std::int64_t j = 0; j < g.positions; ++j) to[j] = inverse * (d[j] * by - a - (v[j] - mean) * inverse * b);
  }
}

Shape channels_of(const Shape& x) { return Shape{x[1]}; }

}  // namespace

void group_norm(Parallelism& parallelism, const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon,
                Tensor& y, Tensor& mean, Tensor& inverse_deviation) {
  check_has_channels("GroupNorm: x", x.shape());
  check_tensor("GroupNorm: y", y, x.dtype(), x.shape());
  const Groups g = channel_groups(x.shape(), mean.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    using U = Compute<T>;
    check_tensor("GroupNorm: scale", scale, dtype_of<U>, channels_of(x.shape()));
    check_tensor("GroupNorm: offset", offset, dtype_of<U>, channels_of(x.shape()));
    check_tensor("GroupNorm: mean", mean, dtype_of<U>, Shape{g.examples, g.groups});
    check_tensor("GroupNorm: inverse_deviation", inverse_deviation, dtype_of<U>, mean.shape());
    const U *by = scale.data<U>(), *add = offset.data<U>();
    U *means = mean.mutable_data<U>(), *inverses = inverse_deviation.mutable_data<U>();
    if (g.size() == 0) {
      std::fill_n(means, g.count(), std::numeric_limits<U>::quiet_NaN());
      std::fill_n(inverses, g.count(), std::numeric_limits<U>::quiet_NaN());
      return;
    }
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    parallelism.parallel_for(g.count(), grain_of(g), [=](std::int64_t begin, std::int64_t end) {
      const std::int64_t size = g.size();
      const ScratchArray<U> room(2 * size);
      U* result = room.data() + size;
      for (std::int64_t i = begin; i < end; ++i) {
        const U* values = widened(from + i * size, size, room.data());
        const GroupMoments m = moments_of(values, size);
        means[i] = static_cast<U>(m.mean);
        inverses[i] = static_cast<U>(1 / std::sqrt(m.variance + epsilon));
        const std::int64_t channel = i % g.groups * g.channels;
        normalise_group(values, g, by + channel, add + channel, means[i], inverses[i], result);
        narrowed(result, size, to + i * size);
      }
    });
  });
}

void group_norm_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& x, const Tensor& scale,
                     const Tensor& mean, const Tensor& inverse_deviation, Tensor& dx, Tensor& dscale, Tensor& doffset) {
  check_has_channels("GroupNormGrad: x", x.shape());
  check_tensor("GroupNormGrad: dy", dy, x.dtype(), x.shape());
  check_tensor("GroupNormGrad: dx", dx, x.dtype(), x.shape());
  const Groups g = channel_groups(x.shape(), mean.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    using U = Compute<T>;
    const Shape channels = channels_of(x.shape());
    check_tensor("GroupNormGrad: scale", scale, dtype_of<U>, channels);
    check_tensor("GroupNormGrad: mean", mean, dtype_of<U>, Shape{g.examples, g.groups});
    check_tensor("GroupNormGrad: inverse_deviation", inverse_deviation, dtype_of<U>, mean.shape());
    check_tensor("GroupNormGrad: dscale", dscale, dtype_of<U>, channels);
    check_tensor("GroupNormGrad: doffset", doffset, dtype_of<U>, channels);
    const ScratchArray<double> sums(2 * g.count() * g.channels);  // [group][first, second][channel of the group]
    const T *flows = dy.data<T>(), *from = x.data<T>();
    T* to = dx.mutable_data<T>();
    const U *by = scale.data<U>(), *means = mean.data<U>(), *inverses = inverse_deviation.data<U>();
    double* const all = sums.data();
    parallelism.parallel_for(g.count(), grain_of(g), [=](std::int64_t begin, std::int64_t end) {
      const std::int64_t size = g.size();
      const ScratchArray<U> room(3 * size);
      U *d = room.data(), *v = d + size, *result = v + size;
      for (std::int64_t i = begin; i < end; ++i) {
        group_gradient(widened(flows + i * size, size, d), widened(from + i * size, size, v), g,
                       by + i % g.groups * g.channels, means[i], inverses[i], all + 2 * i * g.channels, result);
        narrowed(result, size, to + i * size);
      }
    });
    for (std::int64_t c = 0; c < g.groups * g.channels; ++c) {
      double first = 0, second = 0;
      for (std::int64_t n = 0; n < g.examples; ++n) {
        const double* of_group = all + 2 * (n * g.groups + c / g.channels) * g.channels + c % g.channels;
        first += of_group[0];
        second += of_group[g.channels];
      }
      doffset.mutable_data<U>()[c] = static_cast<U>(first);
      dscale.mutable_data<U>()[c] = static_cast<U>(second);
    }
  });
}

}  // namespace troupe
