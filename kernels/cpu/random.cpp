#include "troupe/kernels/cpu/random.hpp"

#include <cmath>
#include <numbers>

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

// out[i] = store(i, value i of the stream), where draw(b) returns the values of block b.
template <class T, class Draw, class Store>
void fill_blocks(Parallelism& parallelism, std::int64_t count, Draw draw, Store store) {
  constexpr auto kLaneCount = static_cast<std::int64_t>(kLanes<T>);
  static_assert(kElementGrain % kLaneCount == 0);
  parallelism.parallel_for(count, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kLaneCount) {
      const Lanes<T> lanes = draw(static_cast<std::uint64_t>(i / kLaneCount));
      const std::int64_t used = std::min(kLaneCount, end - i);
      for (std::int64_t j = 0; j < used; ++j) store(i + j, lanes[static_cast<std::size_t>(j)]);
    }
  });
}

}  // namespace

template <class T>
void fill_uniform(Parallelism& parallelism, const PhiloxStream& stream, std::span<T> out, T low, T high) {
  const T width = high - low;
  const T last = std::nextafter(high, low);  // low + u * width may round to high
  fill_blocks<T>(
      parallelism, std::ssize(out), [&](std::uint64_t b) { return uniform_lanes<T>(stream.block(b)); },
      [=](std::int64_t i, T u) {
        const T value = low + u * width;
        out[static_cast<std::size_t>(i)] = value < high ? value : last;
      });
}

template <class T>
void fill_normal(Parallelism& parallelism, const PhiloxStream& stream, std::span<T> out, T mean, T deviation) {
  fill_blocks<T>(
      parallelism, std::ssize(out), [&](std::uint64_t b) { return normal_lanes<T>(stream.block(b)); },
      [=](std::int64_t i, T z) { out[static_cast<std::size_t>(i)] = mean + deviation * z; });
}

template <class T>
void fill_truncated_normal(Parallelism& parallelism, const PhiloxStream& stream, std::span<T> out, T mean,
                           T deviation) {
  fill_blocks<T>(
      parallelism, std::ssize(out), [&](std::uint64_t b) { return truncated_lanes<T>(stream, b); },
      [=](std::int64_t i, T z) { out[static_cast<std::size_t>(i)] = mean + deviation * z; });
}

template void fill_uniform(Parallelism&, const PhiloxStream&, std::span<float>, float, float);
template void fill_uniform(Parallelism&, const PhiloxStream&, std::span<double>, double, double);
template void fill_normal(Parallelism&, const PhiloxStream&, std::span<float>, float, float);
template void fill_normal(Parallelism&, const PhiloxStream&, std::span<double>, double, double);
template void fill_truncated_normal(Parallelism&, const PhiloxStream&, std::span<float>, float, float);
template void fill_truncated_normal(Parallelism&, const PhiloxStream&, std::span<double>, double, double);

namespace {

template <class T>
using Fill = void (*)(Parallelism&, const PhiloxStream&, std::span<T>, T, T);

// A kernel that fills its output, whose shape is the attribute `shape`, based on two parameters.
template <class T>
Kernel make_fill(const KernelInit& init, Fill<T> fill, T first, T second) {
  const Shape shape = init.attributes.shape("shape");
  if (!shape.fully_known()) invalid_argument("'{}': shape {} is not fully known", init.node_name, shape.to_string());
  return [=, seed = init.attributes.integer("seed")](KernelContext& context) {
    Tensor out = context.allocate(dtype_of<T>, shape);
    fill(context.parallelism(), random_stream(context.random_key(), random_node(context.node_hash(), seed)),
         out.mutable_values<T>(), first, second);
    context.set_output(0, std::move(out));
  };
}

template <class T>
Kernel make_uniform(const KernelInit& init) {
  const T low = static_cast<T>(init.attributes.real("minval")), high = static_cast<T>(init.attributes.real("maxval"));
  if (!(low < high)) invalid_argument("'{}': minval {} must be below maxval {}", init.node_name, low, high);
  return make_fill<T>(init, fill_uniform<T>, low, high);
}

// Outputs: y = x * mask; mask: 0 with probability `rate`, else 1 / (1 - rate).
template <class T>
Kernel make_dropout(const KernelInit& init) {
  const double rate = init.attributes.real("rate");
  if (!(rate >= 0 && rate < 1)) invalid_argument("'{}': dropout rate {} is not in [0, 1)", init.node_name, rate);
  return [rate = static_cast<T>(rate), keep = static_cast<T>(1 / (1 - rate)),
          seed = init.attributes.integer("seed")](KernelContext& context) {
    const Shape shape = context.input(0).shape();
    const T* x = context.input(0).data<T>();
    Tensor mask = context.allocate(dtype_of<T>, shape);
    Tensor y = context.take_or_allocate(0, dtype_of<T>, shape);
    T *m = mask.mutable_data<T>(), *to = y.mutable_data<T>();
    const PhiloxStream stream = random_stream(context.random_key(), random_node(context.node_hash(), seed));
    fill_blocks<T>(
        context.parallelism(), mask.num_elements(), [&](std::uint64_t b) { return uniform_lanes<T>(stream.block(b)); },
        [=](std::int64_t i, T u) {
          m[i] = u < rate ? T{0} : keep;
          to[i] = x[i] * m[i];
        });
    context.set_output(0, std::move(y));
    context.set_output(1, std::move(mask));
  };
}

}  // namespace

void register_random_kernels(KernelRegistry& registry) {
  const Types<float, double> types;
  add_factories(registry, "RandomUniform", types,
                []<class T>(const KernelInit& init) { return make_uniform<T>(init); });
  add_factories(registry, "RandomNormal", types, []<class T>(const KernelInit& init) {
    return make_fill<T>(init, fill_normal<T>, static_cast<T>(init.attributes.real("mean")),
                        static_cast<T>(init.attributes.real("stddev")));
  });
  add_factories(registry, "TruncatedNormal", types, []<class T>(const KernelInit& init) {
    return make_fill<T>(init, fill_truncated_normal<T>, static_cast<T>(init.attributes.real("mean")),
                        static_cast<T>(init.attributes.real("stddev")));
  });
  add_factories(registry, "Dropout", types, []<class T>(const KernelInit& init) { return make_dropout<T>(init); });
}

}  // namespace troupe
