#include "troupe/kernels/cpu/scatter.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/index_plans.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

template <class T, class Op>
void combine_slices(T* data, const std::int64_t* offsets, std::int64_t count, const T* updates, SliceColumns c, Op op) {
  for (std::int64_t i = 0; i < count; ++i) {
    T* to = data + offsets[i];
    const T* from = updates + i * c.width;
    for (std::int64_t j = c.first; j < c.last; ++j)
      to[j] = static_cast<T>(op(static_cast<Compute<T>>(to[j]), static_cast<Compute<T>>(from[j])));
  }
}

template <class T, class Op>
void combine_bytes(std::byte* data, const std::int64_t* offsets, std::int64_t count, const std::byte* updates,
                   SliceColumns c) {
  combine_slices(reinterpret_cast<T*>(data), offsets, count, reinterpret_cast<const T*>(updates), c, Op{});
}

// Of a string tensor all columns move at once.
void replace_slices(std::byte* data, const std::int64_t* offsets, std::int64_t count, const std::byte* updates,
                    SliceColumns c, Piece piece) {
  if (c.last - c.first == c.width) return move_to(updates, offsets, count, piece, data);
  const std::int64_t unit = piece.bytes / c.width;
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(data + offsets[i] + c.first * unit, updates + i * piece.bytes + c.first * unit,
                static_cast<std::size_t>((c.last - c.first) * unit));
}

void check_scatter(const Tensor& data, const Tensor& indices, const Tensor& updates) {
  const SlicePlan plan("ScatterVariable", data.shape(), indices.shape(), 0);
  check_updates("ScatterVariable", data, updates, plan.result);
  plan.for_each_run<std::int64_t>(indices, 1, 0, plan.count, [](std::int64_t, const std::int64_t*, std::int64_t) {});
}

// The memory of input 0 if it can be taken, else a copy.
Tensor taken_or_copied(KernelContext& c) {
  if (Tensor taken = c.take_input(0); taken.valid()) return taken;
  const Tensor& data = c.input(0);
  Tensor out = c.allocate(data.dtype(), data.shape());
  const CopyDim all{data.num_elements(), 1, 1};
  strided_copy(c.device(), data, 0, out, 0, {&all, 1});
  return out;
}

}  // namespace

CombineFn combine_function(DType dtype, ScatterCombine combine) {
  return dispatch(RealTypes{}, dtype, [&]<class T>() -> CombineFn {
    switch (combine) {
      case ScatterCombine::add:
        return combine_bytes<T, AddOp>;
      case ScatterCombine::sub:
        return combine_bytes<T, SubOp>;
      case ScatterCombine::mul:
        return combine_bytes<T, MulOp>;
      case ScatterCombine::max:
        return combine_bytes<T, MaximumOp>;
      case ScatterCombine::min:
        return combine_bytes<T, MinimumOp>;
      default:
        fail(Code::unimplemented, "there is nothing to combine");
    }
  });
}

void scatter_nd(Device& device, Tensor& data, const Tensor& indices, const Tensor& updates, std::int64_t batch_dims,
                ScatterCombine combine) {
  const SlicePlan plan("ScatterND", data.shape(), indices.shape(), batch_dims);
  check_updates("ScatterND", data, updates, plan.result);
  const bool replaces = combine == ScatterCombine::none;
  const CombineFn function = replaces ? nullptr : combine_function(data.dtype(), combine);
  const Piece piece = piece_of(data.dtype(), plan.inner);
  const std::int64_t unit = replaces ? static_cast<std::int64_t>(size_of(data.dtype())) : 1;
  const std::byte* from = updates.raw();
  std::byte* to = data.mutable_raw();
  const auto scatter = [&](std::int64_t begin, std::int64_t end, SliceColumns columns) {
    plan.for_each_run<std::int64_t>(indices, unit, begin, end,
                                    [&](std::int64_t slice, const std::int64_t* offsets, std::int64_t n) {
                                      if (piece.bytes == 0) return;
                                      if (replaces)
                                        replace_slices(to, offsets, n, from + slice * piece.bytes, columns, piece);
                                      else
                                        function(to, offsets, n, from + slice * piece.bytes, columns);
                                    });
  };
  // Parts own batches, or columns of wide slices.
  constexpr std::int64_t kWide = 2048;
  if (plan.batches > 1) {
    device.parallelism().parallel_for(
        plan.batches, rows_per_part(plan.per_batch * plan.inner), [&](std::int64_t begin, std::int64_t end) {
          scatter(begin * plan.per_batch, end * plan.per_batch, {0, plan.inner, plan.inner});
        });
  } else if (plan.inner >= 2 * kWide && !piece.text) {
    device.parallelism().parallel_for(plan.inner, kWide, [&](std::int64_t begin, std::int64_t end) {
      scatter(0, plan.count, {begin, end, plan.inner});
    });
  } else {
    scatter(0, plan.count, {0, plan.inner, plan.inner});
  }
}

