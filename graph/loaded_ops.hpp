// The ops of libraries that this process has loaded (actors/cluster/op_libraries.hpp). Every OpRegistry finds them,
// also one that was made before, and they stay as long as the process. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/op.hpp>

namespace troupe {

class Graph;

// Identifies a library. Graphs name the libraries of their ops, and run only where the same ones are loaded.
struct OpLibraryId {
  std::string name{};
  std::string version{};
  std::string sha256{};           // of its file: 64 hex digits
  std::string to_string() const;  // "my_ops 1.0 (SHA-256 0f343b0931126a20...)"
  auto operator<=>(const OpLibraryId&) const = default;
};

struct LoadedOps {
  OpLibraryId library{};
  std::string path{};
  std::map<std::string, OpDef, std::less<>> ops{};
  // "MyOp:f32", or "MyOp" for a kernel of any dtype, by the type of device.
  std::map<std::string, std::set<std::string>, std::less<>> kernels{};
};

// In the order of loading. The pointers stay valid.
std::vector<const LoadedOps*> loaded_ops();
// The library with this op; null if none has it.
const LoadedOps* library_of(std::string_view op);
// Whether a library has this kernel ("MyOp:f32", or "MyOp") for a type of device.
bool has_loaded_kernel(std::string_view device_type, std::string_view kernel);
// Throws already_exists, and adds nothing, if another op or library has one of the names. Otherwise calls `first`, and
// then the ops can be found.
const LoadedOps& add_loaded_ops(LoadedOps ops, const std::function<void()>& first);

// The libraries of the ops of a graph and of its functions, sorted by name.
std::vector<OpLibraryId> libraries_of(const Graph& graph);
// Throws failed_precondition, naming the library and what to do, unless this very library is loaded.
void check_loaded(const OpLibraryId& wanted);

}  // namespace troupe
