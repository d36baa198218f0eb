// The kernels of libraries of ops that this process has loaded (actors/cluster/op_libraries.hpp). Every KernelRegistry
// finds them after its own, also one that was made before. Thread-safe.
#pragma once

#include <functional>
#include <set>
#include <string>

#include <troupe/devices/kernel.hpp>

namespace troupe {

// Kernels of these ops, each of which has one. They stay as long as the process.
void add_loaded_kernels(std::set<std::string, std::less<>> ops, KernelRegistry kernels);

}  // namespace troupe