void scatter_elements(Device& device, Tensor& data, const Tensor& indices, const Tensor& updates, int axis,
                      ScatterCombine combine) {
  const bool replaces = combine == ScatterCombine::none;
  const ElementPlan plan("ScatterElements", data.shape(), indices.shape(), axis, replaces ? size_of(data.dtype()) : 1);
  check_updates("ScatterElements", data, updates, indices.shape());
  const CombineFn function = replaces ? nullptr : combine_function(data.dtype(), combine);
  const Piece piece = piece_of(data.dtype(), 1);
  const std::byte* from = updates.raw();
  std::byte* to = data.mutable_raw();
  const auto scatter = [&](std::int64_t place, const std::int64_t* offsets, std::int64_t count) {
    if (replaces)
      move_to(from + place * piece.bytes, offsets, count, piece, to);
    else
      function(to, offsets, count, from + place * piece.bytes, {0, 1, 1});
  };
  if (plan.rows_apart > 0) {
    device.parallelism().parallel_for(plan.rows / plan.rows_apart, rows_per_part(plan.rows_apart * plan.columns),
                                      [&](std::int64_t begin, std::int64_t end) {
                                        plan.for_each_run(indices, begin * plan.rows_apart, end * plan.rows_apart, 0,
                                                          plan.columns, scatter);
                                      });
  } else {  // along the first of several dimensions: parts own columns
    device.parallelism().parallel_for(
        plan.columns, rows_per_part(plan.rows),
        [&](std::int64_t begin, std::int64_t end) { plan.for_each_run(indices, 0, plan.rows, begin, end, scatter); });
  }
}

void register_scatter_kernels(KernelRegistry& registry) {
  add_untyped(registry, "ScatterND", [](const KernelInit& init) -> Kernel {
    return [batch_dims = init.attributes.integer("batch_dims"),
            combine = scatter_combine(init.attributes.string("reduction"))](KernelContext& c) {
      Tensor out = taken_or_copied(c);
      scatter_nd(c.device(), out, c.input(1), c.input(2), batch_dims, combine);
      c.set_output(0, std::move(out));
    };
  });
  add_untyped(registry, "ScatterElements", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"),
            combine = scatter_combine(init.attributes.string("reduction"))](KernelContext& c) {
      Tensor out = taken_or_copied(c);
      scatter_elements(c.device(), out, c.input(1), c.input(2), checked_axis(axis, out.shape().rank()), combine);
      c.set_output(0, std::move(out));
    };
  });
  add_untyped(registry, "ScatterVariable", [](const KernelInit& init) -> Kernel {
    return [combine = scatter_combine(init.attributes.string("reduction"))](KernelContext& c) {
      check_scatter(c.variable(0).value(), c.input(1), c.input(2));  // a failed update changes nothing
      Tensor& stored = c.variable(0).writable(c.allocator());
      scatter_nd(c.device(), stored, c.input(1), c.input(2), 0, combine);
      c.set_output(0, stored);
    };
  });
}

}  // namespace troupe
