// Kernels that reorder elements (kernels/common/layout.hpp), triangles, and the gradients of pads and repeats.
#include <algorithm>
#include <cstring>

#include <troupe/kernels/common/fold.hpp>
#include <troupe/kernels/common/gather_geometry.hpp>
#include <troupe/kernels/common/layout.hpp>
#include <troupe/kernels/common/slices.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kLayoutGrain = 16384;  // elements

// x with zeros below or above diagonal k.
Tensor trilu(Device& device, const Tensor& x, std::int64_t k, bool upper) {
  if (x.shape().rank() < 2) invalid_argument("Trilu needs matrices, but x is {}", x.shape().to_string());
  Tensor out = device.allocator().tensor(x.dtype(), x.shape());
  if (out.num_elements() == 0) return out;
  const std::int64_t rows = x.shape().dim(-2), columns = x.shape().dim(-1);
  k = std::clamp(k, -rows, columns);
  const auto bytes = static_cast<std::int64_t>(size_of(x.dtype()));
  const std::byte* from = x.raw();
  std::byte* to = out.mutable_raw();
  device.parallelism().parallel_for(
      x.num_elements() / columns, std::max<std::int64_t>(kLayoutGrain / columns, 1),
      [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          // Elements before `cut` lie below diagonal k (upper), or on it and below.
          const std::int64_t cut = std::clamp<std::int64_t>(row % rows + k + (upper ? 0 : 1), 0, columns);
          const std::int64_t at = row * columns * bytes, middle = at + cut * bytes, last = at + columns * bytes;
          const auto copy = [&](std::int64_t a, std::int64_t b) {
            std::memcpy(to + a, from + a, static_cast<std::size_t>(b - a));
          };
          const auto clear = [&](std::int64_t a, std::int64_t b) {
            std::memset(to + a, 0, static_cast<std::size_t>(b - a));
          };
          upper ? clear(at, middle) : copy(at, middle);
          upper ? copy(middle, last) : clear(middle, last);
        }
      });
  return out;
}

// out[o, i, :] = the sum of dy[o, place, :] over the copies of i, in order.
template <class T>
void sum_copies(Device& device, const T* dy, T* out, const Copies& copies, std::int64_t outer, std::int64_t dy_size,
                std::int64_t inner) {
  const std::int64_t size = std::ssize(copies.starts) - 1;
  device.parallelism().parallel_for(
      outer * size, std::max<std::int64_t>(kLayoutGrain / std::max<std::int64_t>(inner, 1), 1),
      [&, dy, out](std::int64_t begin, std::int64_t end) {
        std::array<Compute<T>, 256> sums;
        for (std::int64_t row = begin; row < end; ++row) {
          const auto i = static_cast<std::size_t>(row % size);
          const T* from = dy + row / size * dy_size * inner;
          for (std::int64_t c = 0; c < inner; c += std::ssize(sums)) {
            const std::int64_t count = std::min<std::int64_t>(inner - c, std::ssize(sums));
            std::fill_n(sums.begin(), count, Compute<T>{});
            for (std::int64_t p = copies.starts[i]; p < copies.starts[i + 1]; ++p) {
              const T* terms = from + copies.places[static_cast<std::size_t>(p)] * inner + c;
              for (std::int64_t e = 0; e < count; ++e)
                sums[static_cast<std::size_t>(e)] += static_cast<Compute<T>>(terms[e]);
            }
            for (std::int64_t e = 0; e < count; ++e) out[row * inner + c + e] = T(sums[static_cast<std::size_t>(e)]);
          }
        }
      });
}

}  // namespace

Tensor fold_copies(Device& device, const Tensor& dy, int d, const Copies& copies) {
  Tensor out = device.allocator().tensor(dy.dtype(), folded_shape(dy.shape(), d, copies));
  if (out.num_elements() == 0) return out;
  const Shape& shape = out.shape();
  dispatch(FloatTypes{}, dy.dtype(), [&]<class T>() {
    sum_copies<T>(device, dy.data<T>(), out.mutable_data<T>(), copies, product(shape, 0, d), dy.shape().dim(d),
                  product(shape, d + 1, shape.rank()));
  });
  return out;
}

