// Random values whose distribution depends on inputs. As in random.hpp, an element depends on (stream, element) alone.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/cast.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/random.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kDrawGrain = 4096;

// Values of one element. Rejected draws take later blocks: attempt k those of block + k * 2^48.
class ElementDraws {
 public:
  ElementDraws(const PhiloxStream& stream, std::int64_t element)
      : stream_(stream), block_(static_cast<std::uint64_t>(element)) {}

  // In [0, 1).
  double uniform() {
    if (used_ == 0) {
      words_ = stream_.block(block_ + (attempt_++ << 48));
    }
    const double u = uniform_double(words_[used_], words_[used_ + 1]);
    used_ = used_ == 0 ? 2 : 0;
    return u;
  }
  // In (0, 1].
  double positive() { return 1 - uniform(); }
  // Box and Muller (1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(positive()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  const PhiloxStream& stream_;
  std::uint64_t block_, attempt_ = 0;
  PhiloxBlock words_{};
  std::size_t used_ = 0;
};

// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
double gamma_value(double alpha, ElementDraws& draws) {
  if (!(alpha > 0) || !std::isfinite(alpha)) return std::numeric_limits<double>::quiet_NaN();
  if (alpha < 1) {
    const double u = draws.positive();
    return gamma_value(alpha + 1, draws) * std::pow(u, 1 / alpha);
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draws.normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(draws.positive()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

// Small rates: products of uniform values. Others: Hoermann, "The transformed rejection method for generating Poisson
// random variables" (1993), algorithm PTRS.
double poisson_value(double rate, ElementDraws& draws) {
  if (!(rate >= 0) || !std::isfinite(rate)) return std::numeric_limits<double>::quiet_NaN();
  if (rate < 10) {
    const double least = std::exp(-rate);
    double product = draws.positive(), count = 0;
    for (; product > least; ++count) product *= draws.positive();
    return count;
  }
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b, log_rate = std::log(rate);
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = draws.uniform() - 0.5, v = draws.positive(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (!(k >= 0) || (us < 0.013 && v > us)) continue;
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <= k * log_rate - rate - std::lgamma(k + 1)) return k;
  }
}

PhiloxStream stream_of(KernelContext& c, std::int64_t seed) {
  return random_stream(c.random_key(), random_node(c.node_hash(), seed));
}

// out[i] = draw(x[i], values of element i).
Tensor drawn(KernelContext& c, std::int64_t seed, double (*draw)(double, ElementDraws&)) {
  const Tensor &x = c.input(0), from = x.dtype() == DType::f64 ? x : cast(c.device(), x, DType::f64);
  Tensor out = c.device().allocator().tensor(DType::f64, x.shape());
  const double* parameters = from.data<double>();
  double* to = out.mutable_data<double>();
  const PhiloxStream stream = stream_of(c, seed);
  c.parallelism().parallel_for(x.num_elements(), kDrawGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      ElementDraws draws(stream, i);
      to[i] = draw(parameters[i], draws);
    }
  });
  return x.dtype() == DType::f64 ? out : cast(c.device(), out, x.dtype());
}

double bernoulli_value(double p, ElementDraws& draws) { return draws.uniform() < p ? 1 : 0; }

// Running sums of the classes' weights.
void add_up(const double* logits, std::span<double> sums, std::int64_t row) {
  const double most = *std::max_element(logits, logits + sums.size());
  double total = 0;
  for (std::size_t k = 0; k < sums.size(); ++k) sums[k] = total += std::exp(logits[k] - most);
  if (!(total >= 1) || !std::isfinite(total))
    invalid_argument("Multinomial: row {} has no finite logit, or one that is not a number", row);
}

Tensor multinomial(KernelContext& c, std::int64_t seed) {
  const Tensor &x = c.input(0), logits = x.dtype() == DType::f64 ? x : cast(c.device(), x, DType::f64);
  check_rank("Multinomial: logits", x.shape(), 2);
  const std::int64_t rows = x.shape()[0], classes = x.shape()[1],
                     count = checked_scalar("Multinomial: count", c.input(1));
  if (count < 0) invalid_argument("Multinomial: count is {}: it must not be negative", count);
  if (classes == 0 && rows * count > 0) invalid_argument("Multinomial: there are no classes");
  Tensor out = c.allocate(DType::i64, Shape{rows, count});
  if (out.num_elements() == 0) return out;
  std::int64_t* to = out.mutable_data<std::int64_t>();
  const PhiloxStream stream = stream_of(c, seed);
  c.parallelism().parallel_for(rows, std::max<std::int64_t>(kDrawGrain / (classes + count), 1),
                               [&](std::int64_t begin, std::int64_t end) {
                                 std::vector<double> sums(static_cast<std::size_t>(classes));
                                 for (std::int64_t row = begin; row < end; ++row) {
                                   add_up(logits.data<double>() + row * classes, sums, row);
                                   // Rounding must not choose a class of weight 0 at the end.
                                   const auto last = std::ranges::lower_bound(sums, sums.back());
                                   for (std::int64_t i = row * count; i < (row + 1) * count; ++i) {
                                     const double place = ElementDraws(stream, i).uniform() * sums.back();
                                     to[i] = std::min(std::ranges::upper_bound(sums, place), last) - sums.begin();
                                   }
                                 }
                               });
  return out;
}

