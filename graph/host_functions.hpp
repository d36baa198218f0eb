// Functions of this process that graphs call by number (op HostCall). They stay until the process ends, as a graph may
// be run whenever. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

// Takes and returns tensors on the host. May throw Error: the step then fails with it.
using HostFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

struct HostFunctionId {
  std::int64_t function = 0;
  std::int64_t process = 0;  // random: a graph that was made elsewhere is refused
};

HostFunctionId add_host_function(HostFunction function);
// Throws failed_precondition for a function of another process, not_found for a number that was never given.
const HostFunction& host_function(HostFunctionId id);

}  // namespace troupe
