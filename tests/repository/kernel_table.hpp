// The table of ops, and of the dtypes that they have kernels for on each type of device: docs/reference/ops.md.
#pragma once

#include <string>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/op.hpp>

namespace troupe::repository {

// The whole file.
std::string kernel_table(const OpRegistry& ops, const KernelRegistry& kernels);

}  // namespace troupe::repository
