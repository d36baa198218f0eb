// Ops on the bits of integers: kernels by size of the elements.
#include <troupe/kernels/common/bit_ops.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {
namespace {

// run_binary() for tensors whose elements have the bits of T.
template <class T, class Op>
void run_bits(KernelContext& context, Op op) {
  const std::array<Shape, 2> shapes{context.input(0).shape(), context.input(1).shape()};
  const Shape shape = broadcast(shapes[0], shapes[1]);
  const BroadcastPlan plan = plan_broadcast(shape, shapes);
  const T* a = reinterpret_cast<const T*>(context.input(0).raw());
  const T* b = reinterpret_cast<const T*>(context.input(1).raw());
  Tensor out = take_any_or_allocate(context, context.input(0).dtype(), shape);
  map_binary(context.parallelism(), plan, a, b, reinterpret_cast<T*>(out.mutable_raw()), out.num_elements(), op);
  context.set_output(0, std::move(out));
}

// The unsigned type of a size. Signed and unsigned types of one size may alias.
template <class Fn>
void with_bits(std::size_t size, Fn fn) {
  switch (size) {
    case 1:
      return fn.template operator()<std::uint8_t>();
    case 2:
      return fn.template operator()<std::uint16_t>();
    case 4:
      return fn.template operator()<std::uint32_t>();
    default:
      return fn.template operator()<std::uint64_t>();
  }
}

template <class Op>
void add_bitwise(KernelRegistry& registry, const std::string& name, Op op) {
  registry.add({name, "CPU", dtypes_of(IntegerTypes{}), [op](const KernelInit& init) -> Kernel {
                  return [op, size = size_of(init.input_types[0])](KernelContext& context) {
                    with_bits(size, [&]<class T>() { run_bits<T>(context, op); });
                  };
                }});
}

}  // namespace

void register_bitwise_kernels(KernelRegistry& registry) {
  add_bitwise(registry, "BitwiseAnd", BitwiseAndOp{});
  add_bitwise(registry, "BitwiseOr", BitwiseOrOp{});
  add_bitwise(registry, "BitwiseXor", BitwiseXorOp{});
  add_bitwise(registry, "LeftShift", LeftShiftOp{});
  add_kernels(registry, "RightShift", IntegerTypes{},
              []<class T>(KernelContext& context) { run_bits<T>(context, RightShiftOp{}); });
  registry.add({"BitwiseNot", "CPU", dtypes_of(IntegerTypes{}), [](const KernelInit&) -> Kernel {
                  return [](KernelContext& context) {
                    const Shape shape = context.input(0).shape();
                    const auto* x = reinterpret_cast<const std::uint8_t*>(context.input(0).raw());
                    Tensor out = context.take_or_allocate(0, context.input(0).dtype(), shape);
                    map_unary(context.parallelism(), x, reinterpret_cast<std::uint8_t*>(out.mutable_raw()),
                              static_cast<std::int64_t>(out.num_bytes()),
                              [](std::uint8_t bits) { return static_cast<std::uint8_t>(~bits); });
                    context.set_output(0, std::move(out));
                  };
                }});
}

}  // namespace troupe
