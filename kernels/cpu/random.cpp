#include "troupe/kernels/cpu/random.hpp"

#include <cmath>
#include <numbers>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/dropout.hpp>
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/common/uniform_range.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {
namespace {

// The values of one block.
template <class T>
inline constexpr std::size_t kLanes = 16 / sizeof(T);
template <class T>
using Lanes = std::array<T, kLanes<T>>;

template <class T>
Lanes<T> uniform_lanes(const PhiloxBlock& block) {
  if constexpr (std::is_same_v<T, float>)
    return {uniform_float(block[0]), uniform_float(block[1]), uniform_float(block[2]), uniform_float(block[3])};
  else
    return {uniform_double(block[0], block[1]), uniform_double(block[2], block[3])};
}

// Box and Muller, "A note on the generation of random normal deviates" (1958).
template <class T>
Lanes<T> normal_lanes(const PhiloxBlock& block) {
  Lanes<T> lanes = uniform_lanes<T>(block);
  for (std::size_t i = 0; i < lanes.size(); i += 2) {
    const T radius = std::sqrt(T{-2} * std::log(T{1} - lanes[i]));  // 1 - u is in (0, 1]
    const T angle = T{2} * std::numbers::pi_v<T> * lanes[i + 1];
    lanes[i] = radius * std::cos(angle);
    lanes[i + 1] = radius * std::sin(angle);
  }
  return lanes;
}

template <class T>
Lanes<T> truncated_lanes(const PhiloxStream& stream, std::uint64_t block) {
  Lanes<T> lanes = normal_lanes<T>(stream.block(block));
  for (std::size_t i = 0; i < lanes.size(); ++i)
    for (std::uint64_t attempt = 1; std::abs(lanes[i]) >= T{2}; ++attempt)
      lanes[i] = normal_lanes<T>(stream.block(block + (attempt << 48)))[i];
  return lanes;
}

// out[i] = map(value i of the stream), where draw(b) returns the values of block b. Values of f16 and bf16 are drawn as
// floats and rounded.
template <class T, class Draw, class Map>
void fill_blocks(Parallelism& parallelism, T* out, std::int64_t count, Draw draw, Map map) {
  constexpr auto kLaneCount = static_cast<std::int64_t>(kLanes<Compute<T>>);
  static_assert(kElementGrain % kNarrowBlock == 0 && kNarrowBlock % kLaneCount == 0);
  parallelism.parallel_for(count, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    write_blocks(out + begin, end - begin, [&](std::int64_t at, std::int64_t n, Compute<T>* to) {
      for (std::int64_t i = 0; i < n; i += kLaneCount) {
        const Lanes<Compute<T>> lanes = draw(static_cast<std::uint64_t>((begin + at + i) / kLaneCount));
        const std::int64_t used = std::min(kLaneCount, n - i);
        for (std::int64_t j = 0; j < used; ++j) to[i + j] = map(lanes[static_cast<std::size_t>(j)]);
      }
    });
  });
}

}  // namespace

template <class T>
void fill_uniform(Parallelism& parallelism, const PhiloxStream& stream, std::span<T> out, Compute<T> low,
                  Compute<T> high) {
  const Compute<T> width = high - low;
  const Compute<T> last = last_below<T>(high);  // low + u * width may round to high
  fill_blocks(
      parallelism, out.data(), std::ssize(out),
      [&](std::uint64_t b) { return uniform_lanes<Compute<T>>(stream.block(b)); },
      [=](Compute<T> u) {
        const Compute<T> value = low + u * width;
        return value < last ? value : last;
      });
}

template <class T>
void fill_normal(Parallelism& parallelism, const PhiloxStream& stream, std::span<T> out, Compute<T> mean,
                 Compute<T> deviation) {
  fill_blocks(
      parallelism, out.data(), std::ssize(out),
      [&](std::uint64_t b) { return normal_lanes<Compute<T>>(stream.block(b)); },
      [=](Compute<T> z) { return mean + deviation * z; });
}

template <class T>
void fill_truncated_normal(Parallelism& parallelism, const PhiloxStream& stream, std::span<T> out, Compute<T> mean,
                           Compute<T> deviation) {
  fill_blocks(
      parallelism, out.data(), std::ssize(out), [&](std::uint64_t b) { return truncated_lanes<Compute<T>>(stream, b); },
      [=](Compute<T> z) { return mean + deviation * z; });
}