namespace {

void register_reorders(KernelRegistry& registry) {
  add_untyped(registry, "Reverse", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) { c.set_output(0, reverse(c.device(), c.input(0), checked_dims(c.input(1)))); };
  });
  add_untyped(registry, "ReverseSequence", [](const KernelInit& init) -> Kernel {
    return
        [seq = init.attributes.integer("seq_axis"), batch = init.attributes.integer("batch_axis")](KernelContext& c) {
          c.set_output(0, reverse_sequence(c.device(), c.input(0), checked_dims(c.input(1)), seq, batch));
        };
  });
  add_untyped(registry, "Roll", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      c.set_output(0, roll(c.device(), c.input(0), checked_dims(c.input(1)), checked_dims(c.input(2))));
    };
  });
  add_untyped(registry, "Repeat", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis")](KernelContext& c) {
      c.set_output(0, repeat(c.device(), c.input(0), checked_dims(c.input(1)), axis));
    };
  });
}

void register_diagonals(KernelRegistry& registry) {
  add_untyped(registry, "Trilu", [](const KernelInit& init) -> Kernel {
    return [upper = init.attributes.boolean("upper")](KernelContext& c) {
      c.set_output(0, trilu(c.device(), c.input(0), checked_scalar("Trilu: k", c.input(1)), upper));
    };
  });
  add_untyped(registry, "DiagPart", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      c.set_output(0, diag_part(c.device(), c.input(0), checked_scalar("DiagPart: k", c.input(1))));
    };
  });
  add_untyped(registry, "SetDiag", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      c.set_output(0, set_diag(c.device(), c.input(0), c.input(1), checked_scalar("SetDiag: k", c.input(2))));
    };
  });
}

void register_blocks(KernelRegistry& registry) {
  const auto add_depth = [&](const char* op, Tensor (*run)(Device&, const Tensor&, const DepthLayout&)) {
    add_untyped(registry, op, [run](const KernelInit& init) -> Kernel {
      return [run, layout = depth_layout(init.attributes.integer("block"), init.attributes.string("mode"),
                                         init.attributes.string("layout"))](KernelContext& c) {
        c.set_output(0, run(c.device(), c.input(0), layout));
      };
    });
  };
  add_depth("DepthToSpace", depth_to_space);
  add_depth("SpaceToDepth", space_to_depth);
  add_untyped(registry, "SpaceToBatch", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      const Tensor zero = make_zeros(c.device(), c.input(0).dtype(), Shape{});
      c.set_output(0, space_to_batch(c.device(), c.input(0), checked_dims(c.input(1)), checked_dims(c.input(2)), zero));
    };
  });
  add_untyped(registry, "BatchToSpace", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      c.set_output(0, batch_to_space(c.device(), c.input(0), checked_dims(c.input(1)), checked_dims(c.input(2))));
    };
  });
}

}  // namespace

void register_layout_kernels(KernelRegistry& registry) {
  register_reorders(registry);
  register_diagonals(registry);
  register_blocks(registry);
  add_untyped(registry, "PadGrad", [](const KernelInit& init) -> Kernel {
    return [mode = parse_pad_mode(init.attributes.string("mode"))](KernelContext& c) {
      c.set_output(0, pad_grad(c.device(), c.input(0), c.input(1).shape(), checked_dims(c.input(2)), mode));
    };
  });
  add_untyped(registry, "RepeatGrad", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis")](KernelContext& c) {
      c.set_output(0, repeat_grad(c.device(), c.input(0), c.input(1).shape(), checked_dims(c.input(2)), axis));
    };
  });
}

}  // namespace troupe
