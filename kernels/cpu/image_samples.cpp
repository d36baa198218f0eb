#include "troupe/kernels/cpu/image_samples.hpp"

#include <algorithm>
#include <cmath>

#include <troupe/kernels/cpu/cast.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kSampleBlock = 64;       // places whose weights are computed together
constexpr std::int64_t kSampleGrain = 1 << 15;  // products

// Calls fn(group, first place, Samples) for blocks of the places [begin, end) of all groups.
template <class Fn>
void for_each_block(const Sampling& s, std::int64_t begin, std::int64_t end, Fn fn) {
  Samples samples;
  while (begin < end) {
    const std::int64_t group = begin / s.places, first = begin % s.places;
    const std::int64_t count = std::min({kSampleBlock, end - begin, s.places - first});
    samples.clear();
    for (std::int64_t p = first; p < first + count; ++p) s.add(group, p, samples);
    fn(group, first, samples);
    begin += count;
  }
}

struct Terms {
  std::int64_t begin, end;
};
Terms terms_of(const Samples& samples, std::int64_t place) {
  return {samples.starts[static_cast<std::size_t>(place)], samples.starts[static_cast<std::size_t>(place) + 1]};
}

template <class T>
T product(const Samples& samples, std::int64_t term, const T* x, std::int64_t stride) {
  const auto t = static_cast<std::size_t>(term);
  return static_cast<T>(samples.weights[t]) * x[samples.elements[t] * stride];
}

// The first of the greatest products, or the last that is NaN; terms.end if there is none.
template <class T>
std::int64_t greatest(const Samples& samples, Terms terms, const T* x, std::int64_t stride) {
  std::int64_t best = terms.end;
  T most{};
  for (std::int64_t t = terms.begin; t < terms.end; ++t) {
    const T value = product(samples, t, x, stride);
    if (t == terms.begin || value > most || value != value) most = value, best = t;
  }
  return best;
}

template <class T>
T combined(const Samples& samples, std::int64_t place, const T* x, std::int64_t stride, bool max) {
  const Terms terms = terms_of(samples, place);
  if (max) {
    const std::int64_t best = greatest(samples, terms, x, stride);
    return best == terms.end ? T{} : product(samples, best, x, stride);
  }
  T out{};
  const std::int64_t* elements = samples.elements.data();
  const double* weights = samples.weights.data();
  for (std::int64_t t = terms.begin; t < terms.end; ++t) out += static_cast<T>(weights[t]) * x[elements[t] * stride];
  return out;
}

template <class T>
void sample(Parallelism& parallelism, const Sampling& s, const T* x, T* y) {
  const std::int64_t total = s.groups * s.places, stride = s.element_stride();
  parallelism.parallel_for(
      total, std::max<std::int64_t>(kSampleGrain / (4 * s.channels), 1), [&](std::int64_t begin, std::int64_t end) {
        for_each_block(s, begin, end, [&](std::int64_t group, std::int64_t first, const Samples& samples) {
          const T* image = x + s.image(group) * s.elements * s.channels;
          const std::int64_t count = std::ssize(samples.outside);
          T* to = y + group * s.places * s.channels;
          const auto set = [&](std::int64_t p, std::int64_t c, T& out) {
            out = samples.outside[static_cast<std::size_t>(p)] != 0
                      ? static_cast<T>(s.extrapolation)
                      : combined(samples, p, image + c * s.channel_stride(), stride, s.max);
          };
          if (s.channels_last) {
            for (std::int64_t p = 0; p < count; ++p)
              for (std::int64_t c = 0; c < s.channels; ++c) set(p, c, to[(first + p) * s.channels + c]);
          } else {
            for (std::int64_t c = 0; c < s.channels; ++c)
              for (std::int64_t p = 0; p < count; ++p) set(p, c, to[c * s.places + first + p]);
          }
        });
      });
}

// Adds the gradient for x to dx. Channels are independent, so parts of them may run at once. x is read for maxima only.
template <class T>
void add_sample_gradient(Parallelism& parallelism, const Sampling& s, const T* dy, const T* x, T* dx) {
  constexpr std::int64_t kParts = 8;  // each computes all weights
  const std::int64_t stride = s.element_stride();
  parallelism.parallel_for(
      s.channels, (s.channels + kParts - 1) / kParts, [&](std::int64_t first_channel, std::int64_t last_channel) {
        for_each_block(s, 0, s.groups * s.places, [&](std::int64_t group, std::int64_t first, const Samples& samples) {
          const std::int64_t image = s.image(group) * s.elements * s.channels;
          const T* from = dy + group * s.places * s.channels;
          const auto add = [&](std::int64_t p, std::int64_t c, T d) {
            T* to = dx + image + c * s.channel_stride();
            Terms terms = terms_of(samples, p);
            if (s.max) {
              const std::int64_t best = greatest(samples, terms, x + image + c * s.channel_stride(), stride);
              terms = {best, std::min(best + 1, terms.end)};
            }
            for (std::int64_t t = terms.begin; t < terms.end; ++t)
              to[samples.elements[static_cast<std::size_t>(t)] * stride] +=
                  static_cast<T>(samples.weights[static_cast<std::size_t>(t)]) * d;
          };
          const std::int64_t count = std::ssize(samples.outside);
          if (s.channels_last) {
            for (std::int64_t p = 0; p < count; ++p)
              for (std::int64_t c = first_channel; c < last_channel; ++c) add(p, c, from[(first + p) * s.channels + c]);
          } else {
            for (std::int64_t c = first_channel; c < last_channel; ++c)
              for (std::int64_t p = 0; p < count; ++p) add(p, c, from[c * s.places + first + p]);
          }
        });
      });
}

