#include "troupe/kernels/cpu/gather.hpp"

#include <algorithm>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/index_plans.hpp>

namespace troupe {
namespace {

// Returns the indices as i64, all of them in [0, rows).
std::vector<std::int64_t> checked_indices(const Tensor& indices, std::int64_t rows) {
  std::vector<std::int64_t> out;
  dispatch(IntegerTypes{}, indices.dtype(), [&]<class I>() {
    const auto values = indices.values<I>();
    out.assign(values.begin(), values.end());
  });
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i] < 0 || out[i] >= rows) invalid_argument("index {} (element {}) is not in [0, {})", out[i], i, rows);
  return out;
}

template <class T>
void add_rows(Device& device, const std::vector<std::int64_t>& indices, const T* values, T* out, std::int64_t rows,
              std::int64_t width) {
  // Each part owns disjoint rows of the result and scans all indices, so parts are few.
  const std::int64_t grain = std::max<std::int64_t>((rows + 15) / 16, kElementGrain / std::max<std::int64_t>(width, 1));
  device.parallelism().parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < begin || indices[i] >= end) continue;
      T* row = out + indices[i] * width;
      binary_stretch(row, true, values + static_cast<std::int64_t>(i) * width, true, row, width, AddOp{});
    }
  });
}

// [outer, depth, inner]: `on` where the place along depth is the index of (outer, inner), else `off`.
template <class E>
void one_hot(Parallelism& parallelism, const std::vector<std::int64_t>& indices, std::int64_t depth, std::int64_t inner,
             const E* values, E* out) {
  const E off = values[0], on = values[1];
  const std::int64_t outer = inner == 0 ? 0 : std::ssize(indices) / inner;
  parallelism.parallel_for(outer, std::max<std::int64_t>(kElementGrain / std::max<std::int64_t>(depth * inner, 1), 1),
                           [&](std::int64_t begin, std::int64_t end) {
                             std::fill(out + begin * depth * inner, out + end * depth * inner, off);
                             for (std::int64_t i = begin * inner; i < end * inner; ++i) {
                               const std::int64_t given = indices[static_cast<std::size_t>(i)];
                               const std::int64_t index = given < 0 ? given + depth : given;
                               if (index < 0 || index >= depth) continue;
                               out[(i / inner * depth + index) * inner + i % inner] = on;
                             }
                           });
}

std::vector<std::int64_t> all_indices(const Tensor& indices) {
  std::vector<std::int64_t> out;
  dispatch(IntegerTypes{}, indices.dtype(), [&]<class I>() {
    const auto values = indices.values<I>();
    out.assign(values.begin(), values.end());
  });
  return out;
}

Tensor one_hot(Device& device, const Tensor& indices, const Tensor& depth_given, const Tensor& values,
               std::int64_t axis_given) {
  const std::int64_t depth = checked_scalar("OneHot: depth", depth_given);
  if (depth < 0) invalid_argument("OneHot: depth {} is negative", depth);
  if (values.shape() != Shape{2})
    invalid_argument("OneHot: values must be two (off, on), not {}", values.shape().to_string());
  const Shape& shape = indices.shape();
  const int axis = checked_axis(axis_given, shape.rank() + 1);
  const Shape before = shape.sub(0, axis), after = shape.sub(axis, shape.rank());
  Tensor out = device.allocator().tensor(values.dtype(), before.with_appended(depth).concatenated(after));
  if (out.num_elements() == 0) return out;
  const auto run = [&]<class E>() {
    one_hot<E>(device.parallelism(), all_indices(indices), depth, after.num_elements(),
               reinterpret_cast<const E*>(values.raw()), reinterpret_cast<E*>(out.mutable_raw()));
  };
  switch (size_of(values.dtype())) {
    case 1:
      run.operator()<std::uint8_t>();
      break;
    case 2:
      run.operator()<std::uint16_t>();
      break;
    case 4:
      run.operator()<std::uint32_t>();
      break;
    case 8:
      run.operator()<std::uint64_t>();
      break;
    default:
      fail(Code::unimplemented, "OneHot: dtype {} is not supported", name(values.dtype()));
  }
  return out;
}

}  // namespace

Tensor gather(Device& device, const Tensor& table, const Tensor& indices, const GatherAttributes& attributes) {
  const GatherGeometry plan("Gather", table.shape(), indices.shape(), attributes);
  Tensor out = device.allocator().tensor(table.dtype(), plan.result);
  if (out.num_elements() == 0) {
    check_gathered(plan, indices);
    return out;
  }
  const Piece piece = piece_of(table.dtype(), plan.inner);
  const std::byte* from = table.raw();
  std::byte* to = out.mutable_raw();
  device.parallelism().parallel_for(
      plan.places(), rows_per_part(plan.inner), [&](std::int64_t begin, std::int64_t end) {
        for_each_gathered(plan, indices, piece.bytes, begin, end,
                          [&](std::int64_t slice, std::int64_t place, const std::int64_t* offsets, std::int64_t count) {
                            move_from(from + slice * plan.rows * piece.bytes, offsets, count, piece,
                                      to + place * piece.bytes);
                          });
      });
  return out;
}

