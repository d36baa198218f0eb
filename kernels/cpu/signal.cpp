// Fourier transforms by Eigen's FFT (kissfft), of lengths with large prime factors by convolutions; frames; mel
// weights.
#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <memory>
#include <numbers>
#include <optional>
#include <tuple>
#include <unsupported/Eigen/FFT>
#include <vector>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

struct Lines {
  std::int64_t outer = 0, inner = 0;  // around the axis; inner without the last dimension
  std::int64_t size = 0, channels = 0;
  std::int64_t length = 0, bins = 0;  // of the transform, of its result
  bool inverse = false;
  bool mirrored = false;  // x is the first half of a symmetric spectrum, and the result real

  std::int64_t channels_out() const { return mirrored ? 1 : 2; }
};

// kissfft takes n p operations for the largest prime factor p.
constexpr std::int64_t kLargestFactor = 100;

bool has_large_factor(std::int64_t n) {
  for (std::int64_t factor = 2; factor <= kLargestFactor; ++factor)
    while (n % factor == 0) n /= factor;
  return n > 1;
}

// The next number with no other prime factors than 2, 3 and 5.
std::int64_t fast_length(std::int64_t n) {
  const auto remainder = [](std::int64_t of) {
    for (const std::int64_t factor : {2, 3, 5})
      while (of % factor == 0) of /= factor;
    return of;
  };
  while (remainder(n) != 1) ++n;
  return n;
}

// Transforms of any length as convolutions with a chirp, which may be longer (Bluestein, "A linear filtering approach
// to the computation of discrete Fourier transform", 1970), in double precision.
class ChirpTransform {
 public:
  ChirpTransform(std::int64_t length, bool inverse) : chirp_(static_cast<std::size_t>(length)) {
    const double sign = inverse ? 1 : -1, n = static_cast<double>(length);
    for (std::size_t k = 0; k < chirp_.size(); ++k)  // exp(-pi i k^2 / n)
      chirp_[k] = std::polar(1.0, sign * std::numbers::pi * static_cast<double>(k * k % (2 * chirp_.size())) / n);
    const auto size = static_cast<std::size_t>(fast_length(2 * length - 1));
    from_.resize(size);
    for (std::size_t k = 0; k < chirp_.size(); ++k) from_[k] = from_[k == 0 ? 0 : size - k] = std::conj(chirp_[k]);
    filter_.resize(size);
    to_.resize(size);
    fft_.fwd(filter_.data(), from_.data(), static_cast<Eigen::Index>(size));
    scale_ = inverse ? 1 / n : 1;
  }
  template <class C>
  void run(const std::vector<std::complex<C>>& from, std::vector<std::complex<C>>& to) {
    const auto size = static_cast<Eigen::Index>(from_.size());
    std::ranges::fill(from_, 0.0);
    for (std::size_t k = 0; k < chirp_.size(); ++k) from_[k] = std::complex<double>(from[k]) * chirp_[k];
    fft_.fwd(to_.data(), from_.data(), size);
    for (std::size_t k = 0; k < to_.size(); ++k) to_[k] *= filter_[k];
    fft_.inv(from_.data(), to_.data(), size);
    for (std::size_t k = 0; k < chirp_.size(); ++k) to[k] = std::complex<C>(from_[k] * chirp_[k] * scale_);
  }

 private:
  Eigen::FFT<double> fft_;
  std::vector<std::complex<double>> chirp_, filter_, from_, to_;
  double scale_ = 1;
};

// Transforms of one length in one direction, with what they need: factors and room.
template <class C>
class LineTransform {
 public:
  // `real`: of 2 n real numbers, as n complex ones (Press et al., "Numerical Recipes", section 12.3).
  LineTransform(std::int64_t length, bool inverse, bool real)
      : from(static_cast<std::size_t>(length)), to(from.size()), inverse_(inverse) {
    if (has_large_factor(length)) chirp_.emplace(length, inverse);
    if (!real) return;
    for (std::int64_t k = 0; k <= length; ++k)
      turns_.push_back(std::complex<C>(std::polar(
          1.0, (inverse ? 1 : -1) * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length))));
  }
  void run() {
    const auto length = static_cast<Eigen::Index>(from.size());
    if (length == 1)
      to = from;  // for which Eigen's FFT has no room
    else if (chirp_)
      chirp_->run(from, to);
    else if (inverse_)
      fft_.inv(to.data(), from.data(), length);
    else
      fft_.fwd(to.data(), from.data(), length);
  }
  // Number k of the first half, 0 to n, of the spectrum of the real numbers (from[0].real(), from[0].imag(), ...).
  std::complex<C> half_spectrum(std::size_t k) const {
    const std::size_t n = to.size();
    const std::complex<C> z = to[k % n], w = std::conj(to[(n - k) % n]);
    const std::complex<C> even = (z + w) * C(0.5), odd = (z - w) * C(0.5);
    return even + turns_[k] * std::complex<C>(odd.imag(), -odd.real());
  }
  // The inverse: what of half a spectrum, 0 to n, to transform at k, for real numbers in `to`.
  std::complex<C> from_half_spectrum(const std::vector<std::complex<C>>& half, std::size_t k) const {
    const std::complex<C> z = half[k], w = std::conj(half[from.size() - k]);
    const std::complex<C> even = (z + w) * C(0.5), odd = (z - w) * C(0.5) * turns_[k];
    return {even.real() - odd.imag(), even.imag() + odd.real()};
  }

  std::vector<std::complex<C>> from, to;

 private:
  const bool inverse_;
  std::vector<std::complex<C>> turns_;  // exp(-pi i k / n), or exp(pi i k / n)
  std::optional<ChirpTransform> chirp_;
  Eigen::FFT<C> fft_;
};

