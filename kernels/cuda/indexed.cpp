// Gathers and scatters of slices and elements. Twin of kernels/cpu/gather.cpp and scatter.cpp. Indices are not checked
// on the host, which would wait for the GPU: a kernel finds an invalid one, reads zeros or changes nothing, and the
// step fails later (devices/cuda/cuda_faults.hpp).
//
// Updates of one slice are made in the order of their indices, as on the CPU: positions are sorted by slice first.
#include <array>
#include <limits>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/gather_geometry.hpp>
#include <troupe/kernels/common/index_geometry.hpp>
#include <troupe/kernels/common/segment_kind.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/gather_launch.hpp>
#include <troupe/kernels/cuda/host_input.hpp>
#include <troupe/kernels/cuda/pieces.hpp>
#include <troupe/kernels/cuda/variables.hpp>

namespace troupe {
namespace {

Error no_place_to_unpool(const CudaFault& fault) {
  return {Code::invalid_argument,
          fmt::format("MaxUnpool: index {} is {}, not in [0, {})", fault.element, fault.value, fault.bound)};
}
Error no_pooled_place(const CudaFault& fault) {
  return {Code::invalid_argument, fmt::format("MaxPoolWithIndicesGrad: index {} is {}, not in [0, {})", fault.element,
                                              fault.value, fault.bound)};
}
Error no_slice(const CudaFault& fault) {
  return {Code::invalid_argument,
          fmt::format("index {} (element {}) is not in [0, {})", fault.value, fault.element, fault.bound)};
}
Error no_slice_from_end(const CudaFault& fault) {
  return {Code::invalid_argument, fmt::format("index {} (element {}) is not in [-{}, {})", fault.value, fault.element,
                                              fault.bound, fault.bound)};
}

// Adds a dimension to the plan, outside of those added before; merges it with the last if it can.
void add_dim(IndexPlan<2>& plan, std::int64_t size, std::int64_t slice_stride, std::int64_t index_stride) {
  if (size == 1) return;
  if (const int last = plan.rank - 1; last >= 0 && slice_stride == plan.strides[0][last] * plan.sizes[last] &&
                                      index_stride == plan.strides[1][last] * plan.sizes[last]) {
    plan.sizes[last] *= size;
    return;
  }
  plan.sizes[plan.rank] = size;
  plan.strides[0][plan.rank] = slice_stride;
  plan.strides[1][plan.rank] = index_stride;
  ++plan.rank;
}
void finish(IndexPlan<2>& plan) {
  if (plan.rank == 0) plan.sizes[plan.rank++] = 1;
  count_items(plan);
}

SliceAddress address_of(KernelContext& context, const Tensor& indices, bool from_end = true) {
  if (!is_integer(indices.dtype())) fail(Code::unimplemented, "dtype {} is not supported", name(indices.dtype()));
  SliceAddress out{.indices = indices.raw(), .index_type = indices.dtype(), .from_end = from_end};
  out.fault = cuda_device(context).fault_site(from_end ? no_slice_from_end : no_slice);
  out.plan.rank = 0;
  return out;
}

SliceAddress slice_address(KernelContext& context, const SliceGeometry& g, const Tensor& indices) {
  SliceAddress out = address_of(context, indices);
  out.depth = g.depth;
  if (g.inner == 0 || g.count == 0) return out;
  add_dim(out.plan, g.per_batch, 0, g.depth);
  add_dim(out.plan, g.batches, g.batch_stride / g.inner, g.per_batch * g.depth);
  finish(out.plan);
  for (int d = 0; d < g.depth; ++d) {
    const auto i = static_cast<std::size_t>(d);
    out.sizes[d] = g.sizes[i];
    out.strides[d] = g.strides[i] / g.inner;
  }
  return out;
}

SliceAddress element_address(KernelContext& context, const Shape& x, const Tensor& indices, int axis) {
  SliceAddress out = address_of(context, indices);
  std::int64_t stride = 1, index_stride = 1;
  for (int d = x.rank() - 1; d >= 0; --d) {
    add_dim(out.plan, indices.shape()[d], d == axis ? 0 : stride, index_stride);
    if (d == axis) {
      out.sizes[0] = x[d];
      out.strides[0] = stride;
    }
    stride *= x[d];
    index_stride *= indices.shape()[d];
  }
  finish(out.plan);
  return out;
}

// Of indices that name elements of a flat tensor; -1 names none.
SliceAddress place_address(KernelContext& context, const Tensor& indices, std::int64_t size, CudaFaultText text) {
  SliceAddress out = address_of(context, indices, false);
  out.fault = cuda_device(context).fault_site(text);
  out.none = -1;
  add_dim(out.plan, indices.num_elements(), 0, 1);
  finish(out.plan);
  out.sizes[0] = size;
  out.strides[0] = 1;
  return out;
}

SliceAddress row_address(KernelContext& context, const GatherGeometry& g, const Tensor& indices) {
  SliceAddress out = address_of(context, indices, g.from_end);
  add_dim(out.plan, g.count, 0, 1);
  add_dim(out.plan, g.outer, g.rows, 0);
  add_dim(out.plan, g.batch, g.outer * g.rows, g.count);
  finish(out.plan);
  out.sizes[0] = g.rows;
  out.strides[0] = 1;
  return out;
}

Tensor gathered(KernelContext& context, const char* op, const SliceAddress& address, const Tensor& x,
                const Shape& result, std::int64_t count, std::int64_t inner) {
  Tensor out = context.allocate(x.dtype(), result);
  if (out.num_elements() == 0) return out;
  const auto row_bytes = inner * static_cast<std::int64_t>(size_of(x.dtype()));
  const int piece = piece_bytes(x.dtype(), row_bytes, {x.raw(), out.raw()});
  check_cuda(launch_gather_slices({.address = address,
                                   .data = x.raw(),
                                   .out = out.mutable_raw(),
                                   .piece_bytes = piece,
                                   .items = row_items(count, row_bytes / piece)},
                                  cuda_device(context).stream()),
             op);
  return out;
}

Kernel make_gather_nd(const KernelInit& init) {
  return [batch_dims = init.attributes.integer("batch_dims")](KernelContext& c) {
    const SliceGeometry g("GatherND", c.input(0).shape(), c.input(1).shape(), batch_dims);
    c.set_output(0, gathered(c, "GatherND", slice_address(c, g, c.input(1)), c.input(0), g.result, g.count, g.inner));
  };
}

Kernel make_gather_elements(const KernelInit& init) {
  return [given = init.attributes.integer("axis")](KernelContext& c) {
    const Tensor &x = c.input(0), &indices = c.input(1);
    const int axis = checked_axis(given, x.shape().rank());
    check_element_indices("GatherElements", x.shape(), indices.shape(), axis);
    c.set_output(0, gathered(c, "GatherElements", element_address(c, x.shape(), indices, axis), x, indices.shape(),
                             indices.num_elements(), 1));
  };
}

// Memory for `count` 32-bit numbers, held until the kernels that use it have run.
std::uint32_t* numbers(KernelContext& context, std::int64_t count, std::vector<Tensor>& held) {
  held.push_back(context.allocate(DType::i32, Shape{count}));
  return reinterpret_cast<std::uint32_t*>(held.back().mutable_raw());
}

struct ScatterOptions {
  bool guarded = false;  // nothing changes after a fault
  bool rounds_once = false;
  bool mean = false;
  bool from_limit = false;
};
// Updates `data` in place: `count` updates, of `inner` elements each.
void scatter(KernelContext& context, const char* op, const SliceAddress& address, ScatterCombine combine, Tensor& data,
             const Tensor& updates, std::int64_t count, std::int64_t inner, ScatterOptions options = {}) {
  if (updates.num_elements() == 0) return;
  const std::int64_t slices = data.num_elements() / inner;
  constexpr std::int64_t kMostUpdates = (std::int64_t{1} << 31) - 1, kMostSlices = (std::int64_t{1} << 32) - 2;
  if (count > kMostUpdates || slices > kMostSlices)
    fail(Code::unimplemented, "{}: {} updates of {} slices are too many for a GPU", op, count, slices);
  CudaDevice& device = cuda_device(context);
  const cudaStream_t stream = device.stream();
  std::vector<Tensor> held;
  SortSlicesArguments sort{.address = address, .count = count, .slices = slices};
  for (auto* both : {&sort.keys, &sort.positions})
    for (std::uint32_t*& half : *both) half = numbers(context, count, held);
  check_cuda(measure_sort_slices(sort), op);
  held.push_back(context.allocate(DType::u8, Shape{static_cast<std::int64_t>(sort.scratch_bytes)}));
  sort.scratch = held.back().mutable_raw();
  check_cuda(launch_sort_slices(sort, stream), op);
  const ScatterArguments arguments{.keys = sort.keys[1],
                                   .positions = sort.positions[1],
                                   .updates = updates.raw(),
                                   .data = data.mutable_raw(),
                                   .count = count,
                                   .slices = slices,
                                   .guard = options.guarded ? device.fault() : nullptr,
                                   .rounds_once = options.rounds_once,
                                   .mean = options.mean,
                                   .from_limit = options.from_limit};
  if (combine == ScatterCombine::none) {
    const auto row_bytes = inner * static_cast<std::int64_t>(size_of(data.dtype()));
    const int piece = piece_bytes(data.dtype(), row_bytes, {updates.raw(), data.raw()});
    check_cuda(launch_replace_slices(piece, arguments, row_items(count, row_bytes / piece), stream), op);
  } else {
    check_cuda(launch_combine_slices(data.dtype(), combine, arguments, row_items(count, inner), stream), op);
  }
}

// Throws unless the dtype can be combined.
void check_combines(ScatterCombine combine, DType dtype) {
  if (combine != ScatterCombine::none && dtype == DType::boolean)
    fail(Code::unimplemented, "dtype {} is not supported", name(dtype));
}

// The memory of input 0 if it can be taken, else a copy.
Tensor taken_or_copied(KernelContext& context, const char* op) {
  if (Tensor taken = context.take_input(0); taken.valid()) return taken;
  const Tensor& data = context.input(0);
  Tensor out = context.allocate(data.dtype(), data.shape());
  if (data.num_bytes() > 0)
    check_cuda(cudaMemcpyAsync(out.mutable_raw(), data.raw(), data.num_bytes(), cudaMemcpyDeviceToDevice,
                               cuda_device(context).stream()),
               op);
  return out;
}

Kernel make_scatter_nd(const KernelInit& init) {
  return [batch_dims = init.attributes.integer("batch_dims"),
          combine = scatter_combine(init.attributes.string("reduction"))](KernelContext& c) {
    const Tensor &indices = c.input(1), &updates = c.input(2);
    const SliceGeometry g("ScatterND", c.input(0).shape(), indices.shape(), batch_dims);
    check_updates("ScatterND", c.input(0), updates, g.result);
    check_combines(combine, updates.dtype());
    Tensor out = taken_or_copied(c, "ScatterND");
    scatter(c, "ScatterND", slice_address(c, g, indices), combine, out, updates, g.count, g.inner);
    c.set_output(0, std::move(out));
  };
}

Kernel make_scatter_elements(const KernelInit& init) {
  return [given = init.attributes.integer("axis"),
          combine = scatter_combine(init.attributes.string("reduction"))](KernelContext& c) {
    const Tensor &indices = c.input(1), &updates = c.input(2);
    const Shape shape = c.input(0).shape();
    const int axis = checked_axis(given, shape.rank());
    check_element_indices("ScatterElements", shape, indices.shape(), axis);
    check_updates("ScatterElements", c.input(0), updates, indices.shape());
    check_combines(combine, updates.dtype());
    Tensor out = taken_or_copied(c, "ScatterElements");
    scatter(c, "ScatterElements", element_address(c, shape, indices, axis), combine, out, updates,
            indices.num_elements(), 1);
    c.set_output(0, std::move(out));
  };
}

Kernel make_scatter_variable(const KernelInit& init) {
  return [combine = scatter_combine(init.attributes.string("reduction"))](KernelContext& c) {
    const Tensor &indices = c.input(1), &updates = c.input(2);
    const Tensor& value = c.variable(0).value();
    const SliceGeometry g("ScatterVariable", value.shape(), indices.shape(), 0);
    check_updates("ScatterVariable", value, updates, g.result);
    check_combines(combine, updates.dtype());
    Tensor& stored = writable(c, 0);
    scatter(c, "ScatterVariable", slice_address(c, g, indices), combine, stored, updates, g.count, g.inner,
            {.guarded = true});
    c.set_output(0, stored);
  };
}

Kernel make_gather_grad(const KernelInit& init) {
  return [attributes = GatherAttributes(init.attributes)](KernelContext& c) {
    const Tensor &dy = c.input(0), &indices = c.input(1);
    const Shape& shape = c.input(2).shape();
    const GatherGeometry g("GatherGrad", shape, indices.shape(), attributes);
    if (dy.shape() != g.result)
      invalid_argument("GatherGrad: dy is {}, but {} with indices {} gives {}", dy.shape().to_string(),
                       shape.to_string(), indices.shape().to_string(), g.result.to_string());
    Tensor out = make_zeros(c.device(), dy.dtype(), shape);
    if (dy.num_elements() > 0 && out.num_elements() > 0)
      scatter(c, "GatherGrad", row_address(c, g, indices), ScatterCombine::add, out, dy, g.places(), g.inner);
    c.set_output(0, std::move(out));
  };
}

void scatter_add_rows(KernelContext& c) {
  const Tensor &indices = c.input(0), &values = c.input(1);
  const Shape& shape = c.input(2).shape();
  if (shape.rank() < 1 || indices.shape().rank() != 1 ||
      values.shape() != indices.shape().concatenated(shape.sub(1, shape.rank())))
    invalid_argument("ScatterAddRows: indices {} and values {} do not fit {}", indices.shape().to_string(),
                     values.shape().to_string(), shape.to_string());
  Tensor out = make_zeros(c.device(), values.dtype(), shape);
  if (values.num_elements() > 0 && out.num_elements() > 0) {
    const GatherGeometry g("ScatterAddRows", shape, indices.shape(), {});
    scatter(c, "ScatterAddRows", row_address(c, g, indices), ScatterCombine::add, out, values, g.count, g.inner);
  }
  c.set_output(0, std::move(out));
}

// Sums of each place in order, rounded once.
void max_pool_indices_grad(KernelContext& c) {
  const Tensor &x = c.input(0), &indices = c.input(1), &dy = c.input(2);
  check_tensor("MaxPoolWithIndicesGrad: dy", dy, x.dtype(), indices.shape());
  Tensor dx = make_zeros(c.device(), x.dtype(), x.shape());
  if (dx.num_elements() > 0 && dy.num_elements() > 0)
    scatter(c, "MaxPoolWithIndicesGrad", place_address(c, indices, dx.num_elements(), no_pooled_place),
            ScatterCombine::add, dx, dy, dy.num_elements(), 1, {.rounds_once = true});
  c.set_output(0, std::move(dx));
}

Kernel make_max_unpool(const KernelInit& init) {
  return [sizes = HostInput(init, 2)](KernelContext& c) {
    const Tensor &x = c.input(0), &indices = c.input(1);
    check_tensor("MaxUnpool: indices", indices, DType::i64, x.shape());
    const Tensor list = sizes.get(c);
    Tensor y = make_zeros(c.device(), x.dtype(), Shape(checked_dims(list)));
    if (y.num_elements() > 0 && x.num_elements() > 0)
      scatter(c, "MaxUnpool", place_address(c, indices, y.num_elements(), no_place_to_unpool), ScatterCombine::none, y,
              x, x.num_elements(), 1);
    c.set_output(0, std::move(y));
  };
}

Error no_segment(const CudaFault& fault) {
  return {Code::invalid_argument, fmt::format("SegmentReduce: index {} (element {}) is not in [0, {})", fault.value,
                                              fault.element, fault.bound)};
}
Error not_ascending(const CudaFault& fault) {
  return {Code::invalid_argument,
          fmt::format("SegmentReduce: id {} (element {}) follows {}: ids of segment_{{sum,...}} must ascend; use "
                      "unsorted_segment_{{sum,...}}",
                      fault.value, fault.element, fault.bound)};
}

// `count` segments, as they are without rows.
Tensor empty_segments(KernelContext& c, SegmentKind kind, bool sorted, DType dtype, const Shape& shape) {
  const bool extreme = kind == SegmentKind::max || kind == SegmentKind::min;
  if ((extreme && sorted) || kind == SegmentKind::sum || kind == SegmentKind::mean)
    return make_zeros(c.device(), dtype, shape);
  const Tensor start = dispatch(RealTypes{}, dtype, [&]<class T>() { return Tensor::scalar(start_of<T>(kind)); });
  return broadcast_to(c.device(), start, shape);
}

void segment_reduce(KernelContext& c, SegmentKind kind, bool sorted, const Tensor& segments) {
  const Tensor &x = c.input(0), &ids = c.input(1);
  const std::int64_t count = checked_segments(x.shape(), ids.shape(), segments, sorted), rows = ids.num_elements();
  const Shape rest = x.shape().sub(ids.shape().rank(), x.shape().rank());
  Tensor out = empty_segments(c, kind, sorted, x.dtype(), Shape{count}.concatenated(rest));
  CudaDevice& device = cuda_device(c);
  if (sorted && rows > 1)
    check_cuda(launch_check_ascending(ids.raw(), ids.dtype(), rows, device.fault_site(not_ascending), device.stream()),
               "SegmentReduce");
  if (count == 0) {  // rare: waits for the GPU
    const Tensor all = c.device().read(ids);
    dispatch(IndexTypes{}, all.dtype(), [&]<class I>() {
      for (const I id : all.values<I>())
        if (sorted || id >= 0) invalid_argument("SegmentReduce: there are no segments, but an id of {}", id);
    });
  } else if (x.num_elements() > 0) {
    SliceAddress address = address_of(c, ids, false);
    address.fault = device.fault_site(no_segment);
    if (!sorted) address.none = std::numeric_limits<std::int64_t>::min();
    add_dim(address.plan, rows, 0, 1);
    finish(address.plan);
    address.sizes[0] = count;
    address.strides[0] = 1;
    const bool extreme = kind == SegmentKind::max || kind == SegmentKind::min;
    scatter(c, "SegmentReduce", address, combine_of(kind), out, x, rows, product(rest, 0, rest.rank()),
            {.rounds_once = !extreme, .mean = kind == SegmentKind::mean, .from_limit = extreme});
  }
  c.set_output(0, std::move(out));
}

Kernel make_segment_reduce(const KernelInit& init) {
  return [kind = segment_kind(init.attributes.string("reduction")), sorted = init.attributes.boolean("sorted"),
          segments = HostInput(init, 2)](KernelContext& c) { segment_reduce(c, kind, sorted, segments.get(c)); };
}

}  // namespace

void register_cuda_indexed_kernels(KernelRegistry& registry) {
  add_cuda(registry, "GatherND", kDataDTypes, make_gather_nd);
  add_cuda(registry, "GatherElements", kDataDTypes, make_gather_elements);
  add_cuda(registry, "GatherGrad", kRealDTypes, make_gather_grad);
  add_cuda(registry, "ScatterND", kDataDTypes, make_scatter_nd);
  add_cuda(registry, "ScatterElements", kDataDTypes, make_scatter_elements);
  add_cuda(registry, "ScatterVariable", kDataDTypes, make_scatter_variable);
  add_cuda(registry, "MaxPoolWithIndicesGrad", kFloatDTypes, max_pool_indices_grad);
  add_cuda(registry, "MaxUnpool", kFloatDTypes, make_max_unpool);
  add_cuda(registry, "SegmentReduce", kRealDTypes, make_segment_reduce);
  add_cuda(registry, "ScatterAddRows", kRealDTypes, scatter_add_rows);
}

}  // namespace troupe
