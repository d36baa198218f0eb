#include "troupe/kernels/cuda/reduce.hpp"

#include <vector>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/cuda/host_input.hpp>

namespace troupe {
namespace {

const char* text(CudaReduction kind) {
  switch (kind) {
    case CudaReduction::sum:
      return "sum";
    case CudaReduction::mean:
      return "mean";
    case CudaReduction::half_square_sum:
      return "sum of squares";
    case CudaReduction::prod:
      return "product";
    case CudaReduction::max:
      return "maximum";
    case CudaReduction::min:
      return "minimum";
    case CudaReduction::any:
      return "any";
    case CudaReduction::all:
      return "all";
    case CudaReduction::arg_max:
    case CudaReduction::last_arg_max:
      return "ArgMax";
    case CudaReduction::arg_min:
    case CudaReduction::last_arg_min:
      return "ArgMin";
  }
  return "?";
}

bool is_arg(CudaReduction kind) { return kind >= CudaReduction::arg_max; }

int checked_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    invalid_argument("axis {} is out of range for a tensor with {} dimensions", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Tensor reduce_axes(KernelContext& context, CudaReduction kind, const Tensor& x, std::span<const std::int64_t> axes,
                   bool keep_dims) {
  std::vector<CudaReduceDim> dims;
  for (const std::int64_t size : x.shape().dims()) dims.push_back({size, axes.empty()});
  for (const std::int64_t given : axes) {
    const int axis = checked_axis(given, x.shape().rank());
    if (dims[static_cast<std::size_t>(axis)].reduced) invalid_argument("axis {} is given twice", axis);
    dims[static_cast<std::size_t>(axis)].reduced = true;
  }
  Shape shape;
  for (const CudaReduceDim& d : dims)
    if (!d.reduced || keep_dims) shape = shape.with_appended(d.reduced ? 1 : d.size);
  return cuda_reduce(context, kind, x, dims, shape);
}

std::span<const std::int64_t> axes_of(const Tensor& axes) {
  if (axes.shape().rank() > 1)
    invalid_argument("the axes must be a scalar or vector, but their shape is {}", axes.shape().to_string());
  return axes.values<std::int64_t>();
}

KernelFactory over_axes(CudaReduction kind) {
  return [kind](const KernelInit& init) -> Kernel {
    return [kind, axes = HostInput(init, 1), keep_dims = init.attributes.boolean("keep_dims")](KernelContext& context) {
      const Tensor over = axes.get(context);
      context.set_output(0, reduce_axes(context, kind, context.input(0), axes_of(over), keep_dims));
    };
  };
}

// The same memory as another dtype of the same size.
Tensor seen_as(DType dtype, const Tensor& t) {
  if (!t.buffer()) return Tensor(dtype, t.shape());
  const auto* base = static_cast<const std::byte*>(t.buffer()->data());
  return {dtype, t.shape(), t.buffer(), static_cast<std::size_t>(t.raw() - base)};
}

// Of bool, as bytes: any is the maximum, all the minimum.
KernelFactory of_bools(bool any) {
  return [any](const KernelInit& init) -> Kernel {
    return [any, axes = HostInput(init, 1), keep_dims = init.attributes.boolean("keep_dims")](KernelContext& context) {
      const Tensor over = axes.get(context);
      const Tensor bytes = seen_as(DType::u8, context.input(0));
      const auto kind = any ? CudaReduction::any : CudaReduction::all;
      context.set_output(0, seen_as(DType::boolean, reduce_axes(context, kind, bytes, axes_of(over), keep_dims)));
    };
  };
}

KernelFactory arg_extreme(bool greatest) {
  return [greatest](const KernelInit& init) -> Kernel {
    const bool last = init.attributes.boolean("select_last_index");
    const CudaReduction kind = greatest ? (last ? CudaReduction::last_arg_max : CudaReduction::arg_max)
                                        : (last ? CudaReduction::last_arg_min : CudaReduction::arg_min);
    return [kind, given = HostInput(init, 1)](KernelContext& context) {
      const Tensor& x = context.input(0);
      const int axis = checked_axis(given.get(context).item<std::int64_t>(), x.shape().rank());
      if (x.shape().dim(axis) == 0)
        invalid_argument("{}: dimension {} of {} is empty", text(kind), axis, x.shape().to_string());
      std::vector<CudaReduceDim> dims;
      for (const std::int64_t size : x.shape().dims()) dims.push_back({size, std::ssize(dims) == axis});
      context.set_output(0, cuda_reduce(context, kind, x, dims, x.shape().without(axis)));
    };
  };
}

// Sums over the dimensions that broadcasting input 1's shape to input 0's added.
void sum_to_like(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Shape& shape = context.input(1).shape();
  if (x.shape() == shape) return context.set_output(0, x);
  const int added = x.shape().rank() - shape.rank();
  if (added < 0 || broadcast(shape, x.shape()) != x.shape())
    invalid_argument("{} does not broadcast to {}", shape.to_string(), x.shape().to_string());
  std::vector<CudaReduceDim> dims;
  for (int d = 0; d < x.shape().rank(); ++d) {
    const std::int64_t size = x.shape().dim(d);
    dims.push_back({size, d < added || (shape.dim(d - added) == 1 && size != 1)});
  }
  context.set_output(0, cuda_reduce(context, CudaReduction::sum, x, dims, shape));
}

// Sums dy over the copies of each element.
Kernel make_tile_grad(const KernelInit& init) {
  return [lists = HostInput(init, 2)](KernelContext& context) {
    const Tensor list = lists.get(context);
    const Dims multiples = checked_dims(list);
    const Tensor& dy = context.input(0);
    const Shape& shape = context.input(1).shape();
    bool fits = dy.shape().rank() == shape.rank() && std::ssize(multiples) == shape.rank();
    std::vector<CudaReduceDim> dims;
    for (int d = 0; fits && d < shape.rank(); ++d) {
      const std::int64_t times = multiples[static_cast<std::size_t>(d)];
      std::int64_t size = 0;
      fits = times >= 0 && !__builtin_mul_overflow(times, shape.dim(d), &size) && size == dy.shape().dim(d);
      dims.insert(dims.end(), {{times, true}, {shape.dim(d), false}});
    }
    if (!fits) invalid_argument("{} is not a tiling of {}", dy.shape().to_string(), shape.to_string());
    context.set_output(0, cuda_reduce(context, CudaReduction::sum, dy, dims, shape));
  };
}

}  // namespace

Tensor cuda_reduce(KernelContext& context, CudaReduction kind, const Tensor& x, std::span<const CudaReduceDim> dims,
                   const Shape& shape) {
  Tensor out = context.allocate(is_arg(kind) ? DType::i64 : x.dtype(), shape);
  std::int64_t terms = 1;
  for (const CudaReduceDim& d : dims)
    if (d.reduced && __builtin_mul_overflow(terms, d.size, &terms))
      invalid_argument("reduction over too many elements");
  const bool of_nothing = kind == CudaReduction::sum || kind == CudaReduction::half_square_sum ||
                          kind == CudaReduction::prod || kind == CudaReduction::any || kind == CudaReduction::all ||
                          (kind == CudaReduction::mean && !is_integer(x.dtype()));
  if (terms == 0 && !of_nothing)
    invalid_argument("no {} of zero elements: {} has a reduced dimension of 0", text(kind), x.shape().to_string());
  if (out.num_elements() == 0) return out;
  if (terms == 0 && kind == CudaReduction::all) {
    check_cuda(cudaMemsetAsync(out.mutable_raw(), 1, out.num_bytes(), cuda_device(context).stream()), "All");
    return out;
  }
  // From here on the kept dimensions are not 0; if a reduced one is 0, each result is an empty sum.
  ReduceLaunch l{.dtype = x.dtype()};
  l.layout = terms == 0 ? reduce_layout_of_nothing(out.num_elements())
                        : reduce_layout(dims.data(), static_cast<int>(dims.size()));
  l.grid = reduce_grid(l.layout, x.dtype());
  l.x = x.raw();
  l.out = out.mutable_raw();
  Tensor partial;
  if (l.grid.chunks > 1) {
    partial = context.allocate(DType::u8,
                               Shape{reduce_partials(l.layout, l.grid) * static_cast<std::int64_t>(kPartialBytes)});
    l.partial = partial.mutable_raw();
  }
  const cudaStream_t stream = cuda_device(context).stream();
  switch (kind) {
    case CudaReduction::sum:
      check_cuda(launch_reduce_sum(l, 1, stream), "Sum");
      break;
    case CudaReduction::mean:
      check_cuda(launch_reduce_sum(l, static_cast<double>(terms), stream), "Mean");
      break;
    case CudaReduction::half_square_sum:
      check_cuda(launch_reduce_squares(l, 2, stream), "L2Loss");
      break;
    case CudaReduction::prod:
      check_cuda(launch_reduce_prod(l, stream), "Prod");
      break;
    case CudaReduction::max:
    case CudaReduction::any:
      check_cuda(launch_reduce_extreme(l, true, stream), "Max");
      break;
    case CudaReduction::min:
    case CudaReduction::all:
      check_cuda(launch_reduce_extreme(l, false, stream), "Min");
      break;
    case CudaReduction::arg_max:
    case CudaReduction::last_arg_max:
      check_cuda(launch_arg_extreme(l, true, kind == CudaReduction::last_arg_max, stream), text(kind));
      break;
    case CudaReduction::arg_min:
    case CudaReduction::last_arg_min:
      check_cuda(launch_arg_extreme(l, false, kind == CudaReduction::last_arg_min, stream), text(kind));
      break;
  }
  return out;
}

void register_cuda_reduce_kernels(KernelRegistry& registry) {
  const auto real = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                     DType::u8,  DType::i16, DType::i32, DType::i64};
  add_cuda(registry, "Sum", real, over_axes(CudaReduction::sum));
  add_cuda(registry, "Mean", real, over_axes(CudaReduction::mean));
  add_cuda(registry, "Prod", real, over_axes(CudaReduction::prod));
  add_cuda(registry, "Max", real, over_axes(CudaReduction::max));
  add_cuda(registry, "Min", real, over_axes(CudaReduction::min));
  add_cuda(registry, "Any", {DType::boolean}, of_bools(true));
  add_cuda(registry, "All", {DType::boolean}, of_bools(false));
  add_cuda(registry, "ArgMax", real, arg_extreme(true));
  add_cuda(registry, "ArgMin", real, arg_extreme(false));
  add_cuda(registry, "SumToLike", real, sum_to_like);
  add_cuda(registry, "TileGrad", real, make_tile_grad);
  add_cuda(registry, "L2Loss", {DType::f32, DType::f64, DType::f16, DType::bf16}, [](KernelContext& context) {
    context.set_output(0, reduce_axes(context, CudaReduction::half_square_sum, context.input(0), {}, false));
  });
}

}  // namespace troupe
