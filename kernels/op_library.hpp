// A library of ops of one's own: a shared library with ops, their shape and gradient functions, and kernels. Programs
// load it with load_op_library() (actors/cluster/op_libraries.hpp), in Python troupe.load_op_library(), or the option
// --op-library. Its CMakeLists.txt says find_package(troupe) and troupe_op_library(NAME SOURCES...).
//
//   void add_ops(troupe::OpLibrary& library) {
//     library.add_op(troupe::Op("Doubled").input("x", "T").output("y", "T").type("T", troupe::kFloatTypes)
//                        .shape(...).gradient(...));
//     library.add_kernel({.op = "Doubled", .device_type = "CPU", .dtypes = {troupe::DType::f32}, .make = ...});
//   }
//   TROUPE_OP_LIBRARY("doubled", "1.0", add_ops)
//
// The library has its own copies of the Troupe code it uses; it and the program share objects. So it is built with the
// headers and libraries of the same version of Troupe, and with options that leave the layout of objects as it is: what
// differs is refused when it is loaded. It is never unloaded.
#pragma once

#include <cstdint>
#include <string>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/graph_host.hpp>
#include <troupe/graph/op.hpp>

namespace troupe {

// Takes the ops and kernels of a library while it is loaded.
class OpLibrary {
 public:
  // Throws invalid_argument for an inconsistent definition, already_exists for a second one.
  virtual void add_op(const Op& op) = 0;
  // Of an op of the library, for any type of device. Throws already_exists for a second one.
  virtual void add_kernel(KernelDef kernel) = 0;
  // Which memory of its inputs a kernel uses for its outputs, once it has been added.
  virtual void set_reuse(const std::string& op, const std::string& device_type, Reuse reuse) = 0;

 protected:
  ~OpLibrary() = default;
};

// What the library exports, by the C function troupe_op_library(). A program reads `abi` first, then `build`, and calls
// the library only if both are its own.
inline constexpr std::uint32_t kOpLibraryAbi = 1;  // of this struct
struct OpLibraryEntry {
  std::uint32_t abi;
  const char* build;
  const char* name;
  const char* version;
  void (*add_ops)(OpLibrary& library, const GraphHost& host);
};
using OpLibraryFunction = const OpLibraryEntry* (*)();
inline constexpr const char* kOpLibrarySymbol = "troupe_op_library";

// Describes the version of Troupe, the standard library and the layout of objects: "Troupe 0.1.0, libstdc++ 12, ...".
inline std::string op_library_build(const std::string& version) {
  std::string text = "Troupe " + version;
#ifdef _GLIBCXX_RELEASE
  text += ", libstdc++ " + std::to_string(_GLIBCXX_RELEASE);
#endif
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
  text += " with the old ABI of std::string";
#endif
#ifdef _GLIBCXX_DEBUG
  text += " in debug mode";
#endif
  text += ", sizes";
  for (const std::size_t size : {sizeof(Tensor), sizeof(Shape), sizeof(AttrValue), sizeof(Attributes), sizeof(OpDef),
                                 sizeof(KernelDef), sizeof(KernelInit), sizeof(KernelContext), sizeof(Graph),
                                 sizeof(Node), sizeof(NodeSpec), sizeof(Output), sizeof(GradientContext)})
    text += " " + std::to_string(size);
  return text;
}

}  // namespace troupe

// Makes this shared library one of ops; once in it, outside of namespaces. `add_ops`: void(troupe::OpLibrary&).
#define TROUPE_OP_LIBRARY(library_name, library_version, add_library_ops)                                              \
  extern "C" __attribute__((visibility("default"))) const ::troupe::OpLibraryEntry* troupe_op_library() {              \
    static const std::string build = ::troupe::op_library_build(TROUPE_VERSION);                                       \
    static const ::troupe::OpLibraryEntry entry{::troupe::kOpLibraryAbi, build.c_str(), library_name, library_version, \
                                                [](::troupe::OpLibrary& library, const ::troupe::GraphHost& host) {    \
                                                  ::troupe::used_graph_host = &host;                                   \
                                                  add_library_ops(library);                                            \
                                                }};                                                                    \
    return &entry;                                                                                                     \
  }