// The numbers below n in random order: Fisher and Yates, as Durstenfeld (1964).
Tensor permutation(KernelContext& c, std::int64_t seed) {
  const std::int64_t n = checked_scalar("RandomPermutation: n", c.input(0));
  if (n < 0) invalid_argument("RandomPermutation: n is {}: it must not be negative", n);
  Tensor out = c.allocate(DType::i64, Shape{n});
  std::int64_t* to = out.mutable_data<std::int64_t>();
  std::iota(to, to + n, 0);
  const PhiloxStream stream = stream_of(c, seed);
  for (std::int64_t i = n - 1; i > 0; --i) {
    const PhiloxBlock words = stream.block(static_cast<std::uint64_t>(i));
    __extension__ using Wide = unsigned __int128;
    const std::uint64_t bits = std::uint64_t{words[0]} << 32 | words[1];
    std::swap(to[i], to[static_cast<std::int64_t>(Wide{bits} * static_cast<std::uint64_t>(i + 1) >> 64)]);
  }
  return out;
}

// `high` as a distance from `low`, at least 1.
template <class T>
std::uint64_t checked_range(const Tensor& low, const Tensor& high) {
  for (const Tensor* limit : {&low, &high})
    if (limit->num_elements() != 1)
      invalid_argument("RandomIntegers: limits must be scalars, not {}", limit->shape().to_string());
  const auto first = static_cast<std::int64_t>(low.item<T>()), end = static_cast<std::int64_t>(high.item<T>());
  if (first >= end) invalid_argument("RandomIntegers: low {} must be less than high {}", first, end);
  return static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(first);
}

// Each integer below the range with the same probability: Lemire, "Fast random integer generation in an interval"
// (2019). Element i has 64 bits of block i / 2; draws that are rejected are followed by those of block + k * 2^48.
std::uint64_t integer_below(std::uint64_t range, const PhiloxStream& stream, std::uint64_t i, PhiloxBlock words) {
  __extension__ using Wide = unsigned __int128;
  const auto product = [&] {
    const std::size_t at = i % 2 * 2;
    return Wide{std::uint64_t{words[at]} << 32 | words[at + 1]} * range;
  };
  Wide drawn = product();
  if (static_cast<std::uint64_t>(drawn) < range) {
    const std::uint64_t least = (0 - range) % range;
    for (std::uint64_t attempt = 1; static_cast<std::uint64_t>(drawn) < least; ++attempt) {
      words = stream.block(i / 2 + (attempt << 48));
      drawn = product();
    }
  }
  return static_cast<std::uint64_t>(drawn >> 64);
}

template <class T>
void random_integers(KernelContext& c, std::int64_t seed) {
  const std::uint64_t range = checked_range<T>(c.input(1), c.input(2));
  const auto low = static_cast<std::uint64_t>(c.input(1).item<T>());
  Tensor out = c.allocate(dtype_of<T>, checked_shape(checked_dims(c.input(0))));
  T* to = out.mutable_data<T>();
  const PhiloxStream stream = stream_of(c, seed);
  c.parallelism().parallel_for(out.num_elements(), kDrawGrain, [&](std::int64_t begin, std::int64_t end) {
    PhiloxBlock words{};
    for (std::int64_t i = begin; i < end; ++i) {
      const auto element = static_cast<std::uint64_t>(i);
      if (i == begin || i % 2 == 0) words = stream.block(element / 2);
      to[i] = static_cast<T>(low + integer_below(range, stream, element, words));
    }
  });
  c.set_output(0, std::move(out));
}

}  // namespace

void register_random_draw_kernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, auto run) {
    add_untyped(registry, op, [run](const KernelInit& init) -> Kernel {
      return [run, seed = init.attributes.integer("seed")](KernelContext& c) { c.set_output(0, run(c, seed)); };
    });
  };
  add("Bernoulli", [](KernelContext& c, std::int64_t seed) { return drawn(c, seed, bernoulli_value); });
  add("RandomGamma", [](KernelContext& c, std::int64_t seed) { return drawn(c, seed, gamma_value); });
  add("RandomPoisson", [](KernelContext& c, std::int64_t seed) { return drawn(c, seed, poisson_value); });
  add("Multinomial", multinomial);
  add_factories(registry, "RandomIntegers", IndexTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [seed = init.attributes.integer("seed")](KernelContext& c) { random_integers<T>(c, seed); };
  });
  add("RandomPermutation", permutation);
}

}  // namespace troupe