Tensor gather_grad(Device& device, const Tensor& dy, const Tensor& indices, const Shape& shape,
                   const GatherAttributes& attributes) {
  const GatherGeometry plan("GatherGrad", shape, indices.shape(), attributes);
  if (dy.shape() != plan.result)
    invalid_argument("GatherGrad: dy is {}, but {} with indices {} gives {}", dy.shape().to_string(), shape.to_string(),
                     indices.shape().to_string(), plan.result.to_string());
  Tensor out = make_zeros(device, dy.dtype(), shape);
  if (dy.num_elements() == 0) {
    check_gathered(plan, indices);
    return out;
  }
  // Parts own slices of the result.
  dispatch(RealTypes{}, dy.dtype(), [&]<class T>() {
    const T* from = dy.data<T>();
    T* to = out.mutable_data<T>();
    const auto add = [&](std::int64_t slice, std::int64_t place, const std::int64_t* offsets, std::int64_t count) {
      T* rows = to + slice * plan.rows * plan.inner;
      for (std::int64_t i = 0; i < count; ++i) {
        T* row = rows + offsets[i];
        binary_stretch(row, true, from + (place + i) * plan.inner, true, row, plan.inner, AddOp{});
      }
    };
    device.parallelism().parallel_for(
        plan.slices(), rows_per_part(plan.count * plan.inner), [&](std::int64_t begin, std::int64_t end) {
          for_each_gathered(plan, indices, plan.inner, begin * plan.count, end * plan.count, add);
        });
  });
  return out;
}

Tensor gather_nd(Device& device, const Tensor& x, const Tensor& indices, std::int64_t batch_dims) {
  const SlicePlan plan("GatherND", x.shape(), indices.shape(), batch_dims);
  Tensor out = device.allocator().tensor(x.dtype(), plan.result);
  const Piece piece = piece_of(x.dtype(), plan.inner);
  const auto unit = static_cast<std::int64_t>(size_of(x.dtype()));
  const std::byte* from = x.raw();
  std::byte* to = out.mutable_raw();
  const auto move = [&]<class Offset>(std::int64_t begin, std::int64_t end, Offset) {
    plan.for_each_run<Offset>(indices, unit, begin, end,
                              [&](std::int64_t slice, const Offset* offsets, std::int64_t count) {
                                if (piece.bytes > 0) move_from(from, offsets, count, piece, to + slice * piece.bytes);
                              });
  };
  const bool narrow = plan.fits_32_bits(unit);
  device.parallelism().parallel_for(plan.count, rows_per_part(plan.inner), [&](std::int64_t begin, std::int64_t end) {
    narrow ? move(begin, end, std::int32_t{}) : move(begin, end, std::int64_t{});
  });
  return out;
}

Tensor gather_elements(Device& device, const Tensor& x, const Tensor& indices, int axis) {
  const ElementPlan plan("GatherElements", x.shape(), indices.shape(), axis, size_of(x.dtype()));
  Tensor out = device.allocator().tensor(x.dtype(), indices.shape());
  const Piece piece = piece_of(x.dtype(), 1);
  const std::byte* from = x.raw();
  std::byte* to = out.mutable_raw();
  device.parallelism().parallel_for(plan.rows, rows_per_part(plan.columns), [&](std::int64_t begin, std::int64_t end) {
    plan.for_each_run(indices, begin, end, 0, plan.columns,
                      [&](std::int64_t place, const std::int64_t* offsets, std::int64_t count) {
                        move_from(from, offsets, count, piece, to + place * piece.bytes);
                      });
  });
  return out;
}

Tensor scatter_add_rows(Device& device, const Tensor& indices, const Tensor& values, const Shape& shape) {
  if (shape.rank() < 1 || indices.shape().rank() != 1 ||
      values.shape() != indices.shape().concatenated(shape.sub(1, shape.rank())))
    invalid_argument("ScatterAddRows: indices {} and values {} do not fit {}", indices.shape().to_string(),
                     values.shape().to_string(), shape.to_string());
  const std::vector<std::int64_t> rows = checked_indices(indices, shape.dim(0));
  Tensor out = make_zeros(device, values.dtype(), shape);
  if (values.num_elements() == 0) return out;
  const std::int64_t width = values.num_elements() / static_cast<std::int64_t>(rows.size());
  dispatch(RealTypes{}, values.dtype(),
           [&]<class T>() { add_rows(device, rows, values.data<T>(), out.mutable_data<T>(), shape.dim(0), width); });
  return out;
}

void register_gather_kernels(KernelRegistry& registry) {
  add_untyped(registry, "Gather", [](const KernelInit& init) -> Kernel {
    return [attributes = GatherAttributes(init.attributes)](KernelContext& c) {
      c.set_output(0, gather(c.device(), c.input(0), c.input(1), attributes));
    };
  });
  add_untyped(registry, "GatherGrad", [](const KernelInit& init) -> Kernel {
    return [attributes = GatherAttributes(init.attributes)](KernelContext& c) {
      c.set_output(0, gather_grad(c.device(), c.input(0), c.input(1), c.input(2).shape(), attributes));
    };
  });
  add_untyped(registry, "GatherND", [](const KernelInit& init) -> Kernel {
    return [batch_dims = init.attributes.integer("batch_dims")](KernelContext& c) {
      c.set_output(0, gather_nd(c.device(), c.input(0), c.input(1), batch_dims));
    };
  });
  add_untyped(registry, "GatherElements", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis")](KernelContext& c) {
      const Tensor& x = c.input(0);
      c.set_output(0, gather_elements(c.device(), x, c.input(1), checked_axis(axis, x.shape().rank())));
    };
  });
  add_kernels(registry, "ScatterAddRows", RealTypes{}, []<class T>(KernelContext& c) {
    c.set_output(0, scatter_add_rows(c.device(), c.input(0), c.input(1), c.input(2).shape()));
  });
  add_untyped(registry, "OneHot", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis")](KernelContext& c) {
      c.set_output(0, one_hot(c.device(), c.input(0), c.input(1), c.input(2), axis));
    };
  });
}

}  // namespace troupe
