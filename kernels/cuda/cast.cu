// Device part of cast_launch.hpp.
#include <troupe/kernels/common/convert.hpp>
#include <troupe/kernels/cuda/cast_launch.hpp>
#include <troupe/kernels/cuda/elementwise.cuh>

namespace troupe {
namespace device {
namespace {

template <class To>
struct ConvertOp {
  template <class From>
  __device__ To operator()(From x) const {
    return convert<To>(x);
  }
};

}  // namespace
}  // namespace device

cudaError_t launch_cast(DType from, const void* x, DType to, void* out, std::int64_t count, cudaStream_t stream) {
  using namespace device;
  return dispatch(DataElements{}, from, [&]<class From>() {
    return dispatch(DataElements{}, to,
                    [&]<class To>() { return map_unary<To, From>(x, out, count, ConvertOp<Compute<To>>{}, stream); });
  });
}

}  // namespace troupe
