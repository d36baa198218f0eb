// A library whose ops fail in every way, and, with other definitions, libraries that are refused.
#include <stdexcept>

#include <troupe/graph/builder/math.hpp>
#include <troupe/kernels/op_library.hpp>

namespace {

using namespace troupe;

[[maybe_unused]] void add_faulty_ops(OpLibrary& library) {
  const auto shape = [](ShapeContext& context) { context.set_output(0, context.input(0)); };
  const auto copies = [](const KernelInit&) -> Kernel {
    return [](KernelContext& context) { context.set_output(0, context.input(0)); };
  };
  const auto op = [](const char* name) { return Op(name).input("x", "T").output("y", "T").type("T", kFloatTypes); };
  library.add_op(op("BadKernel").shape(shape));
  library.add_kernel({"BadKernel", "CPU", {DType::f32}, [](const KernelInit&) -> Kernel {
                        return [](KernelContext&) { throw std::out_of_range("there is no element 7"); };
                      }});
  library.add_op(op("UnknownException").shape(shape));
  library.add_kernel({"UnknownException", "CPU", {DType::f32}, [](const KernelInit&) -> Kernel {
                        return [](KernelContext&) { throw 7; };  // NOLINT
                      }});
  library.add_op(op("BadFactory").shape(shape).attr("size", std::int64_t{1}));
  library.add_kernel({"BadFactory", "CPU", {DType::f32}, [](const KernelInit& init) -> Kernel {
                        invalid_argument("size is {}, and must be even", init.attributes.integer("size"));
                      }});
  library.add_op(op("BadShape").shape([](ShapeContext& context) {
    invalid_argument("x is {}, and must be a matrix", context.input(0).to_string());
  }));
  library.add_kernel({"BadShape", "CPU", {DType::f32}, copies});
  library.add_op(
      op("BadGradient").shape(shape).gradient([](GradientContext&) { fail(Code::unimplemented, "has none yet"); }));
  library.add_kernel({"BadGradient", "CPU", {DType::f32}, copies});
  library.add_op(op("OnlyOnTpus").shape(shape));
  library.add_kernel({"OnlyOnTpus", "TPU", {DType::f32}, copies});
}

[[maybe_unused]] void add_relu(OpLibrary& library) {
  library.add_op(Op("Relu").input("x", "T").output("y", "T").type("T", kFloatTypes));
}

[[maybe_unused]] void add_op_of_example(OpLibrary& library) {
  library.add_op(Op("ReluSigmoid").input("x", "T").output("y", "T").type("T", kFloatTypes));
}

[[maybe_unused]] void add_kernel_of_another(OpLibrary& library) {
  library.add_kernel({"Relu", "CPU", {DType::f32}, [](const KernelInit&) -> Kernel { return nullptr; }});
}

[[maybe_unused]] void add_undeclared(OpLibrary& library) { library.add_op(Op("Undeclared").input("x", "T")); }

[[maybe_unused]] void add_nothing(OpLibrary&) {}

[[maybe_unused]] void throw_at_once(OpLibrary&) { throw std::runtime_error("the license has ended"); }

}  // namespace

#if defined(OLD_INTERFACE)
extern "C" __attribute__((visibility("default"))) const std::uint32_t* troupe_op_library() {
  static const std::uint32_t abi = 999;
  return &abi;
}
#elif defined(NO_LIBRARY)
extern "C" __attribute__((visibility("default"))) int troupe_op_library_of_another_name() { return 1; }
#else
TROUPE_OP_LIBRARY(LIBRARY_NAME, LIBRARY_VERSION, ADD_OPS)
#endif
