#include "troupe/actors/cluster/op_libraries.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <span>
#include <vector>

#include <troupe/actors/base/sha256.hpp>
#include <troupe/devices/loaded_kernels.hpp>
#include <troupe/graph/known_values.hpp>
#include <troupe/kernels/op_library.hpp>

namespace troupe {
namespace {

std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(Code::not_found, "op library {}: there is no such file, or it cannot be read", path);
  Sha256 hash;
  std::vector<char> part(std::size_t{1} << 16);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())), file.gcount() > 0)
    hash.add(std::as_bytes(std::span(part.data(), static_cast<std::size_t>(file.gcount()))));
  return hash.hex();
}

// Calls a function of the library; its errors name the library.
template <class Call>
decltype(auto) of_library(const std::string& library, const Call& call) {
  try {
    return call();
  } catch (...) {
    throw current_error().within("op library " + library);
  }
}

template <class Context, class Result>
void name_library(std::function<Result(Context&)>& function, const std::string& library) {
  if (!function) return;
  function = [inner = std::move(function), library](Context& context) -> Result {
    return of_library(library, [&]() -> Result { return inner(context); });
  };
}

// Takes what a library adds. Its functions are wrapped such that their errors name it.
class NewOps final : public OpLibrary {
 public:
  NewOps(OpLibraryId library, std::string path)
      : loaded_{.library = std::move(library), .path = std::move(path), .ops = {}, .kernels = {}},
        text_(loaded_.library.name + " " + loaded_.library.version) {}

  void add_op(const Op& op) override {
    OpDef def = op.build();
    name_library(def.shape, text_);
    name_library(def.gradient, text_);
    name_library(def.value, text_);
    if (def.role != OpRole::kernel)
      invalid_argument("op {}: ops of libraries have kernels, and no other role", def.name);
    OpRegistry().add(op);  // checks it
    if (!loaded_.ops.emplace(def.name, std::move(def)).second)
      fail(Code::already_exists, "op {} is added twice", op.build().name);
  }

  void add_kernel(KernelDef kernel) override {
    if (!loaded_.ops.contains(kernel.op))
      invalid_argument("op {} is not one of the library, which must add it before its kernel", kernel.op);
    if (!kernel.make) invalid_argument("op {}: its kernel for {} is empty", kernel.op, kernel.device_type);
    kernel.make = [make = std::move(kernel.make), text = text_](const KernelInit& init) {
      Kernel made = of_library(text, [&] { return make(init); });
      name_library(made, text);
      return made;
    };
    with_kernels_.insert(kernel.op);
    if (std::ranges::find(device_types_, kernel.device_type) == device_types_.end())
      device_types_.push_back(kernel.device_type);
    kernels_.add(std::move(kernel));
  }

  void set_reuse(const std::string& op, const std::string& device_type, Reuse reuse) override {
    kernels_.set_reuse(op, device_type, reuse);
  }

  // Kernels come first: an op that can be found has its own.
  const LoadedOps& publish() {
    for (const std::string& type : device_types_) {
      const std::vector<std::string> list = kernels_.list(type);
      loaded_.kernels[type] = {list.begin(), list.end()};
    }
    return add_loaded_ops(std::move(loaded_),
                          [this] { add_loaded_kernels(std::move(with_kernels_), std::move(kernels_)); });
  }

 private:
  LoadedOps loaded_;
  const std::string text_;
  KernelRegistry kernels_;
  std::set<std::string, std::less<>> with_kernels_;
  std::vector<std::string> device_types_;
};

const OpLibraryEntry& open_entry(const std::string& path) {
  // Its symbols stay its own; it is never closed, since ops and kernels are its code.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) invalid_argument("op library {}: it cannot be opened: {}", path, dlerror());
  const auto function = reinterpret_cast<OpLibraryFunction>(dlsym(library, kOpLibrarySymbol));
  const OpLibraryEntry* const entry = function ? function() : nullptr;
  if (!entry)
    invalid_argument("op library {}: it is no library of ops: TROUPE_OP_LIBRARY() in one of its sources makes it one",
                     path);
  if (entry->abi != kOpLibraryAbi)
    fail(Code::failed_precondition,
         "op library {}: it has version {} of the interface of op libraries, this program {}: build it again with the "
         "headers of Troupe {}",
         path, entry->abi, kOpLibraryAbi, TROUPE_VERSION);
  if (const std::string own = op_library_build(TROUPE_VERSION); entry->build != own)
    fail(Code::failed_precondition,
         "op library {}: it was built for '{}', this program is '{}': build it again with the headers of Troupe {}",
         path, entry->build, own, TROUPE_VERSION);
  for (const char* text : {entry->name, entry->version})
    if (!text || !*text)
      invalid_argument("op library {}: TROUPE_OP_LIBRARY() gives it no {}", path,
                       text == entry->name ? "name" : "version");
  return *entry;
}

}  // namespace

const LoadedOps& load_op_library(const std::string& path) {
  static std::mutex loading;
  const std::lock_guard lock(loading);
  std::error_code none;  // of an empty path
  const std::string place = std::filesystem::absolute(path, none).lexically_normal().string();
  const std::string hash = sha256_of_file(place);
  for (const LoadedOps* loaded : loaded_ops())
    if (loaded->library.sha256 == hash) return *loaded;
  const OpLibraryEntry& entry = open_entry(place);
  NewOps added({.name = entry.name, .version = entry.version, .sha256 = hash}, place);
  of_library(fmt::format("{} {}", entry.name, entry.version), [&] { entry.add_ops(added, graph_host()); });
  return added.publish();
}

}  // namespace troupe
