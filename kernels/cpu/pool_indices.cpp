// Maxima with their places in the image, and what goes back to these places.
#include <algorithm>
#include <limits>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/pool_geometry.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// Minimum elements per part.
constexpr std::int64_t kIndexPart = std::int64_t{1} << 13;

// The first maximum, or the first NaN, of each channel of a window.
template <class T>
void find_maxima(const PoolGeometry& g, std::array<std::int64_t, kMaxSpatial> window, const T* image, T* best,
                 std::int64_t* at) {
  for (std::int64_t c = 0; c < g.channels; ++c) at[c] = -1;
  const auto& [oz, oy, ox] = window;
  for (std::int64_t kz = g.depth.first_tap(oz); kz < g.depth.end_tap(oz); ++kz)
    for (std::int64_t ky = g.rows.first_tap(oy); ky < g.rows.end_tap(oy); ++ky)
      for (std::int64_t kx = g.columns.first_tap(ox); kx < g.columns.end_tap(ox); ++kx) {
        const std::int64_t pixel =
            g.pixel(g.depth.position(oz, kz), g.rows.position(oy, ky), g.columns.position(ox, kx));
        for (std::int64_t c = 0; c < g.channels; ++c) {
          const T value = image[pixel + c];
          const bool take = at[c] < 0 || value > best[c] || (value != value && best[c] == best[c]);
          best[c] = take ? value : best[c];
          at[c] = take ? pixel + c : at[c];
        }
      }
}

template <class T>
void pool_images(const PoolGeometry& g, std::int64_t begin, std::int64_t end, const T* x, T* y, std::int64_t* indices) {
  using Value = std::conditional_t<(sizeof(T) < 4), float, T>;
  const ScratchArray<Value> image(sizeof(T) < 4 ? g.image_size() : 0), best(g.channels);
  for (std::int64_t i = begin; i < end; ++i) {
    const T* const from = x + i * g.image_size();
    const Value* values = nullptr;
    if constexpr (std::is_same_v<T, Value>) {
      values = from;
    } else {
      for (std::int64_t k = 0; k < g.image_size(); ++k) image[k] = static_cast<float>(from[k]);
      values = image.data();
    }
    std::int64_t at = i * g.result_size();
    for (std::int64_t z = 0; z < g.depth.output; ++z)
      for (std::int64_t r = 0; r < g.rows.output; ++r)
        for (std::int64_t o = 0; o < g.columns.output; ++o, at += g.channels) {
          find_maxima(g, {z, r, o}, values, best.data(), indices + at);
          for (std::int64_t c = 0; c < g.channels; ++c) {
            std::int64_t& index = indices[at + c];
            if (index < 0)
              y[at + c] =
                  std::is_integral_v<T> ? std::numeric_limits<T>::lowest() : T(-std::numeric_limits<Value>::infinity());
            else
              y[at + c] = from[index], index += i * g.image_size();
          }
        }
  }
}

Kernel make_max_pool_with_indices(const KernelInit& init) {
  return [options = pool_attributes(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    const PoolGeometry g = pool_geometry(x.shape(), options);
    Tensor y = ctx.allocate(x.dtype(), pool_shape(x.shape(), options));
    Tensor indices = ctx.allocate(DType::i64, y.shape());
    const std::int64_t grain = std::max<std::int64_t>(1, kIndexPart / std::max<std::int64_t>(1, g.image_size()));
    dispatch(FloatTypes{} + Types<std::int8_t, std::uint8_t>{}, x.dtype(), [&]<class T>() {
      ctx.parallelism().parallel_for(g.batch, grain, [&](std::int64_t begin, std::int64_t end) {
        pool_images(g, begin, end, x.data<T>(), y.mutable_data<T>(), indices.mutable_data<std::int64_t>());
      });
    });
    ctx.set_output(0, std::move(y));
    ctx.set_output(1, std::move(indices));
  };
}

// Calls fn(place, index) for each index; throws for one that is not in [0, size), but skips -1.
template <class Fn>
void for_indices(std::string_view op, const Tensor& indices, std::int64_t size, Fn fn) {
  const auto values = indices.values<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == -1) continue;
    if (values[i] < 0 || values[i] >= size)
      invalid_argument("{}: index {} is {}, not in [0, {})", op, i, values[i], size);
    fn(i, static_cast<std::size_t>(values[i]));
  }
}

// One after another: places may be repeated, and sums are in order.
void indices_grad(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &indices = ctx.input(1), &dy = ctx.input(2);
  check_tensor("MaxPoolWithIndicesGrad: dy", dy, x.dtype(), indices.shape());
  Tensor dx = ctx.allocate(x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    const std::int64_t size = dx.num_elements();
    const ScratchArray<Compute<T>> sums(size);
    std::fill_n(sums.data(), size, Compute<T>{0});
    for_indices("MaxPoolWithIndicesGrad", indices, size, [&, from = dy.data<T>()](std::size_t i, std::size_t to) {
      sums.data()[to] += static_cast<Compute<T>>(from[i]);
    });
    if constexpr (std::is_same_v<T, Compute<T>>)
      std::copy_n(sums.data(), size, dx.mutable_data<T>());
    else
      narrow(sums.data(), dx.mutable_data<T>(), size);
  });
  ctx.set_output(0, std::move(dx));
}

void max_unpool(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &indices = ctx.input(1);
  check_tensor("MaxUnpool: indices", indices, DType::i64, x.shape());
  Tensor y = ctx.allocate(x.dtype(), Shape(checked_dims(ctx.input(2))));
  std::fill_n(y.mutable_raw(), y.num_bytes(), std::byte{0});
  const auto move = [&]<class Element>(Element) {
    const auto* const from = reinterpret_cast<const Element*>(x.raw());
    auto* const to = reinterpret_cast<Element*>(y.mutable_raw());
    for_indices("MaxUnpool", indices, y.num_elements(), [&](std::size_t i, std::size_t at) { to[at] = from[i]; });
  };
  switch (size_of(x.dtype())) {
    case 2:
      move(std::uint16_t{});
      break;
    case 4:
      move(std::uint32_t{});
      break;
    default:
      move(std::uint64_t{});
  }
  ctx.set_output(0, std::move(y));
}

}  // namespace

void register_pool_index_kernels(KernelRegistry& registry) {
  const std::vector<DType> types{DType::f32, DType::f64, DType::f16, DType::bf16};
  registry.add({"MaxPoolWithIndices",
                "CPU",
                {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8},
                make_max_pool_with_indices});
  const auto plain = [](void (*run)(KernelContext&)) { return [run](const KernelInit&) -> Kernel { return run; }; };
  registry.add({"MaxPoolWithIndicesGrad", "CPU", types, plain(indices_grad)});
  registry.add({"MaxUnpool", "CPU", types, plain(max_unpool)});
}

}  // namespace troupe