#define TROUPE_FILLS(T)                                                                                \
  template void fill_uniform(Parallelism&, const PhiloxStream&, std::span<T>, Compute<T>, Compute<T>); \
  template void fill_normal(Parallelism&, const PhiloxStream&, std::span<T>, Compute<T>, Compute<T>);  \
  template void fill_truncated_normal(Parallelism&, const PhiloxStream&, std::span<T>, Compute<T>, Compute<T>);
TROUPE_FILLS(float)
TROUPE_FILLS(double)
TROUPE_FILLS(Half)
TROUPE_FILLS(BFloat16)
#undef TROUPE_FILLS

namespace {

template <class T>
using Fill = void (*)(Parallelism&, const PhiloxStream&, std::span<T>, Compute<T>, Compute<T>);

// A kernel that fills its output, whose shape is input 0, based on two parameters.
template <class T>
Kernel make_fill(const KernelInit& init, Fill<T> fill, Compute<T> first, Compute<T> second) {
  return [=, seed = init.attributes.integer("seed")](KernelContext& context) {
    Tensor out = context.allocate(dtype_of<T>, checked_shape(checked_dims(context.input(0))));
    fill(context.parallelism(), random_stream(context.random_key(), random_node(context.node_hash(), seed)),
         out.mutable_values<T>(), first, second);
    context.set_output(0, std::move(out));
  };
}

// An attribute, rounded to T.
template <class T>
Compute<T> rounded(const KernelInit& init, std::string_view attribute) {
  const auto value = static_cast<Compute<T>>(init.attributes.real(attribute));
  return static_cast<Compute<T>>(static_cast<T>(value));
}

template <class T>
Kernel make_uniform(const KernelInit& init) {
  const auto low = rounded<T>(init, "minval"), high = rounded<T>(init, "maxval");
  if (!(low < high)) invalid_argument("'{}': minval {} must be below maxval {}", init.node_name, low, high);
  return make_fill<T>(init, fill_uniform<T>, low, high);
}

// Inputs: x, and the rate, one f64. Outputs: y = x * mask; mask: 0 with probability `rate`, else 1 / (1 - rate).
template <class T>
Kernel make_dropout(const KernelInit& init) {
  return [seed = init.attributes.integer("seed")](KernelContext& context) {
    using C = Compute<T>;
    const double rate = dropout_rate(context.input(1));
    const Shape shape = context.input(0).shape();
    const T* x = context.input(0).data<T>();
    Tensor mask = context.allocate(dtype_of<T>, shape);
    Tensor y = context.take_or_allocate(0, dtype_of<T>, shape);
    T *m = mask.mutable_data<T>(), *to = y.mutable_data<T>();
    const PhiloxStream stream = random_stream(context.random_key(), random_node(context.node_hash(), seed));
    const auto bound = static_cast<C>(rate);
    const auto keep = static_cast<C>(static_cast<T>(static_cast<C>(1 / (1 - rate))));
    fill_blocks(
        context.parallelism(), m, mask.num_elements(),
        [&](std::uint64_t b) { return uniform_lanes<C>(stream.block(b)); },
        [=](C u) { return u < bound ? C{0} : keep; });
    context.parallelism().parallel_for(mask.num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      binary_stretch(x + begin, true, m + begin, true, to + begin, end - begin, MulOp{});
    });
    context.set_output(0, std::move(y));
    context.set_output(1, std::move(mask));
  };
}

}  // namespace

void register_random_kernels(KernelRegistry& registry) {
  const FloatTypes types;
  add_factories(registry, "RandomUniform", types,
                []<class T>(const KernelInit& init) { return make_uniform<T>(init); });
  add_factories(registry, "RandomNormal", types, []<class T>(const KernelInit& init) {
    return make_fill<T>(init, fill_normal<T>, rounded<T>(init, "mean"), rounded<T>(init, "stddev"));
  });
  add_factories(registry, "TruncatedNormal", types, []<class T>(const KernelInit& init) {
    return make_fill<T>(init, fill_truncated_normal<T>, rounded<T>(init, "mean"), rounded<T>(init, "stddev"));
  });
  add_factories(registry, "Dropout", types, []<class T>(const KernelInit& init) { return make_dropout<T>(init); });
}

}  // namespace troupe
