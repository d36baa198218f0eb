// Registers a kernel for several element types, as instances of one template.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include <troupe/devices/kernel.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {

// Registers op for each type; `run.template operator()<T>(context)` is the kernel.
template <class List, class Fn>
void add_kernels(KernelRegistry& registry, const std::string& op, List types, Fn run) {
  for_each_type(types, [&]<class T>() {
    registry.add({op, "CPU", {dtype_of<T>}, [run](const KernelInit&) -> Kernel {
                    return [run](KernelContext& context) { run.template operator()<T>(context); };
                  }});
  });
}

// Registers op for each type; `make.template operator()<T>(init)` gives the kernel.
template <class List, class Fn>
void add_factories(KernelRegistry& registry, const std::string& op, List types, Fn make) {
  for_each_type(types, [&]<class T>() {
    registry.add({op, "CPU", {dtype_of<T>}, [make](const KernelInit& init) -> Kernel {
                    return make.template operator()<T>(init);
                  }});
  });
}

// Registers op once for all dtypes.
inline void add_untyped(KernelRegistry& registry, const std::string& op, KernelFactory make) {
  registry.add({op, "CPU", {}, std::move(make)});
}

}  // namespace troupe
