#include "kernels/kernels.hpp"

#include "kernels/cpu/families.hpp"

namespace troupe {

void register_all_kernels(KernelRegistry& registry) {
  register_conv_kernels(registry);
  register_linear_kernels(registry);
  register_pool_kernels(registry);
  register_softmax_kernels(registry);
  register_training_kernels(registry);
}

}  // namespace troupe
