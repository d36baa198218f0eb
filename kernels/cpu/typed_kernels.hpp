// Registers a kernel for several element types, as instances of one template.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include <troupe/devices/kernel.hpp>

namespace troupe {

template <class... Ts>
struct Types {};

using FloatTypes = Types<float, double, Half, BFloat16>;
using IntegerTypes = Types<std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>;
using RealTypes =
    Types<float, double, Half, BFloat16, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>;
using DataTypes =
    Types<float, double, Half, BFloat16, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t, bool>;

// The type used for arithmetic on T.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// Calls make.template operator()<T>() for every type.
template <class... Ts, class Fn>
void for_each_type(Types<Ts...>, Fn&& fn) {
  (fn.template operator()<Ts>(), ...);
}

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

// Calls fn.template operator()<T>() for the type of `dtype`. Throws unimplemented if it is not in the list.
template <class... Ts, class Fn>
decltype(auto) dispatch(Types<Ts...>, DType dtype, Fn&& fn) {
  bool found = false;
  ((dtype == dtype_of<Ts> ? (found = true, fn.template operator()<Ts>()) : void()), ...);
  if (!found) fail(Code::unimplemented, "dtype {} is not supported", name(dtype));
}

}  // namespace troupe
