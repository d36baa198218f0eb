// Random values; f32, f64, and f16 and bf16, which are drawn as floats and rounded. Element i depends only on the
// node's stream and i.
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/dropout.hpp>
#include <troupe/kernels/common/uniform_range.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/host_input.hpp>
#include <troupe/kernels/cuda/random_launch.hpp>

namespace troupe {
namespace {

RandomSource random_source(KernelContext& context, std::int64_t seed) {
  const std::uint64_t node = random_node(context.node_hash(), seed);
  return {.stream = random_stream(context.random_key(), node),
          .key = cuda_device(context).recorded_random(),
          .node = node,
          .slot = context.random_slot()};
}

// Calls fn.template operator()<T>() for the floating dtype.
template <class Fn>
double for_float(DType dtype, Fn fn) {
  double result = 0;
  dispatch(FloatTypes{}, dtype, [&]<class T>() { result = static_cast<double>(fn.template operator()<T>()); });
  return result;
}

// A value of the dtype.
double rounded(DType dtype, double value) {
  return for_float(dtype,
                   [&]<class T>() { return static_cast<Compute<T>>(static_cast<T>(static_cast<Compute<T>>(value))); });
}

// A kernel that fills an output, whose shape is input 0: launch(source of values, elements, memory, CUDA stream).
template <class Launch>
Kernel filling(const KernelInit& init, const char* op, Launch launch) {
  return [=, dims = HostInput(init, 0), dtype = init.output_types[0],
          seed = init.attributes.integer("seed")](KernelContext& context) {
    const Tensor shape = dims.get(context);
    Tensor out = context.allocate(dtype, checked_shape(checked_dims(shape)));
    if (out.num_elements() > 0)
      check_cuda(
          launch(random_source(context, seed), out.num_elements(), out.mutable_raw(), cuda_device(context).stream()),
          op);
    context.set_output(0, std::move(out));
  };
}

Kernel make_uniform(const KernelInit& init) {
  const DType dtype = init.output_types[0];
  const double low = rounded(dtype, init.attributes.real("minval")),
               high = rounded(dtype, init.attributes.real("maxval"));
  if (!(low < high))
    invalid_argument("'{}': minval {} must be below maxval {}", init.node_name, init.attributes.real("minval"),
                     init.attributes.real("maxval"));
  const double last = for_float(dtype, [&]<class T>() { return last_below<T>(static_cast<Compute<T>>(high)); });
  return filling(init, "RandomUniform",
                 [=](const RandomSource& random, std::int64_t count, void* out, cudaStream_t stream) {
                   return launch_random_uniform(dtype, random, count, low, high, last, out, stream);
                 });
}

template <bool kTruncated>
Kernel make_normal(const KernelInit& init) {
  const DType dtype = init.output_types[0];
  const double mean = rounded(dtype, init.attributes.real("mean")),
               deviation = rounded(dtype, init.attributes.real("stddev"));
  return filling(init, kTruncated ? "TruncatedNormal" : "RandomNormal",
                 [=](const RandomSource& random, std::int64_t count, void* out, cudaStream_t stream) {
                   return launch_random_normal(dtype, random, kTruncated, count, mean, deviation, out, stream);
                 });
}

// Outputs: y = x * mask, and mask: 0 with probability `rate`, else 1 / (1 - rate).
Kernel make_dropout(const KernelInit& init) {
  return [given = HostInput(init, 1), seed = init.attributes.integer("seed")](KernelContext& context) {
    const double rate = dropout_rate(given.get(context));
    const DType dtype = context.input(0).dtype();
    const Shape shape = context.input(0).shape();
    const void* x = context.input(0).raw();
    Tensor mask = context.allocate(dtype, shape);
    Tensor y = context.take_or_allocate(0, dtype, shape);
    if (mask.num_elements() > 0)
      check_cuda(launch_dropout(dtype, random_source(context, seed), mask.num_elements(), rate, x, y.mutable_raw(),
                                mask.mutable_raw(), cuda_device(context).stream()),
                 "Dropout");
    context.set_output(0, std::move(y));
    context.set_output(1, std::move(mask));
  };
}

}  // namespace

void register_cuda_random_kernels(KernelRegistry& registry) {
  const auto real = {DType::f32, DType::f64, DType::f16, DType::bf16};
  add_cuda(registry, "RandomUniform", real, make_uniform);
  add_cuda(registry, "RandomNormal", real, make_normal<false>);
  add_cuda(registry, "TruncatedNormal", real, make_normal<true>);
  add_cuda(registry, "Dropout", real, make_dropout);
}

}  // namespace troupe
