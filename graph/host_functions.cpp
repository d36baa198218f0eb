#include "troupe/graph/host_functions.hpp"

#include <deque>
#include <mutex>
#include <random>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

struct HostFunctions {
  std::mutex mutex;
  std::deque<HostFunction> functions;  // addresses stay
  const std::int64_t process = [] {
    std::random_device random;
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(random()) << 31 | random()) >> 1);
  }();
};

HostFunctions& all() {
  static HostFunctions functions;
  return functions;
}

}  // namespace

HostFunctionId add_host_function(HostFunction function) {
  if (!function) invalid_argument("host_call: the function is empty");
  HostFunctions& here = all();
  const std::lock_guard lock(here.mutex);
  here.functions.push_back(std::move(function));
  return {static_cast<std::int64_t>(here.functions.size()) - 1, here.process};
}

const HostFunction& host_function(HostFunctionId id) {
  HostFunctions& here = all();
  if (id.process != here.process)
    fail(Code::failed_precondition,
         "the function belongs to the process that built the graph: run HostCall on that process's task, in the same "
         "run");
  const std::lock_guard lock(here.mutex);
  if (id.function < 0 || id.function >= std::ssize(here.functions))
    fail(Code::not_found, "there is no host function {}", id.function);
  return here.functions[static_cast<std::size_t>(id.function)];
}

}  // namespace troupe
