#include "apps/python/device_libraries.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "apps/python/eager_mode.hpp"
#include <troupe/devices/plugin.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

struct Libraries {
  std::mutex mutex;
  std::vector<std::string> paths;
};

Libraries& libraries() {
  static Libraries* const all = new Libraries;  // threads may outlive the interpreter's end
  return *all;
}

// Returns the type of the devices.
std::string load_device_library(const std::string& given) {
  if (given.empty()) invalid_argument("device library: the path is empty");
  const std::string path = std::filesystem::absolute(given).lexically_normal().string();
  const PluginResult opened = open_device_plugin(path);
  if (!opened.plugin) fail(Code::not_found, "device library {}: {}", path, opened.why_not);
  const std::lock_guard lock(libraries().mutex);
  std::vector<std::string>& paths = libraries().paths;
  if (std::ranges::find(paths, path) == paths.end()) {
    if (eager_graph_if_any())
      fail(Code::failed_precondition, "device library {}: ops have run already; load it before the first", path);
    paths.push_back(path);
  }
  return opened.plugin->type();
}

}  // namespace

TaskOptions own_task_options(int threads) {
  const std::lock_guard lock(libraries().mutex);
  return {.threads = threads, .device_libraries = libraries().paths};
}

void bind_device_libraries(nb::module_& m) {
  m.def("load_device_library", &load_device_library, "path"_a, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace troupe::python
