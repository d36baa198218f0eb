#include "troupe/kernels/cpu/cast.hpp"

#include <troupe/kernels/common/convert.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {
namespace {

template <class From>
Tensor cast_from(Device& device, const Tensor& x, DType to) {
  Tensor out = device.allocator().tensor(to, x.shape());
  dispatch(DataTypes{}, to, [&]<class To>() {
    map_unary(device.parallelism(), x.data<From>(), out.mutable_data<To>(), x.num_elements(), [](Compute<From> value) {
      // double to f16 or bf16 via float rounds twice, which differs from one rounding only in halfway cases.
      return convert<Compute<To>>(value);
    });
  });
  return out;
}

}  // namespace

Tensor cast(Device& device, const Tensor& x, DType to) {
  if (x.dtype() == to) return x;
  if (x.dtype() == DType::string || to == DType::string || !is_valid(to))
    fail(Code::unimplemented, "no conversion from {} to {}", name(x.dtype()), name(to));
  Tensor out;
  dispatch(DataTypes{}, x.dtype(), [&]<class From>() { out = cast_from<From>(device, x, to); });
  return out;
}

void register_cast_kernels(KernelRegistry& registry) {
  add_factories(registry, "Cast", DataTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return
        [to = init.attributes.dtype("DstT")](KernelContext& c) { c.set_output(0, cast(c.device(), c.input(0), to)); };
  });
}

}  // namespace troupe
