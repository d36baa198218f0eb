// write_kernel_table LIBRARY FILE: writes docs/reference/ops.md, with the GPU kernels of that library
// (devices/plugin.hpp).
#include <cstdio>
#include <fstream>

#include "tests/repository/kernel_table.hpp"
#include <troupe/devices/plugin.hpp>
#include <troupe/kernels/kernels.hpp>

int main(int argc, char** argv) {
  using namespace troupe;
  try {
    if (argc != 3) invalid_argument("usage: write_kernel_table LIBRARY FILE");
    const PluginResult gpu = open_cuda_plugin(argv[1]);
    if (!gpu.plugin) fail(Code::failed_precondition, "{}", gpu.why_not);
    KernelRegistry kernels;
    register_all_kernels(kernels);
    gpu.plugin->register_kernels(kernels);
    const std::string table = repository::kernel_table(standard_ops(), kernels);
    std::ofstream file(argv[2]);
    file << table;
    file.close();
    if (!file) fail(Code::unavailable, "{} cannot be written", argv[2]);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "write_kernel_table: %s\n", error.message().c_str());
    return 1;
  }
}
