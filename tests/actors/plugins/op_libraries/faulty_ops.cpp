// What the libraries of the tests add: ops that fail in every way, one that does not, and what is refused. Each library
// has this code, and a faulty_library.cpp of its own, which takes no time to compile.
#include <stdexcept>

#include <troupe/graph/builder/control.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/kernels/op_library.hpp>

namespace troupe::testing {

// Of faulty_library.cpp.
extern const char *const kLibraryName, *const kLibraryVersion;
extern void (*const kAddOps)(OpLibrary&);

void add_faulty_ops(OpLibrary&);
void add_relu(OpLibrary&);
void add_op_of_example(OpLibrary&);
void add_kernel_of_another(OpLibrary&);
void add_undeclared(OpLibrary&);
void add_nothing(OpLibrary&);
void throw_at_once(OpLibrary&);

void add_faulty_ops(OpLibrary& library) {
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
  // dx = x dy, whose own gradient is 7, as it says itself.
  library.add_op(op("SaysItsGradients").shape(shape).gradient([](GradientContext& context) {
    const CustomGradient product{.forward = [](const Outputs& in) { return Outputs{in[0] * in[1]}; },
                                 .backward =
                                     [](const Outputs&, const Outputs&, const Outputs& dys) {
                                       return Outputs{7.0 * dys[0], {}};
                                     }};
    context.set(0, custom_gradient(product, {context.input(0), context.grad()})[0]);
  }));
  library.add_kernel({"SaysItsGradients", "CPU", {DType::f32}, copies});
  library.add_op(op("OnlyOnTpus").shape(shape));
  library.add_kernel({"OnlyOnTpus", "TPU", {DType::f32}, copies});
}

void add_relu(OpLibrary& library) {
  library.add_op(Op("Relu").input("x", "T").output("y", "T").type("T", kFloatTypes));
}

void add_op_of_example(OpLibrary& library) {
  library.add_op(Op("ReluSigmoid").input("x", "T").output("y", "T").type("T", kFloatTypes));
}

void add_kernel_of_another(OpLibrary& library) {
  library.add_kernel({"Relu", "CPU", {DType::f32}, [](const KernelInit&) -> Kernel { return nullptr; }});
}

void add_undeclared(OpLibrary& library) { library.add_op(Op("Undeclared").input("x", "T")); }

void add_nothing(OpLibrary&) {}

void throw_at_once(OpLibrary&) { throw std::runtime_error("the license has ended"); }

}  // namespace troupe::testing

TROUPE_OP_LIBRARY(troupe::testing::kLibraryName, troupe::testing::kLibraryVersion, troupe::testing::kAddOps)
