// Rows by index. Twin of kernels/cpu/gather.cpp. The host never waits to check indices: for an invalid one the kernel
// reads zeros, or adds nothing, and the step fails later (devices/cuda/cuda_faults.hpp).
#include <cstring>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/gather_geometry.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/gather_launch.hpp>
#include <troupe/kernels/cuda/host_input.hpp>

namespace troupe {
namespace {

void check_index_type(const Tensor& indices) {
  if (!is_integer(indices.dtype())) fail(Code::unimplemented, "dtype {} is not supported", name(indices.dtype()));
}

Error no_row(const CudaFault& fault) {
  return {Code::invalid_argument,
          fmt::format("index {} (element {}) is not in [0, {})", fault.value, fault.element, fault.bound)};
}

Error no_row_from_end(const CudaFault& fault) {
  return {Code::invalid_argument, fmt::format("index {} (element {}) is not in [-{}, {})", fault.value, fault.element,
                                              fault.bound, fault.bound)};
}

void gather(KernelContext& context, const GatherAttributes& attributes) {
  const Tensor& table = context.input(0);
  const Tensor& indices = context.input(1);
  check_index_type(indices);
  const GatherGeometry geometry("Gather", table.shape(), indices.shape(), attributes);
  Tensor out = context.allocate(table.dtype(), geometry.result);
  if (out.num_elements() > 0) {
    const std::int64_t count = geometry.places();
    const auto row_bytes = static_cast<std::int64_t>(out.num_bytes()) / count;
    auto piece = static_cast<std::int64_t>(size_of(table.dtype()));
    const auto fits = [&](std::int64_t bytes) {
      const auto size = static_cast<std::size_t>(bytes);
      return row_bytes % bytes == 0 && is_multiple(table.raw(), size) && is_multiple(out.raw(), size);
    };
    while (piece < 16 && fits(2 * piece)) piece *= 2;
    const GatherArguments arguments{
        .table = table.raw(),
        .indices = indices.raw(),
        .index_type = indices.dtype(),
        .out = out.mutable_raw(),
        .rows = geometry.rows,
        .per_slice = geometry.slices() == 1 ? 0 : geometry.count,
        .slices_per_batch = geometry.outer,
        .from_end = geometry.from_end,
        .piece_bytes = static_cast<int>(piece),
        .items = row_items(count, row_bytes / piece),
        .fault = cuda_device(context).fault_site(geometry.from_end ? no_row_from_end : no_row)};
    check_cuda(launch_gather(arguments, cuda_device(context).stream()), "Gather");
  }
  context.set_output(0, std::move(out));
}

Kernel make_gather(const KernelInit& init) {
  return [attributes = GatherAttributes(init.attributes)](KernelContext& context) { gather(context, attributes); };
}

// Memory for `count` 32-bit numbers, held until the kernels that use it have run.
std::uint32_t* numbers(KernelContext& context, std::int64_t count, std::vector<Tensor>& held) {
  held.push_back(context.allocate(DType::i32, Shape{count}));
  return reinterpret_cast<std::uint32_t*>(held.back().mutable_raw());
}

void add_rows(KernelContext& context, const Tensor& indices, const Tensor& values, const Shape& shape, Tensor& out) {
  const std::int64_t count = indices.num_elements(), rows = shape.dim(0);
  constexpr std::int64_t kMostIndices = (std::int64_t{1} << 31) - 1, kMostRows = (std::int64_t{1} << 32) - 2;
  if (count > kMostIndices || rows > kMostRows)
    fail(Code::unimplemented, "ScatterAddRows: {} indices of {} rows are too many for a GPU", count, rows);
  CudaDevice& device = cuda_device(context);
  const cudaStream_t stream = device.stream();
  std::vector<Tensor> held;
  SortRowsArguments sort{.indices = reinterpret_cast<const std::int64_t*>(indices.raw()),
                         .count = count,
                         .rows = rows,
                         .fault = device.fault_site(no_row)};
  for (auto* both : {&sort.keys, &sort.positions})
    for (std::uint32_t*& half : *both) half = numbers(context, count, held);
  check_cuda(measure_sort_rows(sort), "ScatterAddRows");
  held.push_back(context.allocate(DType::u8, Shape{static_cast<std::int64_t>(sort.scratch_bytes)}));
  sort.scratch = held.back().mutable_raw();
  check_cuda(launch_sort_rows(sort, stream), "ScatterAddRows");
  const AddRowsArguments sum{.dtype = values.dtype(),
                             .keys = sort.keys[1],
                             .positions = sort.positions[1],
                             .values = values.raw(),
                             .out = out.mutable_raw(),
                             .count = count,
                             .rows = rows,
                             .items = row_items(count, values.num_elements() / count)};
  check_cuda(launch_add_rows(sum, stream), "ScatterAddRows");
}

void scatter_add_rows(KernelContext& context) {
  const Tensor& indices = context.input(0);
  const Tensor& values = context.input(1);
  const Shape& shape = context.input(2).shape();
  if (shape.rank() < 1 || indices.shape().rank() != 1 ||
      values.shape() != indices.shape().concatenated(shape.sub(1, shape.rank())))
    invalid_argument("ScatterAddRows: indices {} and values {} do not fit {}", indices.shape().to_string(),
                     values.shape().to_string(), shape.to_string());
  Tensor out = make_zeros(context.device(), values.dtype(), shape);
  if (values.num_elements() > 0 && out.num_elements() > 0) add_rows(context, indices, values, shape, out);
  context.set_output(0, std::move(out));
}

// Element i of a vector on the host, as bits.
std::uint64_t bits_of(const Tensor& values, std::size_t i) {
  const std::size_t bytes = size_of(values.dtype());
  std::uint64_t bits = 0;
  std::memcpy(&bits, values.raw() + i * bytes, bytes);
  return bits;
}

// Along the last axis; another one is moved to its place afterwards.
void one_hot(KernelContext& context, const Tensor& depth_given, const Tensor& values, std::int64_t axis_given) {
  const Tensor& indices = context.input(0);
  check_index_type(indices);
  const std::int64_t depth = checked_scalar("OneHot: depth", depth_given);
  if (depth < 0) invalid_argument("OneHot: depth {} is negative", depth);
  if (values.shape() != Shape{2})
    invalid_argument("OneHot: values must be two (off, on), not {}", values.shape().to_string());
  const int rank = indices.shape().rank(), axis = checked_axis(axis_given, rank + 1);
  Tensor out = context.allocate(values.dtype(), indices.shape().with_appended(depth));
  const OneHotArguments arguments{.indices = indices.raw(),
                                  .index_type = indices.dtype(),
                                  .out = out.mutable_raw(),
                                  .element_bytes = size_of(values.dtype()),
                                  .on = bits_of(values, 1),
                                  .off = bits_of(values, 0),
                                  .items = row_items(indices.num_elements(), depth)};
  check_cuda(launch_one_hot(arguments, cuda_device(context).stream()), "OneHot");
  if (axis == rank) return context.set_output(0, std::move(out));
  std::vector<std::int64_t> perm;
  for (int d = 0; d < rank; ++d) perm.push_back(d);
  perm.insert(perm.begin() + axis, rank);
  context.set_output(0, transpose(context.device(), out, perm));
}

}  // namespace

void register_cuda_gather_kernels(KernelRegistry& registry) {
  add_cuda(registry, "Gather", kDataDTypes, make_gather);
  add_cuda(registry, "ScatterAddRows", kRealDTypes, scatter_add_rows);
  add_cuda(registry, "OneHot", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [depth = HostInput(init, 1), values = HostInput(init, 2),
            axis = init.attributes.integer("axis")](KernelContext& c) {
      const Tensor size = depth.get(c);
      one_hot(c, size, values.get(c), axis);
    };
  });
}

}  // namespace troupe
