// Cumulative ops. Twin of kernels/cpu/cumulative.cpp, whose sums are in another order.
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/gather_geometry.hpp>
#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cuda/cumulative_launch.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/host_input.hpp>

namespace troupe {
namespace {

CumulativeLaunch cumulative_launch(const char* op, const Tensor& x, const Tensor& axis, Tensor& out) {
  if (axis.num_elements() != 1) invalid_argument("{}: the axis is {}, not a scalar", op, axis.shape().to_string());
  if (x.shape().rank() < 1) invalid_argument("{}: x is a scalar", op);
  const int along = checked_axis(axis.item<std::int64_t>(), x.shape().rank());
  return {.dtype = x.dtype(),
          .x = x.raw(),
          .out = out.mutable_raw(),
          .outer = product(x.shape(), 0, along),
          .size = x.shape().dim(along),
          .inner = product(x.shape(), along + 1, x.shape().rank())};
}

using Cumulate = cudaError_t (*)(const CumulativeLaunch&, cudaStream_t);

// `op` must be a literal: it is kept.
void add_cumulative(KernelRegistry& registry, const char* op, std::initializer_list<DType> dtypes, Cumulate launch) {
  add_cuda(registry, op, dtypes, [op, launch](const KernelInit& init) -> Kernel {
    return [op, launch, axis = HostInput(init, 1), exclusive = init.attributes.boolean("exclusive"),
            reverse = init.attributes.boolean("reverse")](KernelContext& c) {
      const Tensor& x = c.input(0);
      Tensor out = c.allocate(x.dtype(), x.shape());
      CumulativeLaunch l = cumulative_launch(op, x, axis.get(c), out);
      l.exclusive = exclusive;
      l.reverse = reverse;
      if (x.num_elements() > 0) check_cuda(launch(l, cuda_device(c).stream()), op);
      c.set_output(0, std::move(out));
    };
  });
}

void add_extremum(KernelRegistry& registry, const char* op, bool least) {
  add_cuda(registry, op, kRealDTypes, [op, least](const KernelInit& init) -> Kernel {
    return [op, least, axis = HostInput(init, 1), reverse = init.attributes.boolean("reverse")](KernelContext& c) {
      const Tensor& x = c.input(0);
      Tensor out = c.allocate(x.dtype(), x.shape()), places = c.allocate(DType::i64, x.shape());
      CumulativeLaunch l = cumulative_launch(op, x, axis.get(c), out);
      l.reverse = reverse;
      if (x.num_elements() > 0)
        check_cuda(launch_cumulative_extremum(l, least, reinterpret_cast<std::int64_t*>(places.mutable_raw()),
                                              cuda_device(c).stream()),
                   op);
      c.set_output(0, std::move(out));
      c.set_output(1, std::move(places));
    };
  });
}

}  // namespace

void register_cuda_cumulative_kernels(KernelRegistry& registry) {
  add_cumulative(registry, "CumSum", kRealDTypes, launch_cumulative_sum);
  add_cumulative(registry, "CumProd", kRealDTypes, launch_cumulative_product);
  add_cumulative(registry, "CumLogSumExp", kFloatDTypes, launch_cumulative_log_sum_exp);
  add_extremum(registry, "CumMax", false);
  add_extremum(registry, "CumMin", true);
}

}  // namespace troupe