// A thread keeps those of its last lengths, some MiB, but not of long ones.
template <class C>
std::shared_ptr<LineTransform<C>> line_transform(std::int64_t length, bool inverse, bool real) {
  constexpr std::size_t kKept = 8;
  constexpr std::int64_t kLongestKept = 1 << 15;
  thread_local std::map<std::tuple<std::int64_t, bool, bool>, std::shared_ptr<LineTransform<C>>> kept;
  if (length > kLongestKept) return std::make_shared<LineTransform<C>>(length, inverse, real);
  const std::tuple key(length, inverse, real);
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  if (kept.size() == kKept) kept.clear();
  return kept.emplace(key, std::make_shared<LineTransform<C>>(length, inverse, real)).first->second;
}

// Transforms lines [begin, end), counted over outer and inner.
template <class T>
class LineMover {
 public:
  using C = Compute<T>;
  using Number = std::complex<C>;
  LineMover(const Lines& lines, const T* x, T* y) : lines_(lines), x_(x), y_(y) {}

  void run(std::int64_t begin, std::int64_t end) const {
    const bool even = lines_.length % 2 == 0;
    const auto of_each = [&](const auto& fn) {
      for (std::int64_t line = begin; line < end; ++line) fn(line);
    };
    if (even && lines_.channels == 1 && !lines_.inverse)
      return of_each([&, t = line_transform<C>(lines_.length / 2, false, true)](std::int64_t i) { of_real(*t, i); });
    if (even && lines_.mirrored) {
      std::vector<Number> half(static_cast<std::size_t>(lines_.length / 2 + 1));
      return of_each(
          [&, t = line_transform<C>(lines_.length / 2, true, true)](std::int64_t i) { to_real(*t, half, i); });
    }
    of_each([&, t = line_transform<C>(lines_.length, lines_.inverse, false)](std::int64_t i) { of_complex(*t, i); });
  }

 private:
  const T* input(std::int64_t line) const {
    return x_ + (line / lines_.inner * lines_.size * lines_.inner + line % lines_.inner) * lines_.channels;
  }
  T* output(std::int64_t line) const {
    return y_ + (line / lines_.inner * lines_.bins * lines_.inner + line % lines_.inner) * lines_.channels_out();
  }
  // The first `count` numbers of a line, and zeros.
  void read(std::int64_t line, std::int64_t count, std::vector<Number>& to) const {
    const T* in = input(line);
    for (std::int64_t k = 0; k < count; ++k, in += lines_.inner * lines_.channels)
      to[static_cast<std::size_t>(k)] = {static_cast<C>(in[0]), lines_.channels == 2 ? static_cast<C>(in[1]) : C{0}};
    std::fill(to.begin() + count, to.end(), Number());
  }
  void write(T* at, Number value) const {
    at[0] = static_cast<T>(value.real());
    at[1] = static_cast<T>(value.imag());
  }

  void of_complex(LineTransform<C>& t, std::int64_t line) const {
    const std::int64_t own = lines_.mirrored ? lines_.length / 2 + 1 : lines_.length;
    read(line, std::min(lines_.size, own), t.from);
    if (lines_.mirrored) {  // an odd number of conjugates in reverse order
      t.from[0] = t.from[0].real();
      for (std::size_t k = 1; 2 * k < t.from.size(); ++k) t.from[t.from.size() - k] = std::conj(t.from[k]);
    }
    t.run();
    T* out = output(line);
    for (std::int64_t k = 0; k < lines_.bins; ++k, out += lines_.inner * lines_.channels_out()) {
      if (lines_.mirrored)
        out[0] = static_cast<T>(t.to[static_cast<std::size_t>(k)].real());
      else
        write(out, t.to[static_cast<std::size_t>(k)]);
    }
  }

