// Binary arithmetic without exceptions.
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/elementwise_families.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {

void register_math_binary_kernels(KernelRegistry& registry) {
  for_each_arithmetic([&](const char* name, auto op) {
    add_kernels(registry, name, RealTypes{}, [op]<class T>(KernelContext& context) { run_binary<T, T>(context, op); });
  });
}

}  // namespace troupe
