// Rows by index. Twin of kernels/cpu/gather.cpp. The host never waits to check indices: for an invalid one the kernel
// reads zeros, or adds nothing, and the step fails later (devices/cuda/cuda_faults.hpp).
#include <cstring>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/gather_geometry.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/gather_launch.hpp>
#include <troupe/kernels/cuda/host_input.hpp>
#include <troupe/kernels/cuda/pieces.hpp>

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
    const int piece = piece_bytes(table.dtype(), row_bytes, {table.raw(), out.raw()});
    const GatherArguments arguments{
        .table = table.raw(),
        .indices = indices.raw(),
        .index_type = indices.dtype(),
        .out = out.mutable_raw(),
        .rows = geometry.rows,
        .per_slice = geometry.slices() == 1 ? 0 : geometry.count,
        .slices_per_batch = geometry.outer,
        .from_end = geometry.from_end,
        .piece_bytes = piece,
        .items = row_items(count, row_bytes / piece),
        .fault = cuda_device(context).fault_site(geometry.from_end ? no_row_from_end : no_row)};
    check_cuda(launch_gather(arguments, cuda_device(context).stream()), "Gather");
  }
  context.set_output(0, std::move(out));
}

Kernel make_gather(const KernelInit& init) {
  return [attributes = GatherAttributes(init.attributes)](KernelContext& context) { gather(context, attributes); };
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
  add_cuda(registry, "OneHot", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [depth = HostInput(init, 1), values = HostInput(init, 2),
            axis = init.attributes.integer("axis")](KernelContext& c) {
      const Tensor size = depth.get(c);
      one_hot(c, size, values.get(c), axis);
    };
  });
}

}  // namespace troupe
