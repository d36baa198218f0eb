// Kernels of sparse tensors.
#pragma once

#include <troupe/devices/kernel.hpp>

namespace troupe {

void register_sparse_kernels(KernelRegistry& registry);          // coordinates, the whole tensor
void register_sparse_product_kernels(KernelRegistry& registry);  // products with dense matrices

}  // namespace troupe
