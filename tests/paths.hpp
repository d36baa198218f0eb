// Where tests find what the build has made and what lies among the sources: from the place of the test program itself,
// so that its objects are the same wherever a clone lies.
#pragma once

#include <filesystem>
#include <string>

namespace troupe::testing {

// <build directory>/bin
inline std::filesystem::path programs() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

// A program of the build: program("troupe-mnist").
inline std::string program(const std::string& name) { return programs() / name; }

// A library that programs open: built_library("libsimulated_gpu.so").
inline std::string built_library(const std::string& name) { return programs().parent_path() / "lib" / name; }

// A file or folder of the repository: source_file("tools/check_trace.py").
inline std::string source_file(const std::string& path = "") {
  return std::filesystem::canonical(programs().parent_path() / "include/troupe") / path;
}

}  // namespace troupe::testing