  void of_real(LineTransform<C>& t, std::int64_t line) const {
    const T* in = input(line);
    const std::int64_t used = std::min(lines_.size, lines_.length);
    const auto at = [&](std::int64_t k) { return k < used ? static_cast<C>(in[k * lines_.inner]) : C{0}; };
    for (std::size_t k = 0; k < t.from.size(); ++k) {
      const auto first = 2 * static_cast<std::int64_t>(k);
      t.from[k] = {at(first), at(first + 1)};
    }
    t.run();
    T* out = output(line);
    const std::int64_t stride = 2 * lines_.inner, half = lines_.length / 2;
    for (std::int64_t k = 0; k <= half; ++k) {
      const Number value = t.half_spectrum(static_cast<std::size_t>(k));
      write(out + k * stride, value);
      if (lines_.bins > half + 1 && k > 0 && k < half) write(out + (lines_.length - k) * stride, std::conj(value));
    }
  }

  void to_real(LineTransform<C>& t, std::vector<Number>& half, std::int64_t line) const {
    read(line, std::min<std::int64_t>(lines_.size, lines_.length / 2 + 1), half);
    half.front() = half.front().real();  // their own mirror images
    half.back() = half.back().real();
    for (std::size_t k = 0; k < t.from.size(); ++k) t.from[k] = t.from_half_spectrum(half, k);
    t.run();
    T* out = output(line);
    for (const Number value : t.to) {
      out[0] = static_cast<T>(value.real());
      out[lines_.inner] = static_cast<T>(value.imag());
      out += 2 * lines_.inner;
    }
  }

  const Lines& lines_;
  const T* const x_;
  T* const y_;
};

// The lines of x, and the shape of the result.
std::pair<Lines, Shape> lines_of(const Shape& x, std::int64_t given, std::int64_t axis, bool inverse, bool onesided) {
  const int at = checked_axis(axis, x.rank());
  if (x.rank() < 2 || at == x.rank() - 1 || (x[-1] != 1 && x[-1] != 2))
    invalid_argument(
        "DFT: x must be [...,1] or [...,2], transformed along another dimension than the last: {}, axis {}",
        x.to_string(), axis);
  const bool mirrored = inverse && onesided;
  if (mirrored && x[-1] != 2)
    invalid_argument("DFT: a one-sided inverse transform is of complex numbers [...,2], not {}", x.to_string());
  const std::int64_t own = mirrored ? 2 * (x[at] - 1) : x[at];
  Lines lines{
      .size = x[at], .channels = x[-1], .length = given < 0 ? own : given, .inverse = inverse, .mirrored = mirrored};
  if (lines.length < 1 || lines.length > (std::int64_t{1} << 30))
    invalid_argument("DFT: the length is {}, not in [1, 2^30]", lines.length);
  lines.outer = x.sub(0, at).num_elements();
  lines.inner = x.sub(at + 1, x.rank() - 1).num_elements();
  lines.bins = onesided && !mirrored ? lines.length / 2 + 1 : lines.length;
  Shape out = x;
  out.set_dim(at, lines.bins);
  out.set_dim(-1, lines.channels_out());
  return {lines, out};
}

void register_transforms(KernelRegistry& registry) {
  add_factories(registry, "DFT", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), inverse = init.attributes.boolean("inverse"),
            onesided = init.attributes.boolean("onesided")](KernelContext& c) {
      const auto [lines, shape] =
          lines_of(c.input(0).shape(), c.input(1).item<std::int64_t>(), axis, inverse, onesided);
      Tensor out = c.allocate(dtype_of<T>, shape);
      const T* x = c.input(0).data<T>();
      T* y = out.mutable_data<T>();
      // Several lines share the preparation of a length.
      const std::int64_t grain = std::max<std::int64_t>(has_large_factor(lines.length) ? 4 : 1, 4096 / lines.length);
      c.parallelism().parallel_for(
          lines.outer * lines.inner, grain,
          [&, &lines = lines](std::int64_t begin, std::int64_t end) { LineMover<T>(lines, x, y).run(begin, end); });
      c.set_output(0, std::move(out));
    };
  });
}

struct Frames {
  std::int64_t batch, size, channels, count, length, step;
};

Frames frames_of(const Shape& x, std::int64_t length, std::int64_t step) {
  if (x.rank() != 3) invalid_argument("Frame: x must be [batch,n,channels], not {}", x.to_string());
  if (length < 1 || step < 1 || length > x[1])
    invalid_argument("Frame: frames of {}, {} apart, do not fit a signal of {}", length, step, x[1]);
  return {x[0], x[1], x[2], (x[1] - length) / step + 1, length, step};
}