// The gradients for the coordinates of all places: (down, right) of each.
template <class T>
std::vector<double> place_gradients(Parallelism& parallelism, const Sampling& s, const T* x, const T* dy) {
  std::vector<double> out(static_cast<std::size_t>(2 * s.groups * s.places));
  parallelism.parallel_for(
      s.groups * s.places, std::max<std::int64_t>(kSampleGrain / (8 * s.channels), 1),
      [&](std::int64_t begin, std::int64_t end) {
        for_each_block(s, begin, end, [&](std::int64_t group, std::int64_t first, const Samples& samples) {
          const T* image = x + s.image(group) * s.elements * s.channels;
          const T* from = dy + group * s.places * s.channels;
          for (std::int64_t p = 0; p < std::ssize(samples.outside); ++p) {
            double down = 0, right = 0;
            for (std::int64_t c = 0; c < s.channels; ++c) {
              const auto d = static_cast<double>(s.channels_last ? from[(first + p) * s.channels + c]
                                                                 : from[c * s.places + first + p]);
              for (auto t = static_cast<std::size_t>(samples.starts[static_cast<std::size_t>(p)]);
                   t < static_cast<std::size_t>(samples.starts[static_cast<std::size_t>(p) + 1]); ++t) {
                const auto value =
                    static_cast<double>(image[c * s.channel_stride() + samples.elements[t] * s.element_stride()]);
                down += d * samples.down[t] * value;
                right += d * samples.right[t] * value;
              }
            }
            double* to = out.data() + 2 * (group * s.places + first + p);
            to[0] = down;
            to[1] = right;
          }
        });
      });
  return out;
}
}  // namespace

DType sample_dtype(DType dtype) {
  return dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64 || dtype == DType::u32 || dtype == DType::u64
             ? DType::f64
             : DType::f32;
}
Tensor as_dtype(Device& device, const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : cast(device, x, dtype);
}

Tensor sampled(Device& device, const Sampling& s, const Tensor& x, const Shape& shape) {
  const Tensor from = as_dtype(device, x, sample_dtype(x.dtype()));
  Tensor y = device.allocator().tensor(from.dtype(), shape);
  if (y.num_elements() == 0) return as_dtype(device, y, x.dtype());
  dispatch(WideFloatTypes{}, y.dtype(),
           [&]<class T>() { sample(device.parallelism(), s, from.data<T>(), y.mutable_data<T>()); });
  return as_dtype(device, y, x.dtype());
}
Tensor sample_gradient(Device& device, const Sampling& s, const Tensor& dy, const Tensor& x) {
  const DType dtype = sample_dtype(dy.dtype());
  const Tensor from = as_dtype(device, dy, dtype), images = s.max ? as_dtype(device, x, dtype) : Tensor();
  Tensor dx = make_zeros(device, dtype, x.shape());
  if (dx.num_elements() > 0 && dy.num_elements() > 0)
    dispatch(WideFloatTypes{}, dx.dtype(), [&]<class T>() {
      add_sample_gradient(device.parallelism(), s, from.data<T>(), s.max ? images.data<T>() : nullptr,
                          dx.mutable_data<T>());
    });
  return as_dtype(device, dx, dy.dtype());
}
std::vector<double> place_gradient(Device& device, const Sampling& s, const Tensor& x, const Tensor& dy) {
  if (dy.num_elements() == 0) return std::vector<double>(static_cast<std::size_t>(2 * s.groups * s.places));
  const DType dtype = sample_dtype(x.dtype());
  const Tensor image = as_dtype(device, x, dtype), from = as_dtype(device, dy, dtype);
  std::vector<double> out;
  dispatch(WideFloatTypes{}, dtype,
           [&]<class T>() { out = place_gradients(device.parallelism(), s, image.data<T>(), from.data<T>()); });
  return out;
}

void check_images(std::string_view op, Dims images, std::int64_t groups, std::int64_t count) {
  if (std::ssize(images) != groups)
    invalid_argument("{}: there are {} numbers of images for {} regions", op, images.size(), groups);
  for (const std::int64_t image : images)
    if (image < 0 || image >= count) invalid_argument("{}: image {} is not one of {}", op, image, count);
}

}  // namespace troupe
