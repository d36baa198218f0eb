#include "troupe/graph/loaded_ops.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include <troupe/graph/graph.hpp>

namespace troupe {
namespace {

// Readers take no lock: a link does not change once it is in the list, and is never removed.
struct LoadedLink {
  LoadedOps ops;
  const LoadedLink* earlier;
};
constinit std::atomic<const LoadedLink*> last_loaded{nullptr};

template <class Fits>
const LoadedOps* find_loaded(const Fits& fits) {
  for (const LoadedLink* link = last_loaded.load(std::memory_order_acquire); link; link = link->earlier)
    if (fits(link->ops)) return &link->ops;
  return nullptr;
}

const LoadedOps* loaded_named(std::string_view library) {
  return find_loaded([&](const LoadedOps& l) { return l.library.name == library; });
}

void collect_libraries(const Graph& graph, std::set<OpLibraryId>& found) {
  for (int id = 0; id < graph.size(); ++id)
    if (const LoadedOps* library = library_of(graph.node(id).op->name)) found.insert(library->library);
  for (const auto& [name, function] : graph.functions()) collect_libraries(*function.body, found);
}

}  // namespace

std::string OpLibraryId::to_string() const {
  return fmt::format("{} {} (SHA-256 {}...)", name, version, std::string_view(sha256).substr(0, 16));
}

std::vector<const LoadedOps*> loaded_ops() {
  std::vector<const LoadedOps*> all;
  find_loaded([&](const LoadedOps& l) {
    all.push_back(&l);
    return false;
  });
  std::ranges::reverse(all);
  return all;
}

const LoadedOps* library_of(std::string_view op) {
  return find_loaded([&](const LoadedOps& l) { return l.ops.contains(op); });
}

bool has_loaded_kernel(std::string_view device_type, std::string_view kernel) {
  return find_loaded([&](const LoadedOps& l) {
    const auto found = l.kernels.find(device_type);
    return found != l.kernels.end() && found->second.contains(std::string(kernel));
  });
}

const LoadedOps& add_loaded_ops(LoadedOps ops, const std::function<void()>& first) {
  static std::mutex adding;
  const std::lock_guard lock(adding);
  const std::string what = fmt::format("op library {} {}", ops.library.name, ops.library.version);
  if (const LoadedOps* other = loaded_named(ops.library.name))
    fail(Code::already_exists, "{}: {} of the same name is loaded from {}, and stays: start the program again", what,
         other->library.to_string(), other->path);
  for (const auto& [name, def] : ops.ops) {
    if (const LoadedOps* other = library_of(name))
      fail(Code::already_exists, "{}: op library {} has an op {} too: rename one of them", what, other->library.name,
           name);
    if (standard_ops().find(name))
      fail(Code::already_exists, "{}: Troupe has an op {} of its own: rename the library's", what, name);
  }
  first();
  const auto* link = new LoadedLink{std::move(ops), last_loaded.load()};
  last_loaded.store(link, std::memory_order_release);
  return link->ops;
}

std::vector<OpLibraryId> libraries_of(const Graph& graph) {
  if (!last_loaded.load(std::memory_order_acquire)) return {};
  std::set<OpLibraryId> found;
  collect_libraries(graph, found);
  return {found.begin(), found.end()};
}

void check_loaded(const OpLibraryId& wanted) {
  const LoadedOps* found = loaded_named(wanted.name);
  if (!found)
    fail(Code::failed_precondition,
         "the graph uses op library {}, which is not loaded here: load it before, with --op-library FILE or "
         "load_op_library()",
         wanted.to_string());
  if (found->library.version != wanted.version)
    fail(Code::failed_precondition,
         "the graph uses op library {}, but version {} of it is loaded here, from {}: load the same version everywhere",
         wanted.to_string(), found->library.version, found->path);
  if (found->library.sha256 != wanted.sha256)
    fail(Code::failed_precondition,
         "the graph uses op library {}, but another file of that version is loaded here: {} with SHA-256 {}...; load "
         "the same file everywhere",
         wanted.to_string(), found->path, std::string_view(found->library.sha256).substr(0, 16));
}

}  // namespace troupe