void register_frames(KernelRegistry& registry) {
  add_untyped(registry, "Frame", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      const Frames f = frames_of(c.input(0).shape(), c.input(1).item<std::int64_t>(), c.input(2).item<std::int64_t>());
      Tensor out = c.allocate(c.input(0).dtype(), Shape{f.batch, f.count, f.length, f.channels});
      const std::int64_t width = f.length * f.channels;
      const CopyDim dims[] = {
          {f.batch, f.size * f.channels, f.count * width}, {f.count, f.step * f.channels, width}, {width, 1, 1}};
      strided_copy(c.device(), c.input(0), 0, out, 0, dims);
      c.set_output(0, std::move(out));
    };
  });
  add_kernels(registry, "FrameGrad", FloatTypes{}, []<class T>(KernelContext& c) {
    const Shape& dy = c.input(0).shape();
    if (dy.rank() != 4) invalid_argument("FrameGrad: frames must be [batch,m,length,channels], not {}", dy.to_string());
    const Frames f = frames_of(c.input(1).shape(), dy[2], c.input(2).item<std::int64_t>());
    if (dy != (Shape{f.batch, f.count, f.length, f.channels}))
      invalid_argument("FrameGrad: frames {} are not those of {}", dy.to_string(), c.input(1).shape().to_string());
    Tensor out = c.allocate(dtype_of<T>, c.input(1).shape());
    const T* from = c.input(0).data<T>();
    T* to = out.mutable_data<T>();
    std::vector<Compute<T>> sums(static_cast<std::size_t>(f.size * f.channels));
    const std::int64_t width = f.length * f.channels;
    for (std::int64_t b = 0; b < f.batch; ++b) {
      std::ranges::fill(sums, Compute<T>{0});
      for (std::int64_t m = 0; m < f.count; ++m, from += width)
        for (std::int64_t k = 0; k < width; ++k)
          sums[static_cast<std::size_t>(m * f.step * f.channels + k)] += static_cast<Compute<T>>(from[k]);
      for (const Compute<T> sum : sums) *to++ = static_cast<T>(sum);
    }
    c.set_output(0, std::move(out));
  });
}

// The definition of ONNX's MelWeightMatrix: triangles between bins that are evenly spaced on the mel scale
// (O'Shaughnessy 1987), rounded down to bins of the spectrum.
Tensor mel_weights(std::int64_t bins, std::int64_t length, std::int64_t rate, double lower, double upper) {
  if (bins < 1 || bins > 1'000'000 || length < 1 || length > (1 << 30) || rate < 1)
    invalid_argument("MelWeightMatrix: {} bins of a transform of {} at {} Hz", bins, length, rate);
  const std::int64_t spectrum = length / 2 + 1;
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(lower), step = (mel(upper) - low) / static_cast<double>(bins + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10.0, (static_cast<double>(i) * step + low) / 2595) - 1);
    const double bin = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    if (!(bin >= 0 && bin < static_cast<double>(spectrum)))
      invalid_argument("MelWeightMatrix: the edges {} and {} Hz are not in [0, {}] Hz", lower, upper, rate / 2);
    edges.push_back(static_cast<std::int64_t>(bin));
  }
  Tensor out = Tensor::zeros(DType::f32, Shape{spectrum, bins});
  float* weights = out.mutable_data<float>();
  for (std::int64_t i = 0; i < bins; ++i) {
    const auto at = [&](std::int64_t k) { return edges[static_cast<std::size_t>(i + k)]; };
    const std::int64_t first = at(0), center = at(1), last = at(2);
    const auto weight = [&](std::int64_t bin) -> float& { return weights[bin * bins + i]; };
    if (center == first) weight(center) = 1;
    for (std::int64_t j = first; j <= center && center > first; ++j)
      weight(j) = static_cast<float>(static_cast<double>(j - first) / static_cast<double>(center - first));
    for (std::int64_t j = center; j < last; ++j)
      weight(j) = static_cast<float>(static_cast<double>(last - j) / static_cast<double>(last - center));
  }
  return out;
}

}  // namespace

void register_signal_kernels(KernelRegistry& registry) {
  register_transforms(registry);
  register_frames(registry);
  add_untyped(registry, "MelWeightMatrix", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      c.set_output(0, mel_weights(c.input(0).item<std::int64_t>(), c.input(1).item<std::int64_t>(),
                                  c.input(2).item<std::int64_t>(), static_cast<double>(c.input(3).item<float>()),
                                  static_cast<double>(c.input(4).item<float>())));
    };
  });
}

}  // namespace troupe
